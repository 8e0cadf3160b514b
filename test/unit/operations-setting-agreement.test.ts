// Clusters of a bucket that agree on a setting without a lock, whatever the order in which two writers reach
// them; and what they can never agree on, which ends all the same.

import t from "tap";
import { writtenSetting } from "../../proxy/operations/drift-reading.ts";
import { agree } from "../../proxy/operations/setting-agreement.ts";
import { settingErrand } from "../../proxy/operations/setting-errand.ts";
import { bucketTableOf } from "../../proxy/placement/bucket-table.ts";
import { serviceIdentity } from "../../proxy/placement/ports.ts";
import { profiles } from "../../proxy/placement/profiles.ts";
import { noTenant } from "../../proxy/s3/names.ts";
import { settingText } from "../../proxy/s3/setting-text.ts";
import { CountingMeter, RecordingLog } from "../support/bridge-parts.ts";
import { type Chooser, HeldSettings, inEveryOrder } from "../support/held-settings.ts";
import { bucketNamed, bucketRecord, clusterNamed } from "../support/placement-names.ts";

function written() {
  const setting = writtenSetting("PutBucketTagging", null);
  if (setting === null) throw new Error("Tags are no setting");
  return setting;
}

const name = bucketNamed("agreed");
const document = (value: string): string =>
  `<Tagging><TagSet><Tag><Key>w</Key><Value>${value}</Value></Tag></TagSet></Tagging>`;
const wordOf = (value: string): string =>
  settingText("tagging", Buffer.from(document(value))) ?? "";
const [never, first]: readonly [AbortSignal, Chooser] = [
  new AbortController().signal,
  ([waiting]) => {
    if (waiting === undefined) throw new Error("Nobody waits");
    return waiting;
  },
];

function clustersNamed(count: number) {
  return ["a", "b", "c"].slice(0, count).map(clusterNamed);
}

function scene(clusters: HeldSettings, ids = clustersNamed(2)) {
  const ports = { upstream: clusters.upstream, facts: () => profiles.aws };
  const places = ids.map((cluster) => ({ tenant: noTenant, name, cluster }));
  const look = (ours?: string | null) =>
    agree(written(), places, ports, { signal: never, ...(ours === undefined ? {} : { ours }) });
  /** As a client's write goes: to the first cluster last, then it looks. `null` takes the setting away. */
  const write = async (value: string | null) => {
    for (const cluster of ids.toReversed()) {
      await clusters.upstream.send(
        cluster,
        {
          operation: value === null ? "DeleteBucketTagging" : "PutBucketTagging",
          method: value === null ? "DELETE" : "PUT",
          tenant: noTenant,
          bucket: name,
          key: null,
          query: [["tagging", null]],
          headers: [],
          body: value === null ? null : { kind: "bytes", bytes: Buffer.from(document(value)) },
          payloadSha256: null,
          identity: serviceIdentity,
        },
        never,
      );
    }
    return await look(value === null ? "unset" : wordOf(value));
  };
  const words = () => ids.map((cluster) => clusters.told.get(cluster) ?? null);
  return { write, look, words, ids };
}

t.test("one sets it and one takes it away: two clusters agree after every order", async (t) => {
  const faults: string[] = [];
  let drifted = 0;
  const count = await inEveryOrder(async (choose) => {
    const clusters = new HeldSettings();
    const { write, words } = scene(clusters);
    await clusters.run([write("one"), write(null)], choose);
    const [a, b] = words();
    if (clusters.writes > 4) drifted += 1;
    if (a !== b || ![document("one"), null].includes(a ?? null)) {
      faults.push(`${a ?? "none"} and ${b ?? "none"}`);
    }
  });
  t.strictSame(faults, []);
  t.ok(count > 100 && drifted > 10, `${count} orders, in ${drifted} a writer had to copy`);
});

/** Orders that look random, and are the same at every run. */
function chooserOf(seed: number): Chooser {
  let state = seed;
  return (waiting) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    const next = waiting[(state >>> 8) % waiting.length];
    if (next === undefined) throw new Error("Nobody waits");
    return next;
  };
}

t.test("three writers agree on three clusters, in many orders", async (t) => {
  const faults: string[] = [];
  let drifted = 0;
  for (let seed = 0; seed < 150; seed += 1) {
    const clusters = new HeldSettings();
    const { write, words, ids } = scene(clusters, clustersNamed(3));
    await clusters.run([write("one"), write("other"), write(null)], chooserOf(seed));
    if (clusters.writes > 9) drifted += 1;
    if (new Set(words()).size > 1 || words().length !== ids.length)
      faults.push(`${seed}: ${words().join()}`);
  }
  t.strictSame(faults, []);
  t.ok(drifted > 50, `in ${drifted} a writer had to copy`);
});

t.test("what clusters never say alike is left after one copy, and told", async (t) => {
  const [, b] = clustersNamed(2);
  const clusters = new HeldSettings((cluster, text) =>
    cluster === b ? text.replace("<Value>", "<Value>our ") : text,
  );
  const { write } = scene(clusters);
  const writing = write("one");
  await clusters.run([writing], first);
  t.equal(clusters.writes, 3);
  t.match(await writing, {
    isOpen: false,
    drift: [{ setting: "tagging", cluster: b, kind: "differs", outcome: "failed" }],
  });
});

