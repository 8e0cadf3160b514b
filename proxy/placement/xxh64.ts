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
const prime5Hi = 0x27d4eb2f;
const prime5Lo = 0x165667c5;
const prime1: Limbs = Int32Array.of(prime1Hi, prime1Lo);
const prime2: Limbs = Int32Array.of(prime2Hi, prime2Lo);
const prime3: Limbs = Int32Array.of(prime3Hi, prime3Lo);
const prime4: Limbs = Int32Array.of(0x85ebca77, 0xc2b2ae63);
const zero: Limbs = new Int32Array(2);
// The two factors of splitmix64's finalizer.
const mix1Hi = 0xbf58476d | 0;
const mix1Lo = 0x1ce4e5b9;
const mix2Hi = 0x94d049bb | 0;
const mix2Lo = 0x133111eb;

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

/** High half of the 64-bit product of (hi, lo) and a prime; the low half is `imul(lo, primeLo)`. */
function productHigh(hi: number, lo: number, primeHi: number, primeLo: number): number {
  return (mulHigh(lo, primeLo) + Math.imul(lo, primeHi) + Math.imul(hi, primeLo)) | 0;
}

/** 1 if adding `a` to another low half gave `sum` by overflow. */
function carry(sum: number, a: number): number {
  return sum >>> 0 < a >>> 0 ? 1 : 0;
}

// Scratch of one call: everything here is synchronous and nothing is read after a call has ended.
/** The four lanes of inputs of 32 bytes and more, high and low in turn; then one for `round(0, v)`. */
const lanes = new Int32Array(10);
const single: number = 8;
const acc: Limbs = new Int32Array(2);
const encoder = new TextEncoder();
/** Longest tenant, bucket and key together are 64 + 1 + 255 + 1 + 1024 bytes. */
const scratch = new Uint8Array(4096);
const scratchView = new DataView(scratch.buffer);

/** XXH64's round: `lane = rotl(lane + value * prime2, 31) * prime1` */
function round(i: number, valueHi: number, valueLo: number): void {
  const lo = Math.imul(valueLo, prime2Lo);
  const sumLo = (lo + (lanes[i + 1] ?? 0)) | 0;
  const sumHi =
    (productHigh(valueHi, valueLo, prime2Hi, prime2Lo) + (lanes[i] ?? 0) + carry(sumLo, lo)) | 0;
  const turnedHi = (sumHi << 31) | (sumLo >>> 1);
  const turnedLo = (sumLo << 31) | (sumHi >>> 1);
  lanes[i] = productHigh(turnedHi, turnedLo, prime1Hi, prime1Lo);
  lanes[i + 1] = Math.imul(turnedLo, prime1Lo);
}

/** `acc = rotl(acc, bits) * prime + addend`, for 1 to 31 bits. */
function turn(bits: number, prime: Limbs, addend: Limbs): void {
  const hi = acc[0] ?? 0;
  const lo = acc[1] ?? 0;
  const turnedHi = bits === 0 ? hi : (hi << bits) | (lo >>> (32 - bits));
  const turnedLo = bits === 0 ? lo : (lo << bits) | (hi >>> (32 - bits));
  const primeLo = prime[1] ?? 0;
  const productLo = Math.imul(turnedLo, primeLo);
  const sumLo = (productLo + (addend[1] ?? 0)) | 0;
  acc[0] =
    productHigh(turnedHi, turnedLo, prime[0] ?? 0, primeLo) +
    (addend[0] ?? 0) +
    carry(sumLo, productLo);
  acc[1] = sumLo;
}

/** `acc = (acc ^ round(0, value)) …`, the first half of merging a lane and of the 8-byte tail. */
function xorRound(valueHi: number, valueLo: number): void {
  lanes[single] = 0;
  lanes[single + 1] = 0;
  round(single, valueHi, valueLo);
  acc[0] = (acc[0] ?? 0) ^ (lanes[single] ?? 0);
  acc[1] = (acc[1] ?? 0) ^ (lanes[single + 1] ?? 0);
}

/** Adds lane i, rotated, to `acc`. */
function gather(i: number, bits: number): void {
  const hi = lanes[i] ?? 0;
  const lo = lanes[i + 1] ?? 0;
  const turnedLo = (lo << bits) | (hi >>> (32 - bits));
  const sumLo = (turnedLo + (acc[1] ?? 0)) | 0;
  acc[0] = (acc[0] ?? 0) + ((hi << bits) | (lo >>> (32 - bits))) + carry(sumLo, turnedLo);
  acc[1] = sumLo;
}

