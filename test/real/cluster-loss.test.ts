// One of two RGWs is killed in the middle of every operation at once: each is held at a point of an
// exchange with it, it dies, and what every one was told and left behind is looked at once it is back
// (test/support/loss-law.ts). Meanwhile the other cluster serves on, and no socket stays behind.

import { ListObjectsV2Command, type ListObjectsV2CommandOutput } from "@aws-sdk/client-s3";
import t from "tap";
import { type DeathPoint, dyingRelay, type RelayedExchange } from "../support/dying-relay.ts";
import { LossCase, type LossScene, prepare, type Side } from "../support/loss-case.ts";
import { type Dying, faultsOf, type Reference, referenceOf } from "../support/loss-law.ts";
import { type LossRow, lossRows } from "../support/loss-rows.ts";
import { driftRow } from "../support/loss-upkeep.ts";
import { clientPair } from "./support/headgate.ts";
import { withLab } from "./support/lab.ts";
import { until } from "./support/processes.ts";
import { answerOf, inParallel } from "./support/s3.ts";
import { rgwPair } from "./support/services.ts";
import { openConnections } from "./support/sockets.ts";

interface Round {
  readonly victim: Side;
  /** In turn over the rows. */
  readonly points: readonly DeathPoint[];
  readonly name: string;
}

/** Keys are on cluster a, sources of copies between clusters on b. */
const rounds: readonly Round[] = [
  { victim: "a", points: ["head", "body"], name: "before a cluster has the whole request" },
  { victim: "b", points: ["done", "body", "answer_body"], name: "with the other cluster of it" },
  { victim: "a", points: ["done", "answer_body"], name: "behind the deed, before its answer" },
];

const rows = [...lossRows, driftRow];
const width = 8;

/** Whether an exchange is the one of a row that matters: its change, or the read that there is. */
function isHeld(row: LossRow, at: LossCase, { method, target }: RelayedExchange): boolean {
  const reads = method === "GET" || method === "HEAD" || method === "OPTIONS";
  const ofSource = method === "GET" && row.name.includes("between clusters");
  if (row.state !== null && reads && !ofSource) return false;
  return row.asks?.test(`${method} ${target}`) ?? target.includes(at.id);
}

withLab(t, [], async (lab, test) => {
  const scope = { teardown: (end: () => Promise<void>) => lab.onClose(end) };
  const relays = {
    a: await dyingRelay(scope, lab.rgw.url("a")),
    b: await dyingRelay(scope, lab.rgw.url("b")),
  };
  const headgate = await lab.headgate({
    name: "loss",
    clusters: lab
      .clusters({ a: 1, b: 1 })
      .map((cluster) => ({ ...cluster, url: relays[cluster.id === "a" ? "a" : "b"].url })),
    prefix: "/headgate-loss/",
  });
  const scene: LossScene = {
    headgate: { url: headgate.url, keys: clientPair },
    adminUrl: headgate.adminUrl,
    direct: {
      a: { url: lab.rgw.url("a"), keys: rgwPair },
      b: { url: lab.rgw.url("b"), keys: rgwPair },
    },
    bucket: "loss",
  };
  const client = lab.client(headgate);
  const references = new Map<LossRow, Reference>();

  const connectionsOf = (port: string, end: "localPort" | "remotePort"): number =>
    openConnections(headgate.pid).filter((open) => open[end] === Number(port)).length;

  async function page(token?: string): Promise<ListObjectsV2CommandOutput> {
    return await client.send(
      new ListObjectsV2Command({ Bucket: "listed", MaxKeys: 5, ContinuationToken: token }),
    );
  }

  async function restored(victim: Side): Promise<void> {
    await lab.rgw.up();
    await relays[victim].revive();
    await until("both clusters again", 30_000, async () =>
      (await answerOf(page())).status === 200 ? true : null,
    );
  }

  test("operations over two clusters, when nobody dies", async (t) => {
    await prepare(scene);
    await inParallel([...rows.entries()], width, async ([index, row]) => {
      references.set(
        row,
        await referenceOf(scene, row, { relays, id: `ref-${index}-`, home: "a" }),
      );
    });
    t.equal(references.size, rows.length);
  });

  for (const [turn, { victim, points, name }] of rounds.entries()) {
    test(`cluster ${victim} dies ${name}`, async (t) => {
      const first = await page();
      const dying: (Dying & { readonly held: Promise<void> })[] = [];
      const taking = rows.filter(
        ({ tried }, index) => tried !== "two" || index % rounds.length === turn,
      );
      await inParallel([...taking.entries()], width, async ([index, row]) => {
        const reference = references.get(row);
        if (reference === undefined) throw new Error("No reference");
        const at = new LossCase(scene, `round-${turn}-${index}-`, "a");
        const send = await row.setUp(at);
        const point = points[index % points.length] ?? "head";
        const held = relays[victim].hold((exchange) => isHeld(row, at, exchange), point);
        dying.push({ row, at, reference, death: { side: victim, point, nth: 0 }, send, held });
      });
      const answering = dying.map(({ send }) => send());
      // Adoption waits for what others are looking up, and so for those that are held.
      const standing = dying.map(async ({ row, held }, index) =>
        row.name === "adopt" ? undefined : await Promise.race([held, answering[index]]),
      );
      await Promise.all(standing);
      await lab.rgw.kill(victim);
      await relays[victim].die();
      const answers = await Promise.all(answering);
      t.equal((await answerOf(page(first.NextContinuationToken))).status, 503, "never short");
      await until("no request in flight", 10_000, async () =>
        (await headgate.metric("headgate_requests_in_flight")) === 0 ? true : null,
      );
      t.equal(connectionsOf(new URL(relays[victim].url).port, "remotePort"), 0, "no socket stays");
      await restored(victim);
      const faults: string[] = [];
      await inParallel([...dying.entries()], width, async ([index, one]) => {
        const answer = answers[index];
        if (answer === undefined) throw new Error("No answer");
        const found = await faultsOf(one, answer);
        faults.push(...found.map((fault) => `${one.row.name} (${one.death.point}): ${fault}`));
      });
      t.strictSame(faults.toSorted(), []);
      const seen = (first.Contents ?? []).length;
      const rest = await page(first.NextContinuationToken);
      t.strictSame([seen, rest.Contents?.length], [5, 5], "a list goes on where it stood");
    });
  }

  test("afterwards the listener holds no connection that its client closed", async (t) => {
    await page();
    const { port } = new URL(headgate.url);
    t.ok(connectionsOf(port, "localPort") > 0, "an open connection of a client is seen");
    lab.closeClients();
    await until("no connection of a client", 10_000, () =>
      connectionsOf(port, "localPort") === 0 ? true : null,
    );
  });
});
