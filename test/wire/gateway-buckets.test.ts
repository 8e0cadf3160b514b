// Buckets over several clusters: created everywhere or healed, deleted only when empty everywhere,
// found where they stand already, listed as one.

import {
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  GetBucketLocationCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListBucketsCommand,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import t from "tap";
import type { DemoServer } from "../../proxy/demo/server.ts";
import { otherKeys, readerKeys, startClusters, startTestHeadgate } from "../support/headgate.ts";

const unavailable = { name: "ServiceUnavailable", $metadata: { httpStatusCode: 503 } };

/** A client of one cluster, past Headgate, as somebody who was there before it. */
function direct(server: DemoServer | undefined): S3Client {
  return new S3Client({
    endpoint: server?.url ?? "",
    region: "us-east-1",
    forcePathStyle: true,
    credentials: { accessKeyId: "cluster-service", secretAccessKey: "cluster-service-secret" },
    requestChecksumCalculation: "WHEN_REQUIRED",
    maxAttempts: 1,
  });
}

t.test("a bucket that holds open uploads alone is deleted with them", async (t) => {
  const { s3, clusters } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "uploads" }));
  for (const Key of ["a", "b", "c", "d"]) {
    await s3.send(new CreateMultipartUploadCommand({ Bucket: "uploads", Key }));
  }
  await s3.send(new DeleteBucketCommand({ Bucket: "uploads" }));
  for (const cluster of Object.values(clusters)) t.strictSame(cluster.buckets(), []);
});

t.test("a name that no new bucket may have is refused with the rule", async (t) => {
  const { s3, clusters } = await startTestHeadgate(t, { clusters: { a: 1 } });
  const rows: readonly (readonly [string, RegExp])[] = [
    ["ab", /3 to 63 characters/],
    ["b".repeat(64), /3 to 63 characters/],
    ["Upper", /lower-case letters/],
    ["under_score", /lower-case letters/],
    ["-begin", /begins and ends/],
    ["end.", /begins and ends/],
    ["two..dots", /two dots/],
    ["127.0.0.1", /IP address/],
    ["name!", /nothing but letters, digits/],
    ["swift", /named "swift"/],
    ["a-b:name", /tenant/],
  ];
  for (const [Bucket, message] of rows) {
    const refused = { name: "InvalidBucketName", message, $metadata: { httpStatusCode: 400 } };
    await t.rejects(s3.send(new CreateBucketCommand({ Bucket })), refused, Bucket);
  }
  for (const Bucket of ["abc", "b".repeat(63), "a.b-c", "127.0.0.1.x", "1-2"]) {
    await s3.send(new CreateBucketCommand({ Bucket }));
  }
  t.equal(clusters["a"]?.buckets().length, 5);
});

t.test("a bucket is created on every cluster of its route and deleted from all", async (t) => {
  const { s3, clusters, admin } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "everywhere" }));
  for (const cluster of Object.values(clusters)) t.strictSame(cluster.buckets(), ["everywhere"]);
  await s3.send(new HeadBucketCommand({ Bucket: "everywhere" }));
  await s3.send(new CreateBucketCommand({ Bucket: "everywhere" }));
  await s3.send(new GetBucketLocationCommand({ Bucket: "everywhere" }));
  t.equal((await admin("GET", "/buckets/everywhere")).status, 200);

  await s3.send(new PutObjectCommand({ Bucket: "everywhere", Key: "k", Body: "x" }));
  await t.rejects(s3.send(new DeleteBucketCommand({ Bucket: "everywhere" })), {
    name: "BucketNotEmpty",
    $metadata: { httpStatusCode: 409 },
  });
  for (const cluster of Object.values(clusters)) t.strictSame(cluster.buckets(), ["everywhere"]);
  await s3.send(new DeleteObjectCommand({ Bucket: "everywhere", Key: "k" }));
  await s3.send(new DeleteBucketCommand({ Bucket: "everywhere" }));
  for (const cluster of Object.values(clusters)) t.strictSame(cluster.buckets(), []);
  await t.rejects(s3.send(new GetObjectCommand({ Bucket: "everywhere", Key: "k" })), {
    name: "NoSuchBucket",
  });
  await s3.send(new CreateBucketCommand({ Bucket: "everywhere" }));
  await s3.send(new PutObjectCommand({ Bucket: "everywhere", Key: "k", Body: "y" }));
});

