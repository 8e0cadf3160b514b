// Where bytes go while weights, states, pins and placements change: the recorded route decides, an
// empty bucket follows policy at once, a non-empty one stays and says so.

import {
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  GetObjectCommand,
  ListPartsCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import type { TestHeadgate } from "../support/headgate.ts";
import { startTestHeadgate } from "../support/headgate.ts";

function counts(headgate: TestHeadgate, bucket: string): Readonly<Record<string, number>> {
  return Object.fromEntries(
    Object.entries(headgate.clusters).map(([id, cluster]) => [id, cluster.objects(bucket).length]),
  );
}

async function put(s3: S3Client, Bucket: string, keys: number): Promise<void> {
  await Promise.all(
    Array.from({ length: keys }, (_, n) =>
      s3.send(new PutObjectCommand({ Bucket, Key: `key-${n}`, Body: "x" })),
    ),
  );
}

const drainRefused = { name: "DrainRefused", $metadata: { httpStatusCode: 503 } };

t.test("objects land by weight, within four sigma", async (t) => {
  const headgate = await startTestHeadgate(t);
  await headgate.s3.send(new CreateBucketCommand({ Bucket: "shares" }));
  const total = 600;
  await put(headgate.s3, "shares", total);
  const found = counts(headgate, "shares");
  for (const [id, share] of [
    ["a", 1 / 6],
    ["b", 2 / 6],
    ["c", 3 / 6],
  ] as const) {
    const sigma = Math.sqrt(total * share * (1 - share));
    t.ok(Math.abs((found[id] ?? 0) - total * share) <= 4 * sigma, `${id}: ${found[id]}`);
  }
});

t.test(
  "a drained owner refuses writes of a non-empty bucket; reads, deletes, undrain go on",
  async (t) => {
    // https://github.com/pda/flexihash/issues/25
    const headgate = await startTestHeadgate(t, { clusters: { only: 5 } });
    const { s3, admin } = headgate;
    await s3.send(new CreateBucketCommand({ Bucket: "stays" }));
    await put(s3, "stays", 1);
    t.equal((await admin("POST", "/clusters/only/drain", { mode: "readonly" })).status, 204);
    await t.rejects(put(s3, "stays", 2), drainRefused);
    await t.rejects(s3.send(new CreateBucketCommand({ Bucket: "none-left" })), drainRefused);
    const got = await s3.send(new GetObjectCommand({ Bucket: "stays", Key: "key-0" }));
    t.equal(await got.Body?.transformToString(), "x");
    t.equal((await admin("POST", "/clusters/only/undrain", {})).status, 204);
    await put(s3, "stays", 2);
    t.match(await admin("GET", "/clusters/only"), { body: { state: "live", weight: 5 } });
  },
);

t.test("a new bucket keeps off a draining cluster, an empty one leaves it", async (t) => {
  const headgate = await startTestHeadgate(t, { clusters: { a: 1, b: 1 } });
  const { s3, admin, clusters } = headgate;
  await s3.send(new CreateBucketCommand({ Bucket: "empty" }));
  await admin("POST", "/clusters/b/drain", { mode: "readonly" });
  await s3.send(new CreateBucketCommand({ Bucket: "fresh" }));
  await put(s3, "fresh", 20);
  await put(s3, "empty", 20);
  t.strictSame(counts(headgate, "fresh"), { a: 20, b: 0 });
  t.strictSame(counts(headgate, "empty"), { a: 20, b: 0 });
  t.strictSame(clusters["b"]?.buckets(), [], "the empty bucket was taken off the drained cluster");
  await admin("POST", "/clusters/b/undrain", {});
  await put(s3, "empty", 20);
  t.strictSame(counts(headgate, "empty"), { a: 20, b: 0 }, "a non-empty bucket stays");
});

t.test("weights changed on a non-empty bucket move no key", async (t) => {
  const headgate = await startTestHeadgate(t, { clusters: { a: 1, b: 1 } });
  const { s3, admin } = headgate;
  await s3.send(new CreateBucketCommand({ Bucket: "settled" }));
  await put(s3, "settled", 40);
  const before = counts(headgate, "settled");
  t.equal((await admin("PUT", "/clusters/a/weight", { weight: 0 })).status, 204);
  await put(s3, "settled", 40);
  t.strictSame(counts(headgate, "settled"), before);
  await s3.send(new CreateBucketCommand({ Bucket: "later" }));
  await put(s3, "later", 10);
  t.strictSame(counts(headgate, "later"), { a: 0, b: 10 });
});

t.test(
  "a placement is free on an empty bucket and busy on one that would have to move keys",
  async (t) => {
    const headgate = await startTestHeadgate(t, {
      clusters: { a: 1, b: 1 },
      states: { b: "pending" },
    });
    const { s3, admin } = headgate;
    await s3.send(new CreateBucketCommand({ Bucket: "placed" }));
    const placement = { placement: { b: 1 }, mode: "strict" };
    t.equal((await admin("PUT", "/buckets/placed/placement", placement)).status, 204);
    await put(s3, "placed", 5);
    t.strictSame(counts(headgate, "placed"), { a: 0, b: 5 }, "a pending cluster named is written");
    t.match(
      await admin("PUT", "/buckets/placed/placement", { placement: { a: 1 }, mode: "strict" }),
      {
        status: 409,
        body: { code: "PlacementBusy" },
      },
    );
    t.equal(
      (await admin("PUT", "/buckets/placed/placement", { placement: { b: 7 }, mode: "weighted" }))
        .status,
      204,
      "what moves no key is free",
    );
    t.match(await admin("PUT", "/buckets/placed/placement", { placement: { nowhere: 1 } }), {
      status: 400,
      body: { code: "UnknownCluster" },
    });
  },
);

t.test("a strict bucket never leaves its placement", async (t) => {
  const headgate = await startTestHeadgate(t, { clusters: { a: 1, b: 1 } });
  const { s3, admin } = headgate;
  await s3.send(new CreateBucketCommand({ Bucket: "strict" }));
  await admin("POST", "/clusters/b/drain", { mode: "readonly" });
  const placement = { placement: { b: 1 }, mode: "strict" };
  t.equal((await admin("PUT", "/buckets/strict/placement", placement)).status, 204);
  await t.rejects(put(s3, "strict", 3), drainRefused);
  await admin("POST", "/clusters/b/undrain", {});
  await put(s3, "strict", 3);
  t.strictSame(counts(headgate, "strict"), { a: 0, b: 3 });
});

t.test("a storage class pinned to another cluster than the recorded owner is 501", async (t) => {
  const headgate = await startTestHeadgate(t, {
    clusters: { a: 1, b: 1 },
    settings: "classes: {GLACIER: b}",
  });
  const { s3 } = headgate;
  await s3.send(new CreateBucketCommand({ Bucket: "classes" }));
  await put(s3, "classes", 8);
  const statuses = new Set<number | undefined>();
  for (let n = 0; n < 8; n += 1) {
    try {
      const Key = `cold-${n}`;
      await s3.send(
        new PutObjectCommand({ Bucket: "classes", Key, Body: "x", StorageClass: "GLACIER" }),
      );
      t.ok(headgate.clusters["b"]?.objects("classes").some(({ key }) => key === Key));
      statuses.add(200);
    } catch (error) {
      t.match(error, { name: "NotImplemented" });
      statuses.add(501);
    }
  }
  t.strictSame(
    [...statuses].toSorted((x = 0, y = 0) => x - y),
    [200, 501],
  );
});

t.test("a multipart upload completes where it began, through a drain", async (t) => {
  const headgate = await startTestHeadgate(t, { clusters: { a: 1, b: 1 } });
  const { s3, admin, clusters } = headgate;
  const at = { Bucket: "parts", Key: "big" };
  await s3.send(new CreateBucketCommand({ Bucket: "parts" }));
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand(at));
  for (const id of ["a", "b"]) await admin("POST", `/clusters/${id}/drain`, { mode: "readonly" });
  const Parts = [];
  for (const [index, size] of [300_000, 5, 70_000].entries()) {
    const PartNumber = index + 1;
    const Body = Buffer.alloc(size, 65 + index);
    const { ETag } = await s3.send(new UploadPartCommand({ ...at, UploadId, PartNumber, Body }));
    Parts.push({ PartNumber, ETag });
  }
  const listed = await s3.send(new ListPartsCommand({ ...at, UploadId }));
  t.strictSame(
    listed.Parts?.map(({ Size }) => Size),
    [300_000, 5, 70_000],
  );
  t.equal(listed.UploadId, UploadId);
  const done = await s3.send(
    new CompleteMultipartUploadCommand({ ...at, UploadId, MultipartUpload: { Parts } }),
  );
  t.match(done.ETag, /^"[0-9a-f]{32}-3"$/);
  t.equal(done.Location, `${headgate.url}/parts/big`);
  const got = await s3.send(new GetObjectCommand(at));
  t.equal((await got.Body?.transformToByteArray())?.length, 370_005);
  const homes = Object.values(clusters).map((cluster) => cluster.objects("parts").length);
  t.strictSame(
    homes.toSorted((x, y) => x - y),
    [0, 1],
  );
  await t.rejects(s3.send(new ListPartsCommand({ ...at, Key: "other", UploadId })), {
    name: "NoSuchUpload",
  });
  await t.rejects(s3.send(new CreateMultipartUploadCommand(at)), drainRefused);
});

