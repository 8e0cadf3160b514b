// CopyObject within a cluster and between clusters: what the upstream is asked, what the new object has of
// the source and of the request, and that after any fault there is no object and no upload.

import {
  CopyObjectCommand,
  type CopyObjectCommandInput,
  CreateBucketCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  HeadObjectCommand,
  PutObjectCommand,
  S3ServiceException,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import t, { type Test } from "tap";
import type { DemoFault, FaultRule } from "../../proxy/demo/faults.ts";
import { limitedKeys, startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";
import { openRaw, rawHead, until } from "../support/raw-http.ts";
import { rawServer } from "../support/raw-upstream.ts";

/** `near` and `src` are on cluster a, `far` on b. */
async function open(test: Test, profile = "rgw-pacific"): Promise<TestHeadgate> {
  const headgate = await startTestHeadgate(test, {
    clusters: { a: 1, b: 1 },
    clusterSettings: `profile: ${profile}`,
  });
  for (const [bucket, cluster] of [
    ["src", "a"],
    ["near", "a"],
    ["far", "b"],
  ] as const) {
    await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
    const body = { placement: { [cluster]: 1 }, mode: "strict" };
    const { status } = await headgate.admin("PUT", `/buckets/${bucket}/placement`, body);
    test.equal(status, 204);
    await headgate.s3.send(new PutObjectCommand({ Bucket: bucket, Key: "mine/first", Body: "1" }));
  }
  return headgate;
}

const described = {
  ContentType: "text/x-source",
  CacheControl: "max-age=17",
  ContentDisposition: 'attachment; filename="x"',
  ContentEncoding: "gzip",
  ContentLanguage: "de",
  Metadata: { of: "source" },
  Tagging: "a=1&b=c%20d",
};

async function put(headgate: TestHeadgate, key: string, body: string | Uint8Array = key) {
  const command = new PutObjectCommand({ Bucket: "src", Key: key, Body: body, ...described });
  return await headgate.s3.send(command);
}

async function copy(headgate: TestHeadgate, input: Partial<CopyObjectCommandInput>) {
  const { Bucket = "far", Key = "copy", CopySource = "src/k", ...rest } = input;
  return await headgate.s3.send(new CopyObjectCommand({ Bucket, Key, CopySource, ...rest }));
}

async function bytesOf(headgate: TestHeadgate, Bucket: string, Key = "copy"): Promise<string> {
  const answer = await headgate.s3.send(new GetObjectCommand({ Bucket, Key }));
  return (await answer.Body?.transformToString()) ?? "";
}

function keys(headgate: TestHeadgate, bucket: "near" | "far"): readonly string[] {
  const cluster = headgate.clusters[bucket === "near" ? "a" : "b"];
  return cluster?.objects(bucket).map(({ key }) => key) ?? [];
}

/** `PUT /far/copy`, by cluster and in order, from `from` on. */
function sent(headgate: TestHeadgate, id: "a" | "b", from = 0): readonly string[] {
  const exchanges = headgate.clusters[id]?.exchanges() ?? [];
  return exchanges.slice(from).map(({ method, target }) => `${method} ${target}`);
}

function count(headgate: TestHeadgate, id: "a" | "b"): number {
  return headgate.clusters[id]?.exchanges().length ?? 0;
}

function lastField(headgate: TestHeadgate, id: "a" | "b", name: string): string | undefined {
  const raw = headgate.clusters[id]?.exchanges().at(-1)?.rawHeaders ?? [];
  return raw[raw.findIndex((text, index) => index % 2 === 0 && text === name) + 1];
}

t.test("within a cluster the upstream copies, from a source named one way", async (t) => {
  const headgate = await open(t);
  for (const [key, source, canonical] of [
    ["k", "src/k", "/src/k"],
    ["k", "/src/k", "/src/k"],
    ["k", "src%2Fk", "/src/k"],
    ["c++", "/src/c%2B%2B", "/src/c%2B%2B"],
    ["2017+0000.jpg", "src/2017+0000.jpg", "/src/2017%2B0000.jpg"],
    ["dir//é 100%?#", "src/dir//%C3%A9%20100%25%3F%23", "/src/dir//%C3%A9%20100%25%3F%23"],
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

t.test("between clusters the copy has of the source what S3 says", async (t) => {
  const headgate = await open(t);
  const { ETag } = await put(headgate, "k", "content");
  const answer = await copy(headgate, {});
  t.equal(answer.CopyObjectResult?.ETag, ETag);
  t.ok(Math.abs((answer.CopyObjectResult?.LastModified?.getTime() ?? 0) - Date.now()) < 60_000);
  t.equal(await bytesOf(headgate, "far"), "content");
  const { Tagging, ...fields } = described;
  const of = { Bucket: "far", Key: "copy" };
  t.match(await headgate.s3.send(new HeadObjectCommand(of)), fields);
  t.match((await headgate.s3.send(new GetObjectTaggingCommand(of))).TagSet, [
    { Key: "a", Value: "1" },
    { Key: "b", Value: "c d" },
  ]);
  const raw = headgate.clusters["b"]?.exchanges().find(({ target }) => target === "/far/copy");
  t.notOk(raw?.rawHeaders.some((name) => /^x-amz-(?:acl|copy|metadata-d|tagging-d)/.test(name)));
});

t.test("directives, and what never comes from the source", async (t) => {
  const headgate = await open(t);
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

t.test("an object in parts keeps its parts, in any size its content", async (t) => {
  const headgate = await open(t);
  for (const [size, partSize] of [
    [0, 0],
    [70_000, 0],
    [5 * 1024 * 1024 + 1, 5 * 1024 * 1024],
    [12 * 1024 * 1024, 5 * 1024 * 1024],
    [64 * 1024 * 1024 + 1, 0],
  ] as const) {
    const body = Buffer.alloc(size, "0123456789abcdef!");
    const params = { Bucket: "src", Key: "k", Body: body, ContentType: "text/x-parts" };
    const { ETag } =
      partSize === 0
        ? await headgate.s3.send(new PutObjectCommand(params))
        : await new Upload({ client: headgate.s3, params, partSize, queueSize: 1 }).done();
    const answer = await copy(headgate, {});
    const copied = headgate.clusters["b"]?.objects("far").find(({ key }) => key === "copy");
    t.ok(copied?.bytes.equals(body), `${size} bytes`);
    t.equal(answer.CopyObjectResult?.ETag, copied?.etag);
    if (size <= 64 * 1024 * 1024) t.equal(copied?.etag, ETag, "the same ETag");
    else t.match(copied?.etag, /-2"$/);
    t.ok(copied?.headers.some(([, value]) => value === "text/x-parts"));
  }
});

for (const profile of ["rgw-pacific", "rgw-reef", "aws"] as const) {
  t.test(`conditions on the source are judged, profile ${profile}`, async (t) => {
    const headgate = await open(t, profile);
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
        t.equal(copies, Bucket === "near" && profile !== "rgw-pacific");
      }
    }
  });
}

t.test("a 304 for a condition on the source is a 412", async (t) => {
  const headgate = await open(t, "rgw-reef");
  await put(headgate, "k");
  headgate.clusters["a"]?.setFault(({ method }) => (method === "PUT" ? { status: 304 } : null));
  await t.rejects(copy(headgate, { Bucket: "near", CopySourceIfNoneMatch: "x" }), {
    name: "PreconditionFailed",
  });
});

t.test("conditions on the destination are obeyed or refused", async (t) => {
  for (const profile of ["rgw-reef", "aws"] as const) {
    const headgate = await open(t, profile);
    await put(headgate, "k");
    const before = { a: count(headgate, "a"), b: count(headgate, "b") };
    const near = copy(headgate, { Bucket: "near", Key: "mine/first", IfNoneMatch: "*" });
    await t.rejects(near, { name: profile === "aws" ? "PreconditionFailed" : "NotImplemented" });
    await t.rejects(copy(headgate, { IfNoneMatch: "*" }), { name: "NotImplemented" });
    await t.rejects(copy(headgate, { IfMatch: "x" }), { name: "NotImplemented" });
    t.strictSame(sent(headgate, "a", before.a), profile === "aws" ? ["PUT /near/mine/first"] : []);
    t.strictSame(sent(headgate, "b", before.b), []);
  }
});

t.test("a copy to itself must change something", async (t) => {
  const headgate = await open(t);
  await put(headgate, "k");
  const itself = { Bucket: "src", Key: "k" };
  await t.rejects(copy(headgate, itself), { name: "InvalidRequest" });
  await copy(headgate, { ...itself, MetadataDirective: "REPLACE", Metadata: { n: "2" } });
  const head = await headgate.s3.send(new HeadObjectCommand(itself));
  t.strictSame(head.Metadata, { n: "2" });
});

t.test("a source that is not there, or not the caller's to read", async (t) => {
  const headgate = await open(t);
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
  const headgate = await open(t);
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

// ---- faults: the object is not there afterwards, nor an upload ----

function on(method: string, part: string, fault: DemoFault): FaultRule {
  return (request) => (request.method === method && request.target.includes(part) ? fault : null);
}

async function statusOf(sending: Promise<unknown>): Promise<number | undefined> {
  try {
    await sending;
    return 200;
  } catch (caught) {
    if (!(caught instanceof S3ServiceException)) throw caught;
    return caught.$metadata.httpStatusCode;
  }
}

const inParts = 6 * 1024 * 1024;
const faults: readonly (readonly [
  what: string,
  at: "a" | "b",
  rule: FaultRule,
  size: number,
  status: number,
])[] = [
  ["the source breaks midway", "a", on("GET", "/src/k", { cutAfterBytes: 100_000 }), 200_000, 503],
  ["the source breaks at once", "a", on("GET", "/src/k", "reset"), 10, 503],
  ["the source is refused", "a", on("GET", "/src/k", { status: 500 }), 200_000, 503],
  ["the source changed", "a", on("GET", "/src/k", { status: 412 }), 200_000, 503],
  ["the target breaks", "b", on("PUT", "/far/copy", "reset"), 200_000, 503],
  [
    "the target refuses",
    "b",
    on("PUT", "/far/copy", { status: 403, code: "AccessDenied" }),
    10,
    403,
  ],
  [
    "the source breaks in a part",
    "a",
    on("GET", "/src/k", { cutAfterBytes: 100_000 }),
    inParts,
    503,
  ],
  ["a part breaks", "b", on("PUT", "partNumber=2", "reset"), inParts, 503],
  ["a part is refused", "b", on("PUT", "partNumber=1", { status: 500 }), inParts, 503],
  [
    "no upload begins",
    "b",
    on("POST", "uploads", { status: 403, code: "AccessDenied" }),
    inParts,
    403,
  ],
  [
    "Complete is refused",
    "b",
    on("POST", "uploadId", { status: 400, code: "InvalidPart" }),
    inParts,
    400,
  ],
];

for (const [what, at, rule, size, status] of faults) {
  t.test(`${what} (${size} bytes): no object and no upload`, async (t) => {
    const headgate = await open(t);
    const params = { Bucket: "src", Key: "k", Body: Buffer.alloc(size, 1) };
    if (size === inParts) {
      const partSize = 5 * 1024 * 1024;
      await new Upload({ client: headgate.s3, params, partSize }).done();
    } else await headgate.s3.send(new PutObjectCommand(params));
    headgate.clusters[at]?.setFault(rule);
    t.equal(await statusOf(copy(headgate, {})), status);
    headgate.clusters[at]?.setFault(null);
    t.strictSame(keys(headgate, "far"), ["mine/first"]);
    const begun = sent(headgate, "b").filter((line) => line.startsWith("POST /far/copy?uploads"));
    const aborted = sent(headgate, "b").filter((line) => line.startsWith("DELETE /far/copy?"));
    const upload = size === inParts && what !== "no upload begins";
    t.strictSame([begun.length > 0, aborted.length], [size === inParts, upload ? 1 : 0]);
    await copy(headgate, {});
    t.strictSame(keys(headgate, "far"), ["copy", "mine/first"], "and goes through afterwards");
  });
}

t.test("a Complete without an answer is not followed by an abort", async (t) => {
  const headgate = await open(t);
  const params = { Bucket: "src", Key: "k", Body: Buffer.alloc(inParts, 1) };
  await new Upload({ client: headgate.s3, params, partSize: 5 * 1024 * 1024 }).done();
  headgate.clusters["b"]?.setFault(on("POST", "uploadId", "reset"));
  t.equal(await statusOf(copy(headgate, {})), 503);
  t.notOk(sent(headgate, "b").some((line) => line.startsWith("DELETE /far/copy?")));
});

t.test("a client that leaves takes its copy with it", async (t) => {
  const headgate = await open(t);
  const params = { Bucket: "src", Key: "k", Body: Buffer.alloc(inParts, 1) };
  await new Upload({ client: headgate.s3, params, partSize: 5 * 1024 * 1024 }).done();
  headgate.clusters["b"]?.setFault(on("PUT", "partNumber=2", "stall"));
  const connection = await openRaw(headgate.url);
  t.teardown(() => connection.socket.destroy());
  const headers = [["x-amz-copy-source", "src/k"]] as const;
  await connection.write(
    rawHead(headgate.url, { method: "PUT", path: "/far/copy", headers, contentLength: 0 }),
  );
  await until(() => sent(headgate, "b").some((line) => line.includes("partNumber=2")));
  connection.socket.destroy();
  await until(() => sent(headgate, "b").some((line) => line.startsWith("DELETE /far/copy?")));
  t.strictSame(keys(headgate, "far"), ["mine/first"]);
});

/** A cluster c that holds the bucket `slow` with an object `k`, the end of which waits for `release`. */
async function slowSource(test: Test, size: number) {
  let release: () => void = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const etag = `"${"0".repeat(32)}"`;
  const server = await rawServer(test, async (connection) => {
    for (let head = await connection.head(); head !== null; head = await connection.head()) {
      const [method, target] = head.split(" ", 2);
      const isObject = target === "/slow/k";
      if (!isObject) {
        const status = target?.startsWith("/slow") === true ? "200 OK" : "404 Not Found";
        connection.write(`HTTP/1.1 ${status}\r\ncontent-length: 0\r\n\r\n`);
        continue;
      }
      connection.write(`HTTP/1.1 200 OK\r\netag: ${etag}\r\ncontent-length: ${size}\r\n\r\n`);
      if (method === "HEAD") continue;
      connection.write(Buffer.alloc(size - 1, 1));
      await released;
      connection.write(Buffer.alloc(1, 1));
    }
  });
  return { url: server.url, release };
}

for (const size of [1_000, 300_000]) {
  t.test(`a placement that changes during a copy of ${size} bytes refuses it`, async (t) => {
    const source = await slowSource(t, size);
    const headgate = await startTestHeadgate(t, {
      clusters: { a: 1, b: 1, c: 0 },
      endpoints: { c: source.url },
    });
    await headgate.s3.send(new CreateBucketCommand({ Bucket: "far" }));
    const place = async (placement: Readonly<Record<string, number>>) =>
      await headgate.admin("PUT", "/buckets/far/placement", { placement, mode: "strict" });
    t.equal((await place({ b: 1 })).status, 204);
    const copying = copy(headgate, { CopySource: "slow/k", TaggingDirective: "REPLACE" });
    const refused = t.rejects(copying, { name: "SlowDown", $metadata: { httpStatusCode: 503 } });
    const begun = (): boolean => sent(headgate, "b").includes("PUT /far/copy");
    if (size > 64 * 1024) await until(begun);
    else await until(async () => (await inFlight(headgate)) === 1);
    t.equal((await place({ a: 1 })).status, 204);
    source.release();
    await refused;
    await until(async () => (await inFlight(headgate)) === 0);
    for (const id of ["a", "b"]) t.strictSame(headgate.clusters[id]?.objects("far"), [], id);
    const again = { CopySource: "slow/k", TaggingDirective: "REPLACE" } as const;
    await copy(headgate, again);
    t.equal(headgate.clusters["a"]?.objects("far")[0]?.bytes.length, size, "a retry lands on a");
  });
}

async function inFlight(headgate: TestHeadgate): Promise<number> {
  const text = await (await fetch(`${headgate.adminUrl}/metrics`)).text();
  return Number(/^headgate_requests_in_flight (\d+)$/m.exec(text)?.[1]);
}
