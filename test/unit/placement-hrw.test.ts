// Weighted rendezvous hashing: the committed vectors, the oracle, and the properties that operators
// are promised. Shares are checked within 4 standard deviations over a fixed set of keys.

import { readFileSync } from "node:fs";
import fc from "fast-check";
import t from "tap";
import { exponent, exponentExact } from "../../proxy/placement/exponent.ts";
import { owner, rank, spreadText } from "../../proxy/placement/hrw.ts";
import { FaultError } from "../../proxy/placement/ports.ts";
import { xxh64, xxh64Text } from "../../proxy/placement/xxh64.ts";
import { noTenant } from "../../proxy/s3/names.ts";
import {
  differences,
  limbsOf,
  powerValues,
  randomValues,
  stepValues,
} from "../support/placement-compare.ts";
import {
  bucketNamed,
  clusterNamed,
  keyNamed,
  tenantNamed,
  weightsOf,
} from "../support/placement-names.ts";
import { oracleExponent, oracleMix, oracleRank, oracleXxh64 } from "../support/placement-oracle.ts";
import { makeHrwVectors } from "../vectors/make-hrw-vectors.ts";

interface Vectors {
  readonly about: string;
  readonly xxh64: readonly { readonly text: string; readonly hash: string }[];
  readonly exponents: readonly { readonly v: string; readonly e: number }[];
  readonly ranks: readonly {
    readonly weights: Readonly<Record<string, number>>;
    readonly text: string;
    readonly order: readonly string[];
  }[];
}
const vectors: Vectors = JSON.parse(
  readFileSync(new URL("../vectors/hrw.json", import.meta.url), "utf8"),
);

function hex(limbs: Int32Array): string {
  const high = BigInt((limbs[0] ?? 0) >>> 0);
  return ((high << 32n) | BigInt((limbs[1] ?? 0) >>> 0)).toString(16).padStart(16, "0");
}

function hashOf(text: string): string {
  const out = new Int32Array(2);
  xxh64Text(text, out);
  return hex(out);
}

t.test("the committed vectors are those that the oracle makes", async (t) => {
  t.strictSame(makeHrwVectors(), vectors);
});

t.test("xxh64 gives the published and the committed values", async (t) => {
  // xxhsum's own self-test: bytes of a generator that squares itself.
  const bytes = new Uint8Array(101);
  let generator = 2654435761;
  for (let i = 0; i < bytes.length; i += 1) {
    bytes[i] = generator >>> 24;
    generator = Math.imul(generator, generator) >>> 0;
  }
  const out = new Int32Array(2);
  const published = [
    [0, "ef46db3751d8e999"],
    [1, "4fce394cc88952d8"],
    [14, "cffa8db881bc3a3d"],
    [101, "0eab543384f878ad"],
  ] as const;
  for (const [length, hash] of published) {
    xxh64(bytes.subarray(0, length), out);
    t.equal(hex(out), hash, `${String(length)} bytes`);
  }
  t.equal(hashOf("abc"), "44bc2cf5ad770999");
  t.equal(hashOf("Nobody inspects the spammish repetition"), "fbcea83c8a378bf1");
  t.ok(vectors.xxh64.length > 20);
  t.strictSame(
    vectors.xxh64.map(({ text }) => ({ text, hash: hashOf(text) })),
    vectors.xxh64,
  );
});

t.test("xxh64 equals the oracle for texts of every length and alphabet", async (t) => {
  const expected = (text: string): string =>
    oracleXxh64(Buffer.from(text)).toString(16).padStart(16, "0");
  for (let length = 0; length < 140; length += 1) {
    const text = "kéy/".repeat(40).slice(0, length);
    if (hashOf(text) !== expected(text)) t.fail(`${String(length)} code units`);
  }
  // Longer than any name: past the scratch buffer, in one byte and in four bytes a character.
  for (const text of ["x".repeat(5000), "😀".repeat(900), "x".repeat(1365), "x".repeat(1366)]) {
    t.equal(hashOf(text), expected(text));
  }
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", maxLength: 200 }), (text) => {
      return hashOf(text) === expected(text);
    }),
    { numRuns: 300 },
  );
});

t.test("E gives the committed values, in the fast and in the exact form", async (t) => {
  t.ok(vectors.exponents.length > 400);
  const rows = (form: (v: bigint) => number) =>
    vectors.exponents.map(({ v }) => ({ v, e: form(BigInt(v)) }));
  t.strictSame(
    rows((v) => exponent(limbsOf(v - 1n))),
    vectors.exponents,
  );
  t.strictSame(rows(exponentExact), vectors.exponents);
});

