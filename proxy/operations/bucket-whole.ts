// A bucket made whole: on all clusters of its record again, with the settings of one that has it still. Under
// phase `deleting`, in which no write begins, so that what is copied is the last word. What was made anew is
// bare until all is copied, and is never taken for the word of the others: where the first cluster's, which
// readers are answered from, cannot be given their settings, it is taken away again.

import { UpstreamError, type UpstreamIdentity } from "../placement/ports.ts";
import type { BucketRecord } from "../placement/records.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import { type BucketCreation, createOn, deleteOn } from "./bucket-on-cluster.ts";
import {
  type BucketEntry,
  begin,
  drop,
  entryNow,
  hold,
  placesOf,
  settle,
} from "./bucket-phases.ts";
import type { OperationPorts } from "./context.ts";
import { type ComparedSetting, comparedSettings, hasBucket } from "./drift-reading.ts";
import { type Drift, tellDrift } from "./drift-report.ts";
import type { BucketPlace } from "./emptiness.ts";
import { agree } from "./setting-agreement.ts";
import { settingErrand } from "./setting-errand.ts";
import type { Errand } from "./unfinished.ts";

interface Making {
  readonly identity: UpstreamIdentity;
  /** Whose bucket may be bare, of an attempt before this one. What is made now is added. */
  readonly bare: Set<ClusterId>;
  /** As its owner asks for it; default: plain, for what it was to be copied. */
  readonly creation?: BucketCreation;
}

/**
 * Takes a deletion back. Where that fails it stays `deleting`, for a repetition. `null`: no cluster has the
 * bucket any more, so it was deleted though nobody could be told, or somebody else has taken hold of it.
 */
export async function putBack(
  held: BucketEntry,
  identity: UpstreamIdentity,
  ports: OperationPorts,
): Promise<BucketEntry | null> {
  return await makeWhole(held, { identity, bare: new Set() }, ports);
}

/**
 * Makes a settled bucket anew where it is missing. Where that fails an errand goes on with it.
 * @throws S3Error ServiceUnavailable, UpstreamError
 */
export async function remake(
  entry: BucketEntry,
  { identity, creation }: Pick<Making, "identity"> & { readonly creation: BucketCreation },
  ports: OperationPorts,
): Promise<BucketEntry | null> {
  const bare = new Set<ClusterId>();
  const making = { identity, creation, bare };
  try {
    return await remakeHeld(entry, making, ports);
  } catch (caught) {
    ports.unfinished.add(wholeErrand(entry.value, { identity, bare }, ports));
    throw caught;
  }
}

async function remakeHeld(
  entry: BucketEntry,
  making: Making,
  ports: OperationPorts,
): Promise<BucketEntry | null> {
  const held = await hold(entry, { ...entry.value, phase: "deleting" }, ports);
  try {
    return await makeWhole(held, making, ports);
  } catch (caught) {
    await settle(held, ports);
    throw caught;
  }
}

/** Looks again at a bucket that may be missing on a cluster, or bare there, until it is whole. */
function wholeErrand(record: BucketRecord, making: Making, ports: OperationPorts): Errand {
  const { tenant, name } = record;
  return {
    key: `bucket ${tenant}/${name}`,
    fields: { errand: "bucket", tenant, bucket: name },
    async run(signal) {
      const entry = entryNow(record, ports);
      if (entry === null) return "void";
      const isSame = entry.value.createdAt === record.createdAt;
      if (!isSame || entry.value.conflict) return "void";
      if (entry.value.phase !== "settled" || !ports.membership.mayMutate()) return "again";
      const places = placesOf(entry.value, making.identity);
      const there = await Promise.all(places.map((place) => hasBucket(place, ports, signal)));
      if (there.some((answer) => typeof answer === "string")) return "again";
      if (!there.includes(true)) return "void";
      if (there.includes(false) || making.bare.size > 0) await remakeHeld(entry, making, ports);
      return "done";
    },
  };
}

