// Drift: clusters of a bucket that do not say the same of it, because a write reached some of them only
// or somebody wrote to one directly. Shown against the cluster that readers are answered from, and healed
// by copying what that one says. What a client is writing at the moment is no drift: a difference is
// healed only when it stands at a second look.

import { clustersOf } from "../placement/candidates.ts";
import type { CancelSignal } from "../placement/ports.ts";
import type { BucketRecord } from "../placement/records.ts";
import type { ClusterId } from "../s3/names.ts";
import { createOn } from "./bucket-on-cluster.ts";
import { type BucketEntry, begin, standsStill } from "./bucket-phases.ts";
import type { OperationPorts } from "./context.ts";
import { comparedSettings, hasBucket, whyFailed } from "./drift-reading.ts";
import { type Drift, tellDrift } from "./drift-report.ts";
import type { BucketPlace } from "./emptiness.ts";
import { agreeCounted } from "./setting-agreement.ts";
import { driftOf, type SettingDifference, settingDifferences, toldText } from "./setting-copy.ts";

/** Longer than the writes of one setting to all clusters follow one another. */
const secondLookMs = 500;

export interface DriftReport {
  /** The cluster that the others are compared with; `null`: none is known to have the bucket. */
  readonly reference: ClusterId | null;
  readonly clusters: readonly ClusterId[];
  readonly drift: readonly Drift[];
}

export interface DriftOptions {
  /** In place of the first cluster that has the bucket. */
  readonly reference: ClusterId | null;
  readonly signal: CancelSignal;
}

/** A cluster without the bucket, or that does not tell whether it has it. */
interface Absence {
  readonly cluster: ClusterId;
  readonly kind: "missing_bucket" | "unreadable";
  readonly detail: string | null;
}

interface Look {
  readonly reference: ClusterId | null;
  readonly clusters: readonly ClusterId[];
  /** Clusters that have the bucket, the reference first. */
  readonly there: readonly ClusterId[];
  readonly absences: readonly Absence[];
  readonly differences: readonly SettingDifference[];
}

/** How the clusters of a bucket differ. Asks 14 settings of each of them, one setting at a time. */
export async function showDrift(
  record: BucketRecord,
  ports: OperationPorts,
  options: DriftOptions,
): Promise<DriftReport> {
  const look = await lookAt(record, ports, options);
  const drift = [
    ...look.absences.map(foundAbsence),
    ...look.differences.map((difference) => driftOf(difference, "found")),
  ];
  return report(look, drift, { record, ports });
}

/** Makes the clusters say what the reference says, where that can be done. */
export async function healDrift(
  entry: BucketEntry,
  ports: OperationPorts,
  options: DriftOptions & { readonly signal: AbortSignal },
): Promise<DriftReport> {
  const { value: record } = entry;
  const healed: Drift[] = [];
  let look = await lookAt(record, ports, options);
  // A bucket made anew is copied to, never from, even on the first cluster.
  const following = { ...options, reference: look.reference };
  // Where no cluster has it there is nothing to be made anew: nobody knows any more what it was like.
  const isSomewhere = look.absences.length < look.clusters.length;
  if (isSomewhere && look.absences.some(({ kind }) => kind === "missing_bucket")) {
    healed.push(...(await makeMissing(entry, look, ports)));
    look = await lookAt(record, ports, following);
  }
  // That it could not be made is told already.
  const untold = look.absences.filter((absence) =>
    healed.every(({ cluster }) => cluster !== absence.cluster),
  );
  healed.push(...untold.map(foundAbsence));
  if (look.differences.length > 0) {
    await ports.clock.sleep(secondLookMs, options.signal);
    const again = await lookAt(record, ports, following);
    healed.push(...(await healSettings(look, again, { record, ports })));
    look = again;
  }
  return report(look, healed, { record, ports });
}

