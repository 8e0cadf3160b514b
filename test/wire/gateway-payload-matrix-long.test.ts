// The matrix of uploads, longer than the held tail: they are begun upstream before they are verified, so
// what is wrong with them is found when most of their bytes have left. And what comes of every body where
// the gateway was told wrong things of its cluster.

import t from "tap";
import type { DemoFacts } from "../../proxy/demo/request.ts";
import { profiles } from "../../proxy/placement/profiles.ts";
import { bodyOf, type Fault, uploadRows } from "../support/upload-matrix.ts";
import { kinds, openMatrix } from "../support/upload-matrix-demo.ts";
import { runMatrix } from "../support/upload-matrix-run.ts";

t.setTimeout(600_000);

const long = bodyOf(200_000);
const large = bodyOf(5 * 1024 * 1024 + 1);

const longRows = [
  ...uploadRows({ auths: ["header", "form"], bodies: [long] }),
  ...uploadRows({ operation: "UploadPart", auths: ["header"], bodies: [long] }),
];
const largeRows = uploadRows({ auths: ["header", "form"], bodies: [large] });

for (const kind of kinds) {
  t.test(`${kind}: every payload and fault, begun upstream before its end`, async (t) => {
    t.equal(longRows.length, 340);
    t.equal(largeRows.length, 187);
    const matrix = await openMatrix(t, kind);
    t.strictSame(await runMatrix(matrix, longRows), []);
    if (kind === "aws" || kind === "rgw-pacific") {
      t.strictSame(await runMatrix(matrix, largeRows, { lanes: 2 }), []);
    }
  });
}

/**
 * What a cluster may be in truth: of a kind that a profile tells of, or one that believes every hash, or
 * one that takes framing that it does not know for the body.
 */
const truths: Readonly<Record<string, DemoFacts>> = {
  ...Object.fromEntries(kinds.map((name) => [name, profiles[name]])),
  "an S3 that believes every hash": { ...profiles.aws, believesHashes: true },
  "an RGW that believes every hash": { ...profiles["rgw-reef"], believesHashes: true },
  "an S3 that stores framing": { ...profiles["s3-generic"], storesFraming: true },
  "an RGW that stores framing": { ...profiles["rgw-pacific"], storesFraming: true },
};

const bodyFaults: readonly Fault[] = [
  "none",
  "flipped bit",
  "bad checksum",
  "bad last chunk",
  "short",
  "long",
  "cut",
  "reset",
  "cut before the end",
  "no end",
  "no trailer",
];
const shortFaults: readonly Fault[] = ["none", "bad checksum"];
const wrongRows = [
  ...uploadRows({ auths: ["header", "form"], bodies: [long], faults: bodyFaults }),
  ...uploadRows({ auths: ["header"], bodies: [bodyOf(8192)], faults: shortFaults }),
  ...uploadRows({ operation: "UploadPart", auths: ["header"], bodies: [long], faults: bodyFaults }),
];

t.test("under a wrong profile an upload fails or is right, and is never damaged", async (t) => {
  t.equal(wrongRows.length, 152);
  for (const kind of kinds) {
    for (const [truth, facts] of Object.entries(truths)) {
      const matrix = await openMatrix(t, kind, facts);
      const wrong = await runMatrix(matrix, wrongRows, { safely: true });
      t.strictSame(wrong, [], `${kind} over ${truth}`);
    }
  }
});
