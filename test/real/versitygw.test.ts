// Uploads in every form and with every fault through Headgate over versitygw, a server that verifies
// trailers and checksums itself: what Headgate hands on is right to a judge who is not of its making, and
// checksums are kept with the objects.

import {
  CreateBucketCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  NoSuchKey,
  type S3Client,
} from "@aws-sdk/client-s3";
import t from "tap";
import { profileFacts } from "../../proxy/placement/profiles.ts";
import { clusterKeys, startTestHeadgate } from "../support/headgate.ts";
import { requireCommands } from "../support/requires.ts";
import { payloads } from "../support/upload-matrix.ts";
import { allRight, bodyOf, bucket, Matrix, type MatrixOver } from "../support/upload-matrix-run.ts";
import { s3Client } from "./support/s3.ts";
import { startVersitygw, versityInstallLine } from "./support/versitygw.ts";

const requirement = requireCommands(t, ["versitygw"], versityInstallLine);

/** What versitygw does otherwise than AWS; found by `cluster ping --probe`. */
const overrides =
  "keeps_aws_chunked: true, reads_conditions_fully: false, honours_conditional_copy: false";

function objectsOf(direct: S3Client): MatrixOver["objects"] {
  return async (key) => {
    const list = await direct.send(new ListObjectsV2Command({ Bucket: bucket }));
    const count = list.KeyCount ?? 0;
    try {
      const answer = await direct.send(
        new GetObjectCommand({ Bucket: bucket, Key: key, ChecksumMode: "ENABLED" }),
      );
      const fields = new Map<string, string>();
      if (answer.ContentEncoding !== undefined) {
        fields.set("content-encoding", answer.ContentEncoding);
      }
      if (answer.ChecksumCRC32 !== undefined) {
        fields.set("x-amz-checksum-crc32", answer.ChecksumCRC32);
      }
      const bytes = (await answer.Body?.transformToByteArray()) ?? new Uint8Array();
      return { count, found: { bytes, fields } };
    } catch (caught) {
      if (caught instanceof NoSuchKey) return { count, found: null };
      throw caught;
    }
  };
}

t.test("versitygw", requirement, async (t) => {
  const versitygw = await startVersitygw(clusterKeys);
  t.teardown(() => versitygw.stop());
  const direct = s3Client(versitygw.url, clusterKeys);
  t.teardown(() => direct.destroy());
  const headgate = await startTestHeadgate(t, {
    clusters: { v: 1 },
    servers: {},
    endpoints: { v: versitygw.url },
    clusterSettings: `profile: aws
    overrides: {${overrides}}`,
  });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));

  await t.test("every payload and fault comes out as it must", async (t) => {
    const facts = { ...profileFacts("aws"), keepsAwsChunked: true };
    const matrix = new Matrix(headgate, { facts, objects: objectsOf(direct) });
    for (const payload of payloads) {
      for (const size of [0, 8192, 65_536, 200_000]) {
        const seen = await matrix.all("header", payload, bodyOf(size));
        t.strictSame(seen, allRight(seen), `${payload}, ${size} bytes`);
      }
    }
  });

  await t.test("the probe finds it to be like AWS, but for what is overridden", async (t) => {
    const { body } = await headgate.admin("POST", "/clusters/v/ping?probe=true");
    t.match(body, { reachable: true, status: 200, probe: { best_profiles: ["aws"] } });
    t.match(body, { probe: { configured_profile: "aws", differs: [] } });
  });
});
