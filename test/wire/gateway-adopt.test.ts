// Buckets that clusters had before Headgate: recorded at once by adopt, shown before, and served as one
// where several clusters have them.

import {
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { DemoServer } from "../../proxy/demo/server.ts";
import { runHeadgate } from "../support/cli-run.ts";
import { clusterKeys, startClusters, startTestHeadgate } from "../support/headgate.ts";

/** A client of one cluster, as somebody who was there before Headgate. */
function direct(t: Test, server: DemoServer | undefined): S3Client {
  const client = new S3Client({
    endpoint: server?.url ?? "",
    region: "us-east-1",
    forcePathStyle: true,
    credentials: clusterKeys,
    requestChecksumCalculation: "WHEN_REQUIRED",
    maxAttempts: 1,
  });
  t.teardown(() => client.destroy());
  return client;
}

/** Buckets of three clusters: 9 on one each, `twice` on a and b. */
async function scene(t: Test) {
  const servers = await startClusters(t, ["a", "b", "c"]);
  for (const id of ["a", "b", "c"]) {
    const client = direct(t, servers[id]);
    for (let n = 0; n < 3; n += 1) {
      await client.send(new CreateBucketCommand({ Bucket: `only-${id}-${n}` }));
    }
    if (id === "c") continue;
    await client.send(new CreateBucketCommand({ Bucket: "twice" }));
    for (const Key of [`only-${id}`, "both"]) {
      await client.send(new PutObjectCommand({ Bucket: "twice", Key, Body: id }));
    }
  }
  return { servers, ...(await startTestHeadgate(t, { servers })) };
}

const names = (body: unknown): unknown =>
  (body as { buckets: { bucket: string }[] }).buckets.map(({ bucket }) => bucket);

t.test("what would be recorded is shown, then recorded, once", async (t) => {
  const { admin, logLines, adminUrl, s3, servers } = await scene(t);
  const dry = await admin("POST", "/adopt?dry_run=true", {});
  t.match(dry, {
    status: 200,
    body: {
      dry_run: true,
      known: 0,
      next_after: null,
      clusters: [
        { cluster: "a", buckets: 4, all: false },
        { cluster: "b", buckets: 4, all: false },
        { cluster: "c", buckets: 3, all: false },
      ],
    },
  });
  t.match((dry.body as { buckets: unknown[] }).buckets[0], {
    bucket: "only-a-0",
    clusters: ["a"],
    outcome: "new",
    conflict: false,
  });
  t.match((dry.body as { buckets: unknown[] }).buckets[9], {
    bucket: "twice",
    clusters: ["a", "b"],
    outcome: "new",
    conflict: true,
  });
  t.match(await admin("GET", "/buckets"), { body: { buckets: [] } }, "nothing is recorded");

  const lists = (): number =>
    servers["a"]?.exchanges().filter(({ target }) => target === "/" || target.startsWith("/?"))
      .length ?? 0;
  const before = lists();
  const first = await admin("POST", "/adopt?limit=4", {});
  t.strictSame(names(first.body), ["only-a-0", "only-a-1", "only-a-2", "only-b-0"]);
  t.match(first.body, { next_after: "only-b-0", buckets: [{ outcome: "recorded" }] });
  const rest = await admin("POST", "/adopt?after=only-b-0", {});
  t.equal((names(rest.body) as string[]).length, 6);
  t.equal(lists() - before, 1, "all pages of a walk come from one list");
  t.match(await admin("POST", "/adopt", {}), { body: { known: 10, buckets: [] } }, "idempotent");
  const asked = servers["a"]?.exchanges().length;
  await admin("POST", "/adopt", {});
  t.equal((servers["a"]?.exchanges().length ?? 0) - (asked ?? 0), 1, "a list, and nothing more");

  t.match(await admin("GET", "/buckets/only-c-1"), {
    body: { origin: "discovered", route: { weights: { c: 1 }, mode: "strict", spread: "bucket" } },
  });
  await s3.send(new PutObjectCommand({ Bucket: "only-c-1", Key: "k", Body: "x" }));
  t.equal(servers["c"]?.objects("only-c-1").length, 1);
  t.match(await admin("GET", "/state"), {
    body: { conflicts_count: 1, conflicts: [{ name: "twice", clusters: ["a", "b"] }] },
  });
  t.match(
    logLines.filter(({ event }) => event === "discovery.conflict"),
    [{ level: "warn", fields: { bucket: "twice", clusters: "a,b" } }],
  );
  const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
  t.match(metrics, 'headgate_buckets_discovered_total{outcome="found"} 9');
  t.match(metrics, 'headgate_buckets_discovered_total{outcome="conflict"} 1');
  t.match(await admin("GET", "/audit"), { body: { events: [{ detail: "6 recorded" }] } });
});

t.test("a bucket on several clusters is one bucket to read and list", async (t) => {
  const { s3, admin, servers } = await scene(t);
  const keys = async (): Promise<unknown> =>
    (await s3.send(new ListObjectsV2Command({ Bucket: "twice" }))).Contents?.map(({ Key }) => Key);
  t.strictSame(await keys(), ["both", "only-a", "only-b"]);
  const read = async (Key: string): Promise<string | undefined> =>
    await (await s3.send(new GetObjectCommand({ Bucket: "twice", Key }))).Body?.transformToString();
  t.equal(await read("both"), "a");
  t.equal(await read("only-b"), "b");
  // Policy says where writes go: the first cluster that has it, which shadows what lies behind.
  for (const Key of ["fresh", "only-b"]) {
    await s3.send(new PutObjectCommand({ Bucket: "twice", Key, Body: "new" }));
    t.equal(await read(Key), "new");
    t.ok(servers["a"]?.objects("twice").some(({ key }) => key === Key));
  }
  t.strictSame(await keys(), ["both", "fresh", "only-a", "only-b"]);
  await s3.send(new DeleteObjectCommand({ Bucket: "twice", Key: "both" }));
  await t.rejects(read("both"), { name: "NoSuchKey" }, "deleted wherever it was");
  t.match(await admin("GET", "/buckets/twice"), { body: { conflict: true, extra: ["a", "b"] } });
});

t.test("a cluster that does not answer leaves everything as it was", async (t) => {
  const { admin, servers } = await scene(t);
  servers["b"]?.setFault(() => "reset");
  t.match(await admin("POST", "/adopt", {}), {
    status: 503,
    body: { code: "ClusterUnavailable", message: /Cluster "b"/ },
  });
  t.match(await admin("GET", "/buckets"), { body: { buckets: [] } });
  // It lists, but does not tell of one bucket: the others are recorded.
  servers["b"]?.setFault(({ target }) => (target.startsWith("/only-c-1") ? "reset" : null));
  const { body } = await admin("POST", "/adopt", {});
  const unclear = (body as { buckets: { outcome: string; bucket: string }[] }).buckets.filter(
    ({ outcome }) => outcome !== "recorded",
  );
  t.match(unclear, [{ bucket: "only-c-1", outcome: "unclear" }]);
  t.equal(unclear.length, 1);
});

t.test("a recorded bucket that turns up on a further cluster is told", async (t) => {
  const { admin, s3, servers } = await scene(t);
  await admin("POST", "/adopt", {});
  await direct(t, servers["c"]).send(new CreateBucketCommand({ Bucket: "only-a-0" }));
  t.match(await admin("POST", "/adopt", {}), {
    body: { known: 9, buckets: [{ bucket: "only-a-0", outcome: "stray", conflict: true }] },
  });
  await s3.send(new PutObjectCommand({ Bucket: "only-a-0", Key: "k", Body: "x" }));
  t.equal(servers["a"]?.objects("only-a-0").length, 1);
});

t.test("the commands go through all pages, and say what is to be done", async (t) => {
  const { adminUrl, servers, s3 } = await scene(t);
  const run = (line: string) => runHeadgate(`${line} --admin-url ${adminUrl}`);
  const dry = await run("adopt --dry-run");
  t.match(dry, {
    exit: 0,
    out: /^only-b-2 +b +new/m,
    err: /Nothing was changed: 0 known before, 1 on several clusters/,
  });
  t.match(dry.err, "Cluster a lists the buckets of its own keys only");
  servers["b"]?.setFault(({ target }) => (target.startsWith("/only-c-1") ? "reset" : null));
  t.match(await run("adopt --after only-b-0"), { exit: 1, out: /^only-c-1 +c +unclear/m });
  servers["b"]?.setFault(null);
  t.match(await run("adopt --json"), {
    exit: 0,
    out: /"outcome":"recorded"/,
    err: /5 known before/,
  });
  t.match(await run("state"), { exit: 0, out: /twice +\["a","b"\]/ });
  t.match(await run("bucket drift only-a-0"), {
    exit: 0,
    err: /No drift is left, compared with a/,
  });
  await s3.send(new CreateBucketCommand({ Bucket: "spread" }));
  for (const Bucket of ["only-a-0", "spread"]) {
    await direct(t, servers["a"]).send(new DeleteBucketCommand({ Bucket }));
    const found = { exit: 1, out: /bucket +a +missing_bucket +found/ };
    t.match(await run(`bucket drift ${Bucket}`), found);
    const healed = { exit: 0, out: /bucket +a +missing_bucket +healed/ };
    const heal = await run(`bucket drift ${Bucket} --heal`);
    t.match(heal, Bucket === "spread" ? healed : found, "nothing is made up of what nobody has");
  }
  const there = servers["a"]?.buckets().filter((name) => /^(?:only-a-0|spread)$/.test(name));
  t.strictSame(there, ["spread"]);
  servers["c"]?.setFault(() => "reset");
  t.match(await run("adopt"), { exit: 7, err: /Cluster "c" does not answer/ });
});
