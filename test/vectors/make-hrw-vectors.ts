// Writes test/vectors/hrw.json from the BigInt oracle alone, never from the product's code. The file
// is part of the placement contract: an implementation that differs from it loses objects.
// Run with the loader that tap brings, then format:
//   TS_NODE_TRANSPILE_ONLY=1 node --import=@isaacs/ts-node-temp-fork-for-pr-2009/import \
//     test/vectors/make-hrw-vectors.ts && npx biome format --write test/vectors/hrw.json

import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { oracleExponent, oracleMix, oracleRank, oracleXxh64 } from "../support/placement-oracle.ts";

const hex = (value: bigint): string => value.toString(16).padStart(16, "0");

/** A fixed sequence: splitmix64 itself. */
function* sequence(): Generator<bigint, never> {
  for (let state = 0n; ; ) {
    state = (state + 0x9e3779b97f4a7c15n) & 0xffffffffffffffffn;
    yield oracleMix(state);
  }
}

const texts = [
  "",
  "a",
  "abc",
  "Nobody inspects the spammish repetition",
  ...[3, 4, 7, 8, 9, 12, 15, 16, 31, 32, 33, 39, 40, 63, 64, 65, 95, 100, 1024, 1345].map(
    (length) => "0123456789abcdefghijklmnopqrstuvwxyz".repeat(38).slice(0, length),
  ),
  "logs/2026/11/29/a b+c%d.txt",
  "acme:logs/2026",
  "bücher/schlüssel/😀",
  "photos//x/../y/./",
  "rgw-a",
];

const weightSets: readonly Readonly<Record<string, number>>[] = [
  { a: 1 },
  { a: 1, b: 1 },
  { a: 1, b: 3 },
  { a: 100, b: 300 },
  { a: 1, b: 2, c: 3 },
  { a: 1, b: 0, c: 1 },
  { "rgw-a": 70, "rgw-b": 30 },
  { "t-1": 100, "t-2": 200, "t-3": 300, "t-4": 200, "t-5": 500 },
  { small: 1_000_000_000, medium: 3_000_000_000, large: 6_000_000_000 },
  { "odd-1": 9_007_199_254_740_881, "odd-2": 9_007_199_254_740_847 },
  Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`cluster-${String(i)}`, (i + 1) * 10])),
];
/** Everything the file holds; the same at every call. */
export function makeHrwVectors() {
  const random = sequence();
  const pick = (below: number): number => Number(random.next().value % BigInt(below));
  // Every power of two with its neighbours, the limits of the table, and a fixed sequence.
  const values = new Set<bigint>([1n << 64n, (1n << 64n) - 1n]);
  for (let power = 0n; power < 64n; power += 1n) {
    for (const v of [(1n << power) - 1n, 1n << power, (1n << power) + 1n])
      if (v > 0n) values.add(v);
  }
  for (let index = 512n; index < 1024n; index += 37n) {
    for (const off of [-1n, 0n, 1n]) values.add((index << 54n) + off);
  }
  for (let i = 0; i < 200; i += 1) values.add(random.next().value + 1n);
  const ranks = weightSets.flatMap((weights) =>
    Array.from({ length: 24 }, (_, i) => {
      const text =
        i < 3 ? (["bucket", "acme:bucket/k", "bücher/ä"][i] ?? "") : `b-${pick(9)}/k/${pick(1e9)}`;
      return { weights, text, order: oracleRank(new Map(Object.entries(weights)), text) };
    }),
  );
  return {
    about: "xxh64 with seed 0; E of v = floor(2^32 * (64 - log2 v)); ranks by E / weight",
    xxh64: texts.map((text) => ({ text, hash: hex(oracleXxh64(Buffer.from(text))) })),
    exponents: [...values]
      .sort((a, b) => (a < b ? -1 : 1))
      .map((v) => ({ v: v.toString(), e: Number(oracleExponent(v)) })),
    ranks,
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const text = JSON.stringify(makeHrwVectors());
  writeFileSync(fileURLToPath(new URL("hrw.json", import.meta.url)), `${text}\n`);
}
