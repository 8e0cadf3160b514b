// The gate between a client's body and an upstream: it holds back the last min(64 KiB, length) bytes
// until the body is verified and the commit point agreed (placement.md rule 14). Refusing makes the
// upstream see a broken body, so that the object never exists; a body that fits into the held tail
// is not begun upstream before the commit point.

import type { RequestBody } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClientBody } from "./context.ts";

const heldTailBytes = 64 * 1024;

export interface GatedBody {
  readonly body: RequestBody;
  /** What made the gate refuse or the client's body fail; null while nothing did. */
  fault(): Error | null;
}

export interface GateOptions {
  /** Compute SHA-256 here; off where the upstream verifies the hash that is passed on. */
  readonly verifySha256: boolean;
  /** Throws to refuse. Called once, after the last byte arrived and was verified. */
  readonly commit: () => Promise<void>;
}

/** Opens the gate for one upload. @throws what `commit` or the client's body throws, for short bodies. */
export async function openGate(source: ClientBody, options: GateOptions): Promise<GatedBody> {
  if (source.lengthBytes <= heldTailBytes) {
    const bytes = await readWhole(source.chunks({ verifySha256: true }));
    await options.commit();
    return { body: { kind: "bytes", bytes }, fault: () => null };
  }
  let fault: Error | null = null;
  const chunks = holdTail(source.chunks({ verifySha256: options.verifySha256 }), options.commit);
  return {
    body: {
      kind: "stream",
      lengthBytes: source.lengthBytes,
      chunks: watched(chunks, (error) => {
        fault = error;
      }),
    },
    fault: () => fault,
  };
}

/** Reads a short body whole, for XML documents. @throws S3Error EntityTooLarge beyond the limit. */
export async function readShortBody(body: ClientBody, limitBytes: number): Promise<Uint8Array> {
  if (body.lengthBytes > limitBytes) throw new S3Error("EntityTooLarge");
  return await readWhole(body.chunks({ verifySha256: true }));
}

async function readWhole(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts);
}

/** Yields whole chunks while at least `heldTailBytes` stay behind; the rest after `commit`. */
async function* holdTail(
  chunks: AsyncIterable<Uint8Array>,
  commit: () => Promise<void>,
): AsyncGenerator<Uint8Array> {
  const held: Uint8Array[] = [];
  let heldBytes = 0;
  for await (const chunk of chunks) {
    held.push(chunk);
    heldBytes += chunk.length;
    for (let first = held[0]; first !== undefined; first = held[0]) {
      if (heldBytes - first.length < heldTailBytes) break;
      held.shift();
      heldBytes -= first.length;
      yield first;
    }
  }
  await commit();
  yield* held;
}

async function* watched(
  chunks: AsyncIterable<Uint8Array>,
  failed: (error: Error) => void,
): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks;
  } catch (caught) {
    failed(caught instanceof Error ? caught : new Error(String(caught)));
    throw caught;
  }
}
