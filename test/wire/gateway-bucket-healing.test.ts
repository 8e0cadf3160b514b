// What is left of a bucket when a cluster fails or the process ends in the middle of making or deleting
// it, and how it becomes whole again.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  GetBucketLocationCommand,
  GetBucketPolicyCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListBucketsCommand,
  PutBucketPolicyCommand,
  PutObjectCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { DemoServer } from "../../proxy/demo/server.ts";
import { clusterKeys, startClusters, startTestHeadgate } from "../support/headgate.ts";
import { until } from "../support/raw-upstream.ts";

const unavailable = { name: "ServiceUnavailable", $metadata: { httpStatusCode: 503 } };
type Servers = Readonly<Record<string, DemoServer>>;

function holders(clusters: Servers, bucket: string): readonly string[] {
  return Object.keys(clusters).filter((id) =>
    clusters[id]?.buckets().some((name) => name === bucket),
  );
}

async function names(s3: S3Client): Promise<readonly (string | undefined)[]> {
  return ((await s3.send(new ListBucketsCommand({}))).Buckets ?? []).map(({ Name }) => Name);
}

/** One key for each of the three clusters, almost surely. */
async function fill(s3: S3Client, Bucket: string): Promise<void> {
  for (let n = 0; n < 12; n += 1) {
    await s3.send(new PutObjectCommand({ Bucket, Key: `k-${n}`, Body: "x" }));
  }
}

for (const [fault, text] of [
  ["reset", "breaks the connection"],
  [{ status: 500 }, "answers 500"],
  [{ status: 503 }, "answers 503"],
] as const) {
  t.test(`whichever cluster ${text}, a creation is no bucket and heals`, async (t) => {
    const { s3, clusters, admin } = await startTestHeadgate(t);
    for (const id of ["a", "b", "c"]) {
      const Bucket = `half-${id}`;
      clusters[id]?.setFault(({ method }) => (method === "PUT" ? fault : null));
      await t.rejects(s3.send(new CreateBucketCommand({ Bucket })), unavailable);
      await t.rejects(s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "x" })), {
        name: "NoSuchBucket",
      });
      t.strictSame(await names(s3), [], "a list does not show what HEAD does not find");
      t.match(await admin("GET", `/buckets/${Bucket}`), { body: { phase: "creating" } });
      if (id === "b") await s3.send(new DeleteBucketCommand({ Bucket }));
      clusters[id]?.setFault(null);
      if (id === "b") {
        t.strictSame(holders(clusters, Bucket), [], "what was half made can be deleted");
        continue;
      }
      await s3.send(new CreateBucketCommand({ Bucket }));
      t.strictSame(holders(clusters, Bucket), ["a", "b", "c"]);
      await fill(s3, Bucket);
      for (let n = 0; n < 12; n += 1) {
        await s3.send(new DeleteObjectCommand({ Bucket, Key: `k-${n}` }));
      }
      await s3.send(new DeleteBucketCommand({ Bucket }));
      t.strictSame(holders(clusters, Bucket), []);
    }
  });
}

function stateFile(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), "headgate-healing-"));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return `state: {driver: file, file: {path: ${join(folder, "state.json")}}}`;
}

/** Stalls what `method` asks of cluster c, and tells when it was asked. */
function stall(server: DemoServer | undefined, method: string): () => Promise<void> {
  let asked = false;
  server?.setFault((request) => {
    if (request.method !== method || request.target.includes("?")) return null;
    asked = true;
    return "stall";
  });
  return () => until(() => asked);
}

