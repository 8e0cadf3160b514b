// Rule 8 of placement.md on a hand-driven clock: when a member that lost the store stops mutating.

import t, { type Test } from "tap";
import type { KeptLease } from "../../bridge/kept-lease.ts";
import { Keyspace } from "../../bridge/keyspace.ts";
import { StoreMembership } from "../../bridge/membership.ts";
import { EmbeddedStore } from "../../bridge/memory-store.ts";
import { LiveSnapshots } from "../../bridge/snapshots.ts";
import { FaultError } from "../../proxy/placement/ports.ts";
import type { StoreTxnResult } from "../../proxy/placement/state-store.ts";
import {
  CountingMeter,
  HandClock,
  never,
  RecordingLog,
  realRandom,
  turns,
} from "../support/bridge-parts.ts";

/** A remote store as seen from a member: it may go away, and leases then run out. */
class RemoteStore extends EmbeddedStore {
  readonly driver = "etcd";
  readonly leases: KeptLease[] = [];
  isAway = false;

  constructor(clock: HandClock, meter: CountingMeter) {
    super({ clock, meter });
  }

  protected keep(): Promise<void> {
    return Promise.resolve();
  }

  override async txn(...args: Parameters<EmbeddedStore["txn"]>): Promise<StoreTxnResult> {
    if (this.isAway) throw new FaultError("state_unavailable", "away");
    return super.txn(...args);
  }

  override async lease(ttlSeconds: number): Promise<KeptLease> {
    if (this.isAway) throw new FaultError("state_unavailable", "away");
    const lease = await super.lease(ttlSeconds);
    this.leases.push(lease);
    return lease;
  }
}

async function member(
  t: Test,
  fenceAfterMs: number | null,
): Promise<{
  clock: HandClock;
  store: RemoteStore;
  meter: CountingMeter;
  membership: StoreMembership;
}> {
  const clock = new HandClock();
  const meter = new CountingMeter();
  const store = new RemoteStore(clock, meter);
  const keys = new Keyspace();
  const parts = { store, keys, clock, random: realRandom, log: new RecordingLog() };
  const snapshots = new LiveSnapshots({ ...parts, meter, persist: null });
  const membership = new StoreMembership({
    ...parts,
    snapshots,
    nodeId: "n",
    version: "0.1.0",
    mode: "full",
    leaseTtlSeconds: 30,
    fenceAfterMs,
  });
  await snapshots.start(never);
  t.equal(membership.mayMutate(), false, "not before it is registered");
  await membership.start(never);
  t.teardown(async () => {
    store.isAway = false;
    await membership.close();
    await snapshots.close();
    await store.close();
  });
  return { clock, store, meter, membership };
}

t.test(
  "ten minutes without a keep-alive fence a member until it has registered anew",
  async (t) => {
    const { clock, store, meter, membership } = await member(t, 600_000);
    const first = membership.id;
    t.equal(membership.mayMutate(), true);
    await clock.advance(3_600_000);
    t.equal(membership.mayMutate(), true, "kept alive all the time");
    store.isAway = true;
    store.leases.at(-1)?.abandon();
    await clock.advance(31_000);
    t.equal(membership.registered, false, "its lease ran out");
    t.equal(membership.mayMutate(), true, "an outage stops nothing for ten minutes");
    await clock.advance(569_000);
    t.equal(membership.mayMutate(), true);
    await clock.advance(1);
    t.equal(membership.mayMutate(), false);
    const ranges = meter.calls.range;
    store.isAway = false;
    await clock.advance(1000);
    await turns();
    t.equal(membership.registered, true);
    t.not(membership.id, first);
    t.equal(membership.mayMutate(), true);
    t.ok(meter.calls.range > ranges, "it read everything again");
  },
);

t.test("a member that comes back in time registers anew without reading again", async (t) => {
  const { clock, store, meter, membership } = await member(t, 600_000);
  const first = membership.id;
  const ranges = meter.calls.range;
  store.leases.at(-1)?.abandon();
  await clock.advance(31_000);
  t.equal(membership.registered, true);
  t.not(membership.id, first);
  t.equal(meter.calls.range, ranges);
});

t.test("never means never", async (t) => {
  const { clock, store, membership } = await member(t, null);
  store.isAway = true;
  store.leases.at(-1)?.abandon();
  await clock.advance(365 * 86_400_000);
  t.equal(membership.mayMutate(), true);
});
