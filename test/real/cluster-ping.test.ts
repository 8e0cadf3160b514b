// The probe on real radosgw daemons: it finds what they are, and they live on. Profiles that differ in
// nothing a probe sees are named together. And an RGW that is configured as something else: what it would
// ignore is refused, what would end it is done otherwise.

import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListBucketsCommand,
  PutObjectCommand,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import { withLab } from "./support/lab.ts";
import { profileOf } from "./support/services.ts";

const found = {
  16: ["rgw-pacific", "rgw-quincy", "rgw-reef-early"],
  18: ["rgw-reef"],
} as const;

withLab(t, [], async (lab, test) => {
  const { generation } = lab.rgw;
  const headgate = await lab.headgate({
    name: "ping",
    clusters: lab.clusters({ a: 1, b: 1 }),
    prefix: "/headgate-ping/",
  });

  for (const id of ["a", "b"] as const) {
    test(`the probe finds what cluster ${id} is and leaves nothing behind`, async (t) => {
      const { body } = await headgate.admin("POST", `/clusters/${id}/ping?probe=true`, {});
      t.match(body, { reachable: true, status: 200, code: null });
      t.match(body, { probe: { configured_profile: profileOf[generation], differs: [] } });
      t.match(body, { probe: { best_profiles: found[generation] } });
      const { Buckets = [] } = await lab.direct(id).send(new ListBucketsCommand({}));
      t.notOk(Buckets.some(({ Name }) => Name?.startsWith("headgate-probe-")));
    });
  }

  test("an RGW under the profile of AWS ignores no condition and lives on", async (t) => {
    const wrong = await lab.headgate({
      name: "wrong",
      clusters: lab.clusters({ a: 1, b: 0 }).map((one) => ({ ...one, profile: "aws" })),
      prefix: "/headgate-wrong/",
    });
    const s3 = lab.client(wrong);
    const Bucket = "wrong-profile";
    const to = { Bucket, Key: "k" };
    await s3.send(new CreateBucketCommand({ Bucket }));
    const { ETag } = await s3.send(new PutObjectCommand({ ...to, Body: "now" }));
    await s3.send(new PutObjectCommand({ Bucket, Key: "100%", Body: "source" }));
    const { UploadId } = await s3.send(new CreateMultipartUploadCommand(to));
    const part = { ...to, UploadId, PartNumber: 1, CopySource: `${Bucket}/100%25` };
    const { CopyPartResult } = await s3.send(new UploadPartCopyCommand(part));
    const Parts = [{ PartNumber: 1, ETag: CopyPartResult?.ETag }];
    const complete = { ...to, UploadId, MultipartUpload: { Parts } };
    const refused = { name: "NotImplemented", $metadata: { httpStatusCode: 501 } };
    const other = '"other"';
    const CopySource = `${Bucket}/100%25`;
    await t.rejects(s3.send(new DeleteObjectCommand({ ...to, IfMatch: other })), refused);
    const completing = new CompleteMultipartUploadCommand({ ...complete, IfNoneMatch: "*" });
    await t.rejects(s3.send(completing), refused);
    const copying = new CopyObjectCommand({ ...to, CopySource, IfNoneMatch: "*" });
    await t.rejects(s3.send(copying), refused);
    const failed = { name: "PreconditionFailed", $metadata: { httpStatusCode: 412 } };
    for (const condition of [{ IfNoneMatch: "*" }, { IfMatch: other }]) {
      await t.rejects(s3.send(new PutObjectCommand({ ...to, Body: "then", ...condition })), failed);
    }
    const judged = new CopyObjectCommand({ ...to, CopySource, CopySourceIfMatch: other });
    await t.rejects(s3.send(judged), failed);
    const left = await lab.direct("a").send(new GetObjectCommand(to));
    t.equal(await left.Body?.transformToString(), "now");
    await s3.send(new PutObjectCommand({ ...to, Body: "then", IfMatch: ETag }));
    t.match((await wrong.admin("POST", "/clusters/a/ping", {})).body, { seen_as: "rgw" });
  });
});
