// The reducer: a view is a function of the store's content, however it was reached.

import fc from "fast-check";
import t from "tap";
import {
  encodeBucket,
  encodeClass,
  encodeCluster,
  encodeCredential,
  encodeData,
} from "../../bridge/codec.ts";
import { Keyspace } from "../../bridge/keyspace.ts";
import { readSnapshotText, snapshotText } from "../../bridge/persisted-snapshot.ts";
import { Reducer, type StateView } from "../../bridge/reduce.ts";
import { FaultError } from "../../proxy/placement/ports.ts";
import type { StoreBatch, StoreEntry, StoreEvent } from "../../proxy/placement/state-store.ts";
import { noTenant } from "../../proxy/s3/names.ts";
import {
  accessKeyId,
  bucketName,
  bucketRecord,
  clusterId,
  clusterRecord,
  credentialRecord,
} from "../support/bridge-records.ts";

const keys = new Keyspace();
const stamp = { updatedAt: "2026-11-29T23:00:00.000Z", updatedBy: "test" };

function entry(key: string, value: string, modRevision: bigint): StoreEntry {
  return { key, value, createRevision: modRevision, modRevision };
}

function byKey(a: readonly [string, unknown], b: readonly [string, unknown]): number {
  return a[0] < b[0] ? -1 : 1;
}

function plain(view: StateView): unknown {
  const { snapshot, unreadable } = view;
  return {
    revision: snapshot.revision,
    clusters: [...snapshot.clusters.values()].sort((a, b) => (a.value.id < b.value.id ? -1 : 1)),
    classes: [...snapshot.classes].sort(byKey),
    buckets: [...snapshot.buckets.all()].sort((a, b) => (a.value.name < b.value.name ? -1 : 1)),
    size: snapshot.buckets.size,
    data: [...snapshot.data].sort(byKey),
    credentials: [...snapshot.credentials].sort(byKey),
    unreadable: [...unreadable.values()].sort((a, b) => (a.key < b.key ? -1 : 1)),
  };
}

function listOf(reducer: Reducer, entries: readonly StoreEntry[], revision: bigint): StateView {
  const draft = reducer.list(null, "live");
  draft.add(entries);
  draft.settle();
  return draft.finish(revision).view;
}

/** A step of random history: a key of a small set, put well, put badly, or deleted. */
const step = fc.record({
  key: fc.constantFrom(
    keys.cluster(clusterId("a")),
    keys.cluster(clusterId("b")),
    keys.storageClass("COLD"),
    keys.bucket(noTenant, bucketName("x")),
    keys.bucket(noTenant, bucketName("y")),
    keys.data("team/blue"),
    keys.credential(accessKeyId("AK/1")),
    keys.credential(accessKeyId("AK2")),
    keys.member("m"),
    `${keys.prefix}buckets/oops`,
  ),
  what: fc.constantFrom("put", "put", "bad", "newer", "delete"),
  number: fc.integer({ min: 0, max: 100 }),
});

function valueFor(key: string, number: number): string {
  const name = keys.readKey(key);
  switch (name.kind) {
    case "cluster":
      return encodeCluster(clusterRecord(name.id, { weight: number }), stamp);
    case "class":
      return encodeClass(clusterId(number % 2 === 0 ? "a" : "b"), stamp);
    case "bucket":
      return encodeBucket(bucketRecord(name.name, { epochs: [number] }), stamp);
    case "data":
      return encodeData({ number }, stamp);
    case "credential":
      return encodeCredential(credentialRecord(name.accessKeyId, { uid: `u${number}` }), stamp);
    case "malformed":
    case "other":
      return "anything";
  }
}

t.test("batches, batches twice and a list lead to the same view", async () => {
  fc.assert(
    fc.property(fc.array(fc.array(step, { minLength: 1, maxLength: 3 })), (history) => {
      const reducer = new Reducer(keys);
      let once = listOf(reducer, [], 1n);
      let twice = once;
      const store = new Map<string, StoreEntry>();
      let revision = 1n;
      for (const steps of history) {
        revision += 1n;
        const at = revision;
        const byKey = new Map(steps.map((one) => [one.key, one]));
        const events = [...byKey.values()].map(({ key, what, number }): StoreEvent => {
          if (what === "delete") {
            store.delete(key);
            return { kind: "delete", key, modRevision: at };
          }
          const bad = what === "bad" ? "{" : JSON.stringify({ schema: 99 });
          const put = entry(key, what === "put" ? valueFor(key, number) : bad, at);
          store.set(key, put);
          return { kind: "put", entry: put };
        });
        const batch: StoreBatch = { revision: at, events };
        once = reducer.batch(once, batch).view;
        twice = reducer.batch(reducer.batch(twice, batch).view, batch).view;
      }
      const listed = listOf(reducer, [...store.values()], revision);
      const text = JSON.stringify(plain(once), stringify);
      return (
        text === JSON.stringify(plain(twice), stringify) &&
        text === JSON.stringify(plain(listed), stringify)
      );
    }),
  );
});

function stringify(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  return value instanceof Map ? [...value] : value;
}

t.test("an old batch leaves the very same view", async (t) => {
  const reducer = new Reducer(keys);
  const key = keys.cluster(clusterId("a"));
  const view = listOf(reducer, [entry(key, valueFor(key, 1), 5n)], 9n);
  const old: StoreBatch = { revision: 9n, events: [{ kind: "delete", key, modRevision: 7n }] };
  t.equal(reducer.batch(view, old).view, view);
});

