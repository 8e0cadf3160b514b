// What every state store must do, whichever is behind the port. One call adds all of it as subtests.

import type { Test } from "tap";
import type { KeptLease, LeaseStore } from "../../bridge/kept-lease.ts";
import type {
  StoreBatch,
  StoreCompare,
  StoreEvent,
  StoreOperation,
} from "../../proxy/placement/state-store.ts";
import { WatchCompactedError } from "../../proxy/placement/state-store.ts";
import { never } from "./bridge-parts.ts";

export interface Conformance {
  readonly store: LeaseStore;
  /** Forgets history up to and including the revision. */
  readonly compact: (revision: bigint) => Promise<void> | void;
  /** Lets a lease with this TTL run out after it was abandoned. */
  readonly pass: (ttlSeconds: number) => Promise<void>;
}

const put = (key: string, value: string): StoreOperation => ({ kind: "put", key, value });
const absent = (key: string): StoreCompare => ({ kind: "mod_revision", key, revision: 0n });

/** Takes batches until `count` events came. */
async function take(batches: AsyncIterable<StoreBatch>, count: number): Promise<StoreBatch[]> {
  const taken: StoreBatch[] = [];
  let events = 0;
  for await (const batch of batches) {
    taken.push(batch);
    events += batch.events.length;
    if (events >= count) return taken;
  }
  return taken;
}

function text(event: StoreEvent): string {
  return event.kind === "put"
    ? `put ${event.entry.key}=${event.entry.value}`
    : `delete ${event.key}`;
}

async function read(store: LeaseStore, key: string): Promise<string | null> {
  const { entries } = await store.range(key, { signal: never });
  return entries.find((entry) => entry.key === key)?.value ?? null;
}

