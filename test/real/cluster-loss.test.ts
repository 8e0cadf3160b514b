// One of two RGWs is killed in the middle of every operation at once: each is held at a point of an
// exchange with it, it dies, and what every one was told and left behind is looked at once it is back
// (test/support/loss-law.ts). Meanwhile the other cluster serves on, and no socket stays behind.

import { ListObjectsV2Command, type ListObjectsV2CommandOutput } from "@aws-sdk/client-s3";
import t from "tap";
import { operationFacts } from "../../proxy/s3/operation.ts";
import { type DeathPoint, dyingRelay, type RelayedExchange } from "../support/dying-relay.ts";
import { LossCase, type LossScene, prepare, type Side } from "../support/loss-case.ts";
import { largeRows } from "../support/loss-large.ts";
import {
  type Dying,
  faultsOf,
  isWhole,
  pointsOf,
  type Reference,
  referenceOf,
} from "../support/loss-law.ts";
import type { LossAnswer } from "../support/loss-request.ts";
import { type LossRow, lossRows } from "../support/loss-rows.ts";
import { driftRow } from "../support/loss-upkeep.ts";
import { clientPair } from "./support/headgate.ts";
import { withLab } from "./support/lab.ts";
import { until } from "./support/processes.ts";
import { answerOf, inParallel } from "./support/s3.ts";
import { type Generation, rgwPair } from "./support/services.ts";
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

const rows = [...lossRows, driftRow, ...largeRows];
const width = 8;

/**
 * What no RGW of a generation has is answered without asking one; object lock, which a bucket without
 * versions cannot have, by questions alone.
 */
function neverHeld(generation: Generation): readonly string[] {
  const writes = (name: string): readonly string[] => [`PutBucket${name}`, `DeleteBucket${name}`];
  return [
    "GetUsage",
    "PutObjectLockConfiguration",
    "PutBucketAccelerateConfiguration",
    ...["Analytics", "IntelligentTiering", "Inventory", "Metrics"].flatMap((name) =>
      writes(`${name}Configuration`),
    ),
    ...writes("OwnershipControls"),
    ...(generation === 16 ? writes("Encryption") : []),
  ];
}

/** Whether an exchange is the one of a row that matters: its change, or the read that there is. */
function isHeld(
  row: LossRow,
  at: { readonly id: string },
  { method, target }: RelayedExchange,
): boolean {
  if (row.asks !== undefined) return row.asks.test(`${method} ${target}`);
  const reads = method === "GET" || method === "HEAD" || method === "OPTIONS";
  const ofSource = method === "GET" && row.name.includes("between clusters");
  if (row.state !== null && reads && !ofSource) return false;
  return target.includes(at.id);
}

/** A row at the point where the victim of a round dies in it. */
interface Taking {
  readonly row: LossRow;
  readonly reference: Reference;
  readonly point: DeathPoint;
}

type Standing = Dying & Pick<Taking, "point">;

/** What a round takes: each row of which its victim is asked anything, or that row in another round. */
function takingOf(references: ReadonlyMap<LossRow, Reference>, turn: number): readonly Taking[] {
  const taking: Taking[] = [];
  for (const [index, row] of rows.entries()) {
    const reference = references.get(row);
    if (reference === undefined) throw new Error("No reference");
    const at = { id: reference.id };
    const asked = rounds.flatMap(({ victim, points }, number) => {
      const exchange = reference.exchanges[victim].find((one) => isHeld(row, at, one));
      const here = exchange === undefined ? [] : pointsOf(exchange);
      const own = (row.diesAt ?? points).filter(
        (point) => here.includes(point) || (point === "body" && row.diesAt === undefined),
      );
      const point = own[index % own.length];
      if (exchange === undefined || point === undefined) return [];
      return [{ number, victim, point }];
    });
    const inTurn = asked[index % asked.length];
    const wanted =
      row.tried === "two"
        ? asked.filter((one) => one === inTurn)
        : row.diesAt === undefined
          ? asked
          : asked.filter((one) => one === asked.find(({ victim }) => victim === one.victim));
    const now = wanted.find(({ number }) => number === turn);
    if (now !== undefined) taking.push({ row, reference, point: now.point });
  }
  return taking;
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
  /** Names of rows in which a cluster died. */
  const held: string[] = [];

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

  /** Settings that one cluster has, and uploads of copies on the one that died: nobody asks for anything. */
  async function selfHealed(dying: readonly Standing[]): Promise<void> {
    const left = dying.filter(({ row: { operation, name } }) => {
      const isSetting = operation !== null && operationFacts[operation].routing === "every";
      return isSetting || name === "CopyObject between clusters, 100 MiB";
    });
    for (const { row, at } of left) {
      await until(`${row.name} is whole by itself`, 90_000, async () =>
        isWhole(row, (await row.state?.(at)) ?? {}) ? true : null,
      );
    }
    const done = await headgate.metric("headgate_bucket_drift_total", { outcome: "healed" });
    if (done === 0) throw new Error("Nothing was left to heal");
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
    const completed = rows.find(({ name }) => name === "CompleteMultipartUpload");
    const { after = {} } = (completed && references.get(completed)) ?? {};
    t.match(Object.values(after).join(), /"[0-9a-f]{32}-1"/, "the ETag of what was sent in parts");
  });

  for (const [turn, { victim, name }] of rounds.entries()) {
    test(`cluster ${victim} dies ${name}`, async (t) => {
      const first = await page();
      const dying: Standing[] = [];
      const taking = takingOf(references, turn);
      await inParallel([...taking.entries()], width, async ([index, { row, reference, point }]) => {
        const at = new LossCase(scene, `round-${turn}-${index}-`, "a");
        const send = await row.setUp(at);
        dying.push({ row, at, reference, point, death: { side: victim, point, nth: 0 }, send });
      });
      // Adoption waits for what others are looking up, and asks what a list of buckets asks.
      const isLast = ({ row }: Standing): number => Number(row.name === "adopt");
      dying.sort((one, other) => isLast(one) - isLast(other));
      const answering: Promise<LossAnswer>[] = [];
      const notHeld: string[] = [];
      const stand = async ({ row, at, point, send }: Standing): Promise<void> => {
        const reached = relays[victim].hold((exchange) => isHeld(row, at, exchange), point);
        const answer = send();
        answering.push(answer);
        const early = await Promise.race([reached, answer]);
        if (early !== undefined) notHeld.push(`${row.name} (${point}): ${early.status}`);
      };
      const standing = (those: readonly Standing[]) => Promise.all(those.map(stand));
      await standing(dying.filter(({ row }) => row.name !== "adopt"));
      await standing(dying.filter(({ row }) => row.name === "adopt"));
      t.strictSame(notHeld, [], "each is held at its point");
      held.push(...taking.map(({ row }) => row.name));
      await lab.rgw.kill(victim);
      await relays[victim].die();
      const answers = await Promise.all(answering);
      t.equal((await answerOf(page(first.NextContinuationToken))).status, 503, "never short");
      await until("no request in flight", 10_000, async () =>
        (await headgate.metric("headgate_requests_in_flight")) === 0 ? true : null,
      );
      t.equal(connectionsOf(new URL(relays[victim].url).port, "remotePort"), 0, "no socket stays");
      await restored(victim);
      if (turn === 0) await selfHealed(dying);
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

  test("a cluster died in all that asks one", async (t) => {
    const names = rows.map(({ name }) => name).filter((name) => !held.includes(name));
    t.strictSame(names.toSorted(), neverHeld(lab.rgw.generation).toSorted());
  });

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
