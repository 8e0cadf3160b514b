// The request body as a stream of verified bytes: exact length, no stall beyond the limit, SHA-256, MD5 and
// checksum as sent, aws-chunked framing decoded. `100 Continue` goes out only when somebody starts to
// read, that is after authentication, policy and placement said yes (s3-protocol.md 2.6). One object
// does it all, since every further async step per piece costs more than the piece's own work.

import { createHash, type Hash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ClientBody } from "../operations/context.ts";
import type { BodyTrailer, Timers } from "../placement/ports.ts";
import {
  type BeginChecksum,
  type Checksum,
  checksumField,
  isAlgorithm,
  isExpected,
  valueLength,
} from "../s3/checksum.ts";
import type { ChunkSigning } from "../s3/chunk-signatures.ts";
import { ChunkedDecoder } from "../s3/chunked.ts";
import { S3Error } from "../s3/errors.ts";
import { isStreaming, type Payload } from "../s3/payload.ts";

export interface ClientBodyOptions {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly payload: Payload;
  /** What the chunks of a signed streaming body are chained to. */
  readonly signing: ChunkSigning | null;
  readonly beginChecksum: BeginChecksum;
  /** Fewest bytes of an aws-chunked chunk that another one follows; 0: any. */
  readonly minChunkBytes: number;
  /** The client waits for `100 Continue`. */
  readonly expectsContinue: boolean;
  /** Longest wait for the next byte. */
  readonly idleMs: number;
  /** Longest time from the first read to the last byte; `null`: as long as bytes come. */
  readonly longestMs: number | null;
  readonly timers: Timers;
  /** Told of body bytes as they arrive, framing included. */
  readonly received: (bytes: number) => void;
}

const broken = new WeakSet<IncomingMessage>();

/** The HTTP framing of a body does not parse: whoever reads it now or later gets `IncompleteBody`. */
export function breakBody(request: IncomingMessage): void {
  broken.add(request);
  if (request.listenerCount("error") > 0) request.emit("error", new S3Error("IncompleteBody"));
}

/** The body of one request; it can be read once. */
export function clientBody(options: ClientBodyOptions): ClientBody {
  const { payload } = options;
  const decoder = isStreaming(payload) ? decoderOf(options) : null;
  return {
    lengthBytes: payload.lengthBytes,
    sha256: payload.sha256,
    waitsForContinue: options.expectsContinue,
    trailer: decoder === null ? null : trailerOf(payload, decoder),
    chunks: ({ verifySha256 }) => new BodyReader(options, { decoder, verifySha256 }),
  };
}

function decoderOf({
  payload,
  signing,
  beginChecksum,
  minChunkBytes,
}: ClientBodyOptions): ChunkedDecoder {
  const { mode, lengthBytes, trailer } = payload;
  const isSigned = mode !== "streaming-unsigned-trailer";
  if (isSigned && signing === null) throw new Error("A signed body has an anonymous caller");
  return new ChunkedDecoder({
    decodedLengthBytes: lengthBytes,
    signing: isSigned ? signing : null,
    signedTrailer: mode === "streaming-signed-trailer",
    trailer,
    minChunkBytes,
    beginChecksum,
  });
}

function trailerOf({ trailer }: Payload, decoder: ChunkedDecoder): BodyTrailer | null {
  if (trailer === null) return null;
  return {
    field: checksumField(trailer),
    valueLength: isAlgorithm(trailer) ? valueLength(trailer) : null,
    value: () => {
      if (decoder.trailerText === null) throw new Error("The trailer has not arrived");
      return decoder.trailerText;
    },
  };
}

type Step = IteratorResult<Uint8Array, undefined>;
const done: Step = { done: true, value: undefined };

interface Waiting {
  readonly resolve: (step: Step) => void;
  readonly reject: (error: unknown) => void;
}

class BodyReader implements AsyncIterableIterator<Uint8Array, undefined> {
  readonly #options: ClientBodyOptions;
  readonly #decoder: ChunkedDecoder | null;
  readonly #hash: Hash | null;
  readonly #md5: Hash | null;
  readonly #checksum: Checksum | null;
  /** Decoded and not yet given. */
  #pieces: readonly Uint8Array[] = [];
  #nextPiece = 0;
  #begun = false;
  #seenBytes = 0;
  /** The request has no more bytes. */
  #ended = false;
  /** Everything was given, or it failed. */
  #over = false;
  #failure: Error | null = null;
  #waiting: Waiting | null = null;
  #cancelTimer: (() => void) | null = null;
  #cancelLimit: (() => void) | null = null;

