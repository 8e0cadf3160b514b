// Part sizes that this process has proven, by reading an object once: an ETag and a length stand for
// the same parts wherever they are. A proof costs a read of the whole object and an MD5 per candidate:
// all who ask for the same object wait for one, few run at a time, in turns among the callers, none over
// what would hold the process up, and one that nobody waits for any more is ended.

import type { CancelSignal, UpstreamResponse } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue } from "../s3/headers.ts";
import { PartSizeProof, partSizeCandidates } from "../s3/part-sizes.ts";
import { FairLine } from "./fair-line.ts";

/** Bytes read times candidates; about four seconds of one core. */
const workLimitBytes = 2 * 1024 * 1024 * 1024;
const lineLimits = { atOnce: 2, waiting: 32, waitingOfOne: 8 };
const knownLimit = 1000;

export interface ObjectOfParts {
  readonly etag: string;
  readonly sizeBytes: number;
  /** From 2. */
  readonly count: number;
}

interface Asker {
  /** Whose turn it takes. */
  readonly caller: string;
  readonly signal: CancelSignal;
  /** Asks for the whole object with that ETag. */
  readonly read: (signal: CancelSignal) => Promise<UpstreamResponse>;
}

interface Proof {
  readonly result: Promise<number | null>;
  readonly stop: AbortController;
  followers: number;
}

export class PartSizes {
  /** Oldest first. */
  readonly #known = new Map<string, number | null>();
  /** Those under way, waiting ones too. */
  readonly #proofs = new Map<string, Proof>();
  readonly #line = new FairLine(lineLimits);

  /**
   * The size in bytes of each part but the last; `null` when it cannot be told.
   * @throws S3Error SlowDown while enough proofs run and wait.
   */
  async of(object: ObjectOfParts, asker: Asker): Promise<number | null> {
    const { etag, sizeBytes, count } = object;
    const name = `${etag} ${sizeBytes}`;
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const candidates = partSizeCandidates(sizeBytes, count);
    if (candidates.length === 0 || candidates.length * sizeBytes > workLimitBytes) return null;
    const proof = this.#proofs.get(name) ?? this.#begin(name, asker, { object, candidates });
    return await this.#follow(name, proof, asker.signal);
  }

  #begin(
    name: string,
    { caller, read }: Asker,
    of: { readonly object: ObjectOfParts; readonly candidates: readonly number[] },
  ): Proof {
    const stop = new AbortController();
    const { signal } = stop;
    const result = this.#line.run(caller, signal, async () => {
      const size = await prove(of.object, of.candidates, await read(signal));
      this.#keep(name, size);
      return size;
    });
    const proof: Proof = { result, stop, followers: 0 };
    this.#proofs.set(name, proof);
    const ended = (): void => this.#forget(name, proof);
    void result.then(ended, ended);
    return proof;
  }

  /** A client that leaves waits no more; the last one ends the proof. */
  async #follow(name: string, proof: Proof, signal: CancelSignal): Promise<number | null> {
    proof.followers += 1;
    let left = { handleEvent: (): void => {} };
    const gone = new Promise<never>((_, reject) => {
      left = { handleEvent: () => reject(new Error("The client went away")) };
    });
    signal.addEventListener("abort", left);
    if (signal.aborted) left.handleEvent();
    try {
      return await Promise.race([gone, proof.result]);
    } finally {
      signal.removeEventListener("abort", left);
      proof.followers -= 1;
      if (proof.followers === 0) {
        this.#forget(name, proof);
        proof.stop.abort();
      }
    }
  }

  #forget(name: string, proof: Proof): void {
    if (this.#proofs.get(name) === proof) this.#proofs.delete(name);
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
