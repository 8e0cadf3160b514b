// How large the parts of an object were, where its upstream does not tell: its ETag is the MD5 over the
// MD5s of its parts, so a size that gives that ETag from the bytes is proven, and no other is used. Tried
// are sizes that clients use, all parts but the last being equal (placement.md rule 21). Pure.

import { createHash, type Hash } from "node:crypto";

const mebi = 1024 * 1024;
/** Smallest size of a part that is not the last one. */
const smallestBytes = 5 * mebi;
/** In MiB, and most of them also in millions of bytes: what SDKs, tools and people choose. */
const usual = [
  5, 6, 7, 8, 9, 10, 12, 15, 16, 20, 24, 25, 30, 32, 40, 48, 50, 60, 64, 75, 80, 96, 100, 120, 125,
  128, 150, 160, 192, 200, 250, 256, 300, 320, 400, 500, 512, 640, 750, 768, 1000, 1024, 1280, 1536,
  2000, 2048, 2560, 3072, 4000, 4096, 5000, 5120,
];

/** Sizes in bytes that cut an object into just so many parts; `count` from 2. */
export function partSizeCandidates(sizeBytes: number, count: number): readonly number[] {
  const even = Math.ceil(sizeBytes / count);
  const all = [
    ...usual.flatMap((size) => [size * mebi, size * 1_000_000]),
    even,
    Math.ceil(even / mebi) * mebi,
  ];
  const fitting = all.filter(
    (size) => (size >= smallestBytes || size === even) && Math.ceil(sizeBytes / size) === count,
  );
  return [...new Set(fitting)];
}

interface Attempt {
  readonly partBytes: number;
  /** Over the digests of the parts that are whole. */
  readonly outer: Hash;
  inner: Hash;
  leftBytes: number;
}

/** Takes an object's bytes in order and says which candidate gives its ETag. */
export class PartSizeProof {
  readonly #attempts: readonly Attempt[];

  constructor(candidates: readonly number[]) {
    this.#attempts = candidates.map((partBytes) => ({
      partBytes,
      outer: createHash("md5"),
      inner: createHash("md5"),
      leftBytes: partBytes,
    }));
  }

  update(chunk: Uint8Array): void {
    for (const attempt of this.#attempts) take(attempt, chunk);
  }

  /** The size of each part but the last; `null` when no candidate gives the ETag. Ends the proof. */
  proven(etag: string): number | null {
    const wanted = /^"?([0-9a-f]{32})-\d+"?$/i.exec(etag)?.[1]?.toLowerCase();
    let size: number | null = null;
    for (const attempt of this.#attempts) {
      if (attempt.leftBytes < attempt.partBytes) attempt.outer.update(attempt.inner.digest());
      if (attempt.outer.digest("hex") === wanted) size = attempt.partBytes;
    }
    return size;
  }
}

function take(attempt: Attempt, chunk: Uint8Array): void {
  let rest = chunk;
  while (rest.length >= attempt.leftBytes) {
    attempt.outer.update(attempt.inner.update(rest.subarray(0, attempt.leftBytes)).digest());
    rest = rest.subarray(attempt.leftBytes);
    attempt.inner = createHash("md5");
    attempt.leftBytes = attempt.partBytes;
  }
  if (rest.length === 0) return;
  attempt.inner.update(rest);
  attempt.leftBytes -= rest.length;
}
