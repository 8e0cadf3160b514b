// `headgate demo`: the main job in one scripted run against embedded clusters. It writes what it does
// and what came of it, and throws at the first thing that is not as promised, so that the exit code
// tells the truth.

import type { Clock } from "../placement/ports.ts";
import type { ClusterId } from "../s3/names.ts";
import type { EmbeddedCluster } from "./embedded.ts";
import { type ShareTable, shareTable } from "./share-table.ts";
import { type TourAnswer, TourClient, type TourClientOptions } from "./tour-client.ts";

export interface TourOptions extends TourClientOptions {
  readonly clusters: readonly Pick<EmbeddedCluster, "id" | "weight">[];
  /** How many objects of a bucket each cluster holds, asked of the clusters themselves. */
  readonly held: (bucket: string) => ReadonlyMap<ClusterId, number>;
  /** What people read. */
  readonly write: (text: string) => void;
  /** What scripts read, when a step has come out as promised. */
  readonly report: (step: TourStep) => void;
  readonly clock: Pick<Clock, "monotonicMs">;
}

/** One step's outcome. Numbers are counts of objects unless they say otherwise. */
type TourStep =
  | {
      readonly step: "spread";
      readonly bucket: string;
      readonly objects: number;
      readonly clusters: ShareTable["shares"];
    }
  | { readonly step: "pin"; readonly bucket: string; readonly cluster: string }
  | {
      readonly step: "drain";
      readonly cluster: string;
      readonly refused: {
        readonly status: number;
        readonly code: string;
        readonly retry_after_seconds: number;
      };
      readonly placed_elsewhere: number;
    }
  | { readonly step: "read"; readonly objects: number; readonly from_draining: number }
  | { readonly step: "undrain"; readonly cluster: string; readonly weight: number }
  | { readonly step: "done"; readonly objects: number; readonly seconds: number };

const objectCount = 600;
const lateCount = 60;
const parallel = 16;
const buckets = { main: "tour-photos", strict: "tour-archive", late: "tour-later" } as const;
const drained = "c";

