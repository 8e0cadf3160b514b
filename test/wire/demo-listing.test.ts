// Lists and multipart uploads of the demo cluster as the AWS SDK sees them.

import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  GetObjectCommand,
  ListObjectsCommand,
  ListObjectsV2Command,
  ListPartsCommand,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { DemoServer } from "../../proxy/demo/server.ts";
import { demoCluster, demoCredentials } from "../support/demo-cluster.ts";

const Bucket = "lists";

async function withBucket(t: Test): Promise<{ client: S3Client; server: DemoServer }> {
  const server = await demoCluster(t, { minPartBytes: 10 });
  const client = new S3Client({
    endpoint: server.url,
    region: "us-east-1",
    forcePathStyle: true,
    maxAttempts: 1,
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    credentials: {
      accessKeyId: demoCredentials.accessKeyId,
      secretAccessKey: demoCredentials.secretAccessKey,
    },
  });
  t.teardown(() => client.destroy());
  await client.send(new CreateBucketCommand({ Bucket }));
  return { client, server };
}

const keys = ["a", "a/1", "a/2", "b c", "b/x/1", "b/y", "é", "\u{FFFD}", "😀"];

t.test("keys come in byte order, page by page, in both versions", async (t) => {
  const { client } = await withBucket(t);
  for (const Key of keys.toReversed()) {
    await client.send(new PutObjectCommand({ Bucket, Key, Body: Key }));
  }
  for (const MaxKeys of [1, 2, 4, 1000]) {
    const second: (string | undefined)[] = [];
    let ContinuationToken: string | undefined;
    do {
      const page = await client.send(
        new ListObjectsV2Command({ Bucket, MaxKeys, ContinuationToken, EncodingType: "url" }),
      );
      t.ok((page.KeyCount ?? 0) <= MaxKeys);
      second.push(...(page.Contents ?? []).map(({ Key }) => decodeURIComponent(Key ?? "")));
      ContinuationToken = page.NextContinuationToken;
    } while (ContinuationToken !== undefined);
    t.strictSame(second, keys);
    const first: (string | undefined)[] = [];
    let Marker: string | undefined;
    do {
      const page = await client.send(new ListObjectsCommand({ Bucket, MaxKeys, Marker }));
      first.push(...(page.Contents ?? []).map(({ Key }) => Key));
      Marker = page.NextMarker;
    } while (Marker !== undefined);
    t.strictSame(first, keys);
  }
});

t.test("prefix, delimiter and start-after", async (t) => {
  const { client } = await withBucket(t);
  for (const Key of keys) await client.send(new PutObjectCommand({ Bucket, Key, Body: Key }));
  const cases: readonly [Partial<ListObjectsV2Command["input"]>, string[], string[]][] = [
    [{ Delimiter: "/" }, ["a", "b c", "é", "\u{FFFD}", "😀"], ["a/", "b/"]],
    [{ Delimiter: "/", Prefix: "b/" }, ["b/y"], ["b/x/"]],
    [{ Prefix: "b" }, ["b c", "b/x/1", "b/y"], []],
    [{ StartAfter: "b/x" }, ["b/x/1", "b/y", "é", "\u{FFFD}", "😀"], []],
    [{ Prefix: "zz" }, [], []],
    [{ MaxKeys: 0 }, [], []],
  ];
  for (const [input, contents, prefixes] of cases) {
    const page = await client.send(new ListObjectsV2Command({ Bucket, ...input }));
    t.strictSame(
      (page.Contents ?? []).map(({ Key }) => Key),
      contents,
    );
    t.strictSame(
      (page.CommonPrefixes ?? []).map(({ Prefix }) => Prefix),
      prefixes,
    );
    t.equal(page.IsTruncated, false);
  }
  const prefixes: (string | undefined)[] = [];
  let ContinuationToken: string | undefined;
  do {
    const page = await client.send(
      new ListObjectsV2Command({ Bucket, Delimiter: "/", MaxKeys: 1, ContinuationToken }),
    );
    prefixes.push(...(page.CommonPrefixes ?? []).map(({ Prefix }) => Prefix));
    ContinuationToken = page.NextContinuationToken;
  } while (ContinuationToken !== undefined);
  t.strictSame(prefixes, ["a/", "b/"], "each prefix once across pages");
  await t.rejects(client.send(new ListObjectsV2Command({ Bucket, ContinuationToken: "made up" })), {
    name: "InvalidArgument",
  });
});

