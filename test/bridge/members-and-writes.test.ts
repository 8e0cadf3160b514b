// Registry, membership, seeding and handle keys over the memory store.

import t, { type Test } from "tap";
import { MemoryStore } from "../../bridge/memory-store.ts";
import type { StateOptions } from "../../bridge/open-state.ts";
import { type OpenState, openState } from "../../bridge/open-state.ts";
import { seedClusters } from "../../bridge/seed-clusters.ts";
import type { AuditLine } from "../../proxy/placement/ports.ts";
import { noTenant } from "../../proxy/s3/names.ts";
import {
  CountingMeter,
  eventually,
  faultKind,
  never,
  RecordingLog,
  realClock,
  realRandom,
  turns,
} from "../support/bridge-parts.ts";
import { bucketName, bucketRecord, clusterId, clusterRecord } from "../support/bridge-records.ts";

const audit: AuditLine = {
  action: "admin:DrainCluster",
  resource: "a",
  actor: { kind: "admin", name: "token", remoteAddress: "127.0.0.1" },
  requestId: "r1",
  detail: "readonly",
};

interface Opened extends OpenState {
  readonly log: RecordingLog;
  readonly meter: CountingMeter;
}

async function open(t: Test, more: Partial<StateOptions> = {}): Promise<Opened> {
  const log = new RecordingLog();
  const meter = new CountingMeter();
  const state = await openState(
    {
      store: { driver: "memory" },
      prefix: "/headgate/v1/",
      member: {
        nodeId: "n1",
        version: "0.1.0",
        mode: "full",
        leaseTtlSeconds: 30,
        fenceAfterMs: 600_000,
      },
      clock: realClock,
      random: realRandom,
      log,
      meter,
      ...more,
    },
    never,
  );
  t.teardown(() => state.close());
  return { ...state, log, meter };
}

t.test("a commit is applied when it answers; a stale one is a conflict", async (t) => {
  const { registry, snapshots, store, keys, log } = await open(t);
  const bucket = bucketRecord("logs");
  const change = {
    kind: "bucket",
    tenant: noTenant,
    name: bucket.name,
    expected: 0n,
    record: bucket,
  } as const;
  const cluster = clusterRecord("a");
  const clusterChange = { kind: "cluster", id: cluster.id, expected: 0n, record: cluster } as const;
  const done = await registry.commit([change, clusterChange], audit);
  if (done.kind !== "committed") throw new Error(done.kind);
  const held = snapshots.current().buckets.find(noTenant, bucket.name);
  t.strictSame(held?.value, bucket);
  t.equal(held?.modRevision, done.revision);
  t.equal(snapshots.current().clusters.get(cluster.id)?.modRevision, done.revision);
  const again = await registry.commit(
    [change, { ...clusterChange, expected: done.revision }],
    audit,
  );
  t.strictSame(again, { kind: "conflict" });
  t.equal(snapshots.current().clusters.get(cluster.id)?.modRevision, done.revision, "all or none");
  const entries = (await store.range(keys.folder("audit/"), { signal: never })).entries;
  t.equal(entries.length, 1, "a conflict has no audit entry");
  t.match(JSON.parse(entries[0]?.value ?? ""), {
    action: "admin:DrainCluster",
    updated_by: "admin:token",
    request_id: "r1",
  });
  t.strictSame(
    log.events("audit").map((record) => record.fields["outcome"]),
    ["committed", "conflict"],
  );
  const gone = { ...change, expected: done.revision, record: null };
  t.equal((await registry.commit([gone], null)).kind, "committed");
  t.equal(snapshots.current().buckets.size, 0);
  const cold = { kind: "class", storageClass: "COLD", expected: 0n, cluster: cluster.id } as const;
  await registry.commit([cold], null);
  t.equal(snapshots.current().classes.get("COLD")?.value, "a");
});

