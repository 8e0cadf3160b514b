// Objects through the whole proxy with the AWS SDK, read back from the clusters themselves.

import {
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import { startTestHeadgate } from "../support/headgate.ts";

const oddKeys = [
  "plain",
  "with blank",
  "plus+sign",
  "per%cent",
  "grüße/日本/🚀",
  "a//b",
  "a/../b",
  "./x",
  "/leading",
  "trailing/",
  "a?b#c&d=e",
  "it's(1)!*~",
];

t.test("objects with odd keys are written, read, listed and deleted", async (t) => {
  const headgate = await startTestHeadgate(t);
  const { s3, clusters } = headgate;
  await s3.send(new CreateBucketCommand({ Bucket: "odd" }));
  for (const Key of oddKeys) {
    await s3.send(
      new PutObjectCommand({ Bucket: "odd", Key, Body: `body of ${Key}`, Metadata: { k: "v" } }),
    );
  }
  const stored = Object.values(clusters).flatMap((cluster) =>
    cluster.objects("odd").map(({ key }) => key),
  );
  t.strictSame(stored.toSorted(), oddKeys.toSorted(), "each is on exactly one cluster");
  for (const Key of oddKeys) {
    const got = await s3.send(new GetObjectCommand({ Bucket: "odd", Key }));
    t.equal(await got.Body?.transformToString(), `body of ${Key}`);
    t.strictSame(got.Metadata, { k: "v" });
    const head = await s3.send(new HeadObjectCommand({ Bucket: "odd", Key }));
    t.equal(head.ContentLength, Buffer.byteLength(`body of ${Key}`));
  }
  const list = await s3.send(new ListObjectsV2Command({ Bucket: "odd" }));
  const byBytes = oddKeys.toSorted((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));
  t.strictSame(
    list.Contents?.map(({ Key }) => Key),
    byBytes,
  );
  for (const Key of oddKeys) await s3.send(new DeleteObjectCommand({ Bucket: "odd", Key }));
  t.equal((await s3.send(new ListObjectsV2Command({ Bucket: "odd" }))).KeyCount, 0);
});
