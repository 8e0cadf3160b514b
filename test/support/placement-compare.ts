// Compares the shipped logarithm with the oracle over random values and over values that stand right
// at a step of E, where a wrong rounding would show.

import { exponent, exponentExact } from "../../proxy/placement/exponent.ts";
import { oracleExponent, oracleMix } from "./placement-oracle.ts";

/** v - 1 as the limbs that the shipped form takes. */
export function limbsOf(hash: bigint): Int32Array {
  return Int32Array.of(Number(hash >> 32n) | 0, Number(hash & 0xffffffffn) | 0);
}

/** Where the shipped form of E differs from the oracle, as texts; empty when all agree. */
export function differences(values: Iterable<bigint>): readonly string[] {
  const found: string[] = [];
  for (const v of values) {
    const expected = Number(oracleExponent(v));
    const fast = exponent(limbsOf(v - 1n));
    if (fast !== expected) {
      found.push(`v=${String(v)}: ${String(fast)}, needs ${String(expected)}`);
    }
  }
  return found;
}

/** `count` values in 1..2^64 from a fixed seed; a tenth of them of random length. */
export function* randomValues(count: number, seed: bigint): Generator<bigint> {
  for (let i = 0n; i < BigInt(count); i += 1n) {
    const hash = oracleMix(seed + i * 0x9e3779b97f4a7c15n);
    yield (i % 10n === 0n ? hash >> (i % 64n) : hash) + 1n;
  }
}

/** 2^n and its neighbours for all n. */
export function* powerValues(): Generator<bigint> {
  for (let power = 0n; power <= 64n; power += 1n) {
    for (const v of [(1n << power) - 1n, 1n << power, (1n << power) + 1n]) {
      if (v >= 1n && v <= 1n << 64n) yield v;
    }
  }
}

/** The two values on either side of each of `count` random steps of E, found by bisection. */
export function* stepValues(count: number, seed: bigint): Generator<bigint> {
  for (const v of randomValues(count, seed)) {
    const limit = exponentExact(v);
    let low = 1n;
    let high = v;
    // The smallest value whose E is at most that of v.
    while (low < high) {
      const middle = (low + high) >> 1n;
      if (exponentExact(middle) <= limit) high = middle;
      else low = middle + 1n;
    }
    if (low > 1n) yield low - 1n;
    yield low;
  }
}
