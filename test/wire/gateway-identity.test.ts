// Whose keys sign upstream: the cluster's, the caller's own, or a pair mapped to its user; and that a
// caller without keys of its own never acts with anybody else's.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  GetObjectCommand,
  ListBucketsCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { startTestHeadgate, type TestHeadgateOptions } from "../support/headgate.ts";
import { openRaw } from "../support/raw-http.ts";
import { type ClusterUser, startUserCluster, type UserCluster } from "../support/user-cluster.ts";

const pair = (name: string) => ({
  accessKeyId: `AK-${name}`,
  secretAccessKey: `secret-of-${name}`,
});
const service: ClusterUser = {
  uid: "service",
  accessKeyId: "cluster-service",
  secretAccessKey: "cluster-service-secret",
};
const alice: ClusterUser = { uid: "alice", ...pair("alice") };
const bob: ClusterUser = { uid: "bob", ...pair("bob") };

const all = '[{buckets: ["*"], allow: [read, list, write, delete, admin]}]';

function credentialsFile(users: readonly ClusterUser[], more: (uid: string) => string): string {
  const lines = users.map(
    ({ uid, accessKeyId, secretAccessKey }) =>
      `  - {uid: ${uid}, keys: [{access_key: ${accessKeyId}, secret_key: ${secretAccessKey}}]${more(uid)}}`,
  );
  return `users:\n${lines.join("\n")}\n`;
}

async function start(t: Test, cluster: UserCluster, options: TestHeadgateOptions) {
  return await startTestHeadgate(t, {
    clusters: { a: 1 },
    servers: {},
    endpoints: { a: cluster.url },
    ...options,
  });
}

const denied = { name: "AccessDenied", $metadata: { httpStatusCode: 403 } };

t.test("service signs everybody's requests with the cluster's keys", async (t) => {
  const cluster = await startUserCluster(t, [service]);
  const credentials = credentialsFile([alice], () => `, grants: ${all}`);
  const { client } = await start(t, cluster, { credentials });
  const s3 = client({ credentials: pair("alice") });
  await s3.send(new CreateBucketCommand({ Bucket: "first" }));
  await s3.send(new PutObjectCommand({ Bucket: "first", Key: "k", Body: "x" }));
  t.strictSame([...cluster.owners], [["first", "service"]]);
  t.ok(
    cluster.asked.every((line) => line.endsWith(" as service")),
    cluster.asked.join("\n"),
  );
});

t.test("same signs with the caller's own keys, and the cluster's ACLs decide", async (t) => {
  const cluster = await startUserCluster(t, [service, alice, bob]);
  const stranger: ClusterUser = { uid: "stranger", ...pair("stranger") };
  // No grants: where every cluster knows its users, they are the ones who decide.
  const credentials = credentialsFile([alice, bob, stranger], () => "");
  const identities = { a: "same" };
  const { client, url } = await start(t, cluster, { credentials, identities });
  const asAlice = client({ credentials: pair("alice") });
  const asBob = client({ credentials: pair("bob") });
  await asAlice.send(new CreateBucketCommand({ Bucket: "hers" }));
  await asBob.send(new CreateBucketCommand({ Bucket: "his-own" }));
  await asAlice.send(new PutObjectCommand({ Bucket: "hers", Key: "k", Body: "x" }));
  t.strictSame(Object.fromEntries(cluster.owners), { hers: "alice", "his-own": "bob" });
  t.ok(cluster.asked.includes("PUT /hers/k?x-id=PutObject as alice"), cluster.asked.join("\n"));
  t.ok(cluster.asked.includes("HEAD /hers as service"), "discovery is our own question");

  await t.rejects(asBob.send(new GetObjectCommand({ Bucket: "hers", Key: "k" })), denied);
  await t.rejects(asBob.send(new CreateBucketCommand({ Bucket: "hers" })), {
    name: "BucketAlreadyExists",
  });
  await t.rejects(asBob.send(new DeleteBucketCommand({ Bucket: "hers" })), denied);
  t.ok(cluster.owners.has("hers"));

  const listed = await asAlice.send(new ListBucketsCommand({}));
  t.strictSame(
    listed.Buckets?.map(({ Name }) => Name),
    ["hers"],
  );
  t.equal(listed.Owner?.ID, "alice");

  const asStranger = client({ credentials: pair("stranger") });
  await t.rejects(asStranger.send(new ListBucketsCommand({})), denied);
  await t.rejects(asStranger.send(new GetObjectCommand({ Bucket: "hers", Key: "k" })), {
    name: "InvalidAccessKeyId",
  });
  await t.rejects(asStranger.send(new CreateBucketCommand({ Bucket: "strange" })), {
    name: "InvalidAccessKeyId",
  });
  await asAlice.send(new CreateBucketCommand({ Bucket: "strange" }));
  t.equal(cluster.owners.get("strange"), "alice", "a refused caller holds no name");

  const anonymous = await fetch(`${url}/hers/k`);
  t.equal(anonymous.status, 403);
  await asAlice.send(new DeleteBucketCommand({ Bucket: "hers" }));
  t.notOk(cluster.owners.has("hers"));
});