t.test("a process that ends while it creates a bucket leaves one that heals", async (t) => {
  const servers = await startClusters(t, ["a", "b", "c"]);
  const settings = stateFile(t);
  const first = await startTestHeadgate(t, { servers, settings });
  const stalled = stall(servers["c"], "PUT");
  const lost = first.s3.send(new CreateBucketCommand({ Bucket: "crashed" })).catch(() => null);
  await stalled();
  await until(() => holders(servers, "crashed").length === 2);
  await first.stop();
  await lost;
  servers["c"]?.setFault(null);
  const { s3 } = await startTestHeadgate(t, { servers, settings });
  await t.rejects(s3.send(new HeadBucketCommand({ Bucket: "crashed" })), { name: "NotFound" });
  t.strictSame(await names(s3), []);
  await s3.send(new CreateBucketCommand({ Bucket: "crashed" }));
  t.strictSame(holders(servers, "crashed"), ["a", "b", "c"]);
  await fill(s3, "crashed");
});

t.test("a process that ends while it deletes a bucket leaves one that heals", async (t) => {
  const servers = await startClusters(t, ["a", "b", "c"]);
  const settings = stateFile(t);
  const first = await startTestHeadgate(t, { servers, settings });
  for (const Bucket of ["by-write", "by-delete", "by-create"]) {
    await first.s3.send(new CreateBucketCommand({ Bucket }));
  }
  const stalled = stall(servers["b"], "DELETE");
  const lost = ["by-write", "by-delete", "by-create"].map((Bucket) =>
    first.s3.send(new DeleteBucketCommand({ Bucket })).catch(() => null),
  );
  await stalled();
  // The last cluster is asked first, and the first one, which readers are answered from, last.
  await until(() => servers["c"]?.buckets().length === 0);
  t.strictSame(holders(servers, "by-write"), ["a", "b"]);
  await first.stop();
  await Promise.all(lost);
  servers["b"]?.setFault(null);
  let aheadMs = 0;
  const { s3 } = await startTestHeadgate(t, { servers, settings, aheadMs: () => aheadMs });
  await s3.send(new DeleteBucketCommand({ Bucket: "by-delete" }));
  t.strictSame(holders(servers, "by-delete"), [], "the same request again finishes it at once");

  const put = new PutObjectCommand({ Bucket: "by-write", Key: "k", Body: "x" });
  const slowDown = { name: "SlowDown", $metadata: { httpStatusCode: 503 } };
  const create = new CreateBucketCommand({ Bucket: "by-create" });
  for (const passedMs of [0, 60_000]) {
    aheadMs += passedMs;
    await t.rejects(s3.send(put), slowDown, "the deletion may still be carried out");
    await t.rejects(s3.send(create), slowDown);
  }
  aheadMs += 61_000;
  await s3.send(put);
  await s3.send(create);
  for (const Bucket of ["by-write", "by-create"]) {
    t.strictSame(holders(servers, Bucket), ["a", "b", "c"], "nobody was told that it is gone");
    await fill(s3, Bucket);
  }
});

t.test("a deletion that can neither go on nor be taken back heals at the next write", async (t) => {
  let aheadMs = 0;
  const { s3, clusters } = await startTestHeadgate(t, { aheadMs: () => aheadMs });
  await s3.send(new CreateBucketCommand({ Bucket: "torn" }));
  clusters["b"]?.setFault(({ method }) =>
    method === "DELETE" || method === "HEAD" ? "reset" : null,
  );
  await t.rejects(s3.send(new DeleteBucketCommand({ Bucket: "torn" })), unavailable);
  t.strictSame(holders(clusters, "torn"), ["a", "b"], "gone from the cluster that is asked first");
  clusters["b"]?.setFault(null);
  const put = new PutObjectCommand({ Bucket: "torn", Key: "k", Body: "x" });
  await t.rejects(s3.send(put), { name: "SlowDown" });
  aheadMs += 121_000;
  await s3.send(put);
  t.strictSame(holders(clusters, "torn"), ["a", "b", "c"]);
  const got = await s3.send(new GetObjectCommand({ Bucket: "torn", Key: "k" }));
  t.equal(await got.Body?.transformToString(), "x");
});

