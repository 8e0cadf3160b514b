// Part sizes that this process has proven, by reading an object once: an ETag and a length stand for
// the same parts wherever they are. A proof costs a read of the whole object and an MD5 per candidate,
// so few run at a time, and none over what would hold the process up.

import type { UpstreamResponse } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue } from "../s3/headers.ts";
import { PartSizeProof, partSizeCandidates } from "../s3/part-sizes.ts";

/** Bytes read times candidates; about four seconds of one core. */
const workLimitBytes = 2 * 1024 * 1024 * 1024;
const runningLimit = 2;
const knownLimit = 1000;

export interface ObjectOfParts {
  readonly etag: string;
  readonly sizeBytes: number;
  /** From 2. */
  readonly count: number;
}

export class PartSizes {
  /** Oldest first. */
  readonly #known = new Map<string, number | null>();
  #running = 0;

  /**
   * The size in bytes of each part but the last; `null` when it cannot be told. `read` asks for the
   * whole object with that ETag. @throws S3Error SlowDown while enough proofs run.
   */
  async of(object: ObjectOfParts, read: () => Promise<UpstreamResponse>): Promise<number | null> {
    const { etag, sizeBytes, count } = object;
    const name = `${etag} ${sizeBytes}`;
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const candidates = partSizeCandidates(sizeBytes, count);
    if (candidates.length === 0 || candidates.length * sizeBytes > workLimitBytes) return null;
    if (this.#running >= runningLimit) throw new S3Error("SlowDown", { retryAfterSeconds: 1 });
    this.#running += 1;
    try {
      const size = await prove(object, candidates, await read());
      this.#keep(name, size);
      return size;
    } finally {
      this.#running -= 1;
    }
  }

  #keep(name: string, size: number | null): void {
    this.#known.set(name, size);
    const [oldest] = this.#known.keys();
    if (this.#known.size > knownLimit && oldest !== undefined) this.#known.delete(oldest);
  }
}

async function prove(
  object: ObjectOfParts,
  candidates: readonly number[],
  response: UpstreamResponse,
): Promise<number | null> {
  if (response.status !== 200 || fieldValue(response.headers, "etag") !== object.etag) {
    response.body.cancel();
    throw new S3Error("SlowDown", {
      message: "The object changed while its parts were looked for, try again",
      retryAfterSeconds: 1,
    });
  }
  const proof = new PartSizeProof(candidates);
  for await (const chunk of response.body) proof.update(chunk);
  return proof.proven(object.etag);
}
