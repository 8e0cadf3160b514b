// CopyObject within a cluster and between clusters: what the upstream is asked, and what the new object has
// of the source and of the request.

import {
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  type CopyObjectCommandInput,
  CreateMultipartUploadCommand,
  GetObjectTaggingCommand,
  HeadObjectCommand,
  PutObjectCommand,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import {
  bytesOf,
  copy,
  count,
  describedFields,
  keys,
  lastField,
  openCopies,
  put,
  sent,
} from "../support/copies.ts";
import { limitedKeys, type TestHeadgate } from "../support/headgate.ts";
import { openRaw, rawHead } from "../support/raw-http.ts";

t.test("within a cluster the upstream copies, from a source named one way", async (t) => {
  const headgate = await openCopies(t, "aws");
  for (const [key, source, canonical] of [
    ["k", "src/k", "src/k"],
    ["k", "/src/k", "/src/k"],
    ["k", "src%2Fk", "src/k"],
    ["c++", "/src/c%2B%2B", "/src/c%2B%2B"],
    ["2017+0000.jpg", "src/2017+0000.jpg", "src/2017%2B0000.jpg"],
    ["dir//é 100%?#", "src/dir//%C3%A9%20100%25%3F%23", "src/dir//%C3%A9%20100%25%3F%23"],
  ] as const) {
    const { ETag } = await put(headgate, key);
    const before = count(headgate, "a");
    const answer = await copy(headgate, { Bucket: "near", CopySource: source });
    t.equal(answer.CopyObjectResult?.ETag, ETag);
    t.ok(answer.CopyObjectResult?.LastModified instanceof Date);
    t.match(sent(headgate, "a", before), [/^PUT \/near\/copy$/], "one request");
    t.equal(lastField(headgate, "a", "x-amz-copy-source"), canonical);
    t.equal(await bytesOf(headgate, "near"), key);
  }
});

const locked = {
  ObjectLockMode: "GOVERNANCE",
  ObjectLockRetainUntilDate: new Date(Date.now() + 86_400_000),
} as const;

t.test("what an RGW would make otherwise than S3 goes through here", async (t) => {
  for (const profile of ["rgw-reef", "aws"] as const) {
    const headgate = await openCopies(t, profile);
    await put(headgate, "tagged");
    await headgate.s3.send(new PutObjectCommand({ Bucket: "src", Key: "plain", Body: "x" }));
    for (const [key, input, through] of [
      ["tagged", {}, false],
      ["tagged", { ACL: "public-read", StorageClass: "STANDARD" }, false],
      ["tagged", { MetadataDirective: "REPLACE" }, true],
      ["tagged", { TaggingDirective: "REPLACE" }, true],
      ["plain", { MetadataDirective: "REPLACE" }, false],
      ["plain", { TaggingDirective: "REPLACE", Tagging: "own=1" }, true],
      ["plain", { WebsiteRedirectLocation: "/z" }, true],
      ["plain", locked, true],
      ["plain", { ServerSideEncryption: "AES256" }, true],
    ] as const) {
      const before = count(headgate, "a");
      await copy(headgate, { Bucket: "near", CopySource: `src/${key}`, ...input });
      const puts = headgate.clusters["a"]?.exchanges().slice(before) ?? [];
      const isThrough = !puts.some(({ rawHeaders }) => rawHeaders.includes("x-amz-copy-source"));
      const what = `${profile} ${key} ${JSON.stringify(input)}`;
      t.equal(isThrough, through && profile !== "aws", what);
    }
  }
});

t.test("between clusters the copy has of the source what S3 says", async (t) => {
  const headgate = await openCopies(t);
  const { ETag } = await put(headgate, "k", "content");
  const answer = await copy(headgate, {});
  t.equal(answer.CopyObjectResult?.ETag, ETag);
  t.ok(Math.abs((answer.CopyObjectResult?.LastModified?.getTime() ?? 0) - Date.now()) < 60_000);
  t.equal(await bytesOf(headgate, "far"), "content");
  const of = { Bucket: "far", Key: "copy" };
  t.match(await headgate.s3.send(new HeadObjectCommand(of)), describedFields);
  t.match((await headgate.s3.send(new GetObjectTaggingCommand(of))).TagSet, [
    { Key: "a", Value: "1" },
    { Key: "b", Value: "c d" },
  ]);
  const raw = headgate.clusters["b"]?.exchanges().find(({ target }) => target === "/far/copy");
  t.notOk(raw?.rawHeaders.some((name) => /^x-amz-(?:acl|copy|metadata-d|tagging-d)/.test(name)));
});

t.test("directives, and what never comes from the source", async (t) => {
  const headgate = await openCopies(t);
  await put(headgate, "k", "content");
  for (const Bucket of ["near", "far"] as const) {
    const of = { Bucket, Key: "copy" };
    await copy(headgate, {
      Bucket,
      MetadataDirective: "REPLACE",
      ContentType: "text/x-own",
      Metadata: { own: "1" },
      TaggingDirective: "REPLACE",
      Tagging: "own=1",
      StorageClass: "STANDARD",
      ACL: "public-read",
    });
    const head = await headgate.s3.send(new HeadObjectCommand(of));
    t.match(head, { ContentType: "text/x-own", StorageClass: "STANDARD" });
    t.strictSame(head.Metadata, { own: "1" });
    t.equal(head.CacheControl, undefined);
    t.match((await headgate.s3.send(new GetObjectTaggingCommand(of))).TagSet, [{ Key: "own" }]);
    // COPY takes nothing of the request that describes an object.
    await copy(headgate, {
      Bucket,
      ContentType: "text/x-own",
      Metadata: { own: "1" },
      Tagging: "own=1",
    });
    const copied = await headgate.s3.send(new HeadObjectCommand(of));
    t.strictSame([copied.ContentType, copied.Metadata], ["text/x-source", { of: "source" }]);
    t.match((await headgate.s3.send(new GetObjectTaggingCommand(of))).TagSet, [
      { Key: "a" },
      { Key: "b" },
    ]);
    for (const wrong of [{ MetadataDirective: "MERGE" }, { TaggingDirective: "" }]) {
      const input = { Bucket, ...wrong } as Partial<CopyObjectCommandInput>;
      await t.rejects(copy(headgate, input), { name: "InvalidArgument" });
    }
  }
  const acl = headgate.clusters["b"]
    ?.exchanges()
    .filter(({ method, target }) => method === "PUT" && target === "/far/copy")
    .map(({ rawHeaders }) => rawHeaders.includes("public-read"));
  t.strictSame(acl, [true, false]);
});

t.test("tags that an RGW cannot read are none", async (t) => {
  const headgate = await openCopies(t);
  await put(headgate, "k", "content");
  headgate.clusters["a"]?.setFault(({ target }) =>
    target === "/src/k?tagging=" ? { status: 200 } : null,
  );
  await copy(headgate, {});
  const of = { Bucket: "far", Key: "copy" };
  t.strictSame((await headgate.s3.send(new GetObjectTaggingCommand(of))).TagSet, []);
});

/** Uploads `src/k` in parts of those sizes; in none, in one piece. @returns its ETag */
async function putInParts(
  { s3 }: TestHeadgate,
  body: Buffer,
  sizes: readonly number[],
): Promise<string | undefined> {
  const to = { Bucket: "src", Key: "k" };
  const described = { ...to, ContentType: "text/x-parts" };
  if (sizes.length === 0) {
    return (await s3.send(new PutObjectCommand({ ...described, Body: body }))).ETag;
  }
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand(described));
  const Parts: CompletedPart[] = [];
  let at = 0;
  for (const size of sizes) {
    const part = { PartNumber: Parts.length + 1, Body: body.subarray(at, at + size) };
    const { ETag } = await s3.send(new UploadPartCommand({ ...to, UploadId, ...part }));
    Parts.push({ PartNumber: part.PartNumber, ETag });
    at += size;
  }
  const command = { ...to, UploadId, MultipartUpload: { Parts } };
  return (await s3.send(new CompleteMultipartUploadCommand(command))).ETag;
}