t.test("nobody but its owner brings a bucket onto one cluster", async (t) => {
  const a = await startUserCluster(t, [service, alice, bob]);
  const b = await startUserCluster(t, [service, alice, bob]);
  const { client, admin } = await startTestHeadgate(t, {
    clusters: { a: 1, b: 1 },
    servers: {},
    endpoints: { a: a.url, b: b.url },
    credentials: credentialsFile([alice, bob], () => ""),
    identities: { a: "same", b: "same" },
  });
  const asAlice = client({ credentials: pair("alice") });
  await asAlice.send(new CreateBucketCommand({ Bucket: "hers" }));
  const before = await admin("GET", "/buckets/hers");
  const versioning = new PutBucketVersioningCommand({
    Bucket: "hers",
    VersioningConfiguration: { Status: "Enabled" },
  });
  const clusters = [a, b];
  // Bob may list it, by an ACL; then everything but versions, as an RGW's policy may have it.
  const lists = (line: string) => /\?(list-type|uploads|versions)/.test(line);
  for (const mayDo of [lists, (line: string) => !line.startsWith("DELETE")]) {
    for (const cluster of clusters) {
      cluster.say = (line) => (line.endsWith(" as bob") && mayDo(line) ? { body: "<R/>" } : null);
    }
    await t.rejects(client({ credentials: pair("bob") }).send(versioning), denied);
    t.strictSame(await admin("GET", "/buckets/hers"), before);
  }
  for (const cluster of clusters) {
    t.notOk(cluster.asked.some((line) => /^(PUT|DELETE).* as bob$/.test(line)));
  }
  await asAlice.send(versioning);
  t.strictSame(
    clusters.map(({ owners }) => owners.has("hers")).toSorted((x, y) => Number(x) - Number(y)),
    [false, true],
    "the owner does",
  );
});

/** How a crash leaves a bucket of a and b that goes onto a: before that is written, and behind it. */
const leftAt = {
  announced: { phase: "rerouting" },
  noted: {
    phase: "rerouting",
    route: { weights: { a: 1 }, mode: "strict", spread: "bucket", source: "bucket_policy" },
    placement: { weights: { a: 1 }, mode: "strict", spread: "bucket", weighting: "weights" },
    extra: ["b"],
  },
} as const;
const leftSteps = ["announced", "noted"] as const;

/** Changes records of buckets in a state file, as whoever crashes would leave them. */
function leaveBehind(file: string, recordOf: (bucket: string) => object | null): void {
  const image = JSON.parse(readFileSync(file, "utf8"));
  for (const entry of image.entries) {
    const fields = recordOf(String(entry.key).split("/").at(-1) ?? "");
    if (fields !== null && /\/buckets\//.test(entry.key)) {
      entry.value = JSON.stringify({ ...JSON.parse(entry.value), ...fields });
    }
  }
  writeFileSync(file, JSON.stringify(image));
}