export function conforms(t: Test, make: (t: Test) => Promise<Conformance>): void {
  t.test("50 concurrent increments end at 50", async (t) => {
    const { store } = await make(t);
    await store.txn([], [put("/i/n", "0")], []);
    const increment = async (): Promise<void> => {
      for (;;) {
        const { entries } = await store.range("/i/n", { signal: never });
        const entry = entries[0];
        if (entry === undefined) throw new Error("lost");
        const { succeeded } = await store.txn(
          [{ kind: "mod_revision", key: "/i/n", revision: entry.modRevision }],
          [put("/i/n", String(Number(entry.value) + 1))],
          [],
        );
        if (succeeded) return;
      }
    };
    await Promise.all(Array.from({ length: 50 }, increment));
    t.equal(await read(store, "/i/n"), "50");
  });

  t.test("compares of absence, presence and revision pick the branch", async (t) => {
    const { store } = await make(t);
    const first = await store.txn([absent("/c/a")], [put("/c/a", "1")], [put("/c/no", "x")]);
    t.equal(first.succeeded, true);
    const again = await store.txn([absent("/c/a")], [put("/c/a", "2")], [put("/c/else", "3")]);
    t.equal(again.succeeded, false);
    t.equal(await read(store, "/c/a"), "1");
    t.equal(await read(store, "/c/else"), "3");
    t.ok(again.revision > first.revision);
    const present = { kind: "present", key: "/c/a" } as const;
    t.equal((await store.txn([present], [], [])).succeeded, true);
    t.equal((await store.txn([{ ...present, key: "/c/none" }], [], [])).succeeded, false);
    const stale = { kind: "mod_revision", key: "/c/a", revision: first.revision + 1n } as const;
    t.equal((await store.txn([stale], [], [])).succeeded, false);
    t.equal((await store.txn([present, stale], [], [])).succeeded, false, "all must hold");
    const [entry] = (await store.range("/c/a", { signal: never })).entries;
    t.equal(entry?.modRevision, first.revision);
    t.equal(entry?.createRevision, first.revision);
  });

  t.test("a transaction that changes nothing has no revision of its own", async (t) => {
    const { store } = await make(t);
    const { revision } = await store.txn([], [put("/n/a", "1")], []);
    const idle = await store.txn([], [{ kind: "delete", key: "/n/none" }], []);
    t.equal(idle.revision, revision);
  });

  t.test("a range is paged in key order at a pinned revision", async (t) => {
    const { store } = await make(t);
    const keys = Array.from({ length: 25 }, (_, i) => `/p/${String(i).padStart(2, "0")}`);
    await store.txn(
      [],
      [...keys].reverse().map((key) => put(key, "old")),
      [],
    );
    await store.txn([], [put("/p0", "outside"), put("/o/z", "outside")], []);
    const first = await store.range("/p/", { limit: 10, signal: never });
    t.equal(first.more, true);
    await store.txn(
      [],
      [put("/p/00x", "new"), put("/p/15", "new"), { kind: "delete", key: "/p/20" }],
      [],
    );
    const seen = [...first.entries];
    let more = first.more;
    while (more) {
      const after = seen.at(-1)?.key ?? "";
      const page = await store.range("/p/", {
        limit: 10,
        after,
        revision: first.revision,
        signal: never,
      });
      seen.push(...page.entries);
      more = page.more;
    }
    t.strictSame(
      seen.map((entry) => entry.key),
      keys,
    );
    t.ok(seen.every((entry) => entry.value === "old"));
    const now = await store.range("/p/", { signal: never });
    t.equal(now.entries.length, 25);
    t.equal(now.more, false);
    t.equal(now.entries.find((entry) => entry.key === "/p/15")?.value, "new");
  });

  t.test("a watch gives every event after a revision once, in order, whole", async (t) => {
    const { store } = await make(t);
    const { revision } = await store.txn([], [put("/w/before", "0")], []);
    await store.txn([], [put("/w/a", "1"), put("/w/b", "1"), put("/x/c", "1")], []);
    await store.txn([], [{ kind: "delete", key: "/w/a" }, put("/w/b", "2")], []);
    const stop = new AbortController();
    const taking = take(store.watch("/w/", revision, stop.signal), 7);
    await store.txn([], [put("/x/only", "other prefix")], []);
    await store.txn([], [put("/w/a", "3"), put("/w/c", "3")], []);
    const last = await store.txn([], [{ kind: "delete", key: "/w/c" }], []);
    const batches = await taking;
    stop.abort();
    const byRevision = new Map<bigint, string[]>();
    for (const event of batches.flatMap((batch) => batch.events)) {
      const at = event.kind === "put" ? event.entry.modRevision : event.modRevision;
      byRevision.set(at, [...(byRevision.get(at) ?? []), text(event)].sort());
    }
    t.strictSame(
      [...byRevision.values()],
      [
        ["put /w/a=1", "put /w/b=1"],
        ["delete /w/a", "put /w/b=2"],
        ["put /w/a=3", "put /w/c=3"],
        ["delete /w/c"],
      ],
    );
    const revisions = [...byRevision.keys()];
    t.strictSame(
      revisions,
      [...revisions].sort((a, b) => (a < b ? -1 : 1)),
    );
    t.equal(batches.at(-1)?.revision, last.revision);
  });

  t.test("an aborted watch throws the reason", async (t) => {
    const { store } = await make(t);
    const stop = new AbortController();
    const reason = new Error("enough");
    const watching = take(store.watch("/w/", 1n, stop.signal), 1);
    stop.abort(reason);
    await t.rejects(watching, reason);
  });

  t.test("a lease that runs out deletes its keys, and a watch sees it", async (t) => {
    const { store, pass } = await make(t);
    const lease: KeptLease = await store.lease(1);
    const put = { kind: "put", key: "/l/live", value: "1", lease } as const;
    const { revision } = await store.txn([], [put], []);
    const stop = new AbortController();
    const taking = take(store.watch("/l/", revision, stop.signal), 1);
    lease.abandon();
    await pass(1);
    const [batch] = await taking;
    stop.abort();
    t.strictSame(batch?.events.map(text), ["delete /l/live"]);
    await lease.lost;
    await t.rejects(store.txn([], [put], []), { name: "FaultError" }, "a gone lease holds no key");
  });

  t.test("a lease is kept alive beyond its time, and revoked at once", async (t) => {
    const { store, pass } = await make(t);
    const lease = await store.lease(1);
    const { revision } = await store.txn([], [{ kind: "put", key: "/l/k", value: "1", lease }], []);
    await pass(1);
    t.equal(await read(store, "/l/k"), "1");
    const stop = new AbortController();
    const taking = take(store.watch("/l/", revision, stop.signal), 1);
    await lease.revoke();
    const [batch] = await taking;
    stop.abort();
    t.strictSame(batch?.events.map(text), ["delete /l/k"]);
    await lease.lost;
  });

  t.test("a put without lease takes a key off its lease", async (t) => {
    const { store } = await make(t);
    const lease = await store.lease(5);
    await store.txn([], [{ kind: "put", key: "/l/off", value: "1", lease }], []);
    await store.txn([], [put("/l/off", "2")], []);
    await lease.revoke();
    t.equal(await read(store, "/l/off"), "2");
  });

  t.test("compacted history ends a watch and a pinned range", async (t) => {
    const { store, compact } = await make(t);
    const { revision } = await store.txn([], [put("/k/a", "1")], []);
    await store.txn([], [put("/k/a", "2")], []);
    const last = await store.txn([], [put("/k/a", "3")], []);
    await compact(last.revision);
    await t.rejects(take(store.watch("/k/", revision, never), 1), WatchCompactedError);
    await t.rejects(store.range("/k/", { revision, signal: never }), WatchCompactedError);
    const stop = new AbortController();
    const taking = take(store.watch("/k/", last.revision, stop.signal), 1);
    await store.txn([], [put("/k/a", "4")], []);
    t.strictSame((await taking)[0]?.events.map(text), ["put /k/a=4"]);
    stop.abort();
  });

  t.test("values of a megabyte and of any text come back", async (t) => {
    const { store } = await make(t);
    const large = "0123456789abcdef".repeat(64 * 1024);
    const odd = 'ü€😀 "\\\u0000\n';
    await store.txn([], [put("/v/large", large), put("/v/odd", odd), put("/v/empty", "")], []);
    t.ok((await read(store, "/v/large")) === large);
    t.equal(await read(store, "/v/odd"), odd);
    t.equal(await read(store, "/v/empty"), "");
  });
}
