// DeleteBucket over several clusters: of a bucket that is empty on all of them, or 409 with nothing changed.
// Its phase (bucket-phases.ts) keeps writes out while it goes, and makes it repeatable: a half-deleted
// bucket is finished by the same request sent again, or put back with its settings (placement.md §2, §12).

import { clustersOf } from "../placement/candidates.ts";
import { isUnmade } from "../placement/discovery.ts";
import { serviceIdentity, type UpstreamIdentity } from "../placement/ports.ts";
import type { BucketRecord } from "../placement/records.ts";
import { S3Error } from "../s3/errors.ts";
import { createOn, deleteOn } from "./bucket-on-cluster.ts";
import {
  type BucketEntry,
  begin,
  changing,
  clearAway,
  drop,
  hold,
  passCommitPoint,
  placesOf,
  settle,
} from "./bucket-phases.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { type ComparedSetting, comparedSettings, hasBucket } from "./drift-reading.ts";
import { tellDrift } from "./drift-report.ts";
import { type BucketPlace, holdsObjects } from "./emptiness.ts";
import { emptyAnswer } from "./send.ts";
import { agree } from "./setting-agreement.ts";
import { settingErrand } from "./setting-errand.ts";

/** Asked before writers are kept out, so that a bucket that holds something is not in their way. */
export async function deleteBucket(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const { record: entry, identity } = request;
  if (entry === null) throw new S3Error("NoSuchBucket");
  const { phase } = entry.value;
  if (isUnmade(entry.value)) {
    await passCommitPoint(request);
    const cleared = await clearAway(entry, identity, ports);
    if (!(await drop(cleared, ports))) throw changing();
    return emptyAnswer(204, null);
  }
  if (phase === "rerouting" && !ports.resettler.abandoned(entry)) throw changing();
  const holds = await holdsSome(placesOf(entry.value, identity), request, ports);
  if (holds && phase !== "deleting") throw new S3Error("BucketNotEmpty");
  await passCommitPoint(request);
  const held = await hold(entry, { ...entry.value, phase: "deleting" }, ports);
  if (holds) {
    await putBack(held, identity, ports);
    throw new S3Error("BucketNotEmpty");
  }
  await removeEverywhere(held, identity, ports);
  return emptyAnswer(204, null);
}

/** A single cluster that does not tell, or not this caller, judges when it is asked to delete. */
async function holdsSome(
  places: readonly BucketPlace[],
  request: OperationRequest,
  ports: OperationPorts,
): Promise<boolean> {
  try {
    return await holdsObjects(places, ports, request.signal);
  } catch (caught) {
    if (places.length === 1 && caught instanceof S3Error) return false;
    throw caught;
  }
}

/**
 * Not ended by the client's leaving: a bucket must not stay half deleted. The first cluster, which readers
 * are answered from, loses it last: where another one fails it has the bucket still, with its settings.
 */
async function removeEverywhere(
  held: BucketEntry,
  identity: UpstreamIdentity,
  ports: OperationPorts,
): Promise<void> {
  const { signal } = new AbortController();
  const places = placesOf(held.value, identity);
  let isWhole = true;
  const end = begin(held, ports);
  try {
    // What was under way when it was looked at first has ended by now.
    if (places.length > 1 && (await holdsObjects(places, ports, signal))) {
      throw new S3Error("BucketNotEmpty");
    }
    for (const place of places.toReversed()) {
      // A single cluster still has it, or will say that it has not.
      isWhole = places.length === 1;
      const result = await deleteOn(place, ports, signal);
      if (result === "not_empty") throw new S3Error("BucketNotEmpty");
    }
  } catch (caught) {
    if (isWhole) await settle(held, ports);
    else if ((await putBack(held, identity, ports)) === null) return;
    throw caught;
  } finally {
    end();
  }
  if (!(await drop(held, ports))) throw changing();
}

/**
 * Takes a deletion back that was left behind, by a crash or by clusters that were away: nobody was told
 * that the bucket is gone. `null`: it stays as it is. What is made anew here is the service user's, so
 * where a cluster knows its users only the owner's own request (to create or to delete) goes on.
 */
export async function undelete(
  entry: BucketEntry,
  ports: OperationPorts,
): Promise<BucketEntry | null> {
  const clusters = clustersOf(entry.value);
  if (clusters.some((cluster) => ports.identity(cluster) !== "service")) return null;
  if (!ports.membership.mayMutate()) return null;
  return await putBack(await hold(entry, entry.value, ports), serviceIdentity, ports);
}

/**
 * The bucket on all its clusters again, with the settings of one that has it still. Where that fails too it
 * stays `deleting`, for a repetition. `null`: none has it any more, so it was deleted though nobody could be
 * told, or somebody else has taken hold of it.
 */
export async function putBack(
  held: BucketEntry,
  identity: UpstreamIdentity,
  ports: OperationPorts,
): Promise<BucketEntry | null> {
  const places = placesOf(held.value, identity);
  const end = begin(held, ports);
  try {
    const made = await makeWhole(places, held, ports);
    if (made === null) {
      await drop(held, ports);
      return null;
    }
    const whole = await settle(held, ports);
    const clusters = made.places.map(({ cluster }) => cluster);
    for (const setting of made.open) {
      const written = { setting, record: held.value, clusters, identity };
      ports.unfinished.add(settingErrand(written, ports));
    }
    return whole;
  } finally {
    end();
  }
}

interface Made {
  /** The one that had it first, and all settings: the first cluster's is deleted last. */
  readonly places: readonly BucketPlace[];
  /** What may be copied later only. */
  readonly open: readonly ComparedSetting[];
}

/** The bucket everywhere, as one says that has it; `null`: none has it. */
async function makeWhole(
  places: readonly BucketPlace[],
  { value: record }: BucketEntry,
  ports: OperationPorts,
): Promise<Made | null> {
  const { signal } = new AbortController();
  const answers = await Promise.all(places.map((place) => hasBucket(place, ports, signal)));
  if (answers.some((answer) => typeof answer === "string")) throw unfinished(null);
  const source = places[answers.indexOf(true)];
  if (source === undefined) return null;
  const missing = places.filter((_, index) => answers[index] === false);
  await Promise.all(missing.map((place) => createAnew(place, ports)));
  // An attempt before this one may have made some anew, without settings.
  const all = [source, ...places.filter((place) => place !== source)];
  // Buckets of one name that were found on several clusters are strangers to one another.
  const isOne = all.length === 1 || record.conflict;
  const open = isOne ? [] : await copySettings(all, record, ports);
  return { places: all, open };
}

/** Whatever a cluster has against it, nobody asked for the bucket at this moment. */
async function createAnew(place: BucketPlace, ports: OperationPorts): Promise<void> {
  try {
    await createOn(place, ports, new AbortController().signal);
  } catch (cause) {
    if (cause instanceof S3Error && cause.status < 500) throw unfinished(cause);
    throw cause;
  }
}

function unfinished(cause: S3Error | null): S3Error {
  return new S3Error("ServiceUnavailable", {
    message:
      "A cluster does not tell whether it has the bucket, or does not take it back: its deletion is unfinished",
    retryAfterSeconds: 1,
    cause,
  });
}

async function copySettings(
  places: readonly BucketPlace[],
  record: BucketRecord,
  ports: OperationPorts,
): Promise<readonly ComparedSetting[]> {
  const { signal } = new AbortController();
  const open: ComparedSetting[] = [];
  for (const setting of comparedSettings) {
    const { drift, isOpen } = await agree(setting, places, ports, { signal });
    tellDrift(drift, record, ports);
    if (isOpen) open.push(setting);
  }
  return open;
}
