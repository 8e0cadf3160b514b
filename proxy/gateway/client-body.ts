// The request body as a stream of verified bytes: exact length, no stall beyond the limit, SHA-256 and
// checksum as sent, aws-chunked framing decoded. `100 Continue` goes out only when somebody starts to
// read, that is after authentication, policy and placement said yes (s3-protocol.md 2.6).

import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ClientBody } from "../operations/context.ts";
import type { Timers } from "../placement/ports.ts";
import { type BeginChecksum, isExpected } from "../s3/checksum.ts";
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
  /** The client waits for `100 Continue`. */
  readonly expectsContinue: boolean;
  /** Longest wait for the next byte. */
  readonly idleMs: number;
  readonly timers: Timers;
  /** Told of body bytes as they arrive, framing included. */
  readonly received: (bytes: number) => void;
}

export function clientBody(options: ClientBodyOptions): ClientBody {
  const { payload } = options;
  return {
    lengthBytes: payload.lengthBytes,
    sha256: payload.sha256,
    chunks: ({ verifySha256 }) => {
      const chunks = isStreaming(payload) ? decoded(options) : read(options);
      const sha256 = verifySha256 ? payload.sha256 : null;
      if (sha256 === null && payload.checksum === null) return chunks;
      return verified(chunks, { ...options, sha256 });
    },
  };
}

async function* verified(
  chunks: AsyncIterable<Uint8Array>,
  options: ClientBodyOptions & { readonly sha256: string | null },
): AsyncGenerator<Uint8Array> {
  const { sha256, response, beginChecksum } = options;
  const expected = options.payload.checksum;
  const hash = sha256 === null ? null : createHash("sha256");
  const checksum = expected === null ? null : beginChecksum(expected.algorithm);
  for await (const chunk of chunks) {
    hash?.update(chunk);
    checksum?.update(chunk);
    yield chunk;
  }
  if (
    hash !== null &&
    sha256 !== null &&
    !timingSafeEqual(hash.digest(), Buffer.from(sha256, "hex"))
  ) {
    throw refused(response, new S3Error("XAmzContentSHA256Mismatch"));
  }
  if (checksum !== null && expected !== null && !isExpected(checksum, expected.value)) {
    throw refused(response, new S3Error("BadDigest"));
  }
}

/** The data of an aws-chunked body. Reads to the end of the request: nothing may follow the last chunk. */
async function* decoded(options: ClientBodyOptions): AsyncGenerator<Uint8Array> {
  const { payload, response, signing, beginChecksum } = options;
  const { mode, lengthBytes, trailer } = payload;
  const isSigned = mode !== "streaming-unsigned-trailer";
  if (isSigned && signing === null) throw new Error("A signed body has an anonymous caller");
  const decoder = new ChunkedDecoder({
    decodedLengthBytes: lengthBytes,
    signing: isSigned ? signing : null,
    signedTrailer: mode === "streaming-signed-trailer",
    trailer,
    beginChecksum,
  });
  for await (const bytes of read(options)) {
    const result = decoder.push(bytes);
    if (result.kind === "error") throw refused(response, result.error);
    yield* result.pieces;
  }
  const fault = decoder.end();
  if (fault !== null) throw refused(response, fault);
}

/** A client whose body is not what it says is left with no connection to go on with. */
function refused(response: ServerResponse, error: S3Error): S3Error {
  if (!response.headersSent) response.setHeader("connection", "close");
  return error;
}

async function* read(options: ClientBodyOptions): AsyncGenerator<Uint8Array> {
  const { request, response, idleMs, timers } = options;
  const lengthBytes = options.payload.wireLengthBytes;
  if (lengthBytes === 0) return;
  if (options.expectsContinue) response.writeContinue();
  let seen = 0;
  const waiting = waitFor(request);
  try {
    for (;;) {
      const chunk: unknown = request.read();
      if (chunk instanceof Uint8Array) {
        seen += chunk.length;
        options.received(chunk.length);
        yield chunk;
        continue;
      }
      if (request.readableEnded || waiting.ended()) break;
      const cancel = timers.after(idleMs, () => waiting.fail(stalled()));
      try {
        await waiting.next();
      } finally {
        cancel();
      }
    }
  } finally {
    waiting.stop();
  }
  // node:http enforces Content-Length from above; a connection that ends early comes here as `aborted`.
  if (lengthBytes !== null && seen !== lengthBytes) throw new S3Error("IncompleteBody");
}

function stalled(): S3Error {
  return new S3Error("RequestTimeout");
}

interface Waiting {
  /** Resolves when there may be something to read; rejects when there never will be. */
  next(): Promise<void>;
  ended(): boolean;
  fail(error: Error): void;
  stop(): void;
}

/** One set of listeners for a whole body: adding them per chunk costs more than the chunk. */
function waitFor(request: IncomingMessage): Waiting {
  let wake: (() => void) | null = null;
  let failure: Error | null = null;
  let ended = request.readableEnded;
  const wakeUp = (): void => {
    const run = wake;
    wake = null;
    run?.();
  };
  const onEnd = (): void => {
    ended = true;
    wakeUp();
  };
  const fail = (error: Error): void => {
    failure ??= error;
    wakeUp();
  };
  const onGone = (): void => {
    if (!ended && !request.complete) fail(new S3Error("IncompleteBody"));
    else wakeUp();
  };
  request.on("readable", wakeUp);
  request.on("end", onEnd);
  request.on("error", onGone);
  request.on("close", onGone);
  return {
    ended: () => ended,
    fail,
    async next() {
      if (failure === null && !ended && request.readableLength === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      if (failure !== null) throw failure;
    },
    stop() {
      request.off("readable", wakeUp);
      request.off("end", onEnd);
      request.off("error", onGone);
      request.off("close", onGone);
    },
  };
}
