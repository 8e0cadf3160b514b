// Two whole Headgates over one etcd and the same clusters: what one of them changes is in force on the
// other, and an empty bucket leaves a drained cluster only when no member can still put a byte there.

import { spawnSync } from "node:child_process";
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  GetBucketPolicyCommand,
  GetObjectCommand,
  PutBucketPolicyCommand,
  PutObjectCommand,
  S3,
  type S3Client,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { skipWithoutEtcd, TestEtcd } from "../support/bridge-etcd.ts";
import type { TestHeadgate } from "../support/headgate.ts";
import { clusterKeys, startClusters, startTestHeadgate } from "../support/headgate.ts";
import { holdingRelay } from "../support/holding-relay.ts";
import { openRaw, rawHead, until } from "../support/raw-http.ts";

const skip = skipWithoutEtcd();
t.setTimeout(120_000);

interface Pair {
  readonly etcd: TestEtcd;
  readonly one: TestHeadgate;
  readonly two: TestHeadgate;
}

async function openPair(t: Test): Promise<Pair> {
  const etcd = await TestEtcd.start();
  t.teardown(() => etcd.stop());
  const servers = await startClusters(t, ["a", "b"]);
  const settings = `state: {driver: etcd, etcd: {endpoints: ["${etcd.url}"]}}`;
  const options = { servers, clusters: { a: 1, b: 1 }, settings };
  const one = await startTestHeadgate(t, options);
  const two = await startTestHeadgate(t, options);
  return { etcd, one, two };
}

async function put(s3: S3Client, Bucket: string, keys: number): Promise<void> {
  for (let n = 0; n < keys; n += 1) {
    await s3.send(new PutObjectCommand({ Bucket, Key: `key-${n}`, Body: "x" }));
  }
}

function held({ clusters }: TestHeadgate, bucket: string): readonly (number | undefined)[] {
  return ["a", "b"].map((id) => clusters[id]?.objects(bucket).length);
}

/** Until the other process applies what this one was answered 204 for. */
async function drained({ admin }: TestHeadgate, id: string): Promise<void> {
  await until(async () => {
    const { body } = await admin("GET", `/clusters/${id}`);
    return JSON.stringify(body).includes("draining_readonly");
  });
}

t.test(
  "an empty bucket follows a drain, whichever process it is written through",
  { skip },
  async (t) => {
    const { one, two } = await openPair(t);
    await one.s3.send(new CreateBucketCommand({ Bucket: "moves" }));
    await one.admin("POST", "/clusters/b/drain", { mode: "readonly" });
    await drained(two, "b");
    await put(two.s3, "moves", 10);
    t.strictSame(held(one, "moves"), [10, 0]);
    await put(one.s3, "moves", 12);
    t.strictSame(held(one, "moves"), [12, 0], "both use the same route");
    t.strictSame(one.clusters["b"]?.buckets(), []);
  },
);

t.test(
  "a write past its commit point holds the move up, and its object is kept",
  { skip },
  async (t) => {
    const { one, two } = await openPair(t);
    await one.s3.send(new CreateBucketCommand({ Bucket: "held" }));
    // The other process's write has passed its commit point and waits for the cluster.
    const key = "in-flight";
    for (const id of ["a", "b"]) {
      one.clusters[id]?.setFault(({ target }) =>
        target.startsWith(`/held/${key}`) ? "stall" : null,
      );
    }
    const late = await openRaw(two.url);
    await late.write(rawHead(two.url, { method: "PUT", path: `/held/${key}`, contentLength: 1 }));
    await late.write("x");
    const asked = (id: string): boolean =>
      one.clusters[id]?.exchanges().some(({ target }) => target.startsWith(`/held/${key}`)) ??
      false;
    await until(() => asked("a") || asked("b"));
    const owner = asked("a") ? "a" : "b";
    await one.admin("POST", `/clusters/${owner}/drain`, { mode: "readonly" });
    await drained(two, owner);
    const refusals: unknown[] = [];
    for (let n = 0; n < 6; n += 1) {
      const command = new PutObjectCommand({ Bucket: "held", Key: `k-${n}`, Body: "x" });
      await one.s3.send(command).catch((error: unknown) => refusals.push(error));
    }
    t.ok(refusals.length > 0, "keys of the drained owner are refused while the move waits");
    for (const error of refusals) t.match(error, { $metadata: { httpStatusCode: 503 } });
    t.ok(
      one.clusters[owner]?.buckets().some((name) => name === "held"),
      "the bucket was not taken away",
    );
    late.socket.destroy();
  },
);

