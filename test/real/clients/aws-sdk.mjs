// The steps of AWS SDK v3 with lib-storage and its default settings.

import assert from "node:assert/strict";
import { createReadStream, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetBucketAclCommand,
  GetBucketLocationCommand,
  GetBucketVersioningCommand,
  GetObjectAclCommand,
  GetObjectAttributesCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListBucketsCommand,
  ListMultipartUploadsCommand,
  ListObjectsCommand,
  ListObjectsV2Command,
  ListObjectVersionsCommand,
  ListPartsCommand,
  PutBucketVersioningCommand,
  PutObjectAclCommand,
  PutObjectCommand,
  PutObjectTaggingCommand,
  S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
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

function connect(credentials = { accessKeyId, secretAccessKey }) {
  return new S3Client({ endpoint, region: "us-east-1", credentials });
}

const mib = 2 ** 20;
const s3 = connect();
const send = (command) => s3.send(command);

async function read(key, more = {}) {
  const { Body } = await send(new GetObjectCommand({ Bucket: bucket, Key: key, ...more }));
  return Buffer.from(await Body.transformToByteArray());
}

/** The command fails with this status (and code), and says something. */
async function refused(sent, status, code) {
  const error = await sent.then(
    () => assert.fail(`succeeded, wanted ${status} ${code ?? ""}`),
    (error) => error,
  );
  if (error.$metadata === undefined) throw error;
  assert.equal(error.$metadata.httpStatusCode, status, error.message);
  if (code !== undefined) assert.equal(error.name, code);
  // What the SDK says in place of a message that is not there.
  if (status !== 304 && code !== undefined) assert.notEqual(error.message, "UnknownError");
  return error;
}

function put(key, body, more = {}) {
  return send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: body, ...more }));
}

async function putAndRead(name, bytes, body, more = {}) {
  const key = keptKey(bytes, name);
  await put(key, body, more);
  const answer = await send(new GetObjectCommand({ Bucket: bucket, Key: key }));
  equalBytes(Buffer.from(await answer.Body.transformToByteArray()), bytes);
  assert.equal(answer.ContentEncoding ?? "", "", "Content-Encoding");
}

