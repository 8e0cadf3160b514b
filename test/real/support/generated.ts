// Inputs that nobody chose: each property of a real suite is asked with some from a seed, so that a
// failure, which names both, can be seen again. Other ones: HEADGATE_GENERATED_SEED, and more of them
// HEADGATE_GENERATED_INPUTS.

import fc from "fast-check";
import type { Lab, RealTest } from "./lab.ts";

const seed = Number(process.env["HEADGATE_GENERATED_SEED"] ?? 20_261_130);
const numRuns = Number(process.env["HEADGATE_GENERATED_INPUTS"] ?? 3);

/** A test that `check` throws for none of the inputs and no radosgw has died of one. */
export function generated<T>(
  about: { readonly lab: Lab; readonly test: RealTest; readonly name: string },
  inputs: fc.Arbitrary<T>,
  check: (input: T) => Promise<void>,
): void {
  about.test(about.name, async (t) => {
    const property = fc.asyncProperty(inputs, async (input) => {
      await check(input);
      const dead = about.lab.rgw.dead();
      if (dead.length > 0) throw new Error(`Killed radosgw ${dead.join()}`);
    });
    // Without a search for a smaller input: each costs requests, and a radosgw may be dead.
    await fc.assert(property, { seed, numRuns, endOnFailure: true });
    t.pass(`${numRuns} inputs of seed ${seed}`);
  });
}

const odd = [
  "/",
  "//",
  "/../",
  "./",
  "%",
  "%2F",
  "%zz",
  "+",
  " ",
  "&",
  "?",
  "#",
  "=",
  ";",
  ":",
  "\\",
];

/** Of 1 to some 40 characters of any script; no two of a process are the same. */
export const keys: fc.Arbitrary<string> = fc
  .array(fc.oneof(fc.string({ unit: "grapheme", maxLength: 8 }), fc.constantFrom(...odd)), {
    minLength: 1,
    maxLength: 6,
  })
  .map((parts) => parts.join(""))
  .filter((key) => Buffer.byteLength(key) < 900)
  .map((key) => `${key}~${nextNumber()}`);

let count = 0;

export function nextNumber(): number {
  count += 1;
  return count;
}

/** Bytes that do not compress, of lengths around what is buffered or held back, and any other. */
export function bodies(minLength = 0): fc.Arbitrary<Buffer> {
  const length = fc.oneof(
    fc.integer({ min: minLength, max: 300 }),
    fc.integer({ min: minLength, max: 200_000 }),
    fc.integer({ min: 65_530, max: 65_545 }),
  );
  return fc.tuple(length, fc.integer({ min: 0, max: 255 })).map(([size, salt]) => {
    const bytes = Buffer.alloc(size);
    for (let at = 0; at < size; at += 1) bytes[at] = (at * 31 + (at >> 7) * 17 + salt) & 0xff;
    return bytes;
  });
}

const value = fc
  .string({ unit: "grapheme", minLength: 1, maxLength: 20 })
  .map((text) => text.replaceAll(/\s+/g, " ").trim())
  .filter((text) => text !== "");

/** Of an object, beside its content: name → value, neither with a blank at an end. */
export const metadata: fc.Arbitrary<Readonly<Record<string, string>>> = fc.dictionary(
  fc.stringMatching(/^[a-z][a-z0-9]{0,9}(-[a-z0-9]{1,5})?$/),
  value,
  { maxKeys: 4, noNullPrototype: true },
);
