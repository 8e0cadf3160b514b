// A lease that ended while its process could not see it: the process is a member again under a new id,
// once, and closing works at every moment.

import t from "tap";
import { MemoryStore } from "../../bridge/memory-store.ts";
import { openState } from "../../bridge/open-state.ts";
import {
  CountingMeter,
  eventually,
  never,
  RecordingLog,
  realClock,
  realRandom,
} from "../support/bridge-parts.ts";

async function open() {
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
      log: new RecordingLog(),
      meter: new CountingMeter(),
    },
    never,
  );
  const { store, keys, membership } = state;
  if (!(store instanceof MemoryStore)) throw new Error("not a memory store");
  return { state, lose: () => store.dropLeaseOf(keys.live(membership.id)) };
}

t.test("a lease lost again and again leaves one member", async (t) => {
  // https://github.com/microsoft/etcd3/issues/13
  const { state, lose } = await open();
  t.teardown(() => state.close());
  const ids = new Set<string>();
  for (let round = 0; round < 5; round += 1) {
    const { id } = state.membership;
    ids.add(id);
    await lose();
    await eventually(() => state.membership.id !== id && state.membership.registered);
    const members = await state.registry.members(never);
    t.match(members, [{ record: { id: state.membership.id }, alive: true }]);
    t.equal(members.length, 1);
  }
  t.equal(ids.size, 5);
});

t.test("closing goes through though the lease is gone", async (t) => {
  for (const turns of [0, 1, 5]) {
    const { state, lose } = await open();
    await lose();
    for (let n = 0; n < turns; n += 1) await new Promise((resolve) => setImmediate(resolve));
    await state.close();
  }
  t.pass("closed");
});