function fileOf(bytes, name) {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

/** Bytes in pieces, as from a socket. */
function* pieces(bytes, lengthBytes = 10_000) {
  for (let at = 0; at < bytes.length; at += lengthBytes) yield bytes.subarray(at, at + lengthBytes);
}

await step("create bucket", () => send(new CreateBucketCommand({ Bucket: bucket })));
await step("head bucket", () => send(new HeadBucketCommand({ Bucket: bucket })));
await step("list buckets", async () => {
  const { Buckets } = await send(new ListBucketsCommand({}));
  assert.ok(Buckets.some(({ Name }) => Name === bucket));
});
await step("bucket location", () => send(new GetBucketLocationCommand({ Bucket: bucket })));

for (const size of [0, 1, 8192, mib]) {
  const bytes = testBytes(size, `put ${size}`);
  await step(`put a buffer of ${size} bytes`, () => putAndRead(`put-${size}`, bytes, bytes));
}
await step("put a string", () => putAndRead("string", Buffer.from("naïve 🗝"), "naïve 🗝"));
for (const size of [0, 1, 300_000]) {
  const bytes = testBytes(size, `stream ${size}`);
  await step(`put a file stream of ${size} bytes`, () => {
    const body = createReadStream(fileOf(bytes, `stream-${size}`));
    return putAndRead(`file-stream-${size}`, bytes, body);
  });
  await step(`put a stream of ${size} bytes with its length`, () => {
    const body = Readable.from(pieces(bytes));
    return putAndRead(`stream-${size}`, bytes, body, { ContentLength: size });
  });
}
for (const ChecksumAlgorithm of ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"]) {
  const bytes = testBytes(100_001, ChecksumAlgorithm);
  await step(`checksum ${ChecksumAlgorithm} of a buffer`, () =>
    putAndRead(`buffer-${ChecksumAlgorithm}`, bytes, bytes, { ChecksumAlgorithm }),
  );
  await step(`checksum ${ChecksumAlgorithm} of a stream`, () => {
    const body = createReadStream(fileOf(bytes, ChecksumAlgorithm));
    return putAndRead(`stream-${ChecksumAlgorithm}`, bytes, body, { ChecksumAlgorithm });
  });
}
await step("a wrong checksum stores nothing", async () => {
  const wrong = { ChecksumSHA256: "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=" };
  await refused(put("wrong", Buffer.from("right"), wrong), 400, "BadDigest");
  await refused(send(new HeadObjectCommand({ Bucket: bucket, Key: "wrong" })), 404);
});
await step("headers and metadata", async () => {
  const given = {
    ContentType: "text/plain; charset=utf-8",
    ContentEncoding: "gzip",
    CacheControl: "max-age=60",
    ContentDisposition: 'attachment; filename="a b.txt"',
    Metadata: { colour: "dark blue", n: "1" },
  };
  const bytes = testBytes(20_000, "headers");
  const key = keptKey(bytes, "attributes");
  await put(key, createReadStream(fileOf(bytes, "headers")), given);
  const head = await send(new HeadObjectCommand({ Bucket: bucket, Key: key }));
  for (const [name, value] of Object.entries(given)) assert.deepEqual(head[name], value, name);
});

await step("ranges", async () => {
  const bytes = testBytes(10_000, "ranges");
  await put("ranges", bytes);
  equalBytes(await read("ranges", { Range: "bytes=100-199" }), bytes.subarray(100, 200));
  equalBytes(await read("ranges", { Range: "bytes=-7" }), bytes.subarray(-7));
  await refused(read("ranges", { Range: "bytes=10000-" }), 416, "InvalidRange");
});
await step("conditional reads", async () => {
  const { ETag } = await put("conditions", "one");
  await read("conditions", { IfMatch: ETag });
  await refused(read("conditions", { IfMatch: '"0123456789abcdef0123456789abcdef"' }), 412);
  await refused(read("conditions", { IfNoneMatch: ETag }), 304);
});
await step("conditional put", async () => {
  await put("once", "first", { IfNoneMatch: "*" });
  await refused(put("once", "second", { IfNoneMatch: "*" }), 412, "PreconditionFailed");
  const { ETag } = await send(new HeadObjectCommand({ Bucket: bucket, Key: "once" }));
  await put("once", "third", { IfMatch: ETag });
  await refused(put("once", "fourth", { IfMatch: ETag }), 412, "PreconditionFailed");
  assert.equal((await read("once")).toString(), "third");
});
await step("conditional delete", async () => {
  await put("stays", "here");
  const IfMatch = '"0123456789abcdef0123456789abcdef"';
  const error = await send(new DeleteObjectCommand({ Bucket: bucket, Key: "stays", IfMatch })).then(
    () => assert.fail("deleted although the ETag differs"),
    (error) => error,
  );
  assert.ok([412, 501].includes(error.$metadata?.httpStatusCode), error.message);
  assert.equal((await read("stays")).toString(), "here");
});

const parts = [testBytes(5 * mib, "part one"), testBytes(70_001, "part two")];
const large = keptKey(Buffer.concat(parts), "multipart");
await step("multipart upload", async () => {
  const target = { Bucket: bucket, Key: large };
  const { UploadId } = await send(new CreateMultipartUploadCommand(target));
  const done = [];
  for (const [index, bytes] of parts.entries()) {
    const PartNumber = index + 1;
    // The second part as a stream.
    const Body = index === 0 ? bytes : createReadStream(fileOf(bytes, "part"));
    const { ETag } = await send(new UploadPartCommand({ ...target, UploadId, PartNumber, Body }));
    done.push({ PartNumber, ETag });
  }
  const { Parts } = await send(new ListPartsCommand({ ...target, UploadId }));
  assert.deepEqual(
    Parts.map(({ Size }) => Size),
    parts.map(({ length }) => length),
  );
  const { Uploads } = await send(new ListMultipartUploadsCommand({ Bucket: bucket }));
  assert.ok(Uploads.some((upload) => upload.UploadId === UploadId));
  const MultipartUpload = { Parts: done };
  const answer = await send(
    new CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload }),
  );
  const head = await send(new HeadObjectCommand(target));
  assert.equal(answer.ETag, head.ETag);
  assert.match(head.ETag, /^"[0-9a-f]{32}-2"$/);
  equalBytes(await read(large), Buffer.concat(parts));
});
await step("read one part", async () => {
  equalBytes(await read(large, { PartNumber: 2 }), parts[1]);
  const target = { Bucket: bucket, Key: large };
  const { PartsCount } = await send(new HeadObjectCommand({ ...target, PartNumber: 1 }));
  assert.equal(PartsCount, 2);
});
await step("object attributes", async () => {
  const answer = await send(
    new GetObjectAttributesCommand({
      Bucket: bucket,
      Key: large,
      ObjectAttributes: ["ETag", "ObjectSize", "ObjectParts"],
    }),
  );
  assert.equal(answer.ObjectSize, 5 * mib + 70_001);
  assert.equal(answer.ObjectParts.TotalPartsCount, 2);
});
await step("abort an upload", async () => {
  const target = { Bucket: bucket, Key: "aborted" };
  const { UploadId } = await send(new CreateMultipartUploadCommand(target));
  await send(new AbortMultipartUploadCommand({ ...target, UploadId }));
  await refused(send(new ListPartsCommand({ ...target, UploadId })), 404, "NoSuchUpload");
});

