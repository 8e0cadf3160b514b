// The exponential score of weighted rendezvous hashing: E(v) = floor(2^32 * (64 - log2 v)) for v in
// 1..2^64, exactly. The fast form approximates log2 with a table and falls back to the exact form
// where its error bound straddles an integer, so the answer never depends on rounding.
// Spec: placement.md §3. No Math.log here: its last digits differ between engines.

import type { Limbs } from "./xxh64.ts";

const two32 = 4294967296;
/** Table entries: one for each value of the nine bits behind the leading one. */
const tableSize = 512;
const tableBits = 128;

/** atanh(numerator / denominator) in units of 2^-bits, low by less than 2 units a term. */
function atanhFixed(numerator: bigint, denominator: bigint, bits: bigint): bigint {
  const square = ((numerator * numerator) << bits) / (denominator * denominator);
  let power = (numerator << bits) / denominator;
  let sum = power;
  for (let odd = 3n; power > 0n; odd += 2n) {
    power = (power * square) >> bits;
    sum += power / odd;
  }
  return sum;
}

/** 2^32 * log2 of each table interval's middle, (1024 + 2i + 1) / 1024, and its reciprocal. */
const middleLog = new Float64Array(tableSize);
const middleInverse = new Float64Array(tableSize);
{
  const bits = BigInt(tableBits);
  const ln2 = 2n * atanhFixed(1n, 3n, bits);
  // ln((x + 2) / x) = 2 atanh(1 / (x + 1)), summed up from ln(1025 / 1024) = 2 atanh(1 / 2049).
  let logarithm = 2n * atanhFixed(1n, 2049n, bits);
  for (let i = 0; i < tableSize; i += 1) {
    const middle = 1025 + 2 * i;
    // 53 bits: the values are below 2^32, so the unit is 2^-21.
    middleLog[i] = Number(((logarithm << 54n) / ln2 + 1n) >> 1n) / 2097152;
    middleInverse[i] = 1 / (middle * 4398046511104);
    logarithm += 2n * atanhFixed(1n, BigInt(middle + 1), bits);
  }
}
/** 2^32 / ln 2, to 53 bits. */
const scale = Number((1n << 180n) / (2n * atanhFixed(1n, 3n, BigInt(tableBits)))) / 1048576;

/**
 * Bound of the fast form's error, in units of E. The mantissa is cut to 53 bits: 2^-52 * 2^32 / ln 2
 * < 2^-19.4. Table, sum and rounding of the comparison: 3 * 2^-22. Series behind r^5: 2^-30.
 */
const errorBound = 1 / 262144;

/** The exact form, for any v in 1..2^64: intervals of growing precision around log2 v. */
export function exponentExact(v: bigint): number {
  const power = BigInt(v.toString(2).length - 1);
  const whole = Number((64n - power) << 32n);
  if (v === 1n << power) return whole;
  // log2 of anything else is irrational, so some precision tells it from every multiple of 2^-32.
  for (let bits = 128n; ; bits *= 2n) {
    const unit = 1n << power;
    const log2 = (atanhFixed(v - unit, v + unit, bits) << bits) / atanhFixed(1n, 3n, bits);
    // Each sum is off by at most 4 units a term and has fewer than `bits` terms.
    const error = 32n * bits;
    const low = (log2 - error) >> (bits - 32n);
    const high = (log2 + error) >> (bits - 32n);
    if (low === high) return whole - Number(low) - 1;
  }
}

/** E of a hash, with v = hash + 1: an integer in 0..2^38. */
export function exponent(hash: Limbs): number {
  const lo = ((hash[1] ?? 0) + 1) | 0;
  const hi = lo === 0 ? ((hash[0] ?? 0) + 1) | 0 : (hash[0] ?? 0);
  if ((hi | lo) === 0) return 0;
  // v = mantissa * 2^power with the mantissa's leading bit at the top of `high`.
  const small = hi === 0;
  const zeros = Math.clz32(small ? lo : hi);
  const power = (small ? 31 : 63) - zeros;
  const high = small ? lo << zeros : (hi << zeros) | (zeros === 0 ? 0 : lo >>> (32 - zeros));
  const low = small ? 0 : lo << zeros;
  const index = (high >>> 22) & 511;
  const mantissa = (high >>> 0) * 2097152 + (low >>> 11);
  const r = (mantissa - (1025 + 2 * index) * 4398046511104) * (middleInverse[index] ?? 0);
  const series = 1 - r * (1 / 2 - r * (1 / 3 - r * (1 / 4 - r / 5)));
  const log2 = (middleLog[index] ?? 0) + r * scale * series;
  const above = Math.ceil(log2 + errorBound);
  if (above !== Math.ceil(log2 - errorBound)) {
    return exponentExact((BigInt(hi >>> 0) << 32n) | BigInt(lo >>> 0));
  }
  return (64 - power) * two32 - above;
}