  constructor(
    options: ClientBodyOptions,
    how: { readonly decoder: ChunkedDecoder | null; readonly verifySha256: boolean },
  ) {
    const { payload } = options;
    this.#options = options;
    this.#decoder = how.decoder;
    this.#hash = how.verifySha256 && payload.sha256 !== null ? createHash("sha256") : null;
    this.#md5 = payload.md5 === null ? null : createHash("md5");
    this.#checksum =
      payload.checksum === null ? null : options.beginChecksum(payload.checksum.algorithm);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Step> {
    if (!this.#begun) this.#begin();
    try {
      const step = this.#step();
      if (step !== null) return Promise.resolve(step);
    } catch (caught) {
      return Promise.reject(this.#failed(caught));
    }
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#setTimer();
    });
  }

  return(): Promise<Step> {
    this.#stop();
    return Promise.resolve(done);
  }

  /** What can be given at once, or `null` when bytes must arrive first. @throws S3Error */
  #step(): Step | null {
    const { request } = this.#options;
    for (;;) {
      const piece = this.#pieces[this.#nextPiece];
      if (piece !== undefined) {
        this.#nextPiece += 1;
        return { done: false, value: piece };
      }
      if (this.#over) return done;
      if (this.#failure !== null) throw this.#failure;
      const chunk: unknown = this.#ended ? null : request.read();
      if (chunk instanceof Uint8Array) {
        this.#seenBytes += chunk.length;
        this.#options.received(chunk.length);
        this.#take(chunk);
        continue;
      }
      if (!this.#ended && !request.readableEnded) return null;
      this.#finish();
      this.#stop();
      return done;
    }
  }

  #take(bytes: Uint8Array): void {
    this.#nextPiece = 0;
    if (this.#decoder === null) {
      this.#pieces = [bytes];
    } else {
      this.#pieces = [];
      const result = this.#decoder.push(bytes);
      if (result.kind === "error") throw this.#refused(result.error);
      this.#pieces = result.pieces;
    }
    if (this.#hash === null && this.#md5 === null && this.#checksum === null) return;
    for (const piece of this.#pieces) {
      this.#hash?.update(piece);
      this.#md5?.update(piece);
      this.#checksum?.update(piece);
    }
  }

  /** The end of the request was seen: nothing may follow, nothing may be missing, all must be right. */
  #finish(): void {
    const { payload } = this.#options;
    const { wireLengthBytes, sha256, md5, checksum } = payload;
    // node:http enforces Content-Length from above; a connection that ends early comes here as `aborted`.
    if (wireLengthBytes !== null && this.#seenBytes !== wireLengthBytes) {
      throw new S3Error("IncompleteBody");
    }
    const fault = this.#decoder?.end() ?? null;
    if (fault !== null) throw this.#refused(fault);
    if (this.#hash !== null && sha256 !== null) {
      const isRight = timingSafeEqual(this.#hash.digest(), Buffer.from(sha256, "hex"));
      if (!isRight) throw this.#refused(new S3Error("XAmzContentSHA256Mismatch"));
    }
    if (this.#md5 !== null && md5 !== null && !this.#md5.digest().equals(md5)) {
      throw this.#refused(new S3Error("BadDigest"));
    }
    if (this.#checksum !== null && checksum !== null) {
      if (!isExpected(this.#checksum, checksum.value))
        throw this.#refused(new S3Error("BadDigest"));
    }
  }

  /** A client whose body is not what it says is left with no connection to go on with. */
  #refused(error: S3Error): S3Error {
    const { response } = this.#options;
    if (!response.headersSent) response.setHeader("connection", "close");
    return error;
  }

  // ---- arrival: one set of listeners for a whole body, since adding them costs more than a piece ----

  #begin(): void {
    this.#begun = true;
    const { request, response, payload, expectsContinue, timers, longestMs } = this.#options;
    if (payload.wireLengthBytes === 0) {
      this.#ended = true;
      return;
    }
    if (broken.has(request)) {
      this.#failure = new S3Error("IncompleteBody");
      return;
    }
    if (expectsContinue) response.writeContinue();
    if (longestMs !== null) {
      this.#cancelLimit = timers.after(longestMs, () => this.#fail(new S3Error("RequestTimeout")));
    }
    request.on("readable", this.#arrived);
    request.on("end", this.#onEnd);
    request.on("error", this.#onGone);
    request.on("close", this.#onGone);
  }

  #stop(): void {
    this.#over = true;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    this.#cancelLimit?.();
    this.#cancelLimit = null;
    const { request } = this.#options;
    request.off("readable", this.#arrived);
    request.off("end", this.#onEnd);
    request.off("error", this.#onGone);
    request.off("close", this.#onGone);
  }

  #failed(caught: unknown): unknown {
    this.#pieces = [];
    this.#stop();
    return caught;
  }

  #setTimer(): void {
    this.#cancelTimer?.();
    const { timers, idleMs } = this.#options;
    this.#cancelTimer = timers.after(idleMs, () => {
      this.#cancelTimer = null;
      this.#fail(new S3Error("RequestTimeout"));
    });
  }

  readonly #arrived = (): void => {
    const waiting = this.#waiting;
    if (waiting === null) return;
    const seenBytes = this.#seenBytes;
    let step: Step | null;
    try {
      step = this.#step();
    } catch (caught) {
      this.#waiting = null;
      waiting.reject(this.#failed(caught));
      return;
    }
    if (step === null) {
      if (this.#seenBytes !== seenBytes) this.#setTimer();
      return;
    }
    this.#waiting = null;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    waiting.resolve(step);
  };

  readonly #onEnd = (): void => {
    this.#ended = true;
    this.#arrived();
  };

  readonly #onGone = (): void => {
    if (!this.#ended && !this.#options.request.complete) this.#fail(new S3Error("IncompleteBody"));
    else this.#arrived();
  };

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#arrived();
  }
}
