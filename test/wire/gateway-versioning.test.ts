// What keeps a bucket on one cluster, and what a browser asks before it asks: versioning, object lock
// and CORS preflights over clusters that keep settings.

import {
  CreateBucketCommand,
  GetBucketVersioningCommand,
  PutBucketCorsCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import { startTestHeadgate } from "../support/headgate.ts";

const enabled = { Status: "Enabled" } as const;

t.test("a versioned bucket is on one cluster, or stays unversioned", async (t) => {
  const { s3, clusters, client } = await startTestHeadgate(t);
  const holders = (name: string): number =>
    Object.values(clusters).filter((cluster) => cluster.buckets().some((bucket) => bucket === name))
      .length;
  const retrying = client({ maxAttempts: 4 });
  await s3.send(new CreateBucketCommand({ Bucket: "empty" }));
  t.equal(holders("empty"), 3);
  await retrying.send(
    new PutBucketVersioningCommand({ Bucket: "empty", VersioningConfiguration: enabled }),
  );
  t.equal(holders("empty"), 1, "brought onto one while it was empty");
  t.match(await s3.send(new GetBucketVersioningCommand({ Bucket: "empty" })), enabled);
  await s3.send(new PutObjectCommand({ Bucket: "empty", Key: "k", Body: "x" }));
  t.equal(holders("empty"), 1);

  await s3.send(new CreateBucketCommand({ Bucket: "filled" }));
  await s3.send(new PutObjectCommand({ Bucket: "filled", Key: "k", Body: "x" }));
  await t.rejects(
    s3.send(new PutBucketVersioningCommand({ Bucket: "filled", VersioningConfiguration: enabled })),
    { name: "VersionedBucketPinned", $metadata: { httpStatusCode: 409 } },
  );
  t.equal(holders("filled"), 3);

  await s3.send(new CreateBucketCommand({ Bucket: "locked", ObjectLockEnabledForBucket: true }));
  t.equal(holders("locked"), 1, "object lock means versions from the start");
});

t.test("an empty bucket with settings does not move with the wheel", async (t) => {
  const { s3, clusters, admin } = await startTestHeadgate(t);
  for (const Bucket of ["kept", "moved"]) await s3.send(new CreateBucketCommand({ Bucket }));
  const cors = { CORSRules: [{ AllowedMethods: ["GET"], AllowedOrigins: ["*"] }] };
  await s3.send(new PutBucketCorsCommand({ Bucket: "kept", CORSConfiguration: cors }));
  t.equal((await admin("POST", "/clusters/c/drain", {})).status, 204);
  for (const Bucket of ["kept", "moved"]) {
    await s3.send(new PutObjectCommand({ Bucket, Key: "x", Body: "x" })).catch(() => null);
  }
  t.strictSame(clusters["c"]?.buckets(), ["kept"]);
});

t.test("a preflight goes unsigned to the bucket's rules, whatever it carries", async (t) => {
  const { s3, url, clusters } = await startTestHeadgate(t, { clusters: { a: 1 } });
  await s3.send(new CreateBucketCommand({ Bucket: "browsed" }));
  const ask = async (path: string): Promise<Response> =>
    await fetch(`${url}${path}`, {
      method: "OPTIONS",
      headers: { origin: "https://a.example", "access-control-request-method": "GET" },
    });
  // A demo cluster answers nobody without a signature; that it was asked is what is seen here.
  t.equal((await ask("/browsed/k?X-Amz-Credential=no/20260101/r/s3/aws4_request")).status, 403);
  const [asked] = (clusters["a"]?.exchanges() ?? []).filter(({ method }) => method === "OPTIONS");
  t.equal(asked?.target, "/browsed/k");
  const names = (asked?.rawHeaders ?? []).map((text) => text.toLowerCase());
  t.ok(names.includes("origin") && names.includes("access-control-request-method"));
  t.notOk(names.includes("authorization"));
  const before = clusters["a"]?.exchanges().length;
  t.equal((await ask("/unknown/k")).status, 404);
  t.equal((await ask("/")).status, 400);
  t.equal(clusters["a"]?.exchanges().length, before, "nobody is looked up for a preflight");
});
