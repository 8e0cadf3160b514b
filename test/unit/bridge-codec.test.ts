// Records ⇄ values and keys: everything written reads back equal, anything else is refused.

import fc from "fast-check";
import t from "tap";
import {
  decodeBucket,
  decodeClass,
  decodeCluster,
  decodeCredential,
  decodeData,
  decodeMember,
  encodeBucket,
  encodeClass,
  encodeCluster,
  encodeCredential,
  encodeData,
  encodeMember,
} from "../../bridge/codec.ts";
import { Keyspace } from "../../bridge/keyspace.ts";
import { noTenant, parseTenantName } from "../../proxy/s3/names.ts";
import {
  bucketName,
  bucketRecord,
  clusterId,
  clusterRecord,
  credentialRecord,
} from "../support/bridge-records.ts";

const stamp = { updatedAt: "2026-11-29T23:00:00.000Z", updatedBy: "admin:token" };
const stampMs = Date.parse(stamp.updatedAt);

t.test("records come back as they were", async (t) => {
  const cluster = clusterRecord("rgw-a", {
    state: "draining_readonly",
    weight: null,
    labels: { room: "1", __proto__x: "y" },
  });
  t.strictSame(decodeCluster(cluster.id, encodeCluster(cluster, stamp)), {
    kind: "record",
    value: cluster,
    updatedAtMs: stampMs,
  });
  const bucket = bucketRecord("logs", {
    placement: {
      weights: new Map([
        [clusterId("b"), 0],
        [clusterId("a"), 100],
      ]),
      mode: "strict",
      spread: null,
      weighting: "uniform",
    },
    order: [clusterId("b"), clusterId("a")],
    extra: [clusterId("c")],
    phase: "rerouting",
    conflict: true,
    frozen: true,
    asked: "0f1e",
    owner: null,
    origin: "discovered",
  });
  t.strictSame(decodeBucket(bucket.tenant, bucket.name, encodeBucket(bucket, stamp)), {
    kind: "record",
    value: bucket,
    updatedAtMs: stampMs,
  });
  const credential = credentialRecord("AK/1", {
    displayName: "Alice",
    tenant: parseTenantName("acme") ?? noTenant,
    groups: ["g"],
    grants: [{ buckets: ["b-*"], keys: ["*"], allow: ["read"] }],
    status: "suspended",
  });
  t.strictSame(decodeCredential(credential.accessKeyId, encodeCredential(credential, stamp)), {
    kind: "record",
    value: credential,
    updatedAtMs: stampMs,
  });
  const key = new Keyspace().credential(credential.accessKeyId);
  t.equal(key, "/headgate/v1/credentials/AK%2F1");
  t.strictSame(new Keyspace().readKey(key), { kind: "credential", accessKeyId: "AK/1" });
  const member = {
    id: "m1",
    nodeId: "n",
    mode: "full",
    startedAt: stamp.updatedAt,
    version: "0.1.0",
    acked: 2n ** 60n,
  } as const;
  t.match(decodeMember("m1", encodeMember(member, stamp)), { kind: "record", value: member });
  t.match(decodeClass(encodeClass(clusterId("a"), stamp)), { value: "a" });
  t.match(decodeData(encodeData({ x: [1, null] }, stamp)), { value: { x: [1, null] } });
});

t.test("equal records have equal text", async (t) => {
  const weights = (ids: readonly string[]): ReadonlyMap<ReturnType<typeof clusterId>, number> =>
    new Map(ids.map((id) => [clusterId(id), 1]));
  const { route } = bucketRecord("x");
  const one = bucketRecord("x", { route: { ...route, weights: weights(["a", "b"]) } });
  const two = bucketRecord("x", { route: { ...route, weights: weights(["b", "a"]) } });
  t.equal(encodeBucket(one, stamp), encodeBucket(two, stamp));
});