/** Settings of which a difference stood between two looks, one after the other. */
async function healSettings(
  before: Look,
  { differences, there }: Look,
  { record, ports }: { readonly record: BucketRecord; readonly ports: OperationPorts },
): Promise<readonly Drift[]> {
  const healed: Drift[] = [];
  const places = there.map((cluster) => placeOf(record, cluster));
  const { signal } = new AbortController();
  const stood = differences.filter((difference) =>
    before.differences.some((earlier) => isSame(earlier, difference)),
  );
  for (const setting of new Set(stood.map((difference) => difference.setting))) {
    healed.push(...(await agreeCounted(setting, places, ports, { signal })).drift);
  }
  const fresh = differences.filter(
    ({ setting }) => !stood.some((difference) => difference.setting === setting),
  );
  return [...healed, ...fresh.map((difference) => driftOf(difference, "found"))];
}

async function lookAt(
  record: BucketRecord,
  ports: OperationPorts,
  { reference: asked, signal }: DriftOptions,
): Promise<Look> {
  const clusters = clustersOf(record);
  const absences: Absence[] = [];
  const having: ClusterId[] = [];
  const answers = await Promise.all(
    clusters.map((cluster) => hasBucket(placeOf(record, cluster), ports, signal)),
  );
  for (const [index, cluster] of clusters.entries()) {
    const answer = answers[index];
    if (answer === true) having.push(cluster);
    else if (answer === false) absences.push({ cluster, kind: "missing_bucket", detail: null });
    else absences.push({ cluster, kind: "unreadable", detail: answer ?? null });
  }
  // A cluster that does not answer is not passed over: readers would be answered from it.
  const first = clusters[answers.findIndex((answer) => answer !== false)];
  const reference = having.find((cluster) => cluster === (asked ?? first));
  if (reference === undefined) {
    return { reference: null, clusters, there: [], absences, differences: [] };
  }
  const there = [reference, ...having.filter((cluster) => cluster !== reference)];
  const places = there.map((cluster) => placeOf(record, cluster));
  const differences: SettingDifference[] = [];
  for (const setting of there.length === 1 ? [] : comparedSettings) {
    differences.push(...(await settingDifferences(setting, places, ports, signal)));
  }
  return { reference, clusters, there, absences, differences };
}

/** Whether nothing of a difference has changed since. */
function isSame(a: SettingDifference, b: SettingDifference): boolean {
  return (
    a.place.cluster === b.place.cluster &&
    a.setting === b.setting &&
    a.kind === b.kind &&
    toldText(a.told) === toldText(b.told) &&
    toldText(a.wanted) === toldText(b.wanted)
  );
}

/**
 * The bucket on clusters of the record that lack it, counted as a mutation: a deletion that begins meanwhile
 * in whichever process waits for it. Taken away again where one was there before.
 */
async function makeMissing(
  entry: BucketEntry,
  look: Look,
  ports: OperationPorts,
): Promise<readonly Drift[]> {
  const results: Drift[] = [];
  for (const absence of look.absences) {
    if (absence.kind !== "missing_bucket") continue;
    const why = await makeOn(absence.cluster, entry, ports);
    const outcome = why === null ? "healed" : "failed";
    results.push({ ...foundAbsence(absence), outcome, detail: why });
  }
  return results;
}

/** `null`: it is there. Text: why not. */
async function makeOn(
  cluster: ClusterId,
  entry: BucketEntry,
  ports: OperationPorts,
): Promise<string | null> {
  if (ports.identity(cluster) !== "service") {
    return "It would belong to the service user, not to its owner";
  }
  const place = placeOf(entry.value, cluster);
  try {
    const end = begin(entry, ports);
    try {
      await createOn(place, ports, new AbortController().signal);
    } finally {
      end();
    }
    const stands = await standsStill(entry, [place], ports);
    return stands ? null : "The bucket was changed meanwhile";
  } catch (caught) {
    return whyFailed(caught);
  }
}

function foundAbsence({ cluster, kind, detail }: Absence): Drift {
  return { setting: "bucket", cluster, kind, outcome: "found", detail };
}

function report(
  { reference, clusters }: Look,
  drift: readonly Drift[],
  { record, ports }: { readonly record: BucketRecord; readonly ports: OperationPorts },
): DriftReport {
  tellDrift(drift, record, ports);
  return { reference, clusters, drift };
}

function placeOf(record: BucketRecord, cluster: ClusterId): BucketPlace {
  return { tenant: record.tenant, name: record.name, cluster };
}
