// A Range field brought into the one form that every upstream reads alike (RFC 9110 §14.1). RGW takes
// `bytes=-0` for everything, `bytes=a-b` for the first byte and several ranges for the first of them,
// with a 206 each time; S3 ignores what it cannot read and answers the whole object.

const one = /^bytes=(\d*)-(\d*)$/i;
/** One below 2^63 − 1, the largest offset an upstream can count; no object is that long. */
const beyondEverything = "9223372036854775806";

/**
 * The value to send for the client's own, `bytes=0-99`; `null` when the field says nothing that S3
 * would heed: another unit, several ranges, an end before the start.
 */
export function canonicalRange(value: string): string | null {
  const parsed = one.exec(value.trim());
  const [, from = "", to = ""] = parsed ?? [];
  if (from === "" && to === "") return null;
  if (from === "") {
    // No byte at all: cannot be satisfied, which RGW says only of a start behind the end.
    return BigInt(to) === 0n ? `bytes=${beyondEverything}-` : `bytes=-${clipped(to)}`;
  }
  if (to !== "" && BigInt(to) < BigInt(from)) return null;
  return `bytes=${clipped(from)}-${to === "" ? "" : clipped(to)}`;
}

function clipped(digits: string): string {
  return BigInt(digits) > BigInt(beyondEverything) ? beyondEverything : BigInt(digits).toString();
}