t.test("a deletion that a cluster refuses in its midst gives settings back", async (t) => {
  const { s3, client, clusters, logLines } = await startTestHeadgate(t);
  const Bucket = "kept";
  await s3.send(new CreateBucketCommand({ Bucket }));
  const Policy = '{"Version":"2012-10-17","Statement":[]}';
  await s3.send(new PutBucketPolicyCommand({ Bucket, Policy }));
  // Somebody wrote past Headgate between the look and the deletion there.
  clusters["a"]?.setFault(({ method }) =>
    method === "DELETE" ? { status: 409, code: "BucketNotEmpty" } : null,
  );
  const notEmpty = { name: "BucketNotEmpty", $metadata: { httpStatusCode: 409 } };
  await t.rejects(s3.send(new DeleteBucketCommand({ Bucket })), notEmpty);
  clusters["a"]?.setFault(null);
  for (const id of ["a", "b", "c"]) {
    const direct = client({ endpoint: clusters[id]?.url ?? "", credentials: clusterKeys });
    t.equal((await direct.send(new GetBucketPolicyCommand({ Bucket }))).Policy, Policy, id);
  }
  const healed = logLines.filter(({ event }) => event === "bucket.drift");
  t.strictSame(new Set(healed.map(({ fields }) => fields["cluster"])), new Set(["b", "c"]));
  await fill(s3, Bucket);
});

t.test("a deletion of a bucket that holds something is in nobody's way", async (t) => {
  for (const weights of [{ a: 1 }, { a: 1, b: 1 }]) {
    const { s3, clusters, admin } = await startTestHeadgate(t, { clusters: weights });
    await s3.send(new CreateBucketCommand({ Bucket: "busy" }));
    await fill(s3, "busy");
    const record = await admin("GET", "/buckets/busy");
    await t.rejects(s3.send(new DeleteBucketCommand({ Bucket: "busy" })), {
      name: "BucketNotEmpty",
    });
    t.strictSame(await admin("GET", "/buckets/busy"), record, "its record was never another");
    for (const cluster of Object.values(clusters)) {
      t.notOk(cluster.exchanges().some(({ method }) => method === "DELETE"));
    }
  }
});

function located(Bucket: string, location: string): CreateBucketCommand {
  // The SDK's type lists only AWS regions; RGW and we take any text.
  const CreateBucketConfiguration = JSON.parse(JSON.stringify({ LocationConstraint: location }));
  return new CreateBucketCommand({ Bucket, CreateBucketConfiguration });
}

t.test("a location is a cluster, a region or anywhere", async (t) => {
  const settings = "buckets: {location: cluster}";
  const { s3, clusters, admin } = await startTestHeadgate(t, { settings });
  const location = async (Bucket: string): Promise<unknown> =>
    (await s3.send(new GetBucketLocationCommand({ Bucket }))).LocationConstraint;
  await s3.send(located("on-b", "b"));
  t.strictSame(holders(clusters, "on-b"), ["b"]);
  t.equal(await location("on-b"), "b");
  await fill(s3, "on-b");
  t.equal(clusters["b"]?.objects("on-b").length, 12);
  t.match(await admin("GET", "/buckets/on-b/placement"), {
    body: { placement: { b: 1 }, mode: "strict" },
  });
  await s3.send(located("regional", "us-east-1"));
  await s3.send(new CreateBucketCommand({ Bucket: "anywhere" }));
  for (const Bucket of ["regional", "anywhere"]) {
    t.strictSame(holders(clusters, Bucket), ["a", "b", "c"]);
    t.notMatch(await location(Bucket), /^[abc]$/, "a bucket on several tells a region");
    t.equal((await admin("GET", `/buckets/${Bucket}/placement`)).status, 404);
  }
  t.equal((await admin("POST", "/clusters/b/drain", {})).status, 204);
  await t.rejects(s3.send(located("on-b-too", "b")), { name: "DrainRefused" });
  await t.rejects(location("absent"), { name: "NoSuchBucket" });
});

t.test("by default a location is what the cluster says", async (t) => {
  const { s3 } = await startTestHeadgate(t);
  await s3.send(located("on-b", "b"));
  t.notMatch(await s3.send(new GetBucketLocationCommand({ Bucket: "on-b" })), {
    LocationConstraint: "b",
  });
});