/** Runs the tour. @throws Error at the first deviation. */
export async function runTour(options: TourOptions): Promise<void> {
  const client = new TourClient(options);
  const say = (line: string): void => options.write(`${line}\n`);
  const startedMs = options.clock.monotonicMs();

  say(`1. Writing ${objectCount} objects into bucket "${buckets.main}".`);
  await createdBucket(client, buckets.main);
  await putMany(client, buckets.main, objectCount);
  const held = options.held(buckets.main);
  expect(sum(held) === objectCount, `the clusters hold ${sum(held)} objects, not ${objectCount}`);
  const table = shareTable(options.clusters, held);
  say("   The weights say how much each cluster should get, the clusters say what they hold:");
  say("");
  for (const row of table.rows) say(`     ${row}`);
  say(`   ± is one standard deviation of a draw of ${objectCount} keys.`);
  say("");
  expect(table.worstSigma <= 5, "the shares are too far from the weights");
  options.report({
    step: "spread",
    bucket: buckets.main,
    objects: objectCount,
    clusters: table.shares,
  });

  say(`2. Bucket "${buckets.strict}" may live on cluster ${drained} only: placement mode strict.`);
  await createdBucket(client, buckets.strict);
  await client.admin("PUT", `/buckets/${buckets.strict}/placement`, {
    placement: { [drained]: 1 },
    mode: "strict",
  });
  succeeded(await client.put(buckets.strict, "before", "written before the drain"), "PUT");
  expect(holds(options, buckets.strict, drained) === 1, `the object is not on ${drained}`);
  options.report({ step: "pin", bucket: buckets.strict, cluster: drained });

  say(`3. Draining cluster ${drained}: it takes no new objects from now on.`);
  await client.admin("POST", `/clusters/${drained}/drain`, { mode: "readonly" });
  const refused = await client.put(buckets.strict, "during", "this must not be stored");
  expect(
    refused.status === 503 && refused.code === "DrainRefused",
    `the write was answered ${refused.status} ${refused.code ?? ""}`,
  );
  expect(refused.retryAfter === "300", "the refusal does not say when to come back");
  say(
    `   A write to "${buckets.strict}" is refused: ${refused.status} ${refused.code}, Retry-After ${refused.retryAfter} s.`,
  );
  await createdBucket(client, buckets.late);
  await putMany(client, buckets.late, lateCount);
  expect(holds(options, buckets.late, drained) === 0, `new objects went to ${drained}`);
  say(`   ${lateCount} objects of a new bucket all went to the other clusters.`);
  options.report({
    step: "drain",
    cluster: drained,
    refused: {
      status: refused.status,
      code: refused.code ?? "",
      retry_after_seconds: Number(refused.retryAfter),
    },
    placed_elsewhere: lateCount,
  });

  say("4. Reads go on, also from the draining cluster.");
  await readMany(client, buckets.main, objectCount);
  const before = await client.get(buckets.strict, "before");
  expect(before.body.toString() === "written before the drain", "the old object has other bytes");
  const onDrained = holds(options, buckets.main, drained);
  say(`   All ${objectCount} objects were read back, ${onDrained} of them from ${drained}.`);
  options.report({ step: "read", objects: objectCount, from_draining: onDrained });

  say(`5. Undraining ${drained}.`);
  await client.admin("POST", `/clusters/${drained}/undrain`, {});
  const weight = weightOf(await client.admin("GET", `/clusters/${drained}`));
  const configured = options.clusters.find(({ id }) => id === drained)?.weight;
  expect(weight === configured, `its weight is ${weight}, not ${configured}`);
  succeeded(await client.put(buckets.strict, "after", "written after the drain"), "PUT");
  say(`   Its weight is ${weight} again, and "${buckets.strict}" takes writes.`);
  options.report({ step: "undrain", cluster: drained, weight: weight ?? 0 });

  const seconds = (options.clock.monotonicMs() - startedMs) / 1000;
  const written = objectCount + lateCount + 2;
  say("");
  say(`Done in ${seconds.toFixed(1)} s: ${written} objects written, none lost.`);
  options.report({ step: "done", objects: written, seconds: Math.round(seconds * 1000) / 1000 });
}

async function createdBucket(client: TourClient, bucket: string): Promise<void> {
  succeeded(await client.createBucket(bucket), `creating bucket "${bucket}"`);
}

async function putMany(client: TourClient, bucket: string, count: number): Promise<void> {
  await inParallel(count, async (index) => {
    const key = keyOf(index);
    succeeded(await client.put(bucket, key, `content of ${key}`), `PUT ${key}`);
  });
}

async function readMany(client: TourClient, bucket: string, count: number): Promise<void> {
  await inParallel(count, async (index) => {
    const key = keyOf(index);
    const answer = await client.get(bucket, key);
    succeeded(answer, `GET ${key}`);
    expect(answer.body.toString() === `content of ${key}`, `${key} has other bytes`);
  });
}

/** `2026/photo 0007.jpg`: keys as people make them. */
function keyOf(index: number): string {
  return `2026/photo ${String(index).padStart(4, "0")}.jpg`;
}

async function inParallel(count: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      const index = next;
      next += 1;
      await work(index);
    }
  };
  await Promise.all(Array.from({ length: parallel }, worker));
}

function holds(options: TourOptions, bucket: string, cluster: string): number {
  for (const [id, count] of options.held(bucket)) if (id === cluster) return count;
  return 0;
}

function sum(counts: ReadonlyMap<ClusterId, number>): number {
  let total = 0;
  for (const count of counts.values()) total += count;
  return total;
}

function weightOf(answer: unknown): number | null {
  if (typeof answer !== "object" || answer === null || !("weight" in answer)) return null;
  return typeof answer.weight === "number" ? answer.weight : null;
}

function succeeded(answer: TourAnswer, what: string): void {
  expect(answer.code === null, `${what} was answered ${answer.status} ${answer.code ?? ""}`);
}

function expect(holds: boolean, deviation: string): void {
  if (!holds) throw new Error(`The tour stops: ${deviation}`);
}