const mebi = 1024 * 1024;

for (const [profile, uploads] of [
  [
    "rgw-pacific",
    [
      [0],
      [70_000],
      [5 * mebi, 1],
      [8 * mebi, mebi],
      [8 * mebi, 8 * mebi, mebi],
      [15 * mebi, 5 * mebi],
      [7_340_033, 7_340_033],
    ],
  ],
  // Of the last no size that clients use gives the ETag: this one is told.
  ["aws", [[0], [8 * mebi, mebi], [5 * mebi + 17, 5 * mebi + 17, 5]]],
] as const) {
  t.test(`an object in parts keeps them and its ETag, profile ${profile}`, async (t) => {
    const headgate = await openCopies(t, profile);
    for (const sizes of uploads) {
      const size = sizes.reduce<number>((sum, one) => sum + one, 0);
      const body = Buffer.alloc(size, "0123456789abcdef!");
      const etag = await putInParts(headgate, body, sizes);
      const before = count(headgate, "a");
      const answer = await copy(headgate, {});
      const copied = headgate.clusters["b"]?.objects("far").find(({ key }) => key === "copy");
      t.ok(copied?.bytes.equals(body), sizes.join(" + "));
      t.ok(copied?.headers.some(([, value]) => value === "text/x-parts"));
      t.strictSame([copied?.etag, answer.CopyObjectResult?.ETag], [etag, etag], sizes.join(" + "));
      const proofs = sizes.length > 1 && profile === "rgw-pacific" ? 1 : 0;
      const reads = sent(headgate, "a", before).filter((line) => line === "GET /src/k");
      t.equal(reads.length, sizes.length + proofs);
    }
  });
}