t.test("a value of a newer version is not in the view and not written over", async (t) => {
  const { registry, snapshots, store, keys, log } = await open(t);
  const bucket = bucketRecord("logs");
  const key = keys.bucket(noTenant, bucket.name);
  const { revision } = await store.txn([], [{ kind: "put", key, value: '{"schema":3}' }], []);
  await snapshots.reached(revision, never);
  t.equal(snapshots.current().buckets.find(noTenant, bucket.name), undefined);
  t.match(snapshots.unreadable(key), /schema is 3/);
  t.equal(log.events("state_value_unreadable").length, 1);
  for (const expected of [0n, revision]) {
    const change = { kind: "bucket", tenant: noTenant, name: bucket.name, expected } as const;
    t.equal(
      await faultKind(registry.commit([{ ...change, record: bucket }], null)),
      "state_conflict",
    );
  }
});

t.test("a member registers, is listed alive, and deregisters", async (t) => {
  const { registry, membership, store, keys, close } = await open(t);
  t.equal(membership.mayMutate(), true);
  const members = await registry.members(never);
  t.match(members, [{ record: { id: membership.id, nodeId: "n1", mode: "full" }, alive: true }]);
  const stale = JSON.stringify({
    ...JSON.parse(
      (await store.range(keys.member(membership.id), { signal: never })).entries[0]?.value ?? "",
    ),
    node_id: "gone",
  });
  await store.txn([], [{ kind: "put", key: keys.member("gone"), value: stale }], []);
  await store.txn([], [{ kind: "put", key: keys.member("bad"), value: "{" }], []);
  const listed = await registry.members(never);
  t.equal(listed.length, 2, "one that cannot be read is logged, not listed");
  t.equal(listed.find(({ record }) => record.id === "gone")?.alive, false);
  const events: string[] = [];
  const watching = (async () => {
    for await (const batch of store.watch(keys.prefix, 1n, never)) {
      for (const event of batch.events) if (event.kind === "delete") events.push(event.key);
    }
  })();
  await close();
  await watching.catch(() => undefined);
  t.strictSame(events.sort(), [keys.live(membership.id), keys.member(membership.id)].sort());
});

t.test("a lost lease gives a new id and takes the old one away", async (t) => {
  const meter = new CountingMeter();
  const { membership, registry, store, keys } = await open(t, { meter });
  const first = membership.id;
  // The lease of `live/` as someone at the store ends it.
  if (!(store instanceof MemoryStore)) throw new Error("memory store");
  await store.dropLeaseOf(keys.live(first));
  await eventually(() => membership.id !== first && membership.registered);
  const members = await registry.members(never);
  t.match(members, [{ record: { id: membership.id }, alive: true }]);
  t.equal(members.length, 1);
});

t.test("rerouting is acknowledged when mutations of that bucket have ended, once", async (t) => {
  const { registry, membership, snapshots, meter, store, keys } = await open(t);
  const acked = async (): Promise<bigint> => {
    const { entries } = await store.range(keys.member(membership.id), { signal: never });
    return BigInt(JSON.parse(entries[0]?.value ?? "").acked);
  };
  const put = async (name: string, phase: "settled" | "rerouting"): Promise<bigint> => {
    const held = snapshots.current().buckets.find(noTenant, bucketName(name));
    const result = await registry.commit(
      [
        {
          kind: "bucket",
          tenant: noTenant,
          name: bucketName(name),
          expected: held?.modRevision ?? 0n,
          record: bucketRecord(name, { phase }),
        },
      ],
      null,
    );
    if (result.kind !== "committed") throw new Error(result.kind);
    return result.revision;
  };
  await put("x", "settled");
  await put("y", "settled");
  await turns();
  const txns = meter.calls.txn;
  await put("z", "settled");
  await turns();
  t.equal(meter.calls.txn, txns + 1, "an ordinary change is not acknowledged");
  const endFirst = membership.beginMutation(noTenant, bucketName("x"));
  const endSecond = membership.beginMutation(noTenant, bucketName("x"));
  const endOther = membership.beginMutation(noTenant, bucketName("y"));
  const revision = await put("x", "rerouting");
  const endLate = membership.beginMutation(noTenant, bucketName("x"));
  await turns();
  t.ok((await acked()) < revision);
  endFirst();
  endFirst();
  await turns();
  t.ok((await acked()) < revision, "one is still under way");
  const later = await put("y", "rerouting");
  endOther();
  await turns();
  t.ok((await acked()) < revision, "a later revision waits for the earlier one");
  endSecond();
  await eventually(() => meter.calls.txn > txns + 3);
  await turns();
  t.equal(await acked(), later, "both at once");
  endLate();
  await turns();
  t.equal(await acked(), later);
});