t.test("E equals the oracle at powers of two, at its steps and at random values", async (t) => {
  t.strictSame(differences(powerValues()), []);
  t.strictSame(differences(stepValues(100, 3n)), []);
  t.strictSame(differences(randomValues(60_000, 5n)), []);
});

t.test("E at random values agrees between the fast and the exact form", async (t) => {
  const wrong: bigint[] = [];
  for (const v of randomValues(140_000, 9n)) {
    if (exponent(limbsOf(v - 1n)) !== exponentExact(v)) wrong.push(v);
  }
  t.strictSame(wrong, []);
});

t.test("ranks are the committed ones, for any order of the weights", async (t) => {
  t.ok(vectors.ranks.length > 200);
  for (const { weights, text, order } of vectors.ranks) {
    const ranked = rank(weightsOf(weights), text);
    const reversed = new Map([...weightsOf(weights)].reverse());
    if (ranked.join() !== order.join()) t.strictSame(ranked, order, text);
    if (rank(reversed, text).join() !== order.join()) t.fail(`reversed: ${text}`);
    if (owner(reversed, text) !== order[0]) t.fail(`owner: ${text}`);
  }
});

const clusterIds = ["a", "b", "c", "d", "rgw-e", "rgw-f"];
const anyWeights = fc
  .tuple(...clusterIds.map(() => fc.integer({ min: 0, max: 100 })))
  .filter((weights) => weights.some((weight) => weight > 0))
  .map((weights) => Object.fromEntries(clusterIds.map((id, i) => [id, weights[i] ?? 0])));
const anyText = fc.string({ unit: "grapheme", minLength: 1, maxLength: 60 });

t.test("ranks equal the oracle's for random weights", async (t) => {
  fc.assert(
    fc.property(anyWeights, anyText, (weights, text) => {
      const expected = oracleRank(new Map(Object.entries(weights)), text);
      return rank(weightsOf(weights), text).join() === expected.join();
    }),
    { numRuns: 500 },
  );
  const wide = fc.tuple(
    fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
    fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
    fc.integer({ min: 1, max: 40_000 }),
  );
  fc.assert(
    fc.property(wide, anyText, ([a, b, c], text) => {
      const expected = oracleRank(new Map(Object.entries({ a, b, c })), text);
      return rank(weightsOf({ a, b, c }), text).join() === expected.join();
    }),
    { numRuns: 500 },
  );
  t.pass();
});

t.test("large weights are compared exactly and ties go to the larger hash", async (t) => {
  const hashOfCluster = (id: string, text: string) =>
    oracleMix(oracleXxh64(Buffer.from(text)) ^ oracleXxh64(Buffer.from(id)));
  const wrong: string[] = [];
  for (let i = 0; i < 200; i += 1) {
    const text = `bucket/${String(i)}`;
    const [exponentA, exponentB] = ["a", "b"].map((id) => {
      return Number(oracleExponent(hashOfCluster(id, text) + 1n));
    });
    if (exponentA === undefined || exponentB === undefined) throw new Error("Two are mapped");
    // E_a / w_a is smaller than E_b / w_b by less than a Number can tell: a is first by one unit.
    const factor = Math.floor(Number.MAX_SAFE_INTEGER / Math.max(exponentA, exponentB));
    const weights = weightsOf({ a: exponentA * factor, b: exponentB * factor - 1 });
    if (owner(weights, text) !== "a") wrong.push(text);
    // A tie of E / w goes to the larger hash, which has the smaller E.
    const tied = weightsOf({ a: exponentA, b: exponentB });
    const larger = exponentA < exponentB ? "a" : "b";
    if (owner(tied, text) !== larger) wrong.push(`${text} tied`);
  }
  t.strictSame(wrong, []);
});

t.test("proportional weights and the loss of other clusters change no order", async (t) => {
  fc.assert(
    fc.property(anyWeights, anyText, fc.integer({ min: 2, max: 1e9 }), (weights, text, factor) => {
      const scaled = Object.fromEntries(
        Object.entries(weights).map(([id, weight]) => [id, weight * factor]),
      );
      return rank(weightsOf(weights), text).join() === rank(weightsOf(scaled), text).join();
    }),
    { numRuns: 300 },
  );
  fc.assert(
    fc.property(anyWeights, anyText, fc.constantFrom(...clusterIds), (weights, text, gone) => {
      const expected = rank(weightsOf(weights), text).filter((id) => id !== gone);
      return rank(weightsOf({ ...weights, [gone]: 0 }), text).join() === expected.join();
    }),
    { numRuns: 300 },
  );
  t.pass();
});

