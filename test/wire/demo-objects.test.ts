// The demo cluster's objects as the AWS SDK sees them: what it stores it gives back, byte for byte.

import {
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListBucketsCommand,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { FaultRule } from "../../proxy/demo/faults.ts";
import type { DemoServer } from "../../proxy/demo/server.ts";
import { profiles } from "../../proxy/placement/profiles.ts";
import { demoCluster, demoCredentials } from "../support/demo-cluster.ts";
import { type RawAnswer, rawExchange, rawHead } from "../support/raw-http.ts";

type Fields = readonly (readonly [string, string])[];

function sdkClient(t: Test, server: DemoServer, secret?: string): S3Client {
  const client = new S3Client({
    endpoint: server.url,
    region: "us-east-1",
    forcePathStyle: true,
    maxAttempts: 1,
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    credentials: {
      accessKeyId: demoCredentials.accessKeyId,
      secretAccessKey: secret ?? demoCredentials.secretAccessKey,
    },
  });
  t.teardown(() => client.destroy());
  return client;
}

async function withBucket(t: Test): Promise<{ client: S3Client; server: DemoServer }> {
  const server = await demoCluster(t);
  const client = sdkClient(t, server);
  await client.send(new CreateBucketCommand({ Bucket: "photos" }));
  return { client, server };
}

/** The status of a refusal that the SDK has no name for. */
async function statusOf(sent: Promise<unknown>): Promise<number | undefined> {
  try {
    await sent;
    return undefined;
  } catch (caught) {
    if (caught instanceof S3ServiceException) return caught.$metadata.httpStatusCode;
    throw caught;
  }
}

const oddKeys = [
  "a b",
  "a+b",
  "100%",
  "été/日本",
  "a//b",
  "../up",
  "./x",
  "/lead",
  "a/../c",
  "x?y#z",
  "(x)'!*",
  "😀",
  "a%2Fb",
];

t.test("objects come back with bytes, content fields and metadata", async (t) => {
  const { client } = await withBucket(t);
  for (const key of oddKeys) {
    await client.send(
      new PutObjectCommand({
        Bucket: "photos",
        Key: key,
        Body: `value of ${key}`,
        ContentType: "text/plain",
        CacheControl: "max-age=5",
        Metadata: { "made-by": "a test" },
      }),
    );
    const got = await client.send(new GetObjectCommand({ Bucket: "photos", Key: key }));
    t.equal(await got.Body?.transformToString(), `value of ${key}`);
    t.match(got, { ContentType: "text/plain", CacheControl: "max-age=5" });
    t.strictSame(got.Metadata, { "made-by": "a test" });
    const head = await client.send(new HeadObjectCommand({ Bucket: "photos", Key: key }));
    t.equal(head.ContentLength, Buffer.byteLength(`value of ${key}`));
    t.equal(head.ETag, got.ETag);
  }
});

t.test("sizes around the edges are whole", async (t) => {
  const { client, server } = await withBucket(t);
  for (const size of [0, 1, 65_536, 3_000_000]) {
    const body = Buffer.alloc(size, size % 251);
    await client.send(new PutObjectCommand({ Bucket: "photos", Key: `n${size}`, Body: body }));
    const got = await client.send(new GetObjectCommand({ Bucket: "photos", Key: `n${size}` }));
    t.ok(body.equals((await got.Body?.transformToByteArray()) ?? Buffer.alloc(1)), `${size} bytes`);
  }
  t.equal(server.objects("photos").length, 4);
});

t.test("ranges", async (t) => {
  const { client } = await withBucket(t);
  await client.send(new PutObjectCommand({ Bucket: "photos", Key: "r", Body: "0123456789" }));
  const cases: [string, string, string | undefined][] = [
    ["bytes=2-4", "234", "bytes 2-4/10"],
    ["bytes=8-", "89", "bytes 8-9/10"],
    ["bytes=-3", "789", "bytes 7-9/10"],
    ["bytes=-30", "0123456789", "bytes 0-9/10"],
    ["bytes=5-99", "56789", "bytes 5-9/10"],
    ["bytes=4-2", "0123456789", undefined],
    ["bytes=0-1,3-4", "0123456789", undefined],
  ];
  for (const [range, text, contentRange] of cases) {
    const got = await client.send(
      new GetObjectCommand({ Bucket: "photos", Key: "r", Range: range }),
    );
    t.equal(await got.Body?.transformToString(), text, range);
    t.equal(got.ContentRange, contentRange);
    t.equal(got.$metadata.httpStatusCode, contentRange === undefined ? 200 : 206);
  }
  await t.rejects(
    client.send(new GetObjectCommand({ Bucket: "photos", Key: "r", Range: "bytes=10-" })),
    { name: "InvalidRange" },
  );
});

t.test("conditions of reads and writes", async (t) => {
  const { client } = await withBucket(t);
  const target = { Bucket: "photos", Key: "c" };
  await t.rejects(client.send(new PutObjectCommand({ ...target, Body: "x", IfMatch: '"00"' })), {
    name: "NoSuchKey",
  });
  const put = await client.send(new PutObjectCommand({ ...target, Body: "one", IfNoneMatch: "*" }));
  await t.rejects(client.send(new PutObjectCommand({ ...target, Body: "x", IfNoneMatch: "*" })), {
    name: "PreconditionFailed",
  });
  await t.rejects(client.send(new PutObjectCommand({ ...target, Body: "x", IfMatch: '"00"' })), {
    name: "PreconditionFailed",
  });
  await client.send(new PutObjectCommand({ ...target, Body: "two", IfMatch: put.ETag }));
  const now = await client.send(new GetObjectCommand(target));
  t.equal(await now.Body?.transformToString(), "two");
  t.equal(await statusOf(client.send(new GetObjectCommand({ ...target, IfMatch: put.ETag }))), 412);
  t.equal(
    await statusOf(client.send(new GetObjectCommand({ ...target, IfNoneMatch: now.ETag }))),
    304,
  );
  t.equal(
    await statusOf(
      client.send(new GetObjectCommand({ ...target, IfModifiedSince: new Date(Date.now() + 9e6) })),
    ),
    304,
  );
  t.equal(
    await statusOf(
      client.send(new GetObjectCommand({ ...target, IfUnmodifiedSince: new Date(1e9) })),
    ),
    412,
  );
});

t.test("conditions of deletes, one by one and in bulk", async (t) => {
  const { client, server } = await withBucket(t);
  const target = { Bucket: "photos", Key: "d" };
  const put = await client.send(new PutObjectCommand({ ...target, Body: "four" }));
  const { LastModified: now = new Date(0) } = await client.send(new HeadObjectCommand(target));
  const other = new Date(now.getTime() + 1000);
  const wrong = [
    [{ IfMatch: '"00"' }, { ETag: '"00"' }],
    [{ IfMatchSize: 5 }, { Size: 5 }],
    [{ IfMatchLastModifiedTime: other }, { LastModifiedTime: other }],
    [
      { IfMatch: put.ETag, IfMatchSize: 5 },
      { ETag: put.ETag, Size: 5 },
    ],
  ] as const;
  const right = { IfMatch: put.ETag, IfMatchSize: 4, IfMatchLastModifiedTime: now };
  const rightEntry = { ETag: put.ETag, Size: 4, LastModifiedTime: now };
  const bulk = (entry: object) =>
    client.send(
      new DeleteObjectsCommand({
        Bucket: "photos",
        Delete: { Objects: [{ Key: "d", ...entry }, { Key: "unconditional" }] },
      }),
    );
  for (const [fields, entry] of wrong) {
    const name = JSON.stringify(fields);
    const alone = client.send(new DeleteObjectCommand({ ...target, ...fields }));
    await t.rejects(alone, { name: "PreconditionFailed" }, name);
    const { Errors, Deleted } = await bulk(entry);
    t.match(Errors, [{ Key: "d", Code: "PreconditionFailed" }], name);
    t.match(Deleted, [{ Key: "unconditional" }], name);
  }
  t.match(server.objects("photos"), [{ key: "d" }]);
  t.equal((await bulk(rightEntry)).Errors, undefined);
  t.strictSame(server.objects("photos"), []);
  t.match((await bulk({ Size: 4 })).Errors, [{ Code: "NoSuchKey" }]);
  await t.rejects(client.send(new DeleteObjectCommand({ ...target, IfMatchSize: 4 })), {
    name: "NoSuchKey",
  });
  await client.send(new PutObjectCommand({ ...target, Body: "four" }));
  const { LastModified } = await client.send(new HeadObjectCommand(target));
  const again = { ...right, IfMatchLastModifiedTime: LastModified };
  await client.send(new DeleteObjectCommand({ ...target, ...again }));
  t.strictSame(server.objects("photos"), []);
});

t.test("a range is of the object that If-Range names, where the server reads it", async (t) => {
  for (const facts of [profiles.aws, profiles["rgw-reef"]]) {
    const server = await demoCluster(t, { facts });
    const asked = (method: string, headers: Fields = []): Promise<RawAnswer> =>
      rawExchange(
        server.url,
        rawHead(server.url, { method, path: "/photos/r", headers, keys: demoCredentials }),
      );
    const client = sdkClient(t, server);
    await client.send(new CreateBucketCommand({ Bucket: "photos" }));
    const target = { Bucket: "photos", Key: "r" };
    const { ETag = "" } = await client.send(
      new PutObjectCommand({ ...target, Body: "0123456789" }),
    );
    const { LastModified = new Date(0) } = await client.send(new HeadObjectCommand(target));
    const otherwise = facts.readsConditionsFully ? 200 : 206;
    const rows: readonly (readonly [string, number])[] = [
      [ETag, 206],
      [ETag.slice(1, -1), 206],
      [LastModified.toUTCString(), 206],
      ['"00"', otherwise],
      [`W/${ETag}`, otherwise],
      [new Date(LastModified.getTime() + 1000).toUTCString(), otherwise],
      [new Date(0).toUTCString(), otherwise],
    ];
    for (const [value, status] of rows) {
      const range: Fields = [
        ["range", "bytes=2-4"],
        ["if-range", value],
      ];
      const answer = await asked("GET", range);
      t.equal(answer.status, status, `${facts.backend} ${value}`);
      t.ok(answer.text.endsWith(status === 206 ? "\r\n234" : "\r\n0123456789"), value);
    }
  }
});

t.test("what cannot be answered ends neither the cluster nor its connections", async (t) => {
  const { client, server } = await withBucket(t);
  const target = { Bucket: "photos", Key: "k" };
  await client.send(new PutObjectCommand({ ...target, Body: "x" }));
  const read = (overrides: object) =>
    client.send(new GetObjectCommand({ ...target, ...overrides }));
  for (const text of ["a\r\nb", "a\u007f"]) {
    await t.rejects(read({ ResponseContentDisposition: text }), { name: "InvalidArgument" });
  }
  t.match(await read({ ResponseContentDisposition: "a b" }), { ContentDisposition: "a b" });
  const query = "response-a%20b=c&response-etag=d";
  const head = { method: "GET", path: "/photos/k", query, keys: demoCredentials };
  const { status, text } = await rawExchange(server.url, rawHead(server.url, head));
  t.equal(status, 200, "of other names nothing is made");
  t.notMatch(text, /^etag: d/im);
  // No status that node:http would write, and a rule that fails.
  const rules: readonly FaultRule[] = [
    () => ({ status: 42 }),
    () => {
      throw new Error("no rule");
    },
  ];
  for (const rule of rules) {
    server.setFault(rule);
    t.equal(await statusOf(read({})), 500);
  }
  server.setFault(null);
  t.equal(await (await read({})).Body?.transformToString(), "x");
});

t.test("deletes are idempotent, absence has its codes", async (t) => {
  const { client } = await withBucket(t);
  const target = { Bucket: "photos", Key: "gone" };
  await client.send(new PutObjectCommand({ ...target, Body: "x" }));
  await t.rejects(client.send(new DeleteBucketCommand({ Bucket: "photos" })), {
    name: "BucketNotEmpty",
  });
  for (const round of [1, 2]) {
    const answer = await client.send(new DeleteObjectCommand(target));
    t.equal(answer.$metadata.httpStatusCode, 204, `round ${round}`);
  }
  await t.rejects(client.send(new GetObjectCommand(target)), { name: "NoSuchKey" });
  await t.rejects(client.send(new HeadObjectCommand(target)), { name: "NotFound" });
  await client.send(new HeadBucketCommand({ Bucket: "photos" }));
  t.match(await client.send(new ListBucketsCommand({})), { Buckets: [{ Name: "photos" }] });
  await client.send(new DeleteBucketCommand({ Bucket: "photos" }));
  await t.rejects(client.send(new HeadBucketCommand({ Bucket: "photos" })), { name: "NotFound" });
  await t.rejects(client.send(new PutObjectCommand({ ...target, Body: "x" })), {
    name: "NoSuchBucket",
  });
});

t.test("a wrong secret and an unknown key are refused and store nothing", async (t) => {
  const { server } = await withBucket(t);
  const thief = sdkClient(t, server, "wrong");
  await t.rejects(thief.send(new PutObjectCommand({ Bucket: "photos", Key: "k", Body: "x" })), {
    name: "SignatureDoesNotMatch",
  });
  t.strictSame(server.objects("photos"), []);
});

t.test("a body that does not match its digest stores nothing", async (t) => {
  const { client, server } = await withBucket(t);
  await t.rejects(
    client.send(
      new PutObjectCommand({
        Bucket: "photos",
        Key: "k",
        Body: "value",
        ContentMD5: Buffer.alloc(16).toString("base64"),
      }),
    ),
    { name: "BadDigest" },
  );
  t.strictSame(server.objects("photos"), []);
});

t.test(
  "without a signature only writes are taken, and only by a bucket that is open to them",
  async (t) => {
    const { client, server } = await withBucket(t);
    await client.send(new CreateBucketCommand({ Bucket: "open", ACL: "public-read-write" }));
    const asked = async (method: string, path: string): Promise<number> => {
      const body = method === "PUT" ? { body: "x" } : {};
      return (await fetch(`${server.url}${path}`, { method, ...body })).status;
    };
    t.equal(await asked("PUT", "/open/k"), 200);
    t.equal(await asked("GET", "/open/k"), 403, "the ACL of a bucket reads no object");
    t.equal(await asked("PUT", "/open?acl"), 403);
    t.equal(await asked("PUT", "/photos/k"), 403);
    t.equal(await asked("PUT", "/absent/k"), 403);
    t.strictSame(server.objects("photos"), []);
    t.match(server.objects("open"), [{ key: "k" }]);
  },
);
