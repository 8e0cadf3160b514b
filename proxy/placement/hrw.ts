// Weighted rendezvous hashing: which clusters of a route own a spread text, in order. Integers only,
// the same answer on every machine; test/vectors/hrw.json is part of the contract.
// Spec: placement.md §3. Health, drain and policy have no say here.

import type { BucketName, ClusterId, ObjectKey, TenantName } from "../s3/names.ts";
import { noTenant } from "../s3/names.ts";
import { exponent } from "./exponent.ts";
import { FaultError } from "./ports.ts";
import type { Spread, Weights } from "./records.ts";
import { type Limbs, mixXor, xxh64Text } from "./xxh64.ts";

/** Weights prepared for ranking: positive ones, divided by their gcd, ids hashed. */
interface Wheel {
  readonly ids: readonly ClusterId[];
  readonly weights: readonly number[];
  /** xxh64 of each id, high and low half in turn. */
  readonly hashes: Int32Array;
  /** Some product E * weight may leave 2^53: compare with BigInt. */
  readonly wide: boolean;
  /** This text's scores, overwritten by each ranking. */
  readonly exponents: Float64Array;
  readonly mixed: Int32Array;
}

/** E is at most 2^38, so products with weights up to here stay exact in a Number. */
const maxNarrowWeight = 32768;

// Weights are immutable, so a wheel is made once for each map and dropped with it.
const wheels = new WeakMap<Weights, Wheel>();
const textHash: Limbs = new Int32Array(2);
const mixed: Limbs = new Int32Array(2);

/** Greatest common divisor; 0 for no numbers. */
export function gcd(numbers: Iterable<number>): number {
  let divisor = 0;
  for (const number of numbers) {
    let a = number;
    while (a !== 0) [divisor, a] = [a, divisor % a];
  }
  return divisor;
}

function makeWheel(weights: Weights): Wheel {
  const entries: [ClusterId, number][] = [];
  for (const [id, weight] of weights) {
    if (!Number.isSafeInteger(weight) || weight < 0) {
      throw new FaultError("bug", `Cannot rank cluster "${id}": weight is ${String(weight)}`);
    }
    if (weight > 0) entries.push([id, weight]);
  }
  const divisor = gcd(entries.map(([, weight]) => weight));
  const hashes = new Int32Array(entries.length * 2);
  const hash: Limbs = new Int32Array(2);
  for (const [i, [id]] of entries.entries()) {
    xxh64Text(id, hash);
    hashes.set(hash, i * 2);
  }
  const reduced = entries.map(([, weight]) => weight / divisor);
  return {
    ids: entries.map(([id]) => id),
    weights: reduced,
    hashes,
    wide: reduced.some((weight) => weight > maxNarrowWeight),
    exponents: new Float64Array(entries.length),
    mixed: new Int32Array(entries.length * 2),
  };
}

function wheelOf(weights: Weights): Wheel {
  const known = wheels.get(weights);
  if (known !== undefined) return known;
  const made = makeWheel(weights);
  wheels.set(weights, made);
  return made;
}

function score(wheel: Wheel, text: string): void {
  xxh64Text(text, textHash);
  const { hashes } = wheel;
  for (let i = 0; i < wheel.ids.length; i += 1) {
    mixXor(mixed, textHash, hashes[2 * i] ?? 0, hashes[2 * i + 1] ?? 0);
    wheel.mixed[2 * i] = mixed[0] ?? 0;
    wheel.mixed[2 * i + 1] = mixed[1] ?? 0;
    wheel.exponents[i] = exponent(mixed);
  }
}

/** E_a / w_a against E_b / w_b by cross multiplication: negative, zero or positive. */
function compareScores(wheel: Wheel, a: number, b: number): number {
  const exponentA = wheel.exponents[a] ?? 0;
  const exponentB = wheel.exponents[b] ?? 0;
  const weightA = wheel.weights[a] ?? 0;
  const weightB = wheel.weights[b] ?? 0;
  if (!wheel.wide) return exponentA * weightB - exponentB * weightA;
  const left = BigInt(exponentA) * BigInt(weightB);
  const right = BigInt(exponentB) * BigInt(weightA);
  return left < right ? -1 : Number(left > right);
}

/** Whether a ranks before b: smaller E / w, then larger hash, then smaller id. */
function before(wheel: Wheel, a: number, b: number): boolean {
  const order = compareScores(wheel, a, b);
  if (order !== 0) return order < 0;
  for (const half of [0, 1]) {
    const hashA = (wheel.mixed[2 * a + half] ?? 0) >>> 0;
    const hashB = (wheel.mixed[2 * b + half] ?? 0) >>> 0;
    if (hashA !== hashB) return hashA > hashB;
  }
  return (wheel.ids[a] ?? "") < (wheel.ids[b] ?? "");
}

/**
 * Every cluster with a weight above 0 in rendezvous order, the owner first. Weights may be any
 * positive integers; their map must not be edited afterwards.
 * @throws FaultError bug for a weight that is no integer or is negative.
 */
export function rank(weights: Weights, text: string): readonly ClusterId[] {
  const wheel = wheelOf(weights);
  const count = wheel.ids.length;
  if (count < 2) return wheel.ids;
  score(wheel, text);
  const order: number[] = [];
  for (let i = 0; i < count; i += 1) {
    let at = i;
    for (; at > 0 && before(wheel, i, order[at - 1] ?? 0); at -= 1) order[at] = order[at - 1] ?? 0;
    order[at] = i;
  }
  const ranked: ClusterId[] = [];
  for (const i of order) {
    const id = wheel.ids[i];
    if (id !== undefined) ranked.push(id);
  }
  return ranked;
}

/** The first of `rank`, without sorting the rest; `null` when no cluster has a weight above 0. */
export function owner(weights: Weights, text: string): ClusterId | null {
  const wheel = wheelOf(weights);
  if (wheel.ids.length < 2) return wheel.ids[0] ?? null;
  score(wheel, text);
  let first = 0;
  for (let i = 1; i < wheel.ids.length; i += 1) if (before(wheel, i, first)) first = i;
  return wheel.ids[first] ?? null;
}

/** A bucket's name as it is hashed and shown, `logs` or `acme:logs`. */
export function bucketText(tenant: TenantName, bucket: BucketName): string {
  return tenant === noTenant ? bucket : `${tenant}:${bucket}`;
}

/**
 * What is hashed for a key: `logs/2026/a.txt` for spread `object`, `logs/2026` for `prefix` (up to
 * the first slash, the whole key without one, `logs/` if it begins with one), `logs` for `bucket`.
 */
export function spreadText(
  tenant: TenantName,
  bucket: BucketName,
  key: ObjectKey,
  spread: Spread,
): string {
  const name = bucketText(tenant, bucket);
  switch (spread) {
    case "bucket":
      return name;
    case "object":
      return `${name}/${key}`;
    case "prefix": {
      const slash = key.indexOf("/");
      return `${name}/${slash === -1 ? key : key.slice(0, slash)}`;
    }
  }
}
