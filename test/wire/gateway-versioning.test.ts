// What keeps a bucket on one cluster, and what a browser asks before it asks: versioning, object lock
// and CORS preflights over clusters that keep settings.

import {
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetBucketVersioningCommand,
  GetObjectCommand,
  PutBucketAclCommand,
  PutBucketCorsCommand,
  PutBucketLifecycleConfigurationCommand,
  PutBucketLoggingCommand,
  PutBucketNotificationConfigurationCommand,
  PutBucketPolicyCommand,
  PutBucketReplicationCommand,
  PutBucketRequestPaymentCommand,
  PutBucketTaggingCommand,
  PutBucketVersioningCommand,
  PutBucketWebsiteCommand,
  PutObjectCommand,
  PutObjectLockConfigurationCommand,
  PutPublicAccessBlockCommand,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import { startTestHeadgate } from "../support/headgate.ts";

const enabled = { Status: "Enabled" } as const;
const aclOf = (Permission: "READ" | "FULL_CONTROL") => ({
  Owner: { ID: "owner" },
  Grants: [{ Grantee: { ID: "owner", Type: "CanonicalUser" as const }, Permission }],
});

t.test("a versioned bucket is on one cluster, or stays unversioned", async (t) => {
  const { s3, clusters } = await startTestHeadgate(t);
  const holders = (name: string): number =>
    Object.values(clusters).filter((cluster) => cluster.buckets().some((bucket) => bucket === name))
      .length;
  await s3.send(new CreateBucketCommand({ Bucket: "empty" }));
  t.equal(holders("empty"), 3);
  await s3.send(
    new PutBucketVersioningCommand({ Bucket: "empty", VersioningConfiguration: enabled }),
  );
  t.equal(holders("empty"), 1, "brought onto one while it was empty");
  t.match(await s3.send(new GetBucketVersioningCommand({ Bucket: "empty" })), enabled);
  await s3.send(new PutObjectCommand({ Bucket: "empty", Key: "k", Body: "x" }));
  t.equal(holders("empty"), 1);
  const ObjectLockConfiguration = { ObjectLockEnabled: "Enabled" } as const;
  await s3.send(
    new PutObjectLockConfigurationCommand({ Bucket: "empty", ObjectLockConfiguration }),
  );
  t.equal(holders("empty"), 1);

  await s3.send(new CreateBucketCommand({ Bucket: "locked", ObjectLockEnabledForBucket: true }));
  t.equal(holders("locked"), 1, "object lock means versions from the start");
});

t.test("objects that are all on one cluster become versioned where they are", async (t) => {
  const { s3, clusters, admin } = await startTestHeadgate(t);
  const where = (Bucket: string): readonly string[] =>
    Object.keys(clusters).filter((id) =>
      clusters[id]?.buckets().some((bucket) => bucket === Bucket),
    );
  for (const Status of ["Enabled", "Suspended"] as const) {
    const Bucket = `becomes-${Status.toLowerCase()}`;
    await s3.send(new CreateBucketCommand({ Bucket }));
    await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "kept" }));
    const upload = { Bucket, Key: "k" };
    const { UploadId } = await s3.send(new CreateMultipartUploadCommand(upload));
    const holder = Object.keys(clusters).filter((id) => clusters[id]?.objects(Bucket).length === 1);
    await s3.send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status } }));
    t.match(await s3.send(new GetBucketVersioningCommand({ Bucket })), { Status });
    t.strictSame(where(Bucket), holder, "gone from where it held nothing");
    t.match(await admin("GET", `/buckets/${Bucket}`), {
      body: { route: { weights: { [holder[0] ?? ""]: 1 }, spread: "bucket", mode: "strict" } },
    });
    const got = await s3.send(new GetObjectCommand({ Bucket, Key: "k" }));
    t.equal(await got.Body?.transformToString(), "kept");
    const part = new UploadPartCommand({ ...upload, UploadId, PartNumber: 1, Body: "part" });
    t.match(await s3.send(part), { ETag: /"/ }, "an upload that began before goes on");
  }
});