t.test("a dead cluster stops no write to another, whatever policy would want now", async (t) => {
  const headgate = await startTestHeadgate(t, { clusters: { a: 1, b: 1 } });
  const { s3, admin, clusters } = headgate;
  await s3.send(new CreateBucketCommand({ Bucket: "lonely" }));
  await put(s3, "lonely", 30);
  const onA = clusters["a"]?.objects("lonely").map(({ key }) => String(key)) ?? [];
  t.ok(onA.length > 0);
  // Another process would not remember that the bucket holds something.
  const fresh = await startTestHeadgate(t, { clusters: { a: 3, b: 1 }, servers: clusters });
  clusters["b"]?.setFault(() => "reset");
  await admin("PUT", "/clusters/a/weight", { weight: 3 });
  for (const Key of onA) await s3.send(new PutObjectCommand({ Bucket: "lonely", Key, Body: "y" }));
  t.equal(fresh.clusters, clusters);
});

t.test(
  "an operator's placement is stored or refused, never taken for another's change",
  async (t) => {
    const headgate = await startTestHeadgate(t, { clusters: { a: 1, b: 1 } });
    const { s3, admin, clusters } = headgate;
    await s3.send(new CreateBucketCommand({ Bucket: "contended" }));
    await admin("PUT", "/clusters/a/weight", { weight: 0 });
    const writing = put(s3, "contended", 1);
    const placing = admin("PUT", "/buckets/contended/placement", {
      placement: { a: 1 },
      mode: "strict",
    });
    const [, { status }] = await Promise.all([writing.catch(() => {}), placing]);
    const stored = await admin("GET", "/buckets/contended/placement");
    if (status === 204)
      t.match(stored, { status: 200, body: { placement: { a: 1 }, mode: "strict" } });
    else t.match(stored, { status: 404 }, `refused with ${status}`);
    t.ok(clusters["a"] !== undefined);
  },
);