for (const size of [0, 5000, 12 * mib + 5]) {
  const bytes = testBytes(size, `lib-storage ${size}`);
  for (const kind of ["buffer", "stream"]) {
    await step(`Upload of a ${kind} of ${size} bytes`, async () => {
      const key = keptKey(bytes, `upload-${kind}-${size}`);
      const Body = kind === "buffer" ? bytes : Readable.from(pieces(bytes, 100_000));
      const answer = await new Upload({
        client: s3,
        params: { Bucket: bucket, Key: key, Body },
      }).done();
      assert.match(answer.ETag, /^"[0-9a-f-]+"$/);
      equalBytes(await read(key), bytes);
    });
  }
}
await step("Upload with SHA256", async () => {
  const bytes = testBytes(6 * mib, "upload sha256");
  const key = keptKey(bytes, "upload-sha256");
  const params = { Bucket: bucket, Key: key, Body: bytes, ChecksumAlgorithm: "SHA256" };
  await new Upload({ client: s3, params }).done();
  equalBytes(await read(key), bytes);
});

const listed = `${bucket}-lists`;
await step("odd keys", async () => {
  await send(new CreateBucketCommand({ Bucket: listed }));
  for (const key of oddKeys) {
    await put(key, key, { Bucket: listed });
    const CopySource = encodeURIComponent(`${listed}/${key}`);
    await send(new CopyObjectCommand({ Bucket: listed, Key: `copy/${key}`, CopySource }));
    for (const one of [key, `copy/${key}`]) {
      assert.equal((await read(one, { Bucket: listed })).toString(), key, one);
    }
  }
});
await step("lists", async () => {
  const keys = [...oddKeys, ...oddKeys.map((key) => `copy/${key}`)].sort(byBytes);
  const found = [];
  let ContinuationToken;
  do {
    const page = await send(
      new ListObjectsV2Command({ Bucket: listed, MaxKeys: 4, ContinuationToken }),
    );
    found.push(...page.Contents.map(({ Key }) => Key));
    ContinuationToken = page.NextContinuationToken;
  } while (ContinuationToken !== undefined);
  assert.deepEqual(found, keys);
  const v1 = await send(new ListObjectsCommand({ Bucket: listed, Delimiter: "/" }));
  const prefixes = keys.filter((key) => key.includes("/")).map((key) => `${key.split("/")[0]}/`);
  assert.deepEqual(
    v1.CommonPrefixes.map(({ Prefix }) => Prefix),
    [...new Set(prefixes)].sort(byBytes),
  );
  const one = await send(new ListObjectsV2Command({ Bucket: listed, Prefix: "copy/naïve/" }));
  assert.deepEqual(
    one.Contents.map(({ Key }) => Key),
    ["copy/naïve/日本語/🗝"],
  );
});