t.test("a multipart upload becomes one object", async (t) => {
  const { client, server } = await withBucket(t);
  const Key = "big file";
  const created = await client.send(
    new CreateMultipartUploadCommand({ Bucket, Key, ContentType: "text/x", Metadata: { a: "1" } }),
  );
  const upload = { Bucket, Key, UploadId: created.UploadId };
  const etags = new Map<number, string | undefined>();
  for (const [PartNumber, Body] of [
    [3, "tail"],
    [1, "0123456789"],
    [2, "abcdefghij"],
  ] as const) {
    const part = await client.send(new UploadPartCommand({ ...upload, PartNumber, Body }));
    etags.set(PartNumber, part.ETag);
  }
  t.strictSame(server.objects(Bucket), [], "nothing is there before Complete");
  const listed = await client.send(new ListPartsCommand({ ...upload, MaxParts: 2 }));
  t.strictSame(
    listed.Parts?.map(({ PartNumber }) => PartNumber),
    [1, 2],
  );
  t.match(listed, { IsTruncated: true, NextPartNumberMarker: "2" });
  const complete = (numbers: readonly number[], etag?: string): Promise<unknown> =>
    client.send(
      new CompleteMultipartUploadCommand({
        ...upload,
        MultipartUpload: {
          Parts: numbers.map((PartNumber) => ({ PartNumber, ETag: etag ?? etags.get(PartNumber) })),
        },
      }),
    );
  await t.rejects(complete([2, 1]), { name: "InvalidPartOrder" });
  await t.rejects(complete([1, 7]), { name: "InvalidPart" });
  await t.rejects(complete([1], '"00"'), { name: "InvalidPart" });
  await client.send(new UploadPartCommand({ ...upload, PartNumber: 2, Body: "short" }));
  await t.rejects(complete([1, 2, 3], undefined), { name: "InvalidPart" });
  const again = await client.send(
    new UploadPartCommand({ ...upload, PartNumber: 2, Body: "abcdefghij" }),
  );
  etags.set(2, again.ETag);
  t.match(await complete([1, 2, 3]), { ETag: /^"[0-9a-f]{32}-3"$/ });
  const got = await client.send(new GetObjectCommand({ Bucket, Key }));
  t.equal(await got.Body?.transformToString(), "0123456789abcdefghijtail");
  t.match(got, { ContentType: "text/x", Metadata: { a: "1" } });
  await t.rejects(complete([1]), { name: "NoSuchUpload" });
});

t.test("an aborted upload leaves nothing, too small parts are refused", async (t) => {
  const { client, server } = await withBucket(t);
  const created = await client.send(new CreateMultipartUploadCommand({ Bucket, Key: "k" }));
  const upload = { Bucket, Key: "k", UploadId: created.UploadId };
  const Parts: { PartNumber: number; ETag: string | undefined }[] = [];
  for (const PartNumber of [1, 2]) {
    const { ETag } = await client.send(new UploadPartCommand({ ...upload, PartNumber, Body: "x" }));
    Parts.push({ PartNumber, ETag });
  }
  await t.rejects(
    client.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts } })),
    { name: "EntityTooSmall" },
  );
  await t.rejects(
    client.send(new UploadPartCommand({ ...upload, PartNumber: 10_001, Body: "x" })),
    { name: "InvalidArgument" },
  );
  await client.send(new AbortMultipartUploadCommand(upload));
  await t.rejects(client.send(new UploadPartCommand({ ...upload, PartNumber: 1, Body: "x" })), {
    name: "NoSuchUpload",
  });
  t.strictSame(server.objects(Bucket), []);
});

t.test("ordered faults happen", async (t) => {
  const { client, server } = await withBucket(t);
  const target = { Bucket, Key: "f" };
  await client.send(new PutObjectCommand({ ...target, Body: "0123456789" }));
  server.setFault(() => "reset");
  await t.rejects(client.send(new GetObjectCommand(target)), { code: "ECONNRESET" });
  server.setFault(({ method }) => (method === "PUT" ? { status: 503, code: "SlowDown" } : null));
  await t.rejects(client.send(new PutObjectCommand({ ...target, Body: "new" })), {
    name: "SlowDown",
  });
  server.setFault(() => ({ cutAfterBytes: 4 }));
  const cut = await client.send(new GetObjectCommand(target));
  await t.rejects(async () => void (await cut.Body?.transformToString()), { message: /aborted/ });
  server.setFault(() => "stall");
  const leaving = new AbortController();
  const stalled = client.send(new GetObjectCommand(target), { abortSignal: leaving.signal });
  leaving.abort();
  await t.rejects(stalled, { name: "AbortError" });
  server.setFault(null);
  const got = await client.send(new GetObjectCommand(target));
  t.equal(await got.Body?.transformToString(), "0123456789");
});