t.test("a value is refused, never guessed", async (t) => {
  const good: Record<string, unknown> = JSON.parse(encodeBucket(bucketRecord("x"), stamp));
  const read = (value: unknown): ReturnType<typeof decodeBucket> =>
    decodeBucket(noTenant, bucketName("x"), JSON.stringify(value));
  t.equal(read(good).kind, "record");
  for (const field of Object.keys(good)) {
    if (field.startsWith("updated_")) continue;
    const without = Object.fromEntries(Object.entries(good).filter(([name]) => name !== field));
    t.match(read(without), { kind: "unreadable", newer: false }, `without ${field}`);
  }
  const bad: readonly Record<string, unknown>[] = [
    { phase: "moving" },
    { epochs: [1.5] },
    { order: ["UPPER"] },
    { frozen: "no" },
    { route: { weights: {}, mode: "weighted", spread: "object", source: "x" } },
    { route: { weights: { a: 0 }, mode: "weighted", spread: "object", source: "x" } },
    { placement: { weights: { a: 101 }, mode: "strict", spread: null, weighting: "weights" } },
    { placement: [] },
    { schema: 0 },
    { schema: "1" },
  ];
  for (const change of bad) {
    t.match(read({ ...good, ...change }), { kind: "unreadable" }, JSON.stringify(change));
  }
  t.match(read({ ...good, schema: 3 }), { kind: "unreadable", newer: true });
  for (const text of ["", "null", "[]", "3", "{", '"x"']) {
    t.match(decodeBucket(noTenant, bucketName("x"), text), { kind: "unreadable" }, text);
  }
  const cluster: Record<string, unknown> = JSON.parse(encodeCluster(clusterRecord("a"), stamp));
  for (const change of [{ weight: -1 }, { weight: 1.5 }, { state: "dead" }, { labels: { a: 1 } }]) {
    const text = JSON.stringify({ ...cluster, ...change });
    t.match(decodeCluster(clusterId("a"), text), { kind: "unreadable" });
  }
});

t.test("a bucket of schema 1, which did not say what was asked for, is read", async (t) => {
  const { asked: _, ...fields } = JSON.parse(encodeBucket(bucketRecord("x"), stamp));
  for (const [phase, asked] of [
    ["settled", null],
    ["creating", ""],
  ]) {
    const text = JSON.stringify({ ...fields, schema: 1, location: null, phase });
    t.match(decodeBucket(noTenant, bucketName("x"), text), { value: { phase, asked } });
  }
});

t.test("no text makes a reader throw", async () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      decodeBucket(noTenant, bucketName("x"), text);
      decodeCluster(clusterId("a"), text);
      decodeMember("m", text);
      decodeData(text);
    }),
  );
});

t.test("keys read back as what they were made of, others are other", async (t) => {
  const keys = new Keyspace("/headgate/v1");
  t.strictSame(keys.readKey(keys.cluster(clusterId("a"))), { kind: "cluster", id: "a" });
  const tenant = parseTenantName("blue");
  if (tenant === null) throw new Error("tenant");
  t.equal(keys.bucket(noTenant, bucketName("logs")), "/headgate/v1/buckets/-/logs");
  t.strictSame(keys.readKey(keys.bucket(tenant, bucketName("a.b_c"))), {
    kind: "bucket",
    tenant: "blue",
    name: "a.b_c",
  });
  fc.assert(
    fc.property(
      fc.array(
        fc.string({ minLength: 1, unit: "grapheme" }).map((s) => s.replaceAll("/", "_")),
        {
          minLength: 1,
          maxLength: 3,
        },
      ),
      (segments) => {
        const key = keys.data(segments.join("/"));
        const read = keys.readKey(key);
        return (
          /^[\x21-\x7e]+$/.test(key) && read.kind === "data" && read.path === segments.join("/")
        );
      },
    ),
  );
  for (const other of ["members/x", "live/x", "audit/x", "locks/-/b/h", "keys/handle", "x"]) {
    t.equal(keys.readKey(`${keys.prefix}${other}`).kind, "other");
  }
  t.equal(keys.readKey("/elsewhere/clusters/a").kind, "other");
  const wrong = ["clusters/A", "clusters/a/b", "buckets/-", "buckets/-/..", "buckets/-/a%2Fb"];
  for (const malformed of [...wrong, "buckets//b", "data/a//b", "data/%zz", "classes/"]) {
    t.equal(keys.readKey(`${keys.prefix}${malformed}`).kind, "malformed", malformed);
  }
  t.ok(keys.audit("2026-11-29T23:00:00.000Z", "ff") > keys.audit("2026-11-29T22:59:59.999Z", "00"));
});