t.test("what no size of parts is proven of is copied all the same", async (t) => {
  const headgate = await openCopies(t);
  for (const [sizes, copiedIn] of [
    [[], 0],
    [[6 * mebi, 5 * mebi, 3 * mebi], 3],
    [[70_000, 70_000], 0],
  ] as const) {
    const size = sizes.reduce<number>((sum, one) => sum + one, 0);
    const body = Buffer.alloc(size, "0123456789abcdef!");
    await putInParts(headgate, body, sizes);
    const answer = await copy(headgate, {});
    const copied = headgate.clusters["b"]?.objects("far").find(({ key }) => key === "copy");
    t.ok(copied?.bytes.equals(body), sizes.join(" + "));
    t.equal(answer.CopyObjectResult?.ETag, copied?.etag);
    t.match(copied?.etag, copiedIn === 0 ? /^"[0-9a-f]{32}"$/ : /-3"$/);
  }
  const large = Buffer.alloc(64 * mebi + 1, "0123456789abcdef!");
  await putInParts(headgate, large, []);
  const answer = await copy(headgate, {});
  const copied = headgate.clusters["b"]?.objects("far").find(({ key }) => key === "copy");
  t.ok(copied?.bytes.equals(large));
  t.equal(answer.CopyObjectResult?.ETag, copied?.etag);
  t.match(copied?.etag, /-2"$/);
});

for (const profile of ["rgw-pacific", "rgw-reef", "aws"] as const) {
  t.test(`conditions on the source are judged, profile ${profile}`, async (t) => {
    const headgate = await openCopies(t, profile);
    const { ETag = "" } = await put(headgate, "k");
    const past = new Date(Date.now() - 86_400_000);
    const future = new Date(Date.now() + 86_400_000);
    for (const [conditions, holds] of [
      [{ CopySourceIfMatch: ETag }, true],
      [{ CopySourceIfMatch: ETag.replaceAll('"', "") }, true],
      [{ CopySourceIfMatch: '"other"' }, false],
      [{ CopySourceIfNoneMatch: '"other"' }, true],
      [{ CopySourceIfNoneMatch: ETag }, false],
      [{ CopySourceIfModifiedSince: past }, true],
      [{ CopySourceIfModifiedSince: future }, false],
      [{ CopySourceIfUnmodifiedSince: future }, true],
      [{ CopySourceIfUnmodifiedSince: past }, false],
    ] as const) {
      for (const Bucket of ["near", "far"] as const) {
        const before = count(headgate, "a");
        const Key = `copy ${JSON.stringify(conditions)}`;
        const sending = copy(headgate, { Bucket, Key, ...conditions });
        if (holds) await sending;
        else {
          await t.rejects(sending, {
            name: "PreconditionFailed",
            $metadata: { httpStatusCode: 412 },
          });
        }
        t.equal(keys(headgate, Bucket).includes(Key), holds, `${Bucket}: ${Key}`);
        const copies = headgate.clusters["a"]
          ?.exchanges()
          .slice(before)
          .some(({ rawHeaders }) => rawHeaders.includes("x-amz-copy-source"));
        // An RGW is asked for the source first, since one of before 18.2 would not judge.
        const judges = profile !== "rgw-pacific" && (holds || profile === "aws");
        t.equal(copies, Bucket === "near" && judges);
      }
    }
  });
}

t.test("a 304 for a condition on the source is a 412", async (t) => {
  const headgate = await openCopies(t, "rgw-reef");
  await put(headgate, "k");
  headgate.clusters["a"]?.setFault(({ method }) => (method === "PUT" ? { status: 304 } : null));
  await t.rejects(copy(headgate, { Bucket: "near", CopySourceIfNoneMatch: "x" }), {
    name: "PreconditionFailed",
  });
});

t.test("conditions on the destination are obeyed or refused", async (t) => {
  for (const profile of ["rgw-reef", "aws"] as const) {
    const headgate = await openCopies(t, profile);
    await put(headgate, "k");
    const before = { a: count(headgate, "a"), b: count(headgate, "b") };
    const near = copy(headgate, { Bucket: "near", Key: "mine/first", IfNoneMatch: "*" });
    await t.rejects(near, { name: profile === "aws" ? "PreconditionFailed" : "NotImplemented" });
    await t.rejects(copy(headgate, { IfNoneMatch: "*" }), { name: "NotImplemented" });
    await t.rejects(copy(headgate, { IfMatch: "x" }), { name: "NotImplemented" });
    const asked = sent(headgate, "a", before.a).filter((line) => !line.startsWith("HEAD"));
    t.strictSame(asked, profile === "aws" ? ["PUT /near/mine/first"] : []);
    t.strictSame(sent(headgate, "b", before.b), []);
  }
});

t.test("a copy to itself must change something", async (t) => {
  const headgate = await openCopies(t);
  await put(headgate, "k");
  const itself = { Bucket: "src", Key: "k" };
  await t.rejects(copy(headgate, itself), { name: "InvalidRequest" });
  await copy(headgate, { ...itself, MetadataDirective: "REPLACE", Metadata: { n: "2" } });
  const head = await headgate.s3.send(new HeadObjectCommand(itself));
  t.strictSame(head.Metadata, { n: "2" });
});

t.test("a source that is not there, or not the caller's to read", async (t) => {
  const headgate = await openCopies(t);
  await put(headgate, "theirs/k");
  await put(headgate, "mine/k");
  const limited = headgate.client({ credentials: limitedKeys });
  for (const Bucket of ["near", "far"] as const) {
    const to = { Bucket, Key: "mine/copy" };
    await t.rejects(copy(headgate, { ...to, CopySource: "src/none" }), { name: "NoSuchKey" });
    await t.rejects(copy(headgate, { ...to, CopySource: "none/k" }), { name: "NoSuchBucket" });
    const before = { a: count(headgate, "a"), b: count(headgate, "b") };
    for (const [CopySource, code] of [
      ["src/theirs/k", "AccessDenied"],
      ["src/theirs/none", "AccessDenied"],
      ["src/", "InvalidArgument"],
      ["src/any%.txt", "InvalidArgument"],
      ["arn:aws:s3:us-east-1:1:accesspoint/ap/object/k", "NotImplemented"],
    ] as const) {
      const command = new CopyObjectCommand({ ...to, CopySource });
      await t.rejects(limited.send(command), { name: code }, CopySource);
    }
    const foreign = new CopyObjectCommand({ Bucket, Key: "theirs/x", CopySource: "src/mine/k" });
    await t.rejects(limited.send(foreign), { name: "AccessDenied" });
    t.strictSame(sent(headgate, "a", before.a), []);
    t.strictSame(sent(headgate, "b", before.b), []);
    await limited.send(new CopyObjectCommand({ ...to, CopySource: "src/mine/k" }));
    t.strictSame(keys(headgate, Bucket), ["mine/copy", "mine/first"]);
  }
});

t.test("an unsigned copy, and fields of a copy elsewhere, reach no cluster", async (t) => {
  const headgate = await openCopies(t);
  await put(headgate, "k");
  const before = count(headgate, "a");
  for (const query of ["", "?uploadId=x&partNumber=1"]) {
    const answer = await fetch(`${headgate.url}/near/x${query}`, {
      method: "PUT",
      headers: { "x-amz-copy-source": "src/k" },
    });
    t.equal(answer.status, 403);
  }
  t.strictSame(sent(headgate, "a", before), []);
  const head = rawHead(headgate.url, {
    method: "GET",
    path: "/src/k",
    headers: [["x-amz-copy-source", "src/k"]],
  });
  const connection = await openRaw(headgate.url);
  t.teardown(() => connection.socket.destroy());
  await connection.write(head);
  t.equal((await connection.answer()).status, 200);
  t.equal(lastField(headgate, "a", "x-amz-copy-source"), "host", "absent");
});