t.test("a process that died holds moves up until it is forgotten", { skip }, async (t) => {
  const { etcd, one } = await openPair(t);
  await one.s3.send(new CreateBucketCommand({ Bucket: "waits" }));
  const record = { schema: 1, updated_at: "2026-11-29T00:00:00.000Z", updated_by: "test" };
  const dead = { ...record, node_id: "gone", mode: "full", started_at: record.updated_at };
  const value = JSON.stringify({ ...dead, version: "0.1.0", acked: "0" });
  const written = spawnSync(
    "etcdctl",
    ["--endpoints", etcd.url, "put", "/headgate/v1/members/dead", value],
    {
      env: { ...process.env, ETCDCTL_API: "3" },
    },
  );
  t.equal(written.status, 0);
  await one.admin("POST", "/clusters/b/drain", { mode: "readonly" });
  const outcomes = await Promise.allSettled(
    Array.from({ length: 8 }, (_, n) =>
      one.s3.send(new PutObjectCommand({ Bucket: "waits", Key: `k-${n}`, Body: "x" })),
    ),
  );
  const refused = outcomes.filter(({ status }) => status === "rejected");
  t.ok(refused.length > 0 && refused.length < 8, "only keys of the drained cluster are refused");
  t.match(await one.admin("DELETE", "/members/dead"), { status: 204 });
  const got = await one.s3.send(new GetObjectCommand({ Bucket: "waits", Key: keyOf(outcomes) }));
  t.equal(got.$metadata.httpStatusCode, 200);
  await one.s3.send(new CreateBucketCommand({ Bucket: "free" }));
  await put(one.s3, "free", 4);
  t.strictSame(held(one, "free"), [4, 0]);
});

t.test("a bucket that both processes find at once is there for both", { skip }, async (t) => {
  const { one, two } = await openPair(t);
  const direct = new S3({
    endpoint: one.clusters["b"]?.url ?? "",
    region: "us-east-1",
    forcePathStyle: true,
    credentials: { accessKeyId: "cluster-service", secretAccessKey: "cluster-service-secret" },
    requestChecksumCalculation: "WHEN_REQUIRED",
  });
  t.teardown(() => direct.destroy());
  for (let n = 0; n < 5; n += 1) {
    const Bucket = `found-${n}`;
    await direct.createBucket({ Bucket });
    await direct.putObject({ Bucket, Key: "k", Body: "x" });
    const asked = [one, two, one, two].map(({ s3 }) =>
      s3.send(new GetObjectCommand({ Bucket, Key: "k" })),
    );
    for (const got of await Promise.all(asked)) t.equal(got.$metadata.httpStatusCode, 200);
  }
});

