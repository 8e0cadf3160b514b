// A store that was put back to an earlier state, or wiped, while a process watches it: the snapshot
// becomes what the store holds now, at once, and says that revisions went back.

import t from "tap";
import { encodeBucket, encodeCluster, encodeData } from "../../bridge/codec.ts";
import { Keyspace } from "../../bridge/keyspace.ts";
import { MemoryStore } from "../../bridge/memory-store.ts";
import { LiveSnapshots } from "../../bridge/snapshots.ts";
import { FaultError } from "../../proxy/placement/ports.ts";
import type { StateStore } from "../../proxy/placement/state-store.ts";
import { noTenant } from "../../proxy/s3/names.ts";
import {
  CountingMeter,
  eventually,
  never,
  RecordingLog,
  realClock,
  realRandom,
} from "../support/bridge-parts.ts";
import { bucketName, bucketRecord, clusterId, clusterRecord } from "../support/bridge-records.ts";

const keys = new Keyspace();
const stamp = { updatedAt: "2026-11-29T23:00:00.000Z", updatedBy: "test" };

type Content = Readonly<Record<string, string>>;

const bucket = (name: string, epoch = 1): Content => ({
  [keys.bucket(noTenant, bucketName(name))]: encodeBucket(
    bucketRecord(name, { epochs: [epoch] }),
    stamp,
  ),
});
const cluster = (weight: number): Content => ({
  [keys.cluster(clusterId("a"))]: encodeCluster(clusterRecord(clusterId("a"), { weight }), stamp),
});
const data = (text: string): Content => ({ [keys.data("text")]: encodeData({ text }, stamp) });

/** Each write is one revision. */
async function storeOf(...writes: readonly Content[]): Promise<MemoryStore> {
  const store = new MemoryStore({ clock: realClock, meter: new CountingMeter() });
  for (const content of writes) {
    const puts = Object.entries(content).map(
      ([key, value]) => ({ kind: "put", key, value }) as const,
    );
    await store.txn([], puts, []);
  }
  return store;
}

/** A store whose content can be exchanged, as by a restored data directory: its watches end. */
class ExchangeableStore implements StateStore {
  readonly driver = "memory";
  #now: MemoryStore;
  #gone = new AbortController();

  constructor(first: MemoryStore) {
    this.#now = first;
  }

  async exchange(next: MemoryStore): Promise<void> {
    const last = this.#now;
    this.#now = next;
    const gone = this.#gone;
    this.#gone = new AbortController();
    gone.abort(new FaultError("state_unavailable", "The connection is lost"));
    await last.close();
  }

  range: StateStore["range"] = (prefix, options) => this.#now.range(prefix, options);
  txn: StateStore["txn"] = (...given) => this.#now.txn(...given);
  lease: StateStore["lease"] = (ttlSeconds) => this.#now.lease(ttlSeconds);
  watch: StateStore["watch"] = (prefix, from, signal) =>
    this.#now.watch(prefix, from, AbortSignal.any([signal, this.#gone.signal]));
  close: StateStore["close"] = () => this.#now.close();
}

function content({ snapshots }: { readonly snapshots: LiveSnapshots }): unknown {
  const now = snapshots.current();
  return {
    buckets: [...now.buckets.all()]
      .map(({ value }) => `${value.name} ${value.epochs.join()}`)
      .toSorted(),
    weights: [...now.clusters.values()].map(({ value }) => value.weight),
    data: [...now.data],
  };
}

const first = [cluster(1), data("old"), bucket("kept"), bucket("late"), bucket("late", 2)];

for (const [what, writes, went] of [
  ["an earlier state", first.slice(0, 3), true],
  ["an earlier state, written on", [...first.slice(0, 3), bucket("other")], true],
  ["other content at the same revisions", [cluster(9), data("new"), bucket("kept", 7)], true],
  ["nothing at all", [], true],
  ["another store that is further on", [...first, cluster(2), bucket("more")], false],
] as const) {
  t.test(`${what}: the snapshot is what the store holds`, async (t) => {
    // https://github.com/microsoft/etcd3/pull/33
    const store = new ExchangeableStore(await storeOf(...first));
    const log = new RecordingLog();
    const snapshots = new LiveSnapshots({
      store,
      keys,
      clock: realClock,
      random: realRandom,
      log,
      meter: new CountingMeter(),
      persist: null,
    });
    t.teardown(async () => {
      await snapshots.close();
      await store.close();
    });
    await snapshots.start(never);
    const next = await storeOf(...writes);
    await store.exchange(next);
    await eventually(() => snapshots.status().watchRestarts > 0 && snapshots.status().connected);
    const fresh = new LiveSnapshots({
      store: next,
      keys,
      clock: realClock,
      random: realRandom,
      log: new RecordingLog(),
      meter: new CountingMeter(),
      persist: null,
    });
    t.teardown(() => fresh.close());
    await fresh.start(never);
    t.strictSame(content({ snapshots }), content({ snapshots: fresh }));
    t.equal(log.events("state_revision_went_back").length, went ? 1 : 0);
    const { revision } = await next.txn(
      [],
      Object.entries(bucket("after")).map(([key, value]) => ({ kind: "put", key, value })),
      [],
    );
    await snapshots.reached(revision, never);
    await fresh.reached(revision, never);
    t.strictSame(content({ snapshots }), content({ snapshots: fresh }), "and is watched");
  });
}
