// The request body as a stream of verified bytes: exact length, no stall beyond the limit, SHA-256
// as signed. `100 Continue` goes out only when somebody starts to read, that is after authentication,
// policy and placement said yes (s3-protocol.md 2.6).

import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ClientBody } from "../operations/context.ts";
import type { Timers } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";

export interface ClientBodyOptions {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly lengthBytes: number;
  readonly sha256: string | null;
  /** The client waits for `100 Continue`. */
  readonly expectsContinue: boolean;
  /** Longest wait for the next byte. */
  readonly idleMs: number;
  readonly timers: Timers;
}

export function clientBody(options: ClientBodyOptions): ClientBody {
  return {
    lengthBytes: options.lengthBytes,
    sha256: options.sha256,
    chunks: ({ verifySha256 }) =>
      verifySha256 && options.sha256 !== null
        ? hashed(read(options), options.sha256)
        : read(options),
  };
}

async function* hashed(
  chunks: AsyncIterable<Uint8Array>,
  sha256: string,
): AsyncGenerator<Uint8Array> {
  const hash = createHash("sha256");
  for await (const chunk of chunks) {
    hash.update(chunk);
    yield chunk;
  }
  if (!timingSafeEqual(hash.digest(), Buffer.from(sha256, "hex"))) {
    throw new S3Error("XAmzContentSHA256Mismatch");
  }
}

async function* read(options: ClientBodyOptions): AsyncGenerator<Uint8Array> {
  const { request, response, lengthBytes, idleMs, timers } = options;
  if (lengthBytes === 0) return;
  if (options.expectsContinue) response.writeContinue();
  let seen = 0;
  const waiting = waitFor(request);
  try {
    for (;;) {
      const chunk: unknown = request.read();
      if (chunk instanceof Uint8Array) {
        seen += chunk.length;
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
  if (seen !== lengthBytes) throw new S3Error("IncompleteBody");
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
