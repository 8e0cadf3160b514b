// What an RGW misreads or leaves out, answered by Headgate in front of it as S3 answers it: attributes,
// parts, conditions of reads and writes, ETags, 304, errors; then each repair and shield with inputs that
// were generated. Where it says "bare", the RGW itself is asked, so that a release that has learned it is
// noticed.

import {
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectAttributesCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListPartsCommand,
  PutObjectCommand,
  type S3Client,
  S3ServiceException,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import { repairProperties } from "./support/generated-repairs.ts";
import { shieldProperties } from "./support/generated-shields.ts";
import { uploadProperties } from "./support/generated-uploads.ts";
import { type Lab, type RealTest, withLab } from "./support/lab.ts";
import { testBytes } from "./support/s3.ts";

const partBytes = 5 * 2 ** 20;

/** Code, status and text of a command's failure; `null` when it succeeds. */
async function failure(sent: Promise<unknown>): Promise<{
  readonly status: number | undefined;
  readonly name: string;
  readonly message: string;
} | null> {
  try {
    await sent;
    return null;
  } catch (error) {
    if (!(error instanceof S3ServiceException)) throw error;
    const { name, message, $metadata } = error;
    return { status: $metadata.httpStatusCode, name, message };
  }
}

/** An upload with its parts, not yet completed. */
async function parts(
  client: S3Client,
  object: { readonly Bucket: string; readonly Key: string },
  sizes: readonly number[],
): Promise<{ readonly UploadId: string | undefined; readonly Parts: CompletedPart[] }> {
  const { UploadId } = await client.send(new CreateMultipartUploadCommand(object));
  const Parts: CompletedPart[] = [];
  for (const [at, size] of sizes.entries()) {
    const PartNumber = at + 1;
    const part = { ...object, UploadId, PartNumber, Body: testBytes(size, `part-${at}`) };
    const { ETag } = await client.send(new UploadPartCommand(part));
    Parts.push({ PartNumber, ETag });
  }
  return { UploadId, Parts };
}

async function testRepairs(lab: Lab, test: RealTest): Promise<void> {
  const clusters = lab.clusters({ a: 1, b: 0 }).slice(0, 1);
  const headgate = await lab.headgate({
    name: "repairs",
    clusters,
    prefix: "/headgate-repairs/",
  });
  const client = lab.client(headgate);
  const Bucket = "repairs";
  await client.send(new CreateBucketCommand({ Bucket }));
  const put = async (Key: string, Body: string) =>
    await client.send(new PutObjectCommand({ Bucket, Key, Body, CacheControl: "max-age=7" }));
  const read = async (Key: string, given: object = {}) => {
    const { Body, ...head } = await client.send(new GetObjectCommand({ Bucket, Key, ...given }));
    return { ...head, text: await Body?.transformToString() };
  };

  test("attributes, and parts of objects put in one or several", async (t) => {
    const several = { Bucket, Key: "several" };
    const upload = await parts(client, several, [partBytes, 1000]);
    const done = await client.send(
      new CompleteMultipartUploadCommand({
        ...several,
        UploadId: upload.UploadId,
        MultipartUpload: { Parts: upload.Parts },
      }),
    );
    t.match(done.ETag, /^"[0-9a-f]{32}-2"$/);
    t.equal(done.Location, `${headgate.url}/${Bucket}/several`);
    const ObjectAttributes = ["ETag", "ObjectSize", "ObjectParts", "StorageClass"] as const;
    const attributes = async (Key: string) =>
      await client.send(
        new GetObjectAttributesCommand({ Bucket, Key, ObjectAttributes: [...ObjectAttributes] }),
      );
    t.match(await attributes("several"), {
      ETag: done.ETag?.replaceAll('"', ""),
      ObjectSize: partBytes + 1000,
      ObjectParts: { TotalPartsCount: 2 },
      StorageClass: "STANDARD",
    });
    const { ETag } = await put("single", "0123456789");
    const single = await attributes("single");
    t.match(single, { ETag: ETag?.replaceAll('"', ""), ObjectSize: 10 });
    t.equal(single.ObjectParts, undefined);
    t.match(await failure(attributes("none")), { status: 404, name: "NoSuchKey" });

    const whole = await read("single", { PartNumber: 1 });
    t.match(whole, { text: "0123456789", ContentRange: "bytes 0-9/10" });
    t.match(await failure(read("single", { PartNumber: 2 })), { status: 416 });
    t.match(await failure(read("several", { PartNumber: 3 })), { status: 416 });
    const second = await read("several", { PartNumber: 2 });
    t.equal(second.text, testBytes(1000, "part-1").toString());
    t.match(second, {
      PartsCount: 2,
      ContentRange: `bytes ${partBytes}-${partBytes + 999}/${partBytes + 1000}`,
    });
    const first = await client.send(new HeadObjectCommand({ ...several, PartNumber: 1 }));
    t.match(first, { ContentLength: partBytes, PartsCount: 2 });
    const bare = new HeadObjectCommand({ Bucket, Key: "several", PartNumber: 1 });
    const told = await lab.direct("a").send(bare);
    t.equal(told.ContentLength, partBytes + 1000, "bare: the whole object for a part");
  });

  test("conditions of reads", async (t) => {
    const { ETag = "" } = await put("read", "0123456789");
    const { LastModified } = await read("read");
    for (const IfNoneMatch of [ETag, ETag.replaceAll('"', ""), `W/${ETag}`, `"a", ${ETag}`, "*"]) {
      const error = await client
        .send(new GetObjectCommand({ Bucket, Key: "read", IfNoneMatch }))
        .catch((caught: unknown) => caught);
      t.match(error, {
        $metadata: { httpStatusCode: 304 },
        $response: { headers: { etag: ETag } },
      });
    }
    const since = new GetObjectCommand({ Bucket, Key: "read", IfModifiedSince: LastModified });
    const unchanged = await client.send(since).catch((caught: unknown) => caught);
    const headers = { etag: ETag, "cache-control": "max-age=7" };
    t.match(unchanged, { $metadata: { httpStatusCode: 304 }, $response: { headers } });
    for (const IfMatch of [ETag, `"a", ${ETag}`, "*"]) {
      t.equal((await read("read", { IfMatch })).text, "0123456789", IfMatch);
    }
    t.match(await failure(read("read", { IfMatch: '"a", "b"' })), { status: 412 });
    t.match(await failure(read("read", { Range: "bytes=-0" })), { status: 416 });
    t.equal((await read("read", { Range: "bytes=0-1,4-5" })).text, "0123456789");
    t.equal((await read("read", { Range: "bytes=-2" })).text, "89");
    const bare = await lab
      .direct("a")
      .send(new GetObjectCommand({ Bucket, Key: "read", IfNoneMatch: `"a", ${ETag}` }));
    t.equal(bare.$metadata.httpStatusCode, 200, "bare: a list matches nothing");
    await bare.Body?.transformToString();
  });

  test("conditions of writes", async (t) => {
    const { ETag = "" } = await put("write", "first");
    const write = async (Key: string, given: object) =>
      await failure(client.send(new PutObjectCommand({ Bucket, Key, Body: "then", ...given })));
    t.match(await write("write", { IfNoneMatch: "*" }), {
      status: 412,
      name: "PreconditionFailed",
    });
    t.match(await write("write", { IfMatch: '"other"' }), { status: 412 });
    t.match(await write("absent", { IfMatch: ETag }), { status: 404, name: "NoSuchKey" });
    t.match(await write("write", { IfMatch: `"a", ${ETag}` }), { status: 501 });
    t.match(await write("write", { IfNoneMatch: `W/${ETag}` }), { status: 412 });
    t.equal((await read("write")).text, "first");
    t.equal(await write("write", { IfMatch: ETag }), null);
    t.equal((await read("write")).text, "then");
    const refused = new DeleteObjectCommand({ Bucket, Key: "write", IfMatch: '"other"' });
    t.match(await failure(client.send(refused)), { status: 501, name: "NotImplemented" });
    t.equal((await read("write")).text, "then");
    const racing = [1, 2, 3, 4].map((at) =>
      failure(
        client.send(new PutObjectCommand({ Bucket, Key: "race", Body: `${at}`, IfNoneMatch: "*" })),
      ),
    );
    const won = (await Promise.all(racing)).filter((lost) => lost === null);
    t.equal(won.length, 1, "one of several writers wins");
  });

  test("an upload that is gone, and errors with a text", async (t) => {
    const object = { Bucket, Key: "gone" };
    const { UploadId, Parts } = await parts(client, object, [1000]);
    const complete = new CompleteMultipartUploadCommand({
      ...object,
      UploadId,
      MultipartUpload: { Parts },
    });
    const direct = lab.direct("a");
    t.equal((await client.send(complete)).$metadata.httpStatusCode, 200);
    t.equal(
      (await client.send(complete)).$metadata.httpStatusCode,
      200,
      "a repeated one is told so",
    );
    await put("gone", "something else");
    t.match(await failure(client.send(complete)), { status: 404, name: "NoSuchUpload" });
    t.equal((await read("gone")).text, "something else");
    await direct.send(new DeleteObjectCommand(object));
    t.match(await failure(client.send(complete)), { status: 404, name: "NoSuchUpload" });
    const list = new ListPartsCommand({ ...object, UploadId });
    t.match(await failure(client.send(list)), { status: 404, name: "NoSuchUpload" });
    t.match(await failure(read("none")), { name: "NoSuchKey", message: "The key does not exist" });
    const missing = new GetObjectCommand({ Bucket: "no-such-bucket-here", Key: "k" });
    t.match(await failure(client.send(missing)), { name: "NoSuchBucket", message: /\w+/ });
  });

  const scene = { lab, test, headgate, client, direct: lab.direct("a"), bucket: Bucket };
  uploadProperties(scene);
  repairProperties(scene);
  shieldProperties(scene);
  if (lab.rgw.generation !== 16) return;
  const misled = await lab.headgate({
    name: "repairs-misled",
    clusters: clusters.map((cluster) => ({ ...cluster, profile: "aws" })),
    prefix: "/headgate-repairs-misled/",
  });
  const named: RealTest = (name, run) => test(`${name}, under the profile aws`, run);
  const bucket = "repairs-misled";
  const misledClient = lab.client(misled);
  await misledClient.send(new CreateBucketCommand({ Bucket: bucket }));
  repairProperties({ ...scene, test: named, headgate: misled, client: misledClient, bucket });
}

for (const generation of [16, 18] as const) withLab(t, [], testRepairs, { generation });