t.test("a raised weight moves keys only to its cluster", async (t) => {
  fc.assert(
    fc.property(anyWeights, anyText, fc.constantFrom(...clusterIds), (weights, text, raised) => {
      const before = owner(weightsOf(weights), text);
      const more = { ...weights, [raised]: (weights[raised] ?? 0) + 17 };
      const after = owner(weightsOf(more), text);
      return after === before || after === raised;
    }),
    { numRuns: 1000 },
  );
  t.pass();
});

const keyCount = 60_000;
const keys = Array.from({ length: keyCount }, (_, i) => `bucket/path/object-${String(i)}`);
const ownersOf = (weights: Readonly<Record<string, number>>) => {
  const map = weightsOf(weights);
  return keys.map((key) => String(owner(map, key)));
};
const within = (count: number, share: number) =>
  Math.abs(count - keyCount * share) <= 4 * Math.sqrt(keyCount * share * (1 - share));

t.test("each cluster owns its share of the keys", async (t) => {
  // https://github.com/ykayacan/hashing-utils/issues/17
  const sets: readonly Readonly<Record<string, number>>[] = [
    { a: 1, b: 1, c: 1 },
    { a: 1, b: 2, c: 3 },
    { a: 100, b: 300, c: 600 },
    { a: 99, b: 1 },
    { "t-1": 100, "t-2": 200, "t-3": 300, "t-4": 200, "t-5": 500 },
  ];
  for (const weights of sets) {
    const total = Object.values(weights).reduce((sum, weight) => sum + weight, 0);
    const owners = ownersOf(weights);
    for (const [id, weight] of Object.entries(weights)) {
      const count = owners.filter((each) => each === id).length;
      t.ok(within(count, weight / total), `${id} of ${JSON.stringify(weights)}: ${String(count)}`);
    }
  }
});

t.test("equal weights pick what no weights pick", async (t) => {
  t.strictSame(ownersOf({ a: 70, b: 70, c: 70 }), ownersOf({ a: 1, b: 1, c: 1 }));
});

t.test("a change of weights moves the needed fraction and no more", async (t) => {
  const changes = [
    { from: { a: 70, b: 30 }, to: { a: 75, b: 30 }, gains: "a", share: 75 / 105 - 70 / 100 },
    { from: { a: 1, b: 1, c: 1 }, to: { a: 1, b: 1, c: 1, d: 1 }, gains: "d", share: 1 / 4 },
    { from: { a: 1, b: 2, c: 3 }, to: { a: 1, b: 2, c: 4 }, gains: "c", share: 4 / 7 - 3 / 6 },
  ];
  for (const { from, to, gains, share } of changes) {
    const before = ownersOf(from);
    const moved = ownersOf(to).filter((id, i) => id !== before[i]);
    t.ok(within(moved.length, share), `${String(moved.length)} moved`);
    t.ok(moved.every((id) => id === gains));
  }
});

t.test("draining one of three re-homes a third, all of it from the drained one", async (t) => {
  const before = ownersOf({ a: 1, b: 1, c: 1 });
  const after = ownersOf({ a: 1, c: 1 });
  const sources = before.filter((id, i) => id !== after[i]);
  t.ok(within(sources.length, 1 / 3));
  t.ok(sources.every((id) => id === "b"));
  t.notOk(after.includes("b"));
});

t.test("no weight above 0 gives nobody, one gives it everything", async (t) => {
  t.equal(owner(new Map(), "k"), null);
  t.equal(owner(weightsOf({ a: 0 }), "k"), null);
  t.strictSame(rank(weightsOf({ a: 0 }), "k"), []);
  t.strictSame(rank(weightsOf({ a: 0, b: 7 }), "k"), ["b"]);
  t.equal(owner(weightsOf({ a: 0, b: 7 }), "k"), "b");
});

t.test("a weight that is no natural number is a fault", async (t) => {
  for (const weight of [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
    const weights = new Map([[clusterNamed("a"), weight]]);
    t.throws(() => rank(weights, "k"), FaultError);
  }
});

t.test("what is hashed follows the spread and the tenant", async (t) => {
  const bucket = bucketNamed("logs");
  const acme = tenantNamed("acme");
  const text = (key: string, spread: "object" | "prefix" | "bucket") =>
    spreadText(noTenant, bucket, keyNamed(key), spread);
  t.equal(text("2026/a/b", "object"), "logs/2026/a/b");
  t.equal(text("2026/a/b", "prefix"), "logs/2026");
  t.equal(text("2026", "prefix"), "logs/2026");
  t.equal(text("/2026", "prefix"), "logs/");
  t.equal(text("2026/a/b", "bucket"), "logs");
  t.equal(spreadText(acme, bucket, keyNamed("k"), "object"), "acme:logs/k");
  t.equal(spreadText(acme, bucket, keyNamed("k"), "bucket"), "acme:logs");
});