t.test("a bad value takes the record away and says so once, until it is good again", async (t) => {
  const reducer = new Reducer(keys);
  const key = keys.bucket(noTenant, bucketName("x"));
  const view = listOf(reducer, [entry(key, valueFor(key, 1), 2n)], 2n);
  const bad = reducer.batch(view, {
    revision: 3n,
    events: [{ kind: "put", entry: entry(key, '{"schema":3}', 3n) }],
  });
  t.equal(bad.view.snapshot.buckets.find(noTenant, bucketName("x")), undefined);
  t.match(bad.unreadable, [{ key, newer: true }]);
  t.equal(bad.view.unreadable.size, 1);
  const relist = reducer.list(bad.view, "live");
  relist.add([entry(key, '{"schema":3}', 3n)]);
  const again = relist.finish(4n);
  t.strictSame(again.unreadable, [], "reported already");
  t.equal(again.view.unreadable.size, 1);
  const good = reducer.batch(again.view, {
    revision: 5n,
    events: [{ kind: "put", entry: entry(key, valueFor(key, 2), 5n) }],
  });
  t.equal(good.view.unreadable.size, 0);
  t.equal(good.view.snapshot.buckets.find(noTenant, bucketName("x"))?.modRevision, 5n);
});

t.test("buckets that turn to rerouting are told, in a list only when new", async (t) => {
  const reducer = new Reducer(keys);
  const key = keys.bucket(noTenant, bucketName("x"));
  const value = encodeBucket(bucketRecord("x", { phase: "rerouting" }), stamp);
  const first = reducer.list(null, "live");
  first.add([entry(key, value, 2n)]);
  const { view, announced } = first.finish(2n);
  t.strictSame(announced, [{ tenant: noTenant, name: bucketName("x") }]);
  const second = reducer.list(view, "live");
  second.add([entry(key, value, 2n)]);
  const relisted = second.finish(3n);
  t.strictSame(relisted.announced, []);
  t.equal(
    relisted.view.snapshot.buckets.find(noTenant, bucketName("x")),
    view.snapshot.buckets.find(noTenant, bucketName("x")),
    "an unchanged record is the same object",
  );
});

t.test("keys that no snapshot holds move the revision and nothing else", async (t) => {
  const reducer = new Reducer(keys);
  const view = listOf(reducer, [], 2n);
  const event: StoreEvent = { kind: "put", entry: entry(keys.member("m"), "x", 3n) };
  const reduction = reducer.batch(view, { revision: 3n, events: [event] });
  t.equal(reduction.changed, false);
  t.equal(reduction.view.snapshot.revision, 3n);
  t.equal(reduction.view.snapshot.buckets, view.snapshot.buckets);
});

t.test("a persisted snapshot reads back equal; cut or foreign ones are refused", async (t) => {
  const reducer = new Reducer(keys);
  const all = [
    keys.cluster(clusterId("a")),
    keys.storageClass("COLD"),
    keys.bucket(noTenant, bucketName("x")),
    keys.data("team/blue"),
  ].map((key, index) => entry(key, valueFor(key, 3), BigInt(index + 2)));
  const view = listOf(reducer, all, 20n);
  const text = [...snapshotText(view.snapshot, keys, stamp.updatedAt)].join("");
  const { revision, entries } = readSnapshotText(text, keys);
  t.equal(
    JSON.stringify(plain(listOf(new Reducer(keys), entries, revision)), stringify),
    JSON.stringify(plain(view), stringify),
  );
  for (let cut = 0; cut < text.length; cut += 1) {
    try {
      readSnapshotText(text.slice(0, cut), keys);
      t.fail(`cut at ${cut} was read`);
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
    }
  }
  t.throws(() => readSnapshotText(text, new Keyspace("/other/")), { name: "FaultError" });
});

t.test("what did not change stays the same object, over batches and lists", async (t) => {
  const reducer = new Reducer(keys);
  const cluster = keys.cluster(clusterId("a"));
  const data = keys.data("team/blue");
  const entries = [entry(cluster, valueFor(cluster, 1), 2n), entry(data, valueFor(data, 1), 3n)];
  const { snapshot, ...rest } = listOf(reducer, entries, 3n);
  const bucket = keys.bucket(noTenant, bucketName("x"));
  const changed = reducer.batch(
    { snapshot, ...rest },
    { revision: 4n, events: [{ kind: "put", entry: entry(bucket, valueFor(bucket, 1), 4n) }] },
  ).view;
  t.equal(changed.snapshot.clusters, snapshot.clusters);
  t.equal(changed.snapshot.data, snapshot.data);
  const relist = reducer.list(changed, "live");
  relist.add(entries);
  const listed = relist.finish(9n).view;
  t.equal(listed.snapshot.clusters, snapshot.clusters);
  t.equal(listed.snapshot.classes, snapshot.classes);
  t.equal(listed.snapshot.data, snapshot.data);
  const other = reducer.list(listed, "live");
  other.add([entry(cluster, valueFor(cluster, 2), 10n), entry(data, valueFor(data, 2), 11n)]);
  const { snapshot: next } = other.finish(11n).view;
  t.not(next.clusters, snapshot.clusters);
  t.equal(next.clusters.get(clusterId("a"))?.value.weight, 2);
  t.strictSame(next.data.get("team/blue"), { number: 2 });
});