/** Consumes whole 32-byte stripes into `acc`; returns how many bytes that were. */
function stripes(bytes: DataView, length: number): number {
  lanes[0] = 0x60ea27ee;
  lanes[1] = 0xadc0b5d6 | 0;
  lanes[2] = prime2Hi;
  lanes[3] = prime2Lo;
  lanes[4] = 0;
  lanes[5] = 0;
  lanes[6] = 0x61c8864e;
  lanes[7] = 0x7a143579;
  let at = 0;
  for (; at + 32 <= length; at += 32) {
    for (let i = 0; i < 8; i += 2) {
      round(i, bytes.getInt32(at + 4 * i + 4, true), bytes.getInt32(at + 4 * i, true));
    }
  }
  acc[0] = 0;
  acc[1] = 0;
  gather(0, 1);
  gather(2, 7);
  gather(4, 12);
  gather(6, 18);
  for (let i = 0; i < 8; i += 2) {
    xorRound(lanes[i] ?? 0, lanes[i + 1] ?? 0);
    turn(0, prime1, prime4);
  }
  return at;
}

/** The bytes behind the last stripe: eights, then one four, then ones. */
function tail(bytes: DataView, from: number, length: number): void {
  let at = from;
  for (; at + 8 <= length; at += 8) {
    xorRound(bytes.getInt32(at + 4, true), bytes.getInt32(at, true));
    turn(27, prime1, prime4);
  }
  if (at + 4 <= length) {
    const value = bytes.getInt32(at, true);
    acc[0] = (acc[0] ?? 0) ^ productHigh(0, value, prime1Hi, prime1Lo);
    acc[1] = (acc[1] ?? 0) ^ Math.imul(value, prime1Lo);
    turn(23, prime2, prime3);
    at += 4;
  }
  for (; at < length; at += 1) {
    const value = bytes.getUint8(at);
    acc[0] = (acc[0] ?? 0) ^ productHigh(0, value, prime5Hi, prime5Lo);
    acc[1] = (acc[1] ?? 0) ^ Math.imul(value, prime5Lo);
    turn(11, prime1, zero);
  }
}

function hash(bytes: DataView, length: number, out: Limbs): void {
  let at = 0;
  if (length >= 32) {
    at = stripes(bytes, length);
  } else {
    acc[0] = prime5Hi;
    acc[1] = prime5Lo;
  }
  const lo = ((acc[1] ?? 0) + length) | 0;
  acc[0] = (acc[0] ?? 0) + carry(lo, length);
  acc[1] = lo;
  tail(bytes, at, length);
  finish(out);
}

/** The avalanche: shifts by 33, 29 and 32 around prime2 and prime3. */
function finish(out: Limbs): void {
  const hi0 = acc[0] ?? 0;
  const lo0 = (acc[1] ?? 0) ^ (hi0 >>> 1);
  const hi1 = productHigh(hi0, lo0, prime2Hi, prime2Lo);
  const lo1 = Math.imul(lo0, prime2Lo);
  const hi2 = hi1 ^ (hi1 >>> 29);
  const lo2 = lo1 ^ ((lo1 >>> 29) | (hi1 << 3));
  const hi3 = productHigh(hi2, lo2, prime3Hi, prime3Lo);
  out[0] = hi3;
  out[1] = Math.imul(lo2, prime3Lo) ^ hi3;
}

/** XXH64 of bytes, seed 0, into `out`. */
export function xxh64(bytes: Uint8Array, out: Limbs): void {
  hash(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), bytes.length, out);
}

/** XXH64 of a text's UTF-8 bytes, seed 0, into `out`. Well-formed texts of any length. */
export function xxh64Text(text: string, out: Limbs): void {
  // A code unit takes three bytes at most.
  if (text.length * 3 > scratch.length) {
    xxh64(encoder.encode(text), out);
    return;
  }
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code > 0x7f) {
      hash(scratchView, encoder.encodeInto(text, scratch).written, out);
      return;
    }
    scratch[i] = code;
  }
  hash(scratchView, text.length, out);
}

/** `out = mix(a XOR b)` with the splitmix64 finalizer: shifts by 30, 27 and 31. */
export function mixXor(out: Limbs, a: Limbs, bHi: number, bLo: number): void {
  const hi0 = (a[0] ?? 0) ^ bHi;
  const lo0 = (a[1] ?? 0) ^ bLo;
  const hi1 = hi0 ^ (hi0 >>> 30);
  const lo1 = lo0 ^ ((lo0 >>> 30) | (hi0 << 2));
  const hi2 = productHigh(hi1, lo1, mix1Hi, mix1Lo);
  const lo2 = Math.imul(lo1, mix1Lo);
  const hi3 = hi2 ^ (hi2 >>> 27);
  const lo3 = lo2 ^ ((lo2 >>> 27) | (hi2 << 5));
  const hi4 = productHigh(hi3, lo3, mix2Hi, mix2Lo);
  const lo4 = Math.imul(lo3, mix2Lo);
  out[0] = hi4 ^ (hi4 >>> 31);
  out[1] = lo4 ^ ((lo4 >>> 31) | (hi4 << 1));
}
