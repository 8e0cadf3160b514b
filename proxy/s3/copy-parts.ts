// In which parts an object is copied from one cluster to another. An object that was uploaded in parts
// keeps them, so that its ETag stays: no server tells their size, but few sizes give their number
// (placement.md rule 21).

import type { CopyRange } from "./copy-source.ts";
import { partsOf } from "./entity-tags.ts";

/** S3 API Reference: largest object that CopyObject takes. */
export const maxCopyBytes = 5 * 1024 ** 3;
const mebibyte = 1024 * 1024;
/** Up to here a copy goes in one piece. */
const onePieceBytes = 64 * mebibyte;
const smallestPartBytes = 5 * mebibyte;
/** What SDKs and tools cut uploads into. */
const usualMebibytes = [
  5, 6, 8, 10, 12, 15, 16, 20, 25, 30, 32, 48, 50, 64, 96, 100, 128, 192, 200, 250, 256, 384, 500,
  512, 1000, 1024,
];

/** The parts in order; `null` for one piece. */
export function copyParts(sizeBytes: number, etag: string): readonly CopyRange[] | null {
  const partBytes = partSize(sizeBytes, partsOf(etag));
  if (partBytes === null) return null;
  const parts: CopyRange[] = [];
  for (let first = 0; first < sizeBytes; first += partBytes) {
    parts.push({ first, last: Math.min(first + partBytes, sizeBytes) - 1 });
  }
  return parts;
}

function partSize(sizeBytes: number, count: number): number | null {
  if (count > 1) {
    const even = Math.ceil(sizeBytes / count);
    const candidates = [...usualMebibytes.map((size) => size * mebibyte), roundedUp(even), even];
    const found = candidates.find(
      (bytes) => bytes >= smallestPartBytes && Math.ceil(sizeBytes / bytes) === count,
    );
    if (found !== undefined) return found;
  }
  return sizeBytes > onePieceBytes ? onePieceBytes : null;
}

/** To whole MiB. */
function roundedUp(bytes: number): number {
  return Math.ceil(bytes / mebibyte) * mebibyte;
}
