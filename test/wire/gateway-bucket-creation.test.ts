// A bucket that is created again while it is deleted or moved, whose record is older than its end, of which
// half was made, and that a cluster refuses.

import {
  CreateBucketCommand,
  type CreateBucketCommandInput,
  DeleteBucketCommand,
  DeleteObjectCommand,
  HeadBucketCommand,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { DemoServer } from "../../proxy/demo/server.ts";
import { clusterKeys, otherKeys, startClusters, startTestHeadgate } from "../support/headgate.ts";
import { holdingRelay } from "../support/holding-relay.ts";
import { until } from "../support/raw-http.ts";

const Bucket = "again";
const slowDown = { name: "SlowDown", $metadata: { httpStatusCode: 503 } };

async function scene(t: Test) {
  const servers = await startClusters(t, ["a", "b", "c"]);
  const door = await holdingRelay(t, servers["c"]?.url ?? "");
  const creations = (request: string): boolean => request === `PUT /${Bucket}`;
  const headgate = await startTestHeadgate(t, { servers, endpoints: { c: door.url } });
  const holders = (): readonly string[] =>
    Object.keys(servers).filter((id) => servers[id]?.buckets().some((name) => name === Bucket));
  return { ...headgate, door, creations, holders };
}

t.test("a bucket that is deleted while it is created again is gone", async (t) => {
  const { s3, door, creations, holders, admin } = await scene(t);
  await s3.send(new CreateBucketCommand({ Bucket }));
  door.holds = creations;
  const again = s3.send(new CreateBucketCommand({ Bucket })).catch((caught: unknown) => caught);
  const held = await door.held();
  const gone = s3.send(new DeleteBucketCommand({ Bucket }));
  await until(async () =>
    /"phase":"deleting"/.test(JSON.stringify((await admin("GET", `/buckets/${Bucket}`)).body)),
  );
  t.strictSame(holders(), ["a", "b", "c"], "it waits for what was begun");
  door.holds = () => false;
  await held.pass();
  t.match(await again, slowDown);
  await gone;
  t.strictSame(holders(), [], "what was made is taken away");
  t.equal((await admin("GET", `/buckets/${Bucket}`)).status, 404);
  await t.rejects(s3.send(new HeadBucketCommand({ Bucket })), { name: "NotFound" });
  await s3.send(new CreateBucketCommand({ Bucket }));
  t.strictSame(holders(), ["a", "b", "c"], "and again it is a new one");
});

t.test("a change of route waits for a bucket that is created again", async (t) => {
  const { s3, door, creations, holders, admin } = await scene(t);
  await s3.send(new CreateBucketCommand({ Bucket }));
  door.holds = creations;
  const again = s3.send(new CreateBucketCommand({ Bucket })).catch((caught: unknown) => caught);
  const held = await door.held();
  const placement = { placement: { a: 1 } };
  const moved = admin("PUT", `/buckets/${Bucket}/placement`, placement);
  const phase = async (): Promise<unknown> =>
    JSON.stringify((await admin("GET", `/buckets/${Bucket}`)).body);
  while (!/"phase":"rerouting"/.test(String(await phase())));
  await t.rejects(s3.send(new CreateBucketCommand({ Bucket })), slowDown);
  t.strictSame(holders(), ["a", "b", "c"]);
  door.holds = () => false;
  await held.pass();
  t.match(await again, slowDown);
  t.ok([200, 204].includes((await moved).status));
  t.strictSame(holders(), ["a"]);
  await s3.send(new CreateBucketCommand({ Bucket }));
  t.strictSame(holders(), ["a"]);
});

t.test("a bucket that went behind its record is created afresh", async (t) => {
  const { client, clusters, s3, holders, admin } = await scene(t);
  const direct = new S3Client({
    endpoint: clusters["a"]?.url ?? "",
    region: "us-east-1",
    forcePathStyle: true,
    credentials: clusterKeys,
    requestChecksumCalculation: "WHEN_REQUIRED",
  });
  t.teardown(() => direct.destroy());
  await direct.send(new CreateBucketCommand({ Bucket }));
  await s3.send(new HeadBucketCommand({ Bucket }));
  t.match(await admin("GET", `/buckets/${Bucket}`), { body: { origin: "discovered" } });
  await s3.send(new CreateBucketCommand({ Bucket }));
  t.strictSame(holders(), ["a"], "one that is there stays as it was found");
  await direct.send(new DeleteBucketCommand({ Bucket }));
  await client({ maxAttempts: 4 }).send(new CreateBucketCommand({ Bucket }));
  t.strictSame(holders(), ["a", "b", "c"]);
  t.match(await admin("GET", `/buckets/${Bucket}`), { body: { origin: "created", extra: [] } });
  for (const Key of ["k1", "k2", "k3", "k4"]) {
    await s3.send(new PutObjectCommand({ Bucket, Key, Body: "x" }));
    await s3.send(new DeleteObjectCommand({ Bucket, Key }));
  }
  await s3.send(new DeleteBucketCommand({ Bucket }));
});

/** What the cluster made its bucket of: the fields of the last creation that no deletion followed. */
function madeOf(server: DemoServer | undefined, bucket: string): readonly string[] {
  const about = server?.exchanges().filter(({ target }) => target === `/${bucket}`) ?? [];
  const made = about.slice(about.findLastIndex(({ method }) => method === "DELETE") + 1);
  const fields = made.find(({ method }) => method === "PUT")?.rawHeaders ?? [];
  return fields.filter((name) => /^x-amz-(?:acl|grant|object-own|bucket-object)/.test(name));
}

const at = (cluster: string): CreateBucketCommandInput["CreateBucketConfiguration"] =>
  // The SDK's type lists only AWS regions; RGW and we take any text.
  JSON.parse(JSON.stringify({ LocationConstraint: cluster }));
type Asked = Omit<CreateBucketCommandInput, "Bucket">;
const otherwise: readonly (readonly [string, Asked, Asked, string | null, number])[] = [
  ["object lock", {}, { ObjectLockEnabledForBucket: true }, "x-amz-bucket-object-lock-enabled", 1],
  ["no object lock", { ObjectLockEnabledForBucket: true }, {}, null, 3],
  ["an ACL", {}, { ACL: "public-read" }, "x-amz-acl", 3],
  ["another ACL", { ACL: "public-read" }, { ACL: "private" }, "x-amz-acl", 3],
  ["a grant", {}, { GrantRead: "id=reader" }, "x-amz-grant-read", 3],
  ["ownership", {}, { ObjectOwnership: "ObjectWriter" }, "x-amz-object-ownership", 3],
  ["one cluster", {}, { CreateBucketConfiguration: at("a") }, null, 1],
  [
    "another cluster",
    { CreateBucketConfiguration: at("b") },
    { CreateBucketConfiguration: at("a") },
    null,
    1,
  ],
];

t.test("what failed halfway is not what another request asks for", async (t) => {
  const { s3, clusters, admin } = await startTestHeadgate(t);
  for (const [index, [what, first, second, field, count]] of otherwise.entries()) {
    const name = `half-${index}`;
    for (const each of Object.values(clusters)) {
      // One of three is made; of a bucket on one cluster none is.
      const isMade = each === clusters["c"] && first.ObjectLockEnabledForBucket !== true;
      each.setFault(({ method }) => (method === "PUT" && !isMade ? "reset" : null));
    }
    const unavailable = { name: "ServiceUnavailable" };
    await t.rejects(s3.send(new CreateBucketCommand({ Bucket: name, ...first })), unavailable);
    for (const each of Object.values(clusters)) each.setFault(null);
    await s3.send(new CreateBucketCommand({ Bucket: name, ...second }));
    const there = Object.keys(clusters).filter((id) =>
      clusters[id]?.buckets().some((bucket) => bucket === name),
    );
    t.equal(there.length, count, what);
    const made = there.map((id) => madeOf(clusters[id], name));
    t.strictSame(
      made,
      Array.from(there, () => (field === null ? [] : [field])),
      what,
    );
    const { body } = await admin("GET", `/buckets/${name}`);
    const weights = Object.fromEntries(there.map((id) => [id, /./]));
    t.match(body, { phase: "settled", extra: [], route: { weights: count === 1 ? weights : {} } });
    await s3.send(new CreateBucketCommand({ Bucket: name, ...second }));
  }
});

t.test("what somebody filled meanwhile is found, and not cleared away", async (t) => {
  const { client, s3, clusters, admin } = await startTestHeadgate(t);
  for (const again of [
    new CreateBucketCommand({ Bucket, ACL: "public-read" }),
    new DeleteBucketCommand({ Bucket }),
  ]) {
    clusters["b"]?.setFault(({ method }) => (method === "PUT" ? "reset" : null));
    await t.rejects(s3.send(new CreateBucketCommand({ Bucket })), { name: "ServiceUnavailable" });
    clusters["b"]?.setFault(null);
    const direct = client({ endpoint: clusters["a"]?.url ?? "", credentials: clusterKeys });
    await direct.send(new PutObjectCommand({ Bucket, Key: "k", Body: "x" }));
    await t.rejects(s3.send(again), { name: /^(?:SlowDown|BucketNotEmpty)$/ });
    await s3.send(new HeadBucketCommand({ Bucket }));
    t.match(await admin("GET", `/buckets/${Bucket}`), {
      body: { origin: "discovered", route: { weights: { a: 1 } } },
    });
    await s3.send(new DeleteObjectCommand({ Bucket, Key: "k" }));
    await s3.send(new DeleteBucketCommand({ Bucket }));
  }
});

t.test("a creation that a cluster refuses leaves nothing, and says why", async (t) => {
  const { s3, client, clusters, admin } = await startTestHeadgate(t);
  const other = client({ credentials: otherKeys });
  for (const [status, code] of [
    [400, "InvalidArgument"],
    [404, "NoSuchKey"],
  ] as const) {
    for (const id of ["a", "c"]) {
      const name = `refused-${status}-${id}`;
      clusters[id]?.setFault(({ method }) => (method === "PUT" ? { status, code } : null));
      const create = new CreateBucketCommand({ Bucket: name });
      await t.rejects(s3.send(create), { name: code, $metadata: { httpStatusCode: status } });
      clusters[id]?.setFault(null);
      for (const each of Object.values(clusters)) t.notOk(each.buckets().length, name);
      t.equal((await admin("GET", `/buckets/${name}`)).status, 404, "no record stays");
      await other.send(create);
      await t.rejects(s3.send(create), { name: "BucketAlreadyExists" });
      await other.send(new DeleteBucketCommand({ Bucket: name }));
    }
  }
});

t.test("a name that was claimed and taken by nobody is anybody's in the end", async (t) => {
  let aheadMs = 0;
  const { s3, client, clusters, admin } = await startTestHeadgate(t, { aheadMs: () => aheadMs });
  const other = client({ credentials: otherKeys });
  const taken = { name: "BucketAlreadyExists", $metadata: { httpStatusCode: 409 } };
  for (const left of ["creating", "clearing"]) {
    const name = `claimed-${left}`;
    const create = new CreateBucketCommand({ Bucket: name });
    const drop = new DeleteBucketCommand({ Bucket: name });
    clusters["b"]?.setFault(({ method }) => (method === "HEAD" ? null : { status: 503 }));
    await t.rejects(s3.send(create), { name: "ServiceUnavailable" });
    if (left === "clearing") await t.rejects(s3.send(drop), { name: "ServiceUnavailable" });
    clusters["b"]?.setFault(null);
    t.match(await admin("GET", `/buckets/${name}`), { body: { phase: left } });
    for (const passedMs of [0, 119_000]) {
      aheadMs += passedMs;
      await t.rejects(other.send(create), taken);
      await t.rejects(other.send(drop), { name: "NoSuchBucket" }, "there is none for a reader");
    }
    aheadMs += 2_000;
    await t.rejects(other.send(drop), { name: "NoSuchBucket" });
    await other.send(create);
    for (const each of Object.values(clusters)) {
      const about = each.exchanges().filter(({ target }) => target === `/${name}`);
      const methods = about.map(({ method }) => method).filter((method) => method !== "HEAD");
      t.strictSame(methods.slice(-2), ["DELETE", "PUT"], "it is begun anew");
    }
    await t.rejects(s3.send(create), taken);
    await other.send(drop);
  }
});

t.test("a bucket is not created again as what it cannot be", async (t) => {
  const { s3 } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket }));
  const located = { Bucket: "located", CreateBucketConfiguration: at("b") };
  await s3.send(new CreateBucketCommand(located));
  for (const input of [
    { Bucket, ObjectLockEnabledForBucket: true },
    { Bucket, CreateBucketConfiguration: at("a") },
    { ...located, CreateBucketConfiguration: at("a") },
  ]) {
    const refused = { name: "BucketAlreadyOwnedByYou", $metadata: { httpStatusCode: 409 } };
    await t.rejects(s3.send(new CreateBucketCommand(input)), refused);
  }
  for (const input of [{ Bucket }, located, { Bucket: "located" }]) {
    await s3.send(new CreateBucketCommand(input));
  }
});
