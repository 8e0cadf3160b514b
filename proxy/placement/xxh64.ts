// XXH64 with seed 0 and the splitmix64 finalizer, on pairs of 32-bit limbs: a BigInt form costs ten
// times as much, and a Number holds no 64-bit product. Results are the same on every machine.
// Spec: xxHash "XXH64 algorithm description" (doc/xxhash_spec.md); placement.md §3.

/** A 64-bit unsigned value as signed 32-bit halves: `[high, low]`. */
export type Limbs = Int32Array;

// The five primes of XXH64, high and low half.
const prime1Hi = 0x9e3779b1 | 0;
const prime1Lo = 0x85ebca87 | 0;
const prime2Hi = 0xc2b2ae3d | 0;
const prime2Lo = 0x27d4eb4f;
const prime3Hi = 0x165667b1;
const prime3Lo = 0x9e3779f9 | 0;
const prime4Hi = 0x85ebca77 | 0;
const prime4Lo = 0xc2b2ae63 | 0;
const prime5Hi = 0x27d4eb2f;
const prime5Lo = 0x165667c5;

/** High half of the 64-bit product of two unsigned 32-bit numbers. */
function mulHigh(a: number, b: number): number {
  const a0 = a & 0xffff;
  const a1 = a >>> 16;
  const b0 = b & 0xffff;
  const b1 = b >>> 16;
  const p01 = Math.imul(a0, b1);
  const p10 = Math.imul(a1, b0);
  const middle = (Math.imul(a0, b0) >>> 16) + (p01 & 0xffff) + (p10 & 0xffff);
  return (Math.imul(a1, b1) + (p01 >>> 16) + (p10 >>> 16) + (middle >>> 16)) | 0;
}

/** 1 if the low halves `a + b = sum` overflowed. */
function carry(sum: number, a: number): number {
  return sum >>> 0 < a >>> 0 ? 1 : 0;
}

/** Where `step` leaves its result. Synchronous and never held across a call from outside. */
const acc: Limbs = new Int32Array(2);
const merged: Limbs = new Int32Array(2);
/** The four lanes of inputs of 32 bytes and more, high and low in turn. */
const lanes = new Int32Array(8);
const encoder = new TextEncoder();
/** Longest tenant, bucket and key together are 64 + 1 + 255 + 1 + 1024 bytes. */
const scratch = new Uint8Array(2048);

/** `at[i] = at[i] * prime` */
function multiply(at: Int32Array, i: number, primeHi: number, primeLo: number): void {
  const hi = at[i] ?? 0;
  const lo = at[i + 1] ?? 0;
  at[i] = mulHigh(lo, primeLo) + Math.imul(lo, primeHi) + Math.imul(hi, primeLo);
  at[i + 1] = Math.imul(lo, primeLo);
}

/** `at[i] = at[i] + value` */
function add(at: Int32Array, i: number, valueHi: number, valueLo: number): void {
  const before = at[i + 1] ?? 0;
  const lo = (before + valueLo) | 0;
  at[i] = (at[i] ?? 0) + valueHi + carry(lo, before);
  at[i + 1] = lo;
}

/** Rotates left by 1 to 31 bits. */
function rotate(at: Int32Array, i: number, bits: number): void {
  const hi = at[i] ?? 0;
  const lo = at[i + 1] ?? 0;
  at[i] = (hi << bits) | (lo >>> (32 - bits));
  at[i + 1] = (lo << bits) | (hi >>> (32 - bits));
}

/** XXH64's round: `at[i] = rotl(at[i] + value * prime2, 31) * prime1` */
function round(at: Int32Array, i: number, valueHi: number, valueLo: number): void {
  const lo = Math.imul(valueLo, prime2Lo);
  const hi =
    mulHigh(valueLo, prime2Lo) + Math.imul(valueLo, prime2Hi) + Math.imul(valueHi, prime2Lo);
  add(at, i, hi | 0, lo);
  rotate(at, i, 31);
  multiply(at, i, prime1Hi, prime1Lo);
}

/** `acc ^= acc >>> bits`, for 1 to 31 bits. */
function shiftXor(at: Limbs, bits: number): void {
  const hi = at[0] ?? 0;
  at[1] = (at[1] ?? 0) ^ ((at[1] ?? 0) >>> bits) ^ (hi << (32 - bits));
  at[0] = hi ^ (hi >>> bits);
}

/** `acc ^= round(0, value)`, the step shared by lane merging and the 8-byte tail. */
function mergeRound(valueHi: number, valueLo: number): void {
  merged.fill(0);
  round(merged, 0, valueHi, valueLo);
  acc[0] = (acc[0] ?? 0) ^ (merged[0] ?? 0);
  acc[1] = (acc[1] ?? 0) ^ (merged[1] ?? 0);
}