t.test("phases of a bucket that two processes change at once", { skip }, async (t) => {
  const etcd = await TestEtcd.start();
  t.teardown(() => etcd.stop());
  const servers = await startClusters(t, ["a", "b"]);
  const doors = {
    a: await holdingRelay(t, servers["a"]?.url ?? ""),
    b: await holdingRelay(t, servers["b"]?.url ?? ""),
  };
  const settings = `state: {driver: etcd, etcd: {endpoints: ["${etcd.url}"]}}`;
  const endpoints = { a: doors.a.url, b: doors.b.url };
  const options = { servers, clusters: { a: 1, b: 1 }, settings, endpoints };
  const one = await startTestHeadgate(t, options);
  const two = await startTestHeadgate(t, options);
  const slowDown = { name: "SlowDown", $metadata: { httpStatusCode: 503 } };
  const holders = (Bucket: string): readonly string[] =>
    ["a", "b"].filter((id) => servers[id]?.buckets().some((name) => name === Bucket));
  const isIn = async (Bucket: string, phase: string): Promise<void> =>
    until(async () => {
      const { body } = await one.admin("GET", `/buckets/${Bucket}`);
      return JSON.stringify(body).includes(`"phase":"${phase}"`);
    });
  /** What the second process asks of a cluster waits until it is let through. */
  const holding = async (door: keyof typeof doors, asked: string, send: () => Promise<unknown>) => {
    doors[door].holds = (request) => request === asked;
    const late = send().catch((caught: unknown) => caught);
    const held = await doors[door].held();
    doors[door].holds = () => false;
    return { held, late };
  };

  await t.test("one that asks for the same goes along", async (t) => {
    const Bucket = "same";
    const create = new CreateBucketCommand({ Bucket });
    const { held, late } = await holding("b", `PUT /${Bucket}`, () => two.s3.send(create));
    await isIn(Bucket, "creating");
    await one.s3.send(create);
    t.strictSame(holders(Bucket), ["a", "b"]);
    await held.pass();
    t.match(await late, { $metadata: { httpStatusCode: 200 } });
    t.strictSame(holders(Bucket), ["a", "b"]);
  });

  await t.test("one that asks for something else makes what it asks for alone", async (t) => {
    const Bucket = "other";
    const plain = new CreateBucketCommand({ Bucket });
    const { held, late } = await holding("b", `PUT /${Bucket}`, () => two.s3.send(plain));
    await isIn(Bucket, "creating");
    const locked = one.s3.send(
      new CreateBucketCommand({ Bucket, ObjectLockEnabledForBucket: true }),
    );
    await isIn(Bucket, "clearing");
    t.strictSame(holders(Bucket), ["a"], "nothing is taken away while more may be made");
    await held.pass();
    t.match(await late, slowDown);
    t.match(await locked, { $metadata: { httpStatusCode: 200 } });
    const [holder = "", ...others] = holders(Bucket);
    t.strictSame(others, []);
    const asked = servers[holder]?.exchanges().findLast(({ target }) => target === `/${Bucket}`);
    t.ok(asked?.rawHeaders.includes("x-amz-bucket-object-lock-enabled"), "made with object lock");
    t.match(await two.admin("GET", `/buckets/${Bucket}`), {
      body: { phase: "settled", route: { spread: "bucket", weights: { [holder]: 1 } } },
    });
  });

  await t.test("a deletion takes away what is made beside it", async (t) => {
    const Bucket = "unmade";
    const create = new CreateBucketCommand({ Bucket });
    const { held, late } = await holding("b", `PUT /${Bucket}`, () => two.s3.send(create));
    await isIn(Bucket, "creating");
    const gone = one.s3.send(new DeleteBucketCommand({ Bucket }));
    await isIn(Bucket, "clearing");
    await held.pass();
    t.match(await late, slowDown);
    t.match(await gone, { $metadata: { httpStatusCode: 204 } });
    t.strictSame(holders(Bucket), []);
    t.equal((await two.admin("GET", `/buckets/${Bucket}`)).status, 404);
  });

  await t.test(
    "a deletion waits for a write that was begun, and leaves all as it was",
    async (t) => {
      const Bucket = "written";
      await two.s3.send(new CreateBucketCommand({ Bucket }));
      const Policy = '{"Version":"2012-10-17","Statement":[]}';
      await two.s3.send(new PutBucketPolicyCommand({ Bucket, Policy }));
      for (const door of Object.values(doors)) {
        door.holds = (request) => request.startsWith(`PUT /${Bucket}/`);
      }
      const late = two.s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "x" }));
      const held = await Promise.race([doors.a.held(), doors.b.held()]);
      const gone = one.s3
        .send(new DeleteBucketCommand({ Bucket }))
        .catch((caught: unknown) => caught);
      await isIn(Bucket, "deleting");
      await held.pass();
      t.match(await late, { $metadata: { httpStatusCode: 200 } });
      t.match(await gone, { name: "BucketNotEmpty", $metadata: { httpStatusCode: 409 } });
      await isIn(Bucket, "settled");
      for (const id of ["a", "b"]) {
        const direct = two.client({ endpoint: servers[id]?.url ?? "", credentials: clusterKeys });
        t.equal((await direct.send(new GetBucketPolicyCommand({ Bucket }))).Policy, Policy, id);
      }
    },
  );
});

function keyOf(outcomes: readonly PromiseSettledResult<unknown>[]): string {
  return `k-${outcomes.findIndex(({ status }) => status === "fulfilled")}`;
}

t.test("a bucket that is healed while another process deletes it is gone", { skip }, async (t) => {
  const etcd = await TestEtcd.start();
  t.teardown(() => etcd.stop());
  const servers = await startClusters(t, ["a", "b"]);
  const relay = await holdingRelay(t, servers["b"]?.url ?? "");
  const settings = `state: {driver: etcd, etcd: {endpoints: ["${etcd.url}"]}}`;
  const endpoints = { b: relay.url };
  const options = { servers, clusters: { a: 1, b: 1 }, settings, endpoints };
  const one = await startTestHeadgate(t, options);
  const two = await startTestHeadgate(t, options);
  const Bucket = "lost";
  await one.s3.send(new CreateBucketCommand({ Bucket }));
  await one
    .client({ endpoint: servers["b"]?.url ?? "", credentials: clusterKeys })
    .send(new DeleteBucketCommand({ Bucket }));
  relay.holds = (request) => request.startsWith("PUT /lost");
  const healing = one.admin("POST", "/buckets/lost/drift", {});
  const held = await relay.held();
  relay.holds = () => false;
  const deleting = two.s3.send(new DeleteBucketCommand({ Bucket }));
  await until(async () =>
    JSON.stringify((await one.admin("GET", "/buckets/lost")).body).includes("deleting"),
  );
  await held.pass();
  t.match(await healing, { body: { drift: [{ setting: "bucket", cluster: "b" }] } });
  await deleting;
  t.strictSame([servers["a"]?.buckets(), servers["b"]?.buckets()], [[], []]);
  t.equal((await one.admin("GET", "/buckets/lost")).status, 404);
});
