// Clusters of a bucket that say different things of it: shown, counted, healed, and what is not healed.

import {
  CreateBucketCommand,
  DeleteBucketCommand,
  GetBucketCorsCommand,
  GetBucketLifecycleConfigurationCommand,
  GetBucketPolicyCommand,
  PutBucketCorsCommand,
  PutBucketLifecycleConfigurationCommand,
  PutBucketLoggingCommand,
  PutBucketPolicyCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { DemoServer } from "../../proxy/demo/server.ts";
import { clusterKeys, startTestHeadgate } from "../support/headgate.ts";

/** A client of one cluster, past Headgate. */
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

const Bucket = "drifting";
const path = `/buckets/${Bucket}/drift`;
const policy = (sid: string): string =>
  JSON.stringify({ Version: "2012-10-17", Statement: [{ Sid: sid, Effect: "Deny" }] });
const cors = { CORSRules: [{ AllowedMethods: ["GET"], AllowedOrigins: ["https://a.example"] }] };
const lifecycle = (ID: string) => ({
  LifecycleConfiguration: {
    Rules: [
      {
        ID,
        Status: "Enabled" as const,
        Filter: { Prefix: "tmp/" },
        Expiration: { Days: 3 },
      },
    ],
  },
});

async function scene(t: Test) {
  const headgate = await startTestHeadgate(t);
  const [a, b, c] = ["a", "b", "c"].map((id) => direct(t, headgate.clusters[id]));
  if (a === undefined || b === undefined || c === undefined) throw new Error("no clusters");
  await headgate.s3.send(new CreateBucketCommand({ Bucket }));
  return { ...headgate, a, b, c };
}

t.test("settings that differ are shown, logged, counted and made alike", async (t) => {
  const { s3, admin, adminUrl, logLines, a, b, c } = await scene(t);
  t.match(await admin("GET", path), {
    status: 200,
    body: { clusters: ["a", "b", "c"], compared_with: "a", drift: [] },
  });
  await s3.send(new PutBucketPolicyCommand({ Bucket, Policy: policy("all") }));
  await s3.send(new PutBucketCorsCommand({ Bucket, CORSConfiguration: cors }));
  await c.send(new PutBucketPolicyCommand({ Bucket, Policy: policy("only c") }));
  await b.send(new PutBucketCorsCommand({ Bucket, CORSConfiguration: { CORSRules: [] } }));
  await b.send(new PutBucketLifecycleConfigurationCommand({ Bucket, ...lifecycle("only b") }));
  await a.send(
    new PutBucketLoggingCommand({
      Bucket,
      BucketLoggingStatus: { LoggingEnabled: { TargetBucket: "logs", TargetPrefix: "x" } },
    }),
  );
  const expected = [
    { setting: "cors", cluster: "b", kind: "missing" },
    { setting: "lifecycle", cluster: "b", kind: "extra" },
    { setting: "logging", cluster: "b", kind: "missing" },
    { setting: "logging", cluster: "c", kind: "missing" },
    { setting: "policy", cluster: "c", kind: "differs" },
  ];
  const sorted = (body: unknown): unknown =>
    (JSON.parse(JSON.stringify(body)) as { drift: { setting: string }[] }).drift.toSorted((x, y) =>
      JSON.stringify(x) < JSON.stringify(y) ? -1 : 1,
    );
  for (const [method, asked] of [
    ["GET", path],
    ["POST", `${path}?dry_run=true`],
  ] as const) {
    const shown = await admin(method, asked, method === "POST" ? {} : undefined);
    t.match(
      sorted(shown.body),
      expected.map((each) => ({ ...each, outcome: "found" })),
    );
  }
  t.equal((await b.send(new GetBucketLifecycleConfigurationCommand({ Bucket }))).Rules?.length, 1);
  const lines = logLines.filter(({ event }) => event === "bucket.drift");
  t.equal(lines.length, 2 * expected.length, "one line each");
  t.match(lines[0], { level: "warn", fields: { bucket: Bucket, outcome: "found" } });

  const healed = await admin("POST", path, {});
  t.match(
    sorted(healed.body),
    expected.map((each) => ({ ...each, outcome: "healed" })),
  );
  t.match(await admin("GET", path), { body: { drift: [] } });
  t.equal((await c.send(new GetBucketPolicyCommand({ Bucket }))).Policy, policy("all"));
  t.match(await b.send(new GetBucketCorsCommand({ Bucket })), cors);
  await t.rejects(b.send(new GetBucketLifecycleConfigurationCommand({ Bucket })), {
    name: "NoSuchLifecycleConfiguration",
  });
  const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
  t.match(metrics, 'headgate_bucket_drift_total{setting="policy",cluster="c",outcome="found"} 2');
  t.match(metrics, 'headgate_bucket_drift_total{setting="policy",cluster="c",outcome="healed"} 1');
  t.match(await admin("GET", "/audit"), {
    body: { events: [{ action: "admin:HealBucketDrift", detail: "5 healed, 0 failed" }] },
  });
});

t.test("another cluster may be the one to follow", async (t) => {
  const { admin, a, b, c } = await scene(t);
  await b.send(new PutBucketPolicyCommand({ Bucket, Policy: policy("right") }));
  t.match(await admin("GET", `${path}?from=b`), {
    body: { compared_with: "b", drift: [{ cluster: "a" }, { cluster: "c" }] },
  });
  t.match(await admin("POST", path, { from: "nobody" }), { status: 400 });
  await admin("POST", path, { from: "b" });
  for (const cluster of [a, c]) {
    t.equal((await cluster.send(new GetBucketPolicyCommand({ Bucket }))).Policy, policy("right"));
  }
});

t.test("a bucket that a cluster lost is made again, with its settings", async (t) => {
  const { s3, admin, clusters, a } = await scene(t);
  await s3.send(new PutBucketPolicyCommand({ Bucket, Policy: policy("kept") }));
  // The first cluster: what it lost is not taken for what the others should lose.
  await a.send(new DeleteBucketCommand({ Bucket }));
  t.match(await admin("GET", path), {
    body: {
      compared_with: "b",
      drift: [{ setting: "bucket", cluster: "a", kind: "missing_bucket", outcome: "found" }],
    },
  });
  const healed = await admin("POST", path, {});
  t.match(healed.body, {
    drift: [
      { setting: "bucket", cluster: "a", outcome: "healed" },
      { setting: "policy", cluster: "a", outcome: "healed" },
    ],
  });
  t.strictSame(clusters["a"]?.buckets(), [Bucket]);
  t.equal((await a.send(new GetBucketPolicyCommand({ Bucket }))).Policy, policy("kept"));
  for (let n = 0; n < 12; n += 1) {
    await s3.send(new PutObjectCommand({ Bucket, Key: `k-${n}`, Body: "x" }));
  }
});

t.test("buckets of one name that were found are healed only after one that is named", async (t) => {
  const { s3, admin, clusters, logLines, b, c } = await scene(t);
  const found = { Bucket: "found" };
  for (const [cluster, sid] of [
    [b, "of b"],
    [c, "of c"],
  ] as const) {
    await cluster.send(new CreateBucketCommand(found));
    await cluster.send(new PutBucketPolicyCommand({ ...found, Policy: policy(sid) }));
  }
  const policies = async () =>
    await Promise.all(
      [b, c].map(async (cluster) => {
        return (await cluster.send(new GetBucketPolicyCommand(found))).Policy;
      }),
    );
  await s3.send(new GetBucketPolicyCommand(found));
  const differs = { setting: "policy", cluster: "c", kind: "differs" };
  t.match(await admin("GET", "/buckets/found/drift"), { body: { drift: [differs] } });
  const refused = await admin("POST", "/buckets/found/drift", {});
  t.match(refused, { status: 409, body: { message: /two buckets of one name.*\(from\)/ } });
  t.strictSame(await policies(), [policy("of b"), policy("of c")]);
  // Refused by one, a write is taken back to what each of them said; left half done it stays so.
  for (const [fault, name, left] of [
    [{ status: 403, code: "AccessDenied" }, "AccessDenied", "of c"],
    [{ status: 500 }, "ServiceUnavailable", "half"],
  ] as const) {
    clusters["b"]?.setFault(({ method }) => (method === "PUT" ? fault : null));
    const put = new PutBucketPolicyCommand({ ...found, Policy: policy("half") });
    await t.rejects(s3.send(put), { name });
    clusters["b"]?.setFault(null);
    t.strictSame(await policies(), [policy("of b"), policy(left)], name);
  }
  t.strictSame(
    logLines.filter(({ event }) => event.startsWith("unfinished")),
    [],
  );
  await c.send(new PutBucketPolicyCommand({ ...found, Policy: policy("of c") }));
  const healed = await admin("POST", "/buckets/found/drift", { from: "c" });
  t.match(healed.body, { drift: [{ setting: "policy", cluster: "b", outcome: "healed" }] });
  t.strictSame(await policies(), [policy("of c"), policy("of c")]);
});

t.test("a bucket that all clusters lost is told, and not made up", async (t) => {
  const { admin, clusters, a, b, c } = await scene(t);
  for (const cluster of [a, b, c]) await cluster.send(new DeleteBucketCommand({ Bucket }));
  const missing = { setting: "bucket", kind: "missing_bucket", outcome: "found" };
  for (const method of ["GET", "POST"]) {
    const { body } = await admin(method, path, method === "GET" ? undefined : {});
    t.match(body, { compared_with: null, drift: [missing, missing, missing] }, method);
  }
  for (const cluster of Object.values(clusters)) t.strictSame(cluster.buckets(), []);
});

t.test("what cannot be known or taken back is told and left alone", async (t) => {
  const { admin, clusters, b, c } = await scene(t);
  await b.send(
    new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Enabled" } }),
  );
  await c.send(new PutBucketPolicyCommand({ Bucket, Policy: policy("only c") }));
  const before = clusters["c"]?.exchanges().length ?? 0;
  clusters["c"]?.setFault(({ target }) => (target.includes("policy") ? { status: 503 } : null));
  t.match(await admin("POST", path, {}), {
    body: {
      drift: [
        { setting: "versioning", cluster: "b", outcome: "failed" },
        { setting: "policy", cluster: "c", kind: "unreadable", outcome: "found" },
      ],
    },
  });
  const asked = clusters["c"]?.exchanges().slice(before) ?? [];
  t.strictSame(
    asked.filter(({ method }) => method === "PUT" || method === "DELETE"),
    [],
  );
  clusters["a"]?.setFault(() => "reset");
  t.match(await admin("POST", path, {}), {
    status: 200,
    body: { compared_with: null, drift: [{ setting: "bucket", cluster: "a", kind: "unreadable" }] },
  });
  t.match(await admin("GET", "/buckets/nothing/drift"), { status: 404 });
});

t.test("a bucket that is forbidden is found, and neither compared nor made anew", async (t) => {
  const { s3, admin, clusters, b } = await scene(t);
  await b.send(new CreateBucketCommand({ Bucket: "foreign" }));
  clusters["b"]?.setFault(() => ({ status: 403, code: "AccessDenied" }));
  await t.rejects(s3.send(new GetBucketCorsCommand({ Bucket: "foreign" })), {
    name: "AccessDenied",
  });
  t.match(await admin("GET", "/buckets/foreign/drift"), { body: { clusters: ["b"] } });
  const found = { setting: "bucket", cluster: "b", kind: "unreadable", detail: "answers 403" };
  t.match(await admin("POST", path, {}), {
    body: { compared_with: "a", drift: [{ ...found, outcome: "found" }] },
  });
  const asked = clusters["b"]?.exchanges().filter(({ method }) => method === "PUT");
  t.strictSame(
    asked?.map(({ target }) => target),
    ["/drifting", "/foreign/"],
  );
});

t.test("a client's write under way is no drift to heal", async (t) => {
  const { s3, admin, clusters, a } = await scene(t);
  await s3.send(new PutBucketPolicyCommand({ Bucket, Policy: policy("old") }));
  // The first cluster is written last: until it is asked, the others are ahead of it.
  let hold = true;
  const holding = clusters["a"];
  holding?.setFault(({ method, target }) =>
    hold && method === "PUT" && target.includes("policy") ? "stall" : null,
  );
  const cut = new AbortController();
  const write = s3
    .send(new PutBucketPolicyCommand({ Bucket, Policy: policy("new") }), {
      abortSignal: cut.signal,
    })
    .catch(() => null);
  let changed = false;
  while (!changed) {
    const shown = await admin("GET", path);
    changed = JSON.stringify(shown.body).includes("differs");
  }
  hold = false;
  const healing = admin("POST", path, {});
  // Its second look finds the write ended.
  await a.send(new PutBucketPolicyCommand({ Bucket, Policy: policy("new") }));
  const { body } = await healing;
  t.notMatch(JSON.stringify(body), "healed");
  t.equal((await s3.send(new GetBucketPolicyCommand({ Bucket }))).Policy, policy("new"));
  cut.abort();
  await write;
});