t.test("a creation that fails on one cluster is no bucket, and heals when repeated", async (t) => {
  const { s3, clusters } = await startTestHeadgate(t);
  clusters["b"]?.setFault(({ method }) => (method === "PUT" ? { status: 503 } : null));
  await t.rejects(s3.send(new CreateBucketCommand({ Bucket: "half" })), unavailable);
  await t.rejects(s3.send(new PutObjectCommand({ Bucket: "half", Key: "k", Body: "x" })), {
    name: "NoSuchBucket",
  });
  clusters["b"]?.setFault(null);
  await s3.send(new CreateBucketCommand({ Bucket: "half" }));
  await s3.send(new PutObjectCommand({ Bucket: "half", Key: "k", Body: "x" }));
  for (const cluster of Object.values(clusters)) t.strictSame(cluster.buckets(), ["half"]);
});

t.test("a deletion that fails on one cluster can be repeated to its end", async (t) => {
  const { s3, clusters } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "leaving" }));
  clusters["c"]?.setFault(({ method }) => (method === "DELETE" ? "reset" : null));
  await t.rejects(s3.send(new DeleteBucketCommand({ Bucket: "leaving" })), unavailable);
  clusters["c"]?.setFault(null);
  await s3.send(new DeleteBucketCommand({ Bucket: "leaving" }));
  for (const cluster of Object.values(clusters)) t.strictSame(cluster.buckets(), []);
});

t.test("a bucket that is there before Headgate is served where it stands", async (t) => {
  const servers = await startClusters(t, ["a", "b", "c"]);
  const owner = direct(servers["b"]);
  t.teardown(() => owner.destroy());
  await owner.send(new CreateBucketCommand({ Bucket: "old-bucket" }));
  await owner.send(new PutObjectCommand({ Bucket: "old-bucket", Key: "was/here", Body: "old" }));
  const { s3, admin, clusters } = await startTestHeadgate(t, { servers });
  const got = await s3.send(new GetObjectCommand({ Bucket: "old-bucket", Key: "was/here" }));
  t.equal(await got.Body?.transformToString(), "old");
  for (let n = 0; n < 12; n += 1) {
    await s3.send(new PutObjectCommand({ Bucket: "old-bucket", Key: `new-${n}`, Body: "x" }));
  }
  t.equal(clusters["b"]?.objects("old-bucket").length, 13, "stays on its one cluster");
  t.match(await admin("GET", "/buckets/old-bucket/placement"), {
    status: 200,
    body: { placement: { b: 1 }, mode: "strict" },
  });
});

t.test("a bucket on several clusters is read in order and reported", async (t) => {
  const servers = await startClusters(t, ["a", "b"]);
  for (const id of ["a", "b"]) {
    const owner = direct(servers[id]);
    t.teardown(() => owner.destroy());
    await owner.send(new CreateBucketCommand({ Bucket: "twice" }));
    await owner.send(new PutObjectCommand({ Bucket: "twice", Key: `only-${id}`, Body: id }));
    await owner.send(new PutObjectCommand({ Bucket: "twice", Key: "both", Body: id }));
  }
  const { s3, admin } = await startTestHeadgate(t, { servers, clusters: { a: 1, b: 1 } });
  for (const [Key, body] of [
    ["only-a", "a"],
    ["only-b", "b"],
    ["both", "a"],
  ] as const) {
    const got = await s3.send(new GetObjectCommand({ Bucket: "twice", Key }));
    t.equal(await got.Body?.transformToString(), body, Key);
  }
  t.match(await admin("GET", "/buckets/twice"), { body: { conflict: true } });
  servers["a"]?.setFault(() => "reset");
  await t.rejects(s3.send(new GetObjectCommand({ Bucket: "twice", Key: "only-b" })), unavailable);
});

t.test("while a cluster does not answer, an unknown bucket is 503 and not recorded", async (t) => {
  const { s3, clusters, admin } = await startTestHeadgate(t);
  clusters["a"]?.setFault(() => "reset");
  await t.rejects(s3.send(new GetObjectCommand({ Bucket: "unknown", Key: "k" })), unavailable);
  clusters["a"]?.setFault(null);
  await t.rejects(s3.send(new GetObjectCommand({ Bucket: "unknown", Key: "k" })), {
    name: "NoSuchBucket",
  });
  t.equal((await admin("GET", "/buckets/unknown")).status, 404);
  const before = clusters["b"]?.exchanges().length;
  await t.rejects(s3.send(new GetObjectCommand({ Bucket: "unknown", Key: "k" })), {
    name: "NoSuchBucket",
  });
  t.equal(clusters["b"]?.exchanges().length, before, "absence is remembered");
  await s3.send(new CreateBucketCommand({ Bucket: "unknown" }));
  await s3.send(new PutObjectCommand({ Bucket: "unknown", Key: "k", Body: "x" }));
});

