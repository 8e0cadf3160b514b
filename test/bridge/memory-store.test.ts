// The memory store: the common suite, and what only an embedded store can show.

import t from "tap";
import { MemoryStore } from "../../bridge/memory-store.ts";
import { WatchCompactedError } from "../../proxy/placement/state-store.ts";
import { conforms } from "../support/bridge-conformance.ts";
import { CountingMeter, faultKind, HandClock, never } from "../support/bridge-parts.ts";

conforms(t, async (t) => {
  const clock = new HandClock();
  const store = new MemoryStore({ clock, meter: new CountingMeter() });
  t.teardown(() => store.close());
  return {
    store,
    compact: (revision) => store.compact(revision),
    pass: (ttlSeconds) => clock.advance(ttlSeconds * 1000),
  };
});

t.test("history is bounded: a watch that is too far behind is compacted", async (t) => {
  const store = new MemoryStore({
    clock: new HandClock(),
    meter: new CountingMeter(),
    maxHistory: 3,
  });
  t.teardown(() => store.close());
  const { revision } = await store.txn([], [{ kind: "put", key: "/a", value: "0" }], []);
  for (const value of ["1", "2", "3", "4"]) {
    await store.txn([], [{ kind: "put", key: "/a", value }], []);
  }
  await t.rejects(
    store.watch("/", revision, never)[Symbol.asyncIterator]().next(),
    WatchCompactedError,
  );
});

t.test("a closed store ends watches and refuses calls", async (t) => {
  const store = new MemoryStore({ clock: new HandClock(), meter: new CountingMeter() });
  const next = store.watch("/", 1n, never)[Symbol.asyncIterator]().next();
  await store.close();
  t.equal(await faultKind(next), "state_unavailable");
  t.equal(await faultKind(store.txn([], [], [])), "state_unavailable");
  t.equal(await faultKind(store.range("/", { signal: never })), "state_unavailable");
  t.equal(await faultKind(store.lease(1)), "state_unavailable");
});

t.test("a lease of 30 days does not end early", async (t) => {
  const clock = new HandClock();
  const store = new MemoryStore({ clock, meter: new CountingMeter() });
  t.teardown(() => store.close());
  const lease = await store.lease(30 * 86_400);
  await store.txn([], [{ kind: "put", key: "/a", value: "1", lease }], []);
  lease.abandon();
  await clock.advance(29 * 86_400_000);
  t.equal((await store.range("/a", { signal: never })).entries.length, 1);
  await clock.advance(86_400_000);
  t.equal((await store.range("/a", { signal: never })).entries.length, 0);
});
