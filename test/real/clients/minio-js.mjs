// The steps of minio-js with its default settings. Its stream of no bytes and unknown length is not
// among them: it completes an upload that has no part, which S3 refuses.

import assert from "node:assert/strict";
import { createReadStream, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { Client, CopyConditions, CopyDestinationOptions, CopySourceOptions } from "minio";
import {
  accessKeyId,
  bucket,
  byBytes,
  end,
  endpoint,
  equalBytes,
  folder,
  keptKey,
  oddKeys,
  secretAccessKey,
  step,
  testBytes,
} from "./steps.mjs";

const url = new URL(endpoint);

function connect(accessKey = accessKeyId, secretKey = secretAccessKey) {
  return new Client({
    endPoint: url.hostname,
    port: Number(url.port),
    useSSL: url.protocol === "https:",
    accessKey,
    secretKey,
  });
}

const mib = 2 ** 20;
const s3 = connect();

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

async function read(key, from = bucket) {
  return Buffer.concat(await collect(await s3.getObject(from, key)));
}

async function refused(sent, code) {
  const error = await sent.then(
    () => assert.fail(`succeeded, wanted ${code}`),
    (error) => error,
  );
  assert.equal(error.code, code, error.message);
  if (code !== "NotFound") assert.ok(error.message, "the error has a message");
}

async function putAndRead(name, bytes, put) {
  const key = keptKey(bytes, name);
  const { etag } = await put(key);
  assert.match(etag, /^[0-9a-f]{32}(-\d+)?$/);
  equalBytes(await read(key), bytes);
}

await step("make bucket", () => s3.makeBucket(bucket));
await step("bucket exists", async () => {
  assert.equal(await s3.bucketExists(bucket), true);
  assert.equal(await s3.bucketExists(`${bucket}-absent`), false);
});
await step("list buckets", async () => {
  assert.ok((await s3.listBuckets()).some(({ name }) => name === bucket));
});
for (const size of [0, 1, 8192, mib]) {
  const bytes = testBytes(size, `put ${size}`);
  await step(`put a buffer of ${size} bytes`, () =>
    putAndRead(`put-${size}`, bytes, (key) => s3.putObject(bucket, key, bytes)),
  );
  await step(`put a stream of ${size} bytes with its length`, () =>
    putAndRead(`sized-${size}`, bytes, (key) =>
      s3.putObject(bucket, key, Readable.from([bytes]), size),
    ),
  );
}
await step("put a string", () =>
  putAndRead("string", Buffer.from("naïve 🗝"), (key) => s3.putObject(bucket, key, "naïve 🗝")),
);
for (const size of [1, 300_000]) {
  const bytes = testBytes(size, `stream ${size}`);
  await step(`put a stream of ${size} bytes without its length`, () =>
    putAndRead(`stream-${size}`, bytes, (key) => s3.putObject(bucket, key, Readable.from([bytes]))),
  );
}
const large = testBytes(70 * mib, "large");
const largeKey = keptKey(large, "large");
await step("put and get a file in parts", async () => {
  const path = join(folder, "large.bin");
  writeFileSync(path, large);
  await s3.fPutObject(bucket, largeKey, path);
  await s3.fGetObject(bucket, largeKey, `${path}.back`);
  equalBytes(readFileSync(`${path}.back`), large);
});
await step("headers and metadata", async () => {
  const bytes = testBytes(20_000, "headers");
  const path = join(folder, "headers.bin");
  writeFileSync(path, bytes);
  const key = keptKey(bytes, "attributes");
  const given = { "content-type": "text/plain", "content-encoding": "gzip", colour: "dark blue" };
  await s3.putObject(bucket, key, createReadStream(path), bytes.length, given);
  const { metaData, size } = await s3.statObject(bucket, key);
  assert.equal(size, bytes.length);
  assert.equal(metaData["content-type"], "text/plain");
  assert.equal(metaData["content-encoding"], "gzip");
  assert.equal(metaData.colour, "dark blue");
});
await step("part of an object", async () => {
  const part = Buffer.concat(await collect(await s3.getPartialObject(bucket, largeKey, 100, 50)));
  equalBytes(part, large.subarray(100, 150));
});

const listed = `${bucket}-lists`;
await step("odd keys", async () => {
  await s3.makeBucket(listed);
  for (const key of oddKeys) {
    await s3.putObject(listed, key, key);
    await s3.copyObject(listed, `copy/${key}`, `/${listed}/${key}`, new CopyConditions());
    for (const one of [key, `copy/${key}`]) {
      assert.equal((await read(one, listed)).toString(), key, one);
    }
  }
});
await step("lists", async () => {
  const keys = [...oddKeys, ...oddKeys.map((key) => `copy/${key}`)].sort(byBytes);
  for (const found of [
    await collect(s3.listObjects(listed, "", true)),
    await collect(s3.listObjectsV2(listed, "", true)),
  ]) {
    assert.deepEqual(
      found.map(({ name }) => name),
      keys,
    );
  }
  const folders = await collect(s3.listObjectsV2(listed, "copy/", false));
  assert.ok(folders.some(({ prefix }) => prefix === "copy/a b/"));
  assert.ok(folders.some(({ name }) => name === "copy/plus+sign"));
});
await step("copy with a condition", async () => {
  const { etag } = await s3.putObject(bucket, "source", "copied");
  const conditions = new CopyConditions();
  conditions.setMatchETag(etag);
  const key = keptKey(Buffer.from("copied"), "copy");
  const copied = await s3.copyObject(bucket, key, `/${bucket}/source`, conditions);
  assert.equal(copied.etag, etag);
  const stale = new CopyConditions();
  stale.setMatchETagExcept(etag);
  await refused(s3.copyObject(bucket, "x", `/${bucket}/source`, stale), "PreconditionFailed");
});
await step("compose an object of two", async () => {
  const bytes = Buffer.concat([large, Buffer.from("copied")]);
  const key = keptKey(bytes, "composed");
  await s3.composeObject(new CopyDestinationOptions({ Bucket: bucket, Object: key }), [
    new CopySourceOptions({ Bucket: bucket, Object: largeKey }),
    new CopySourceOptions({ Bucket: bucket, Object: "source" }),
  ]);
  equalBytes(await read(key), bytes);
});
await step("incomplete uploads", async () => {
  const upload = await s3.initiateNewMultipartUpload(bucket, "unfinished", {});
  const found = await collect(s3.listIncompleteUploads(bucket, "unfinished", true));
  assert.deepEqual(
    found.map(({ key, uploadId }) => [key, uploadId]),
    [["unfinished", upload]],
  );
  await s3.removeIncompleteUpload(bucket, "unfinished");
  assert.equal((await collect(s3.listIncompleteUploads(bucket, "unfinished", true))).length, 0);
});
await step("tagging", async () => {
  await s3.setObjectTagging(bucket, "source", { a: "one", b: "two words" });
  const tags = await s3.getObjectTagging(bucket, "source");
  assert.deepEqual(Object.fromEntries(tags.map(({ Key, Value }) => [Key, Value])), {
    a: "one",
    b: "two words",
  });
  await s3.removeObjectTagging(bucket, "source");
});
await step("bucket policy", async () => {
  const Statement = [
    {
      Effect: "Allow",
      Principal: { AWS: ["*"] },
      Action: ["s3:GetObject"],
      Resource: [`arn:aws:s3:::${bucket}/public/*`],
    },
  ];
  await s3.setBucketPolicy(bucket, JSON.stringify({ Version: "2012-10-17", Statement }));
  assert.match(await s3.getBucketPolicy(bucket), /public/);
  await s3.setBucketPolicy(bucket, "");
});
await step("versions", async () => {
  const versioned = `${bucket}-versions`;
  await s3.makeBucket(versioned);
  await s3.setBucketVersioning(versioned, { Status: "Enabled" });
  assert.equal((await s3.getBucketVersioning(versioned)).Status, "Enabled");
  const { versionId } = await s3.putObject(versioned, "v", "1");
  await s3.putObject(versioned, "v", "2");
  const first = await s3.getObject(versioned, "v", { versionId });
  assert.equal(Buffer.concat(await collect(first)).toString(), "1");
  const found = await collect(s3.listObjects(versioned, "", true, { IncludeVersion: true }));
  assert.equal(found.length, 2);
  await s3.removeObjects(
    versioned,
    found.map(({ name, versionId }) => ({ name, versionId })),
  );
  await s3.removeBucket(versioned);
});
await step("presigned GET and PUT", async () => {
  const bytes = testBytes(70_000, "presigned");
  const key = keptKey(bytes, "presigned");
  const target = await s3.presignedPutObject(bucket, key);
  assert.equal((await fetch(target, { method: "PUT", body: bytes })).status, 200);
  const answer = await fetch(await s3.presignedGetObject(bucket, key));
  assert.equal(answer.status, 200);
  equalBytes(Buffer.from(await answer.arrayBuffer()), bytes);
});
await step("presigned POST", async () => {
  const bytes = testBytes(70_000, "posted");
  const key = keptKey(bytes, "posted");
  const policy = s3.newPostPolicy();
  policy.setBucket(bucket);
  policy.setKey(key);
  policy.setExpires(new Date(Date.now() + 60_000));
  policy.setContentLengthRange(1, 80_000);
  const { postURL, formData } = await s3.presignedPostPolicy(policy);
  const form = new FormData();
  for (const [name, value] of Object.entries(formData)) form.append(name, value);
  form.append("file", new Blob([bytes]), "x");
  const answer = await fetch(postURL, { method: "POST", body: form });
  assert.equal(answer.status, 204, await answer.text());
  equalBytes(await read(key), bytes);
});
await step("errors", async () => {
  await refused(s3.getObject(bucket, "absent"), "NoSuchKey");
  await refused(s3.statObject(bucket, "absent"), "NotFound");
  await refused(s3.removeBucket(bucket), "BucketNotEmpty");
  await refused(connect("UNKNOWNACCESSKEY0001").listBuckets(), "InvalidAccessKeyId");
  await refused(connect(accessKeyId, "wrong").listBuckets(), "SignatureDoesNotMatch");
});
await step("deletes", async () => {
  await s3.removeObject(listed, "copy/plus+sign");
  const keys = [...oddKeys, ...oddKeys.map((key) => `copy/${key}`)];
  await s3.removeObjects(listed, keys);
  assert.equal((await collect(s3.listObjects(listed, "", true))).length, 0);
  await s3.removeBucket(listed);
});
end();