for (const identity of ["service", "same", "mapped"] as const) {
  t.test(`a move that was left behind is ended by anybody's write: ${identity}`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "headgate-left-"));
    t.teardown(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "state.json");
    const a = await startUserCluster(t, [service, alice, bob]);
    const b = await startUserCluster(t, [service, alice, bob]);
    const mapped = (uid: string): string => {
      const keys = `{access_key: AK-${uid}, secret_key: secret-of-${uid}}`;
      return identity === "mapped" ? `, clusters: {a: ${keys}, b: ${keys}}` : "";
    };
    let aheadMs = 0;
    const options: TestHeadgateOptions = {
      clusters: { a: 1, b: 1 },
      servers: {},
      endpoints: { a: a.url, b: b.url },
      identities: { a: identity, b: identity },
      credentials: credentialsFile([alice, bob], (uid) => `, grants: ${all}${mapped(uid)}`),
      settings: `state: {driver: file, file: {path: ${file}}}`,
      aheadMs: () => aheadMs,
    };
    // By an ACL Bob may write objects.
    for (const cluster of [a, b]) {
      cluster.say = (line) => (/^PUT \S+\/k\S* as bob$/.test(line) ? {} : null);
    }
    const before = await startTestHeadgate(t, options);
    const maker = before.client({ credentials: pair("alice") });
    const buckets = leftSteps.flatMap((step) =>
      ["alice", "bob"].map((writer) => ({ step, writer, Bucket: `${step}-${writer}` })),
    );
    for (const { Bucket } of buckets) await maker.send(new CreateBucketCommand({ Bucket }));
    await before.stop();
    leaveBehind(file, (name) => {
      const left = buckets.find(({ Bucket }) => Bucket === name);
      return left === undefined ? null : leftAt[left.step];
    });
    const { client, admin } = await startTestHeadgate(t, options);
    const asAlice = client({ credentials: pair("alice") });
    const put = async (Bucket: string, writer: string): Promise<unknown> =>
      await client({ credentials: pair(writer) }).send(
        new PutObjectCommand({ Bucket, Key: "k", Body: "x" }),
      );
    for (const { Bucket, writer } of buckets) {
      await t.rejects(put(Bucket, writer), { name: "SlowDown" }, `${Bucket}: it may be under way`);
    }
    aheadMs = 21_000;
    for (const { Bucket, writer, step } of buckets) {
      await put(Bucket, writer);
      const isGone = step === "noted" && (identity === "service" || writer === "alice");
      const whole = { announced: { a: 1, b: 1 }, noted: { a: 1 } }[step];
      const { body } = await admin("GET", `/buckets/${Bucket}`);
      const extra = step === "noted" && !isGone ? ["b"] : [];
      t.match(body, { phase: "settled", extra, route: { weights: whole } }, Bucket);
      const has = [a, b].map(({ owners }) => owners.has(Bucket));
      t.strictSame(has, [true, !isGone], `${Bucket} is on all that its record names`);
      await asAlice.send(new GetObjectCommand({ Bucket, Key: "k" }));
      await asAlice.send(new DeleteBucketCommand({ Bucket }));
      t.notOk(a.owners.has(Bucket) || b.owners.has(Bucket));
    }
  });
}

