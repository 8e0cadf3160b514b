// Sizes of parts, proven from an object's bytes and its ETag.

import { createHash } from "node:crypto";
import fc from "fast-check";
import t from "tap";
import { PartSizeProof, partSizeCandidates } from "../../proxy/s3/part-sizes.ts";

const mebi = 1024 * 1024;

function etagOf(bytes: Buffer, partBytes: number): string {
  const outer = createHash("md5");
  let count = 0;
  for (let at = 0; at < bytes.length; at += partBytes) {
    outer.update(
      createHash("md5")
        .update(bytes.subarray(at, at + partBytes))
        .digest(),
    );
    count += 1;
  }
  return `"${outer.digest("hex")}-${count}"`;
}

t.test("candidates cut an object into just that many parts", async (t) => {
  for (const [size, count, contained] of [
    [5 * mebi + 1, 2, 5 * mebi],
    [100 * mebi, 13, 8 * mebi],
    [100 * mebi, 20, 5 * mebi],
    [5_000_000 * 9, 3, 15_000_000],
    [3000, 3, 1000],
    [10_000 * 64 * mebi, 10_000, 64 * mebi],
  ] as const) {
    const candidates = partSizeCandidates(size, count);
    t.ok(candidates.includes(contained), `${size} in ${count}`);
    t.ok(candidates.every((one) => Math.ceil(size / one) === count));
    t.equal(new Set(candidates).size, candidates.length);
  }
  t.strictSame(partSizeCandidates(0, 2), []);
  t.strictSame(partSizeCandidates(1, 2), []);
});

t.test("the size that gives the ETag is found whatever the chunks are, and no other", async (t) => {
  const bytes = Buffer.from(Array.from({ length: 997 }, (_, at) => (at * 31) % 251));
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 996 }),
      fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 9 }),
      (partBytes, chunks) => {
        const others = [1, 2, 250, 499, 996].filter((one) => one !== partBytes);
        const known = new PartSizeProof([...others, partBytes]);
        const unknown = new PartSizeProof(others);
        for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
          const length = chunks[turn % chunks.length] ?? 1;
          for (const proof of [known, unknown]) proof.update(bytes.subarray(at, at + length));
          at += length;
        }
        const etag = etagOf(bytes, partBytes);
        t.equal(known.proven(etag), partBytes);
        t.equal(unknown.proven(etag), null);
      },
    ),
    { numRuns: 30 },
  );
  t.equal(new PartSizeProof([5]).proven('"not-an-md5"'), null);
});
