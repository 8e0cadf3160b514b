// The matrix of uploads, longer than the held tail: they are begun upstream before they are verified, so
// what is wrong with them is found when most of their bytes have left.

import t from "tap";
import { profiles } from "../../proxy/placement/profiles.ts";
import { payloads } from "../support/upload-matrix.ts";
import { allRight, bodyOf, kinds, openMatrix } from "../support/upload-matrix-run.ts";

const long = bodyOf(200_000);
const large = bodyOf(5 * 1024 * 1024 + 1);

for (const kind of kinds) {
  t.test(`${kind}: every payload and fault, begun upstream before its end`, async (t) => {
    const matrix = await openMatrix(t, kind);
    const isLarge = kind === "aws" || kind === "rgw-pacific";
    for (const payload of payloads) {
      for (const data of isLarge ? [long, large] : [long]) {
        const seen = await matrix.all("header", payload, data);
        t.strictSame(seen, allRight(seen), `${payload}, ${data.length} bytes`);
      }
    }
  });
}

t.test("with the wrong profile an upload fails or is right, and is never damaged", async (t) => {
  for (const kind of kinds) {
    for (const server of kinds) {
      // And none that verifies the hash of a signed body, whatever the profile says of it.
      const facts = { ...profiles[server], verifiesPayloadHash: false };
      const matrix = await openMatrix(t, kind, facts);
      for (const payload of payloads.slice(0, 7)) {
        for (const fault of ["none", "bad checksum", "long", "no final chunk"] as const) {
          const seen = await matrix.safe(payload, long, fault);
          t.equal(seen, "right", `${kind} over ${server}: ${payload}, ${fault}`);
        }
      }
    }
  }
});