t.test("a bucket of another user is found although the service user may not see it", async (t) => {
  const cluster = await startUserCluster(t, [service, alice]);
  cluster.owners.set("old-bucket", "alice");
  const credentials = credentialsFile([alice], () => "");
  const identities = { a: "same" };
  const { client, logLines } = await start(t, cluster, { credentials, identities });
  const s3 = client({ credentials: pair("alice") });
  await s3.send(new GetObjectCommand({ Bucket: "old-bucket", Key: "k" }));
  t.ok(logLines.some(({ event }) => event === "discovery.found"));

  // With keys that the cluster does not take, every bucket is forbidden and none is known.
  cluster.users.splice(0, 1);
  await t.rejects(s3.send(new GetObjectCommand({ Bucket: "no-bucket", Key: "k" })), {
    name: "ServiceUnavailable",
    $metadata: { httpStatusCode: 503 },
  });
  cluster.users.push(service);
  await t.rejects(s3.send(new GetObjectCommand({ Bucket: "no-bucket", Key: "k" })), {
    name: "NoSuchBucket",
  });
});

t.test("mapped signs with the pair of the user, and refuses one without", async (t) => {
  const cluster = await startUserCluster(t, [service, { uid: "twin", ...pair("twin") }]);
  const twin = `, clusters: {a: {access_key: AK-twin, secret_key: secret-of-twin}}`;
  const credentials = credentialsFile(
    [alice, bob],
    (uid) => `, grants: ${all}${uid === "alice" ? twin : ""}`,
  );
  const identities = { a: "mapped" };
  const { client } = await start(t, cluster, { credentials, identities });
  const s3 = client({ credentials: pair("alice") });
  await s3.send(new CreateBucketCommand({ Bucket: "mapped-one" }));
  await s3.send(new PutObjectCommand({ Bucket: "mapped-one", Key: "k", Body: "x" }));
  t.strictSame([...cluster.owners], [["mapped-one", "twin"]]);
  const before = cluster.asked.length;
  const asBob = client({ credentials: pair("bob") });
  await t.rejects(asBob.send(new GetObjectCommand({ Bucket: "mapped-one", Key: "k" })), denied);
  await t.rejects(
    asBob.send(new PutObjectCommand({ Bucket: "mapped-one", Key: "k", Body: "x" })),
    denied,
  );
  await t.rejects(asBob.send(new ListBucketsCommand({})), denied);
  t.strictSame(cluster.asked.slice(before), [], "nothing was asked on anybody's behalf");
});

t.test("an RGW's users keep their keys, as long as it knows them", async (t) => {
  const suspended: ClusterUser = { uid: "gone", ...pair("gone"), suspended: true };
  const cluster = await startUserCluster(t, [service, alice, suspended]);
  const sources =
    "{source: rgw-admin, cluster: a, cache_ttl: 1h, negative_ttl: 1ms, max_stale: 1h}";
  const { client, url, adminUrl } = await start(t, cluster, { sources, identities: { a: "same" } });
  const s3 = client({ credentials: pair("alice") });
  await s3.send(new CreateBucketCommand({ Bucket: "known" }));
  await s3.send(new GetObjectCommand({ Bucket: "known", Key: "k" }));
  const questions = () => cluster.asked.filter((line) => line.includes("access-key=AK-alice"));
  t.equal(questions().length, 1, "asked once");
  t.equal(cluster.owners.get("known"), "alice");

  const unknown = { name: "InvalidAccessKeyId", $metadata: { httpStatusCode: 403 } };
  const get = new GetObjectCommand({ Bucket: "known", Key: "k" });
  const asBob = client({ credentials: pair("bob") });
  await t.rejects(asBob.send(get), unknown);
  await t.rejects(client({ credentials: pair("gone") }).send(get), unknown, "suspended");
  cluster.users.push(bob);
  await t.rejects(asBob.send(get), denied, "known now, and refused by the cluster itself");

  cluster.adminStatus = 500;
  const carol: ClusterUser = { uid: "carol", ...pair("carol") };
  cluster.users.push(carol);
  await t.rejects(client({ credentials: pair("carol") }).send(get), {
    name: "ServiceUnavailable",
    $metadata: { httpStatusCode: 503 },
  });
  await s3.send(get);
  const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
  for (const outcome of ["user", "unknown", "unavailable"]) {
    t.match(metrics, `headgate_credentials_lookups_total{outcome="${outcome}"}`);
  }
  t.notMatch(metrics, /secret-of/);
  t.equal((await fetch(`${url}/known/k`)).status, 403, "anonymous is nobody's key");
});