async function makeWhole(
  held: BucketEntry,
  making: Making,
  ports: OperationPorts,
): Promise<BucketEntry | null> {
  const end = begin(held, ports);
  try {
    const made = await makeEverywhere(held.value, making, ports);
    if (made === null) {
      await drop(held, ports);
      return null;
    }
    const whole = await settle(held, ports);
    const clusters = made.places.map(({ cluster }) => cluster);
    for (const setting of made.open) {
      const written = { setting, record: held.value, clusters, identity: making.identity };
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
async function makeEverywhere(
  record: BucketRecord,
  making: Making,
  ports: OperationPorts,
): Promise<Made | null> {
  const { signal } = new AbortController();
  const { bare } = making;
  const places = placesOf(record, making.identity);
  const answers = await Promise.all(places.map((place) => hasBucket(place, ports, signal)));
  if (answers.some((answer) => typeof answer === "string")) throw unfinished(null);
  const having = places.filter((_, index) => answers[index] === true);
  const source = having.find(({ cluster }) => !bare.has(cluster)) ?? having[0];
  if (source === undefined) return null;
  bare.delete(source.cluster);
  // An attempt before this one may have made some anew, without settings.
  const all = [source, ...places.filter((place) => place !== source)];
  const missing = places.filter((_, index) => answers[index] === false);
  for (const { cluster } of missing) bare.add(cluster);
  const first = places.find(({ cluster }) => bare.has(cluster) && cluster === places[0]?.cluster);
  try {
    await createAllAnew(missing, making.creation, ports);
    const open = await copyTo(first ?? null, { places: all, record }, ports);
    bare.clear();
    return { places: all, open };
  } catch (caught) {
    if (first !== undefined) await takeAway(first, bare, ports);
    throw caught;
  }
}

/**
 * Gives the settings of the first of the places to all. What may be copied later only.
 * @param whole which must have them all, or nothing comes of it
 */
async function copyTo(
  whole: BucketPlace | null,
  at: { readonly places: readonly BucketPlace[]; readonly record: BucketRecord },
  ports: OperationPorts,
): Promise<readonly ComparedSetting[]> {
  const { places, record } = at;
  // Buckets of one name that were found on several clusters are strangers to one another.
  if (record.conflict && whole !== null) throw unfinished(null);
  if (places.length === 1 || record.conflict) return [];
  const { drift, open } = await copySettings(places, record, ports);
  if (whole !== null && (open.length > 0 || drift.some(isLost(whole)))) throw unfinished(null);
  return open;
}

/** What the others have set, and this one was not given. */
function isLost({ cluster }: BucketPlace): (drift: Drift) => boolean {
  return (drift) =>
    drift.cluster === cluster &&
    drift.outcome !== "healed" &&
    (drift.kind === "missing" || drift.kind === "differs");
}

/** Where that fails too, it is known to be bare. */
async function takeAway(
  place: BucketPlace,
  bare: Set<ClusterId>,
  ports: OperationPorts,
): Promise<void> {
  try {
    const result = await deleteOn(place, ports, new AbortController().signal);
    if (result === "gone") bare.delete(place.cluster);
  } catch (caught) {
    if (!(caught instanceof S3Error || caught instanceof UpstreamError)) throw caught;
    ports.log.write("warn", "bucket.not_cleared", { bucket: place.name, cause: caught.name });
  }
}

/** None is under way any more when it ends, however it does. */
async function createAllAnew(
  places: readonly BucketPlace[],
  creation: BucketCreation | undefined,
  ports: OperationPorts,
): Promise<void> {
  const made = await Promise.allSettled(places.map((place) => createAnew(place, creation, ports)));
  for (const result of made) if (result.status === "rejected") throw result.reason;
}

/** Whatever a cluster has against it, nobody asked for the bucket at this moment. */
async function createAnew(
  place: BucketPlace,
  creation: BucketCreation | undefined,
  ports: OperationPorts,
): Promise<void> {
  try {
    await createOn(place, ports, new AbortController().signal, creation);
  } catch (cause) {
    if (cause instanceof S3Error && cause.status < 500) throw unfinished(cause);
    throw cause;
  }
}

function unfinished(cause: S3Error | null): S3Error {
  return new S3Error("ServiceUnavailable", {
    message:
      "A cluster does not tell whether it has the bucket, or does not take it back as it was: it is unfinished there",
    retryAfterSeconds: 1,
    cause,
  });
}

async function copySettings(
  places: readonly BucketPlace[],
  record: BucketRecord,
  ports: OperationPorts,
): Promise<{ readonly drift: readonly Drift[]; readonly open: readonly ComparedSetting[] }> {
  const { signal } = new AbortController();
  const all: Drift[] = [];
  const open: ComparedSetting[] = [];
  for (const setting of comparedSettings) {
    const { drift, isOpen } = await agree(setting, places, ports, { signal });
    tellDrift(drift, record, ports);
    all.push(...drift);
    if (isOpen) open.push(setting);
  }
  return { drift: all, open };
}