t.test("a bucket is put where all it has lies, by an operator and never by a drain", async (t) => {
  const { s3, clusters, admin } = await startTestHeadgate(t);
  const Bucket = "small";
  await s3.send(new CreateBucketCommand({ Bucket }));
  await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "x" }));
  const ids = Object.keys(clusters);
  const having = (): readonly string[] =>
    ids.filter((id) => clusters[id]?.buckets().some((name) => name === Bucket));
  const [home = ""] = ids.filter((id) => clusters[id]?.objects(Bucket).length === 1);
  const others = ids.filter((id) => id !== home);
  for (const id of others) t.equal((await admin("POST", `/clusters/${id}/drain`, {})).status, 204);
  await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "y" }));
  t.strictSame(having(), ids, "it would stay there after the drain");
  for (const id of others) {
    t.equal((await admin("POST", `/clusters/${id}/undrain`, {})).status, 204);
  }
  const put = (id: string) =>
    admin("PUT", `/buckets/${Bucket}/placement`, { placement: { [id]: 1 } });
  t.match(await put(others[0] ?? ""), { status: 409, body: { code: "PlacementBusy" } });
  t.equal((await put(home)).status, 204);
  t.strictSame(having(), [home]);
  const got = await s3.send(new GetObjectCommand({ Bucket, Key: "k" }));
  t.equal(await got.Body?.transformToString(), "y");
});