t.test("an observer never mutates", async (t) => {
  const { membership } = await open(t, {
    member: {
      nodeId: "n",
      version: "0",
      mode: "observer",
      leaseTtlSeconds: 30,
      fenceAfterMs: null,
    },
  });
  t.equal(membership.mayMutate(), false);
});

t.test("the first clusters are live, later ones pending, differences are told", async (t) => {
  const { seedClusters: seed, snapshots, registry, log } = await open(t);
  const drained = clusterRecord("b", { state: "draining_readonly", weight: 7 });
  await seed([clusterRecord("a", { weight: 3 }), drained], never);
  const at = (id: string): unknown => snapshots.current().clusters.get(clusterId(id))?.value;
  t.match(at("a"), { state: "live", weight: 3 });
  t.match(at("b"), { state: "draining_readonly", weight: 7 });
  const moved = { endpoints: ["http://moved:1"], weight: 99, state: "live" } as const;
  await seed([clusterRecord("a", moved), clusterRecord("c", { weight: 5 })], never);
  t.match(at("a"), { weight: 3, endpoints: ["http://a.example:7480"] });
  t.match(at("c"), { state: "pending", weight: 5 });
  await seed([clusterRecord("a", moved)], never);
  const warnings = log.events("cluster_differs_from_configuration");
  t.match(warnings.at(-1)?.fields, { field: "endpoints", configured: "http://moved:1" });
  for (const { value, modRevision } of snapshots.current().clusters.values()) {
    await registry.commit(
      [{ kind: "cluster", id: value.id, expected: modRevision, record: null }],
      null,
    );
  }
  await seed([clusterRecord("d")], never);
  t.match(at("d"), { state: "pending" }, "an emptied installation is not a first one");
});

t.test("two processes seed at once: one set is the first", async (t) => {
  const state = await open(t);
  const options = { ...state, clock: realClock };
  await Promise.all([
    seedClusters([clusterRecord("a"), clusterRecord("b")], options, never),
    seedClusters([clusterRecord("b"), clusterRecord("c")], options, never),
  ]);
  const states = new Map(
    [...state.snapshots.current().clusters.values()].map(({ value }) => [value.id, value.state]),
  );
  t.equal(states.size, 3);
  t.equal(states.get(clusterId("b")), "live");
  t.strictSame([...states.values()].sort(), ["live", "live", "pending"]);
});

t.test("handle keys are made once and shared", async (t) => {
  const { handleKeys, store, keys } = await open(t);
  const [one, two] = await Promise.all([handleKeys(never), handleKeys(never)]);
  t.equal(one.current.length, 32);
  t.strictSame(one, two);
  t.strictSame(one.previous, []);
  const twice = { ...one, previous: [new Uint8Array(32)] };
  const value = JSON.stringify({
    schema: 1,
    updated_at: "2026-11-29T00:00:00.000Z",
    updated_by: "t",
    keys: [one.current, ...twice.previous].map((key) => Buffer.from(key).toString("base64")),
  });
  await store.txn([], [{ kind: "put", key: keys.handleKeys(), value }], []);
  t.strictSame(await handleKeys(never), twice);
  await store.txn([], [{ kind: "put", key: keys.handleKeys(), value: '{"schema":1}' }], []);
  t.equal(await faultKind(handleKeys(never)), "state_unavailable", "never made anew");
});
