// A request body that streams from an async iterable into undici. Decides when the source is asked for
// more, and guards the length: the chunk that would complete the body is handed over only after the
// source has said that it is done, so that a source that throws never leaves a complete body upstream.

import { Readable } from "node:stream";
import type { BodyTrailer, RequestBody } from "../placement/ports.ts";

/** The body's source did not give what was announced. */
function lengthMismatch(announced: number, given: number): Error {
  const side = given > announced ? "more" : `${given}`;
  return new Error(`Cannot send body: source gave ${side} bytes, needs ${announced}`);
}

/** What broke a body from within; what a source throws need not be an Error. */
export interface SourceFailure {
  readonly error: unknown;
}

type StreamedBody = Extract<RequestBody, { readonly kind: "stream" }>;

/**
 * The framing of a body with a trailer, STREAMING-UNSIGNED-PAYLOAD-TRAILER: one chunk of the whole
 * body, which is legal and costs nothing per byte, the last chunk and the trailer (s3-protocol.md 2.2).
 * Framing of our own rather than the client's, since chunk sizes, signatures and line ends of all
 * clients are one form then, and a wrong one is never handed on.
 */
function chunkHead(lengthBytes: number): string {
  return `${lengthBytes.toString(16)}\r\n`;
}

function chunkEnd({ field }: BodyTrailer, value: string): string {
  return `\r\n0\r\n${field}:${value}\r\n\r\n`;
}

/** Bytes of a body as it is sent, its framing included. */
export function sentBytes({ lengthBytes, trailer }: StreamedBody): number {
  if (trailer === undefined) return lengthBytes;
  const value = "=".repeat(trailer.valueLength ?? 0);
  return chunkHead(lengthBytes).length + lengthBytes + chunkEnd(trailer, value).length;
}

/** The readable side of a streamed body of known length. Not for empty bodies. */
export class RequestBodyStream extends Readable {
  readonly #chunks: AsyncIterable<Uint8Array>;
  #iterator: AsyncIterator<Uint8Array> | null = null;
  readonly #lengthBytes: number;
  readonly #trailer: BodyTrailer | null;
  #givenBytes = 0;
  #last: Uint8Array | null = null;
  #stopped = false;
  readonly #onFailure: (failure: SourceFailure) => void;

  /** `onFailure` is called instead of an `error` event: the exchange decides how it ends. */
  constructor(
    { chunks, lengthBytes, trailer }: StreamedBody,
    onFailure: (failure: SourceFailure) => void,
  ) {
    // One chunk is read ahead; the rest of the buffering belongs to the socket.
    super({ highWaterMark: 1, objectMode: false });
    this.#chunks = chunks;
    this.#lengthBytes = lengthBytes;
    this.#trailer = trailer ?? null;
    this.#onFailure = onFailure;
  }

  /** Whether the source was asked for anything. */
  get begun(): boolean {
    return this.#iterator !== null;
  }

  /** Asks the source for nothing more, without ending the stream: the exchange closes the socket. */
  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#iterator?.return?.().then(undefined, () => undefined);
  }

  override _read(): void {
    if (this.#stopped) return;
    if (this.#iterator === null) {
      this.#iterator = this.#chunks[Symbol.asyncIterator]();
      if (this.#trailer !== null) {
        // The next read comes by itself.
        this.push(chunkHead(this.#lengthBytes));
        return;
      }
    }
    this.#iterator.next().then(this.#step, this.#fail);
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.stop();
    callback(error);
  }

  readonly #step = (result: IteratorResult<Uint8Array, unknown>): void => {
    if (this.#stopped) return;
    if (result.done === true) {
      if (this.#givenBytes !== this.#lengthBytes) {
        this.#fail(lengthMismatch(this.#lengthBytes, this.#givenBytes));
        return;
      }
      this.#end();
      return;
    }
    const chunk = result.value;
    this.#givenBytes += chunk.length;
    if (this.#givenBytes > this.#lengthBytes) {
      this.#fail(lengthMismatch(this.#lengthBytes, this.#givenBytes));
    } else if (chunk.length === 0) {
      this._read();
    } else if (this.#givenBytes === this.#lengthBytes) {
      this.#last = chunk;
      this._read();
    } else {
      this.push(chunk);
    }
  };

  #end(): void {
    let end: string | null = null;
    try {
      if (this.#trailer !== null) end = chunkEnd(this.#trailer, this.#trailer.value());
    } catch (caught) {
      this.#fail(caught);
      return;
    }
    if (this.#last !== null) this.push(this.#last);
    if (end !== null) this.push(end);
    this.push(null);
  }

  readonly #fail = (error: unknown): void => {
    if (this.#stopped) return;
    this.stop();
    this.#onFailure({ error });
  };
}

/**
 * Reads a body that was announced as empty to its end.
 * @throws what the source throws, or an Error when it gives bytes.
 */
export async function drainEmptyBody(chunks: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const chunk of chunks) {
    if (chunk.length > 0) throw lengthMismatch(0, chunk.length);
  }
}
