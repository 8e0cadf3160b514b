// One of two clusters dies at every point of the exchanges of every operation. The table of them is
// test/support/loss-rows.ts, its laws loss-law.ts.

import t, { type Test } from "tap";
import { isServed } from "../../proxy/operations/table.ts";
import { profiles } from "../../proxy/placement/profiles.ts";
import { isOperation, operationFacts } from "../../proxy/s3/operation.ts";
import { dyingRelay } from "../support/dying-relay.ts";
import { handClock } from "../support/hand-clock.ts";
import { clientKeys, clusterKeys, startClusters, startTestHeadgate } from "../support/headgate.ts";
import { LossCase, type LossScene, prepare } from "../support/loss-case.ts";
import {
  type Death,
  deathsOf,
  faultsOf,
  isWhole,
  type Reference,
  type Relays,
  referenceOf,
} from "../support/loss-law.ts";
import { type LossRow, lossRows } from "../support/loss-rows.ts";
import { until } from "../support/raw-upstream.ts";

t.test("every operation that is served is in the table of deaths", async (t) => {
  const rows = new Set(lossRows.map(({ operation }) => operation));
  const served = Object.keys(operationFacts).filter(isOperation).filter(isServed);
  t.strictSame(
    served.filter((operation) => !rows.has(operation)),
    [],
  );
});

interface Deadly {
  readonly scene: LossScene;
  readonly relays: Relays;
  /** Lets time pass until what was left undone is done; null where nothing was. */
  readonly selfHealed: (isHealed: () => Promise<boolean>) => Promise<boolean | null>;
}

async function deadly(t: Test): Promise<Deadly> {
  const servers = await startClusters(t, ["a", "b"], profiles["rgw-pacific"]);
  const [a, b] = [servers["a"]?.url ?? "", servers["b"]?.url ?? ""];
  const relays = { a: await dyingRelay(t, a), b: await dyingRelay(t, b) };
  // Its time stands still, lest what it does by itself is taken for what a client asked.
  const time = handClock();
  const headgate = await startTestHeadgate(t, {
    timers: time.timers,
    aheadMs: () => time.monotonicMs(),
    clusters: { a: 1, b: 1 },
    servers,
    endpoints: { a: relays.a.url, b: relays.b.url },
    clusterSettings: "profile: rgw-pacific",
  });
  const scene = {
    headgate: { url: headgate.url, keys: clientKeys },
    adminUrl: headgate.adminUrl,
    direct: { a: { url: a, keys: clusterKeys }, b: { url: b, keys: clusterKeys } },
    bucket: "loss",
  };
  await prepare(scene);
  let seen = 0;
  const told = (pattern: RegExp): boolean =>
    headgate.logLines.slice(seen).some(({ event }) => pattern.test(event));
  const selfHealed: Deadly["selfHealed"] = async (isHealed) => {
    if (!told(/^unfinished\.added$/)) return null;
    for (let isOver = false; !isOver; isOver = told(/\.done$/)) {
      seen = headgate.logLines.length;
      time.pass(60_000);
      await until(() => told(/^unfinished\.(?:again|done)$/));
    }
    seen = headgate.logLines.length;
    return await isHealed();
  };
  return { scene, relays, selfHealed };
}

t.test("whatever dies, nothing is half done, and the same request finishes it", async (t) => {
  const { scene, relays, selfHealed } = await deadly(t);
  /** Names of rows of which something was left, and was done later without a client. */
  const healed = new Set<string>();
  let count = 0;
  const nextId = (): string => `case-${count++}`;
  const die = async (row: LossRow, reference: Reference, death: Death) => {
    const { side, point, nth } = death;
    const relay = relays[side];
    const at = new LossCase(scene, nextId(), "a");
    const send = await row.setUp(at);
    const turn = relay.exchanges.length + nth + 1;
    const held =
      point === "connect" ? null : relay.hold(() => relay.exchanges.length === turn, point);
    if (held === null) await relay.die();
    const answering = send();
    const isReached = held === null || (await Promise.race([held, answering])) === undefined;
    t.ok(isReached, `${row.name}: ${side} ${nth} ${point} is reached`);
    await relay.die();
    const answer = await answering;
    await relay.revive();
    const isHealed = await selfHealed(async () => isWhole(row, (await row.state?.(at)) ?? {}));
    if (isHealed === true) healed.add(row.name);
    const faults = await faultsOf({ row, at, reference, death, send }, answer);
    return isHealed === false ? ["does not heal by itself", ...faults] : faults;
  };
  // The demo cluster has no append; real ones are tried in test/real/cluster-loss.test.ts.
  const rows = lossRows.filter(({ operation }) => operation !== "AppendObject");
  for (const [turn, row] of rows.entries()) {
    const reference = await referenceOf(scene, row, { relays, id: nextId(), home: "a" });
    const faults: string[] = [];
    for (const death of deathsOf(row, reference, turn)) {
      const { side, nth, point } = death;
      const found = await die(row, reference, death);
      faults.push(...found.map((fault) => `${side} ${nth} ${point}: ${fault}`));
    }
    t.strictSame(faults, [], `${row.name}, which is ${reference.answer.status}`);
  }
  for (const name of [
    "PutBucketCors",
    "DeleteBucketCors",
    "CopyObject between clusters, in parts",
  ]) {
    t.ok(healed.has(name), `${name} leaves something undone that is done later`);
  }
});