t.test("a writer that reads another word than its own back copies nothing yet", async (t) => {
  const [a, b] = clustersNamed(2);
  if (a === undefined || b === undefined) throw new Error("No clusters");
  const clusters = new HeldSettings();
  clusters.told.set(a, document("old"));
  clusters.told.set(b, document("new"));
  const { look } = scene(clusters);
  for (const ours of [wordOf("new"), null]) {
    const looking = look(ours);
    await clusters.run([looking], first);
    t.match(await looking, { isOpen: true, drift: [{ cluster: b, outcome: "found" }] });
    t.equal(clusters.writes, 0);
  }
});

t.test(
  "a cluster that goes away leaves it open, one that forbids to be asked does not",
  async (t) => {
    const [a, b] = clustersNamed(2);
    if (a === undefined || b === undefined) throw new Error("No clusters");
    const clusters = new HeldSettings();
    clusters.told.set(a, document("one"));
    const { look } = scene(clusters);
    for (const [gone, forbidden, isOpen] of [
      [[b], [], true],
      [[a], [], true],
      [[], [b], false],
      [[], [a], false],
    ] as const) {
      clusters.away.clear();
      for (const id of gone) clusters.away.add(id);
      clusters.forbidden = new Set(forbidden);
      const looking = look();
      await clusters.run([looking], first);
      t.match(await looking, { isOpen, drift: [{ kind: "unreadable", outcome: "found" }] });
    }
    t.equal(clusters.writes, 0, "nothing is written that was not read");
    // It takes the question, and dies before it answers the write.
    const looking = look();
    clusters.away.clear();
    clusters.forbidden = new Set();
    await clusters.run([looking], (waiting) => {
      const [next] = waiting;
      if (next?.writes === true) clusters.away.add(b);
      return first(waiting);
    });
    t.match(await looking, { isOpen: true });
  },
);

t.test(
  "a write that was left undone is ended while its bucket is there, and seen to last",
  async (t) => {
    const [a, b] = clustersNamed(2);
    if (a === undefined || b === undefined) throw new Error("No clusters");
    const clusters = new HeldSettings();
    clusters.told.set(a, document("first"));
    const record = bucketRecord("agreed");
    const now = { record, seconds: 0, mayMutate: true };
    const log = new RecordingLog();
    const counted = { begun: 0, ended: 0 };
    const later: (() => void)[] = [];
    const errand = settingErrand(
      { setting: written(), record, clusters: [a, b], identity: serviceIdentity },
      {
        upstream: clusters.upstream,
        facts: () => profiles.aws,
        snapshots: {
          current: () => ({
            revision: 1n,
            origin: "live",
            clusters: new Map(),
            classes: new Map(),
            buckets: bucketTableOf([{ value: now.record, modRevision: 1n }]),
            data: new Map(),
            credentials: new Map(),
          }),
          reached: async () => {},
          subscribe: () => () => {},
        },
        membership: {
          id: "test",
          mayMutate: () => now.mayMutate,
          beginMutation: () => {
            counted.begun += 1;
            return () => {
              counted.ended += 1;
            };
          },
        },
        clock: { nowMs: () => 0, monotonicMs: () => now.seconds * 1000, sleep: async () => {} },
        timers: {
          after: (_ms, run) => {
            later.push(run);
            return () => {};
          },
        },
        quarantineMs: 120_000,
        meter: new CountingMeter(),
        log,
      },
    );
    const run = async () => {
      const running = errand.run(never);
      await clusters.run([running], first);
      return await running;
    };
    const rows = [
      [{ record: { ...record, phase: "deleting" as const } }, "again", undefined],
      [{ record, mayMutate: false }, "again", undefined],
      [{ record: bucketRecord("other") }, "void", undefined],
      [{ record: { ...record, createdAt: "2026-11-30T00:00:00.000Z" } }, "void", undefined],
      [{ record, mayMutate: true }, "again", "first"],
      [{ seconds: 119 }, "again", "first"],
      [{ seconds: 120 }, "done", "first"],
    ] as const;
    for (const [change, outcome, word] of rows) {
      Object.assign(now, change);
      t.equal(await run(), outcome, JSON.stringify(change));
      t.equal(clusters.told.get(b), word === undefined ? word : document(word));
    }
    t.match(log.records, [{ level: "info", event: "bucket.drift", fields: { outcome: "healed" } }]);
    t.strictSame(counted, { begun: 3, ended: 3 });
    // A copy without an answer counts as long as it may be carried out.
    clusters.told.delete(b);
    const running = errand.run(never);
    await clusters.run([running], (waiting) => {
      if (waiting[0]?.writes === true) clusters.away.add(b);
      return first(waiting);
    });
    t.equal(await running, "again");
    t.strictSame(counted, { begun: 4, ended: 3 });
    for (const end of later) end();
    t.strictSame(counted, { begun: 4, ended: 4 });
  },
);