t.test("an empty bucket becomes versioned where it can be written to", async (t) => {
  const { s3, clusters, admin } = await startTestHeadgate(t, { clusters: { a: 1, b: 1 } });
  const buckets = ["one", "three"];
  for (const Bucket of buckets) await s3.send(new CreateBucketCommand({ Bucket }));
  t.equal((await admin("POST", "/clusters/a/drain", {})).status, 204);
  for (const Bucket of buckets) {
    const versioning = { Bucket, VersioningConfiguration: enabled };
    await s3.send(new PutBucketVersioningCommand(versioning));
    await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "x" }));
  }
  t.strictSame([...(clusters["b"]?.buckets() ?? [])].sort(), buckets.toSorted());
  t.strictSame(clusters["a"]?.buckets(), []);
});

t.test("objects on several clusters are refused, with the way out", async (t) => {
  const { s3, clusters } = await startTestHeadgate(t);
  const Bucket = "spread";
  await s3.send(new CreateBucketCommand({ Bucket }));
  for (let n = 0; n < 12; n += 1) {
    await s3.send(new PutObjectCommand({ Bucket, Key: `k${n}`, Body: "x" }));
  }
  const refused = {
    name: "VersionedBucketPinned",
    message: /Create another bucket, switch versioning on while it is empty, and copy/,
    $metadata: { httpStatusCode: 409 },
  };
  // Suspended, too: each cluster would make delete markers from then on.
  for (const Status of ["Enabled", "Suspended"] as const) {
    const write = new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status } });
    await t.rejects(s3.send(write), refused, Status);
  }
  const ObjectLockConfiguration = { ObjectLockEnabled: "Enabled" } as const;
  await t.rejects(
    s3.send(new PutObjectLockConfigurationCommand({ Bucket, ObjectLockConfiguration })),
    { name: "InvalidBucketState", $metadata: { httpStatusCode: 409 } },
  );
  for (const cluster of Object.values(clusters)) {
    const puts = cluster.exchanges().filter(({ method }) => method === "PUT");
    t.notMatch(JSON.stringify(puts.map(({ target }) => target)), /versioning|object-lock/);
    t.strictSame(cluster.buckets(), [Bucket]);
  }
});

t.test("a versioned bucket stays on its cluster, empty or not", async (t) => {
  const { s3, clusters, admin } = await startTestHeadgate(t);
  for (const Bucket of ["empty", "filled"]) {
    await s3.send(new CreateBucketCommand({ Bucket }));
    const versioning = { Bucket, VersioningConfiguration: enabled };
    await s3.send(new PutBucketVersioningCommand(versioning));
    if (Bucket === "filled") await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "x" }));
    const holder = (): readonly string[] =>
      Object.keys(clusters).filter((id) => clusters[id]?.buckets().some((name) => name === Bucket));
    const [home = ""] = holder();
    const elsewhere = home === "a" ? "b" : "a";
    for (const query of ["?dry_run=true", ""]) {
      const placed = await admin("PUT", `/buckets/${Bucket}/placement${query}`, {
        placement: { [elsewhere]: 1 },
      });
      t.match(placed, { status: 409, body: { code: "VersionedBucketPinned" } }, Bucket + query);
    }
    const spread = await admin("PUT", `/buckets/${Bucket}/placement`, {
      placement: { [elsewhere]: 1, [home]: 1 },
      spread: "object",
    });
    t.match(spread, { status: 409, body: { code: "VersionedBucketPinned" } });
    t.equal((await admin("POST", `/clusters/${home}/drain`, {})).status, 204);
    await t.rejects(s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "x" })), {
      name: "DrainRefused",
    });
    t.strictSame(holder(), [home]);
    t.equal((await admin("POST", `/clusters/${home}/undrain`, {})).status, 204);
    await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "x" }));
    t.strictSame(holder(), [home]);
  }
});

