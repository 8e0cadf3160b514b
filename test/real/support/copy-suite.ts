// Copies and bulk deletes over two RGW clusters: every source name within and between them, sources that
// kill a radosgw when it is asked to copy a part of them, and 1000 keys deleted from both at once.

import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { copyFieldsSuite } from "./copy-fields.ts";
import type { Lab, RealTest } from "./lab.ts";
import { answerOf, inParallel, keysOf, put, read, sha256, testBytes } from "./s3.ts";

const mebibyte = 1024 * 1024;
const odd = [
  "plain",
  "dir//empty/",
  "a b+c",
  "100%",
  "any%zz",
  "a%41b%2Fc",
  "é/日本/🪣",
  "what?#;&=:@,!'()*~$",
  "?versionId",
  "<x>&\"quoted'",
  "..",
  " lead and trail ",
  "line\rfeed",
];

function encoded(bucket: string, key: string): string {
  return `/${bucket}/${key.split("/").map(encodeURIComponent).join("/")}`;
}

export async function copySuite(lab: Lab, test: RealTest): Promise<void> {
  const headgate = await lab.headgate({
    name: "copy",
    clusters: lab.clusters({ a: 1, b: 1 }),
    prefix: "/headgate-copy/",
  });
  const client = lab.client(headgate);
  const bucket = "copies";
  await client.send(new CreateBucketCommand({ Bucket: bucket }));
  const direct = { a: lab.direct("a"), b: lab.direct("b") } as const;

  /** A bucket that is on one cluster, not known to Headgate before. */
  async function placed(Bucket: string, cluster: "a" | "b"): Promise<S3Client> {
    await direct[cluster].send(new CreateBucketCommand({ Bucket }));
    return direct[cluster];
  }

  await placed("only-a", "a");
  await placed("only-b", "b");

  test("every name is copied within a cluster and to the other", async (t) => {
    for (const Bucket of ["only-a", "only-b"]) {
      await inParallel(odd, 4, async (name) => {
        const Key = `from ${name}`;
        await client.send(
          new PutObjectCommand({
            Bucket,
            Key,
            Body: `${Bucket} ${name}`,
            ContentType: "text/x-odd",
            CacheControl: "no-store",
            Metadata: { name: encodeURIComponent(name) },
            Tagging: "a=1&b=c%20d",
          }),
        );
        for (const to of ["only-a", "only-b"]) {
          const copied = { Bucket: to, Key: `to ${Bucket} ${name}` };
          const CopySource = encoded(Bucket, Key);
          const { CopyObjectResult } = await client.send(
            new CopyObjectCommand({ ...copied, CopySource }),
          );
          const head = await client.send(new HeadObjectCommand(copied));
          t.match(head, { ContentType: "text/x-odd", CacheControl: "no-store" }, copied.Key);
          t.strictSame(head.Metadata, { name: encodeURIComponent(name) });
          t.equal(head.ETag, CopyObjectResult?.ETag);
          t.match(head.ETag, /^"[0-9a-f]{32}"$/);
          const content = await read(direct[to === "only-a" ? "a" : "b"], to, copied.Key);
          t.equal(Buffer.from(content ?? "").toString("utf8"), `${Bucket} ${name}`);
          const tags = await client.send(new GetObjectTaggingCommand(copied));
          t.equal(tags.TagSet?.map(({ Key: k, Value }) => `${k}=${Value}`).join(), "a=1,b=c d");
        }
      });
    }
  });

  test("directives and conditions hold on either way", async (t) => {
    const { ETag = "" } = await put(client, "only-a", "source", "source");
    const CopySource = "only-a/source";
    const past = new Date(Date.now() - 86_400_000);
    for (const Bucket of ["only-a", "only-b"]) {
      const own = { ContentType: "text/x-own", Metadata: { own: "1" }, Tagging: "own=1" };
      const to = { Bucket, Key: "replaced", CopySource };
      await client.send(
        new CopyObjectCommand({
          ...to,
          ...own,
          MetadataDirective: "REPLACE",
          TaggingDirective: "REPLACE",
        }),
      );
      const head = await client.send(new HeadObjectCommand({ Bucket, Key: "replaced" }));
      t.match(head, { ContentType: "text/x-own" });
      t.strictSame(head.Metadata, { own: "1" });
      for (const [conditions, status] of [
        [{ CopySourceIfMatch: ETag }, 200],
        [{ CopySourceIfMatch: '"x"' }, 412],
        [{ CopySourceIfNoneMatch: ETag }, 412],
        [{ CopySourceIfNoneMatch: '"x"' }, 200],
        [{ CopySourceIfModifiedSince: past }, 200],
        [{ CopySourceIfUnmodifiedSince: past }, 412],
        [{ IfNoneMatch: "*" }, 501],
      ] as const) {
        const answer = await answerOf(client.send(new CopyObjectCommand({ ...to, ...conditions })));
        t.equal(answer.status, status, `${Bucket} ${JSON.stringify(conditions)}`);
      }
    }
    for (const [from, code] of [
      ["only-a/none", "NoSuchKey"],
      ["only-b/none", "NoSuchKey"],
      ["nowhere/k", "NoSuchBucket"],
    ] as const) {
      const sent = client.send(
        new CopyObjectCommand({ Bucket: "only-a", Key: "x", CopySource: from }),
      );
      t.match(await answerOf(sent), { status: 404, code }, from);
    }
  });

  test("a large object goes over in parts and keeps its ETag", async (t) => {
    for (const [size, partSize, etag] of [
      [0, 0, "same"],
      [11 * mebibyte, 8 * mebibyte, "same"],
      [70 * mebibyte, 0, /-2"$/],
    ] as const) {
      const body = testBytes(size, "large");
      const params = { Bucket: "only-a", Key: "large", Body: body };
      const made =
        partSize === 0
          ? await client.send(new PutObjectCommand(params))
          : await new Upload({ client, params, partSize }).done();
      const copied = { Bucket: "only-b", Key: `large-${size}` };
      const answer = await client.send(
        new CopyObjectCommand({ ...copied, CopySource: "only-a/large" }),
      );
      const result = answer.CopyObjectResult?.ETag;
      if (etag === "same") t.equal(result, made.ETag);
      else t.match(result, etag);
      const content = await read(direct.b, copied.Bucket, copied.Key);
      t.equal(sha256(content ?? new Uint8Array([1])), sha256(body), `${size} bytes`);
    }
    const left = await direct.b.send(new ListMultipartUploadsCommand({ Bucket: "only-b" }));
    t.strictSame(left.Uploads ?? [], []);
  });

  test("a version is copied from a versioned bucket to another cluster", async (t) => {
    const versioned = await placed("versioned", "a");
    await versioned.send(
      new PutBucketVersioningCommand({
        Bucket: "versioned",
        VersioningConfiguration: { Status: "Enabled" },
      }),
    );
    const old = await put(client, "versioned", "k?v", "old");
    const latest = await put(client, "versioned", "k?v", "new");
    const copyPart = async (Bucket: string, CopySource: string) => {
      const at = { Bucket, Key: "of-version" };
      const { UploadId } = await client.send(new CreateMultipartUploadCommand(at));
      const command = new UploadPartCopyCommand({ ...at, UploadId, PartNumber: 1, CopySource });
      return await client.send(command);
    };
    for (const [to, cluster] of [
      ["only-a", "a"],
      ["only-b", "b"],
    ] as const) {
      for (const [query, content] of [
        ["", "new"],
        [`?versionId=${old.VersionId}`, "old"],
      ] as const) {
        const CopySource = `${encoded("versioned", "k?v")}${query}`;
        const answer = await client.send(
          new CopyObjectCommand({ Bucket: to, Key: "of-version", CopySource }),
        );
        const bytes = await read(direct[cluster], to, "of-version");
        t.equal(Buffer.from(bytes ?? "").toString(), content, `${to}${query}`);
        const taken = query === "" ? latest.VersionId : old.VersionId;
        t.equal(answer.CopySourceVersionId, taken);
        const part = await copyPart(to, CopySource);
        t.equal(part.CopySourceVersionId, taken, "of a part, too");
      }
      const CopySource = `${encoded("versioned", "k?v")}?versionId=nosuchversion`;
      const whole = new CopyObjectCommand({ Bucket: to, Key: "of-version", CopySource });
      for (const gone of [client.send(whole), copyPart(to, CopySource)]) {
        t.match(await answerOf(gone), { status: 404, code: "NoSuchVersion" }, to);
      }
    }
  });

  test("parts are copied within a cluster and from the other, whatever the name", async (t) => {
    for (const Bucket of ["only-a", "only-b"]) {
      for (const name of odd) {
        const Key = "in-parts";
        const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket, Key }));
        const source = encoded("only-a", `from ${name}`);
        const content = `only-a ${name}`;
        const to = { Bucket, Key, UploadId, PartNumber: 1, CopySource: source };
        const { CopyPartResult } = await client.send(new UploadPartCopyCommand(to));
        t.match(CopyPartResult?.ETag, /^"[0-9a-f]{32}"$/);
        const Parts = [{ PartNumber: 1, ETag: CopyPartResult?.ETag }];
        await client.send(
          new CompleteMultipartUploadCommand({ Bucket, Key, UploadId, MultipartUpload: { Parts } }),
        );
        const answer = await client.send(new GetObjectCommand({ Bucket, Key }));
        t.equal(await answer.Body?.transformToString(), content, `${Bucket} ${name}`);
      }
    }
  });

  test("no source kills a radosgw", async (t) => {
    const Bucket = "only-a";
    const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket, Key: "k" }));
    for (const [CopySource, part, whole] of [
      ["/only-a/", 400, 400],
      ["only-a/", 400, 400],
      ["/only-a", 400, 400],
      ["/only-a/any%.txt", 400, 400],
      ["/only-a/any%25.txt", 404, 404],
      ["only-a/any%25zz", 404, 404],
      ["/only-b/any%25.txt", 404, 404],
      ["/only-a/any%2525.txt", 404, 404],
      ["/only-a/k%00", 400, 400],
      ["/only-a/k%3FversionId%3D", 404, 404],
      ["/only-a/k%3FversionId%3Dnull", 404, 404],
    ] as const) {
      for (const id of [UploadId, "made-up"]) {
        const command = new UploadPartCopyCommand({
          Bucket,
          Key: "k",
          PartNumber: 1,
          UploadId: id,
          CopySource,
        });
        const { status } = await answerOf(client.send(command));
        t.equal(status, id === UploadId ? part : part === 400 ? 400 : 404, CopySource);
      }
      const copying = client.send(new CopyObjectCommand({ Bucket, Key: "k", CopySource }));
      t.equal((await answerOf(copying)).status, whole, CopySource);
      for (const [method, path] of [
        ["PUT", `/only-a/k?partNumber=1&uploadId=${encodeURIComponent(UploadId ?? "")}`],
        ["PUT", "/only-a/k?partNumber=1&uploadId=made-up"],
        ["PUT", "/only-a/k"],
        ["POST", "/only-a/k?uploads"],
        ["GET", "/only-a/k"],
      ] as const) {
        const headers = { "x-amz-copy-source": CopySource };
        const answer = await fetch(`${headgate.url}${path}`, { method, headers });
        t.ok(answer.status >= 400 && answer.status < 500, `${method} ${path} ${answer.status}`);
        t.strictSame(lab.rgw.dead(), [], `${method} ${path} ${CopySource}`);
      }
    }
    t.equal(Buffer.from((await read(client, "only-a", "source")) ?? "").toString(), "source");
  });

  test("1000 keys of a spread bucket are deleted in one request", async (t) => {
    const names = Array.from({ length: 1000 }, (_, index) => `${odd[index % odd.length]} ${index}`);
    await inParallel(names, 8, async (Key) => {
      await put(client, bucket, Key, "x");
    });
    await put(client, bucket, "stays", "x");
    const spread = await Promise.all([keysOf(direct.a, bucket), keysOf(direct.b, bucket)]);
    t.ok(spread.every((keys) => keys.length > 300));
    const Delete = { Objects: names.map((Key) => ({ Key })) };
    const answer = await client.send(new DeleteObjectsCommand({ Bucket: bucket, Delete }));
    t.strictSame(
      answer.Deleted?.map(({ Key }) => Key),
      names,
    );
    t.equal(answer.Errors, undefined);
    t.strictSame(await keysOf(client, bucket), ["stays"]);
    const tooMany = { Objects: [...Delete.Objects, { Key: "stays" }] };
    const refused = client.send(new DeleteObjectsCommand({ Bucket: bucket, Delete: tooMany }));
    t.match(await answerOf(refused), { status: 400, code: "MalformedXML" });
  });

  test("delete markers and versions are told key by key", async (t) => {
    const Bucket = "versioned";
    const { VersionId } = await put(client, Bucket, "marked", "x");
    const marked = await client.send(
      new DeleteObjectsCommand({ Bucket, Delete: { Objects: [{ Key: "marked" }] } }),
    );
    t.match(marked.Deleted, [{ Key: "marked", DeleteMarker: true }]);
    const DeleteMarkerVersionId = marked.Deleted?.[0]?.DeleteMarkerVersionId;
    t.type(DeleteMarkerVersionId, "string");
    const both = [VersionId, DeleteMarkerVersionId].map((id) => ({ Key: "marked", VersionId: id }));
    const removed = await client.send(
      new DeleteObjectsCommand({ Bucket, Delete: { Objects: both } }),
    );
    t.match(removed.Deleted, [
      { Key: "marked", VersionId },
      { Key: "marked", VersionId: DeleteMarkerVersionId, DeleteMarker: true },
    ]);
  });

  copyFieldsSuite(lab, test, { client, url: headgate.url });
}
