// The slow, plain form of weighted rendezvous hashing, straight from its definition: BigInt all
// through, one bit of the logarithm at a time. Shares no code with proxy/placement; what it says is
// right by construction. Spec: placement definition in proxy/placement/hrw.ts; xxHash specification.

const mask = (1n << 64n) - 1n;
const primes = [
  0x9e3779b185ebca87n,
  0xc2b2ae3d27d4eb4fn,
  0x165667b19e3779f9n,
  0x85ebca77c2b2ae63n,
  0x27d4eb2f165667c5n,
] as const;
const [p1, p2, p3, p4, p5] = primes;

function rotl(value: bigint, bits: bigint): bigint {
  return ((value << bits) | (value >> (64n - bits))) & mask;
}

function round(acc: bigint, lane: bigint): bigint {
  return (rotl((acc + lane * p2) & mask, 31n) * p1) & mask;
}

function little(bytes: Uint8Array, at: number, count: number): bigint {
  let value = 0n;
  for (let i = count - 1; i >= 0; i -= 1) value = (value << 8n) | BigInt(bytes[at + i] ?? 0);
  return value;
}

/** XXH64 with seed 0. */
export function oracleXxh64(bytes: Uint8Array): bigint {
  let at = 0;
  let acc: bigint = p5;
  if (bytes.length >= 32) {
    const lanes = [(p1 + p2) & mask, p2, 0n, -p1 & mask];
    for (; at + 32 <= bytes.length; at += 32) {
      for (const [i, lane] of lanes.entries()) lanes[i] = round(lane, little(bytes, at + 8 * i, 8));
    }
    acc = 0n;
    for (const [i, bits] of [1n, 7n, 12n, 18n].entries()) acc += rotl(lanes[i] ?? 0n, bits);
    for (const lane of lanes) acc = (((acc & mask) ^ round(0n, lane)) * p1 + p4) & mask;
  }
  acc = (acc + BigInt(bytes.length)) & mask;
  for (; at + 8 <= bytes.length; at += 8) {
    acc = (rotl(acc ^ round(0n, little(bytes, at, 8)), 27n) * p1 + p4) & mask;
  }
  if (at + 4 <= bytes.length) {
    acc = (rotl(acc ^ ((little(bytes, at, 4) * p1) & mask), 23n) * p2 + p3) & mask;
    at += 4;
  }
  for (; at < bytes.length; at += 1) {
    acc = (rotl(acc ^ ((BigInt(bytes[at] ?? 0) * p5) & mask), 11n) * p1) & mask;
  }
  acc = ((acc ^ (acc >> 33n)) * p2) & mask;
  acc = ((acc ^ (acc >> 29n)) * p3) & mask;
  return acc ^ (acc >> 32n);
}

/** The splitmix64 finalizer. */
export function oracleMix(value: bigint): bigint {
  let z = value & mask;
  z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & mask;
  z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & mask;
  return z ^ (z >> 31n);
}

/** ceil(2^32 * log2 v) bit by bit on a mantissa known between two bounds; null: too few bits. */
function ceilLog2(v: bigint, precision: bigint): bigint | null {
  const power = BigInt(v.toString(2).length - 1);
  if (v === 1n << power) return power << 32n;
  const two = 2n << precision;
  let low = (v << precision) >> power;
  let high = low + 1n;
  let fraction = 0n;
  for (let bit = 0; bit < 32; bit += 1) {
    low = (low * low) >> precision;
    high = ((high * high) >> precision) + 1n;
    fraction <<= 1n;
    if (low >= two) {
      fraction |= 1n;
      low >>= 1n;
      high = (high >> 1n) + 1n;
    } else if (high > two) {
      return null;
    }
  }
  // Strictly between two multiples of 2^-32: log2 of no other number is rational.
  return (power << 32n) + fraction + 1n;
}

/** E = floor(2^32 * (64 - log2 v)) for v in 1..2^64. */
export function oracleExponent(v: bigint): bigint {
  for (let precision = 128n; ; precision *= 2n) {
    const log2 = ceilLog2(v, precision);
    if (log2 !== null) return (64n << 32n) - log2;
  }
}

/** Clusters with a weight above 0 in rendezvous order. */
export function oracleRank(weights: ReadonlyMap<string, number>, text: string): readonly string[] {
  const digest = oracleXxh64(Buffer.from(text));
  const scored = [...weights]
    .filter(([, weight]) => weight > 0)
    .map(([id, weight]) => {
      const hash = oracleMix(digest ^ oracleXxh64(Buffer.from(id)));
      return { id, hash, weight: BigInt(weight), exponent: oracleExponent(hash + 1n) };
    });
  scored.sort((a, b) => {
    const left = a.exponent * b.weight;
    const right = b.exponent * a.weight;
    if (left !== right) return left < right ? -1 : 1;
    if (a.hash !== b.hash) return a.hash > b.hash ? -1 : 1;
    return a.id < b.id ? -1 : 1;
  });
  return scored.map(({ id }) => id);
}