await step("copy", async () => {
  const bytes = Buffer.from("copied");
  const { ETag } = await put("source", bytes, { Metadata: { a: "1" } });
  const CopySource = `${bucket}/source`;
  const target = { Bucket: bucket, Key: keptKey(bytes, "copy"), CopySource };
  const { CopyObjectResult } = await send(new CopyObjectCommand(target));
  assert.equal(CopyObjectResult.ETag, ETag);
  const absent = { ...target, CopySource: `${bucket}/absent` };
  await refused(send(new CopyObjectCommand(absent)), 404, "NoSuchKey");
});
await step("copy in parts", async () => {
  const target = { Bucket: bucket, Key: keptKey(parts[1], "copied parts") };
  const { UploadId } = await send(new CreateMultipartUploadCommand(target));
  const { CopyPartResult } = await send(
    new UploadPartCopyCommand({
      ...target,
      UploadId,
      PartNumber: 1,
      CopySource: `${bucket}/${large}`,
      CopySourceRange: `bytes=${5 * mib}-${5 * mib + 70_000}`,
    }),
  );
  const MultipartUpload = { Parts: [{ PartNumber: 1, ETag: CopyPartResult.ETag }] };
  await send(new CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload }));
  equalBytes(await read(target.Key), parts[1]);
});

await step("tagging", async () => {
  const target = { Bucket: bucket, Key: "tagged" };
  await put("tagged", "t", { Tagging: "a=1" });
  const TagSet = [{ Key: "c", Value: "3" }];
  await send(new PutObjectTaggingCommand({ ...target, Tagging: { TagSet } }));
  assert.deepEqual((await send(new GetObjectTaggingCommand(target))).TagSet, TagSet);
});
await step("ACL", async () => {
  const target = { Bucket: bucket, Key: "acl" };
  await put("acl", "a", { ACL: "public-read" });
  assert.equal((await send(new GetObjectAclCommand(target))).Grants.length, 2);
  await send(new PutObjectAclCommand({ ...target, ACL: "private" }));
  assert.equal((await send(new GetObjectAclCommand(target))).Grants.length, 1);
  assert.equal((await send(new GetBucketAclCommand({ Bucket: bucket }))).Grants.length, 1);
});
await step("versions", async () => {
  const Bucket = `${bucket}-versions`;
  await send(new CreateBucketCommand({ Bucket }));
  const VersioningConfiguration = { Status: "Enabled" };
  await send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration }));
  assert.equal((await send(new GetBucketVersioningCommand({ Bucket }))).Status, "Enabled");
  const { VersionId } = await put("v", "1", { Bucket });
  await put("v", "2", { Bucket });
  assert.equal((await read("v", { Bucket, VersionId })).toString(), "1");
  const { Versions } = await send(new ListObjectVersionsCommand({ Bucket }));
  assert.equal(Versions.length, 2);
  const Objects = Versions.map(({ Key, VersionId }) => ({ Key, VersionId }));
  await send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
  await send(new DeleteBucketCommand({ Bucket }));
});
await step("errors", async () => {
  await refused(read("absent"), 404, "NoSuchKey");
  await refused(read("absent", { Bucket: "no-such-bucket-here" }), 404, "NoSuchBucket");
  await refused(send(new DeleteBucketCommand({ Bucket: bucket })), 409, "BucketNotEmpty");
  const unknown = connect({ accessKeyId: "UNKNOWNACCESSKEY0001", secretAccessKey });
  await refused(unknown.send(new ListBucketsCommand({})), 403, "InvalidAccessKeyId");
  const wrong = connect({ accessKeyId, secretAccessKey: "wrong" });
  await refused(wrong.send(new ListBucketsCommand({})), 403, "SignatureDoesNotMatch");
});
await step("deletes", async () => {
  await send(new DeleteObjectCommand({ Bucket: listed, Key: "copy/plus+sign" }));
  const keys = [...oddKeys, ...oddKeys.map((key) => `copy/${key}`)];
  const Delete = { Objects: keys.map((Key) => ({ Key })) };
  const { Deleted, Errors } = await send(new DeleteObjectsCommand({ Bucket: listed, Delete }));
  assert.deepEqual(Deleted.map(({ Key }) => Key).sort(byBytes), keys.sort(byBytes));
  assert.equal(Errors, undefined);
  await send(new DeleteBucketCommand({ Bucket: listed }));
});
end();
