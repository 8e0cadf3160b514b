// One of two clusters dies at every point of the exchanges of every operation. The table of them is
// test/support/loss-rows.ts, its laws loss-law.ts.

import t, { type Test } from "tap";
import { isServed } from "../../proxy/operations/table.ts";
import { profiles } from "../../proxy/placement/profiles.ts";
import { isOperation, operationFacts } from "../../proxy/s3/operation.ts";
import { dyingRelay } from "../support/dying-relay.ts";
import { clientKeys, clusterKeys, startClusters, startTestHeadgate } from "../support/headgate.ts";
import { LossCase, type LossScene, prepare } from "../support/loss-case.ts";
import {
  type Death,
  deathsOf,
  faultsOf,
  type Reference,
  type Relays,
  referenceOf,
} from "../support/loss-law.ts";
import { type LossRow, lossRows } from "../support/loss-rows.ts";

t.test("every operation that is served is in the table of deaths", async (t) => {
  const rows = new Set(lossRows.map(({ operation }) => operation));
  const served = Object.keys(operationFacts).filter(isOperation).filter(isServed);
  t.strictSame(
    served.filter((operation) => !rows.has(operation)),
    [],
  );
});

async function deadly(t: Test): Promise<{ readonly scene: LossScene; readonly relays: Relays }> {
  const servers = await startClusters(t, ["a", "b"], profiles["rgw-pacific"]);
  const [a, b] = [servers["a"]?.url ?? "", servers["b"]?.url ?? ""];
  const relays = { a: await dyingRelay(t, a), b: await dyingRelay(t, b) };
  const headgate = await startTestHeadgate(t, {
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
  return { scene, relays };
}

t.test("whatever dies, nothing is half done, and the same request finishes it", async (t) => {
  const { scene, relays } = await deadly(t);
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
    const isHeld = held === null || (await Promise.race([held, answering])) === undefined;
    t.ok(isHeld, `${row.name}: ${side} ${nth} ${point} is reached`);
    await relay.die();
    const answer = await answering;
    await relay.revive();
    return await faultsOf({ row, at, reference, death, send }, answer);
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
});
