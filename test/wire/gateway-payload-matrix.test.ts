// The matrix of uploads against every kind of upstream: who signs × how the body is protected × how long
// it is × what is wrong with it × what the cluster can do. Bodies that fit into the held tail; the longer
// ones are in gateway-payload-matrix-long.test.ts.

import t from "tap";
import { crc32Of, sha256 } from "../support/s3-uploads.ts";
import {
  auths,
  type Fault,
  faults,
  outcomeOf,
  type PayloadForm,
  payloads,
  writtenUpload,
} from "../support/upload-matrix.ts";
import { allRight, bodyOf, kinds, openMatrix } from "../support/upload-matrix-run.ts";

const bodies = [0, 1, 8191, 8192, 65_536].map(bodyOf);

for (const kind of kinds) {
  t.test(`${kind}: every signature, payload, length and fault`, async (t) => {
    const matrix = await openMatrix(t, kind);
    let count = 0;
    // Who signs is settled before a cluster is asked: the lesser ways need one kind that takes trailers
    // and one that gets plain bodies.
    const isWhole = kind === "aws" || kind === "rgw-pacific";
    for (const auth of isWhole ? ([...auths, "session"] as const) : auths.slice(0, 2)) {
      for (const payload of payloads) {
        for (const data of bodies) {
          const seen = await matrix.all(auth, payload, data);
          count += Object.keys(seen).length;
          t.strictSame(seen, allRight(seen), `${auth}, ${payload}, ${data.length} bytes`);
        }
      }
    }
    t.ok(count > 400, `${count} uploads`);
  });
}

t.test("what the matrix asks of a form is what its bytes say", async (t) => {
  const one = {
    auth: "header",
    algorithm: "crc32",
    data: Buffer.from("abc"),
    path: "/b/k",
    host: "h",
  } as const;
  const text = (payload: PayloadForm, fault: Fault): string =>
    writtenUpload({ ...one, payload, fault }, false).bytes.toString("latin1");
  t.match(text("hash", "none"), sha256(one.data));
  t.match(text("unsigned-trailer", "none"), `x-amz-checksum-crc32:${crc32Of(one.data)}`);
  t.notMatch(text("unsigned-trailer", "bad checksum"), crc32Of(one.data));
  t.notMatch(text("signed-chunks", "no final chunk"), "\r\n0;");
  t.match(text("signed-chunks", "none"), "\r\n0;");
  t.match(text("signed-trailer", "extra bytes"), /\r\n\r\nGARBAGE$/);
  for (const payload of payloads) {
    for (const fault of faults) {
      const wanted = outcomeOf({ ...one, payload, fault });
      if (wanted !== null && fault !== "none") {
        t.not(text(payload, fault), text(payload, "none"), `${payload}, ${fault}`);
      }
    }
  }
});
