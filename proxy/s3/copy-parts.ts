// In which parts an object is copied from one cluster to another. An object that was uploaded in parts
// keeps their number, and with the size that was told or proven of them its ETag. Where that size cannot
// be known, one that many clients use is guessed, and the ETag may change (placement.md rule 21).

import type { CopyRange } from "./copy-source.ts";
import { isMultipart, partsOf } from "./entity-tags.ts";
import { partSizeCandidates } from "./part-sizes.ts";

/** S3 API Reference: largest object that CopyObject takes. */
export const maxCopyBytes = 5 * 1024 ** 3;
const mebibyte = 1024 * 1024;
/** Up to here a copy goes in one piece. */
const onePieceBytes = 64 * mebibyte;
const smallestPartBytes = 5 * mebibyte;
/** The defaults of SDKs and tools, the most usual first. */
const likelyBytes = [8, 16, 15, 64].map((size) => size * mebibyte);

/**
 * The parts in order; `null` for one piece.
 * @param knownBytes size of each part of the source but the last; `null` where it cannot be known
 */
export function copyParts(
  sizeBytes: number,
  etag: string,
  knownBytes: number | null,
): readonly CopyRange[] | null {
  if (isMultipart(etag) && partsOf(etag) === 1) return [{ first: 0, last: sizeBytes - 1 }];
  const partBytes = partSize(sizeBytes, partsOf(etag), knownBytes);
  if (partBytes === null) return null;
  const parts: CopyRange[] = [];
  for (let first = 0; first < sizeBytes; first += partBytes) {
    parts.push({ first, last: Math.min(first + partBytes, sizeBytes) - 1 });
  }
  return parts;
}

function partSize(sizeBytes: number, count: number, knownBytes: number | null): number | null {
  if (count > 1) {
    const candidates = partSizeCandidates(sizeBytes, count);
    const likely = likelyBytes.filter((bytes) => candidates.includes(bytes));
    const known = knownBytes === null ? [] : [knownBytes];
    // Smaller parts are refused by the cluster that gets them.
    const found = [...known, ...likely, ...candidates].find((bytes) => bytes >= smallestPartBytes);
    if (found !== undefined) return found;
  }
  return sizeBytes > onePieceBytes ? onePieceBytes : null;
}