t.test("a bundle may leave everything to the clusters, anonymous callers included", async (t) => {
  // As policies/README.md tells it: a copy of the shipped bundle with other data.
  const bundle = mkdtempSync(join(tmpdir(), "headgate-clusters-decide-"));
  t.teardown(() => rmSync(bundle, { recursive: true }));
  cpSync(join(import.meta.dirname, "../../policies/default"), bundle, { recursive: true });
  writeFileSync(join(bundle, "data.json"), '{"headgate": {"clusters_decide": true}}');
  const cluster = await startUserCluster(t, [service, alice]);
  cluster.owners.set("everybodys", "anonymous");
  cluster.owners.set("hers", "alice");
  const credentials = credentialsFile([alice], () => "");
  const { url } = await start(t, cluster, {
    credentials,
    identities: { a: "same" },
    clusterSettings: "profile: rgw-reef",
    settings: `policy: {bundle: ${bundle}}`,
  });
  const ask = async (method: string, path: string) =>
    (await fetch(`${url}${path}`, { method })).status;
  t.equal(await ask("GET", "/everybodys/k"), 200);
  t.equal(await ask("PUT", "/everybodys/k"), 200);
  t.equal(await ask("GET", "/"), 200);
  t.equal(await ask("GET", "/hers/k"), 403, "the cluster refuses");
  t.equal(await ask("PUT", "/made-by-nobody"), 403);
  t.notOk(cluster.owners.has("made-by-nobody"));
  const upload = async (path: string): Promise<number> => {
    const raw = await openRaw(url);
    const fields = `host: ${new URL(url).host}\r\nexpect: 100-continue\r\ncontent-length: 5\r\n`;
    await raw.write(`PUT ${path} HTTP/1.1\r\n${fields}\r\n`);
    const { status } = await raw.answer();
    raw.socket.destroy();
    return status;
  };
  t.equal(await upload("/hers/large"), 403, "refused before its body is asked for");
  t.equal(await upload("/everybodys/large"), 100);
  const asked = cluster.asked.filter((line) => !line.endsWith(" as service"));
  t.ok(asked.length >= 5 && asked.every((line) => line.endsWith(" as anonymous")), asked.join());
});

t.test("an empty bucket is not made anew elsewhere as somebody else's", async (t) => {
  for (const identity of ["service", "same"] as const) {
    const a = await startUserCluster(t, [service, alice]);
    const b = await startUserCluster(t, [service, alice]);
    const { client, admin } = await startTestHeadgate(t, {
      clusters: { a: 1, b: 0 },
      servers: {},
      endpoints: { a: a.url, b: b.url },
      identities: { a: identity, b: identity },
      credentials: credentialsFile([alice], () => `, grants: ${all}`),
    });
    const s3 = client({ credentials: pair("alice") });
    await s3.send(new CreateBucketCommand({ Bucket: "empty" }));
    t.strictSame([[...a.owners.keys()], [...b.owners.keys()]], [["empty"], []]);
    await admin("PUT", "/clusters/b/weight", { weight: 1 });
    await admin("POST", "/clusters/a/drain", { mode: "readonly" });
    const put = s3.send(new PutObjectCommand({ Bucket: "empty", Key: "k", Body: "x" }));
    if (identity === "service") {
      await put;
      t.equal(b.owners.get("empty"), "service");
    } else {
      await t.rejects(put, { name: "DrainRefused", $metadata: { httpStatusCode: 503 } });
      t.notOk(b.owners.has("empty"), "nobody else owns a bucket of that name there");
      t.equal(a.owners.get("empty"), "alice");
    }
  }
});