function word(bytes: Uint8Array, at: number): number {
  return (
    (bytes[at] ?? 0) |
    ((bytes[at + 1] ?? 0) << 8) |
    ((bytes[at + 2] ?? 0) << 16) |
    ((bytes[at + 3] ?? 0) << 24)
  );
}

/** Consumes whole 32-byte stripes into `acc`; returns how many bytes that were. */
function stripes(bytes: Uint8Array, length: number): number {
  // prime1 + prime2, prime2, 0, -prime1
  lanes.set([0x60ea27ee | 0, 0xadc0b5d6 | 0, prime2Hi, prime2Lo, 0, 0, 0x61c8864e, 0x7a143579]);
  let at = 0;
  for (; at + 32 <= length; at += 32) {
    round(lanes, 0, word(bytes, at + 4), word(bytes, at));
    round(lanes, 2, word(bytes, at + 12), word(bytes, at + 8));
    round(lanes, 4, word(bytes, at + 20), word(bytes, at + 16));
    round(lanes, 6, word(bytes, at + 28), word(bytes, at + 24));
  }
  const rotated = lanes.slice();
  rotate(rotated, 0, 1);
  rotate(rotated, 2, 7);
  rotate(rotated, 4, 12);
  rotate(rotated, 6, 18);
  acc.fill(0);
  for (let i = 0; i < 8; i += 2) add(acc, 0, rotated[i] ?? 0, rotated[i + 1] ?? 0);
  for (let i = 0; i < 8; i += 2) {
    mergeRound(lanes[i] ?? 0, lanes[i + 1] ?? 0);
    multiply(acc, 0, prime1Hi, prime1Lo);
    add(acc, 0, prime4Hi, prime4Lo);
  }
  return at;
}

/** XXH64 of the first `length` bytes, seed 0, into `out`. */
export function xxh64(bytes: Uint8Array, length: number, out: Limbs): void {
  let at = 0;
  if (length >= 32) {
    at = stripes(bytes, length);
  } else {
    acc[0] = prime5Hi;
    acc[1] = prime5Lo;
  }
  add(acc, 0, 0, length);
  for (; at + 8 <= length; at += 8) {
    mergeRound(word(bytes, at + 4), word(bytes, at));
    rotate(acc, 0, 27);
    multiply(acc, 0, prime1Hi, prime1Lo);
    add(acc, 0, prime4Hi, prime4Lo);
  }
  if (at + 4 <= length) {
    const value = word(bytes, at);
    const lo = Math.imul(value, prime1Lo);
    acc[0] = (acc[0] ?? 0) ^ (mulHigh(value, prime1Lo) + Math.imul(value, prime1Hi));
    acc[1] = (acc[1] ?? 0) ^ lo;
    rotate(acc, 0, 23);
    multiply(acc, 0, prime2Hi, prime2Lo);
    add(acc, 0, prime3Hi, prime3Lo);
    at += 4;
  }
  for (; at < length; at += 1) {
    const value = bytes[at] ?? 0;
    acc[0] = (acc[0] ?? 0) ^ (mulHigh(value, prime5Lo) + Math.imul(value, prime5Hi));
    acc[1] = (acc[1] ?? 0) ^ Math.imul(value, prime5Lo);
    rotate(acc, 0, 11);
    multiply(acc, 0, prime1Hi, prime1Lo);
  }
  // Avalanche: 33, prime2, 29, prime3, 32. A shift by 33 takes the high half alone, by one bit.
  acc[1] = (acc[1] ?? 0) ^ ((acc[0] ?? 0) >>> 1);
  multiply(acc, 0, prime2Hi, prime2Lo);
  shiftXor(acc, 29);
  multiply(acc, 0, prime3Hi, prime3Lo);
  out.set(acc);
  out[1] = (out[1] ?? 0) ^ (out[0] ?? 0);
}

/** XXH64 of a text's UTF-8 bytes, seed 0, into `out`. Well-formed texts of any length. */
export function xxh64Text(text: string, out: Limbs): void {
  // A code unit takes three bytes at most; only the names of this system are short enough to matter.
  if (text.length * 3 > scratch.length) {
    const bytes = encoder.encode(text);
    xxh64(bytes, bytes.length, out);
    return;
  }
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code > 0x7f) {
      xxh64(scratch, encoder.encodeInto(text, scratch).written, out);
      return;
    }
    scratch[i] = code;
  }
  xxh64(scratch, text.length, out);
}

/** `out = mix(a XOR b)` with the splitmix64 finalizer. */
export function mixXor(out: Limbs, a: Limbs, bHi: number, bLo: number): void {
  out[0] = (a[0] ?? 0) ^ bHi;
  out[1] = (a[1] ?? 0) ^ bLo;
  shiftXor(out, 30);
  multiply(out, 0, 0xbf58476d | 0, 0x1ce4e5b9);
  shiftXor(out, 27);
  multiply(out, 0, 0x94d049bb | 0, 0x133111eb);
  shiftXor(out, 31);
}