t.test("an empty bucket with settings joins no cluster by itself, but leaves one", async (t) => {
  const states = { c: "pending" };
  const { s3, clusters, admin } = await startTestHeadgate(t, { states });
  const cors = { CORSRules: [{ AllowedMethods: ["GET"], AllowedOrigins: ["*"] }] };
  const Status = "Enabled" as const;
  const settings = {
    acl: (Bucket: string) =>
      s3.send(new PutBucketAclCommand({ Bucket, AccessControlPolicy: aclOf("READ") })),
    policy: (Bucket: string) =>
      s3.send(new PutBucketPolicyCommand({ Bucket, Policy: '{"Statement":[1]}' })),
    "public-access": (Bucket: string) =>
      s3.send(
        new PutPublicAccessBlockCommand({
          Bucket,
          PublicAccessBlockConfiguration: { BlockPublicAcls: true },
        }),
      ),
    cors: (Bucket: string) =>
      s3.send(new PutBucketCorsCommand({ Bucket, CORSConfiguration: cors })),
    lifecycle: (Bucket: string) =>
      s3.send(
        new PutBucketLifecycleConfigurationCommand({
          Bucket,
          LifecycleConfiguration: {
            Rules: [{ ID: "x", Status, Filter: { Prefix: "a" }, Expiration: { Days: 3 } }],
          },
        }),
      ),
    tagging: (Bucket: string) =>
      s3.send(
        new PutBucketTaggingCommand({ Bucket, Tagging: { TagSet: [{ Key: "a", Value: "b" }] } }),
      ),
    website: (Bucket: string) =>
      s3.send(
        new PutBucketWebsiteCommand({
          Bucket,
          WebsiteConfiguration: { IndexDocument: { Suffix: "index.html" } },
        }),
      ),
    logging: (Bucket: string) =>
      s3.send(
        new PutBucketLoggingCommand({
          Bucket,
          BucketLoggingStatus: { LoggingEnabled: { TargetBucket: "logs", TargetPrefix: "x" } },
        }),
      ),
    notification: (Bucket: string) =>
      s3.send(
        new PutBucketNotificationConfigurationCommand({
          Bucket,
          NotificationConfiguration: {
            TopicConfigurations: [{ TopicArn: "arn:x", Events: ["s3:ObjectCreated:*"] }],
          },
        }),
      ),
    "request-payment": (Bucket: string) =>
      s3.send(
        new PutBucketRequestPaymentCommand({
          Bucket,
          RequestPaymentConfiguration: { Payer: "Requester" },
        }),
      ),
    replication: (Bucket: string) =>
      s3.send(
        new PutBucketReplicationCommand({
          Bucket,
          ReplicationConfiguration: {
            Role: "arn:role",
            Rules: [{ Status, Destination: { Bucket: "arn:elsewhere" } }],
          },
        }),
      ),
  } as const;
  const defaults = {
    moved: null,
    "with-defaults": (Bucket: string) =>
      s3.send(
        new PutBucketRequestPaymentCommand({
          Bucket,
          RequestPaymentConfiguration: { Payer: "BucketOwner" },
        }),
      ),
    "private-acl": (Bucket: string) =>
      s3.send(new PutBucketAclCommand({ Bucket, AccessControlPolicy: aclOf("FULL_CONTROL") })),
  } as const;
  for (const [Bucket, setting] of Object.entries({ ...settings, ...defaults })) {
    await s3.send(new CreateBucketCommand({ Bucket }));
    await setting?.(Bucket);
  }
  t.strictSame(clusters["c"]?.buckets(), []);
  t.equal((await admin("POST", "/clusters/c/activate", { weight: 3 })).status, 204);
  for (const Bucket of Object.keys({ ...settings, ...defaults })) {
    await s3.send(new PutObjectCommand({ Bucket, Key: "x", Body: "x" }));
    await s3.send(new DeleteObjectCommand({ Bucket, Key: "x" }));
  }
  const moved = Object.keys(defaults).toSorted();
  t.strictSame(
    [...(clusters["c"]?.buckets() ?? [])].sort(),
    moved,
    "others would have nothing there",
  );
  // Those that stay have them, so nothing is lost by leaving.
  await s3.send(new CreateBucketCommand({ Bucket: "leaving" }));
  await s3.send(new PutBucketCorsCommand({ Bucket: "leaving", CORSConfiguration: cors }));
  t.ok(clusters["c"]?.buckets().some((name) => name === "leaving"));
  t.equal((await admin("POST", "/clusters/c/drain", {})).status, 204);
  await s3.send(new PutObjectCommand({ Bucket: "leaving", Key: "x", Body: "x" }));
  t.notOk(clusters["c"]?.buckets().some((name) => name === "leaving"));
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
