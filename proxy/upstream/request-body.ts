// A request body that streams from an async iterable into undici. Decides when the source is asked for
// more, and guards the length: the chunk that would complete the body is handed over only after the
// source has said that it is done, so that a source that throws never leaves a complete body upstream.

import { Readable } from "node:stream";

/** The body's source did not give what was announced. */
function lengthMismatch(announced: number, given: number): Error {
  const side = given > announced ? "more" : `${given}`;
  return new Error(`Cannot send body: source gave ${side} bytes, needs ${announced}`);
}

/** What a source threw, kept apart since it need not be an Error. */
export interface SourceFailure {
  readonly error: unknown;
}

/** The readable side of a streamed body of known length. Not for empty bodies. */
export class RequestBodyStream extends Readable {
  readonly #iterator: AsyncIterator<Uint8Array>;
  readonly #lengthBytes: number;
  #givenBytes = 0;
  #last: Uint8Array | null = null;
  #begun = false;
  #stopped = false;
  #failure: SourceFailure | null = null;

  constructor(chunks: AsyncIterable<Uint8Array>, lengthBytes: number) {
    // One chunk is read ahead; the rest of the buffering belongs to the socket.
    super({ highWaterMark: 1, objectMode: false });
    this.#iterator = chunks[Symbol.asyncIterator]();
    this.#lengthBytes = lengthBytes;
  }

  /** Whether the source was asked for anything. */
  get begun(): boolean {
    return this.#begun;
  }

  /** What broke the body from within, if that is why it ended. */
  get failure(): SourceFailure | null {
    return this.#failure;
  }

  /** Asks the source for nothing more, without ending the stream: the exchange closes the socket. */
  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    if (this.#begun) this.#iterator.return?.().then(undefined, () => undefined);
  }

  override _read(): void {
    if (this.#stopped) return;
    this.#begun = true;
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
      if (this.#last !== null) this.push(this.#last);
      this.push(null);
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

  readonly #fail = (error: unknown): void => {
    if (this.#stopped) return;
    this.#failure = { error };
    this.destroy(error instanceof Error ? error : new Error("The body's source failed"));
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