t.test(
  "ListBuckets merges clusters, shows what the caller may see, and is whole or 503",
  async (t) => {
    const servers = await startClusters(t, ["a", "b"]);
    const owner = direct(servers["b"]);
    t.teardown(() => owner.destroy());
    await owner.send(new CreateBucketCommand({ Bucket: "shown-old" }));
    const { s3, client, clusters } = await startTestHeadgate(t, {
      servers,
      clusters: { a: 1, b: 1 },
    });
    for (const Bucket of ["shown-new", "hidden"])
      await s3.send(new CreateBucketCommand({ Bucket }));
    const names = async (s3: S3Client): Promise<readonly (string | undefined)[] | undefined> =>
      (await s3.send(new ListBucketsCommand({}))).Buckets?.map(({ Name }) => Name);
    t.strictSame(await names(s3), ["hidden", "shown-new", "shown-old"]);
    t.strictSame(await names(client({ credentials: readerKeys })), ["shown-new", "shown-old"]);
    const first = await s3.send(new ListBucketsCommand({ MaxBuckets: 2 }));
    t.strictSame(
      first.Buckets?.map(({ Name }) => Name),
      ["hidden", "shown-new"],
    );
    const rest = await s3.send(
      new ListBucketsCommand({ MaxBuckets: 2, ContinuationToken: first.ContinuationToken }),
    );
    t.strictSame(
      rest.Buckets?.map(({ Name }) => Name),
      ["shown-old"],
    );
    clusters["b"]?.setFault(() => "reset");
    await t.rejects(names(s3), unavailable);
  },
);

t.test(
  "names that S3 does not allow for new buckets are refused before a cluster is asked",
  async (t) => {
    const { s3, clusters } = await startTestHeadgate(t);
    for (const Bucket of ["Upper", "a", "dot..dot", "192.168.1.1"]) {
      await t.rejects(s3.send(new CreateBucketCommand({ Bucket })), {
        name: /./,
        $metadata: { httpStatusCode: 400 },
      });
    }
    for (const cluster of Object.values(clusters)) t.strictSame(cluster.buckets(), []);
  },
);

t.test("a location must be the region of a cluster", async (t) => {
  const { s3, clusters } = await startTestHeadgate(t);
  const create = (Bucket: string, region: string) =>
    new CreateBucketCommand({
      Bucket,
      // The SDK's type lists only AWS regions; RGW and we take any text.
      CreateBucketConfiguration: JSON.parse(JSON.stringify({ LocationConstraint: region })),
    });
  await t.rejects(s3.send(create("located", "mars-1")), { name: "InvalidLocationConstraint" });
  for (const cluster of Object.values(clusters)) t.strictSame(cluster.buckets(), []);
  await s3.send(create("located", "us-east-1"));
});

t.test("a deletion that fails leaves a bucket that can be written", async (t) => {
  const { s3, clusters } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "kept" }));
  clusters["c"]?.setFault(({ method }) => (method === "DELETE" ? { status: 500 } : null));
  await t.rejects(s3.send(new DeleteBucketCommand({ Bucket: "kept" })), unavailable);
  clusters["c"]?.setFault(null);
  for (let n = 0; n < 6; n += 1) {
    await s3.send(new PutObjectCommand({ Bucket: "kept", Key: `k-${n}`, Body: "x" }));
  }
  for (const cluster of Object.values(clusters)) t.strictSame(cluster.buckets(), ["kept"]);
});

t.test("somebody else's bucket is not theirs to create, in any phase", async (t) => {
  const { s3, client, clusters } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "shown-mine" }));
  clusters["b"]?.setFault(({ method }) => (method === "PUT" ? { status: 503 } : null));
  await t.rejects(s3.send(new CreateBucketCommand({ Bucket: "shown-half" })), unavailable);
  clusters["b"]?.setFault(null);
  const other = client({ credentials: otherKeys });
  for (const Bucket of ["shown-mine", "shown-half"]) {
    await t.rejects(other.send(new CreateBucketCommand({ Bucket })), {
      name: "BucketAlreadyExists",
    });
  }
});
