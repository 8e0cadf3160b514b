// CreateBucket over several clusters: created when every cluster of the route has it and the record is
// settled, or, where a cluster refuses it, on none. What failed halfway is finished by the same request sent
// again, and cleared away by one that asks for something else (bucket-phases.ts). A bucket that is there is
// created again without being brought back by it once it was deleted or moved meanwhile.

import { clustersOf } from "../placement/candidates.ts";
import { createdRecord, isUnmade } from "../placement/discovery.ts";
import type { BucketRecord } from "../placement/records.ts";
import { onOneCluster } from "../placement/routes.ts";
import { S3Error } from "../s3/errors.ts";
import { newBucketNameFault, parseClusterId } from "../s3/names.ts";
import { type BucketCreation, createOn } from "./bucket-on-cluster.ts";
import {
  type BucketEntry,
  begin,
  changing,
  claim,
  clearAway,
  drop,
  entryNow,
  hold,
  isAnothers,
  passCommitPoint,
  placesOf,
  replace,
  settle,
  standsStill,
  takeBack,
} from "./bucket-phases.ts";
import { putBack, remake } from "./bucket-whole.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { hasBucket } from "./drift-reading.ts";
import type { BucketPlace } from "./emptiness.ts";
import { bucketOf, emptyAnswer } from "./send.ts";

/** Of somebody who may not have the bucket there: it is somebody else's, or they are nobody. */
const foreign: ReadonlySet<number> = new Set([403, 409]);

/** CreateBucket: idempotent for the same owner, as RGW is. */
export async function createBucket(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const { record: entry } = request;
  if (entry === null) {
    const message = newBucketNameFault(bucketOf(request));
    if (message !== null) throw new S3Error("InvalidBucketName", { message });
    return await createNew(null, request, ports);
  }
  const { phase } = entry.value;
  const isFree = isUnmade(entry.value) && ports.resettler.abandoned(entry);
  if (!isFree && isAnothers(entry.value, request)) throw new S3Error("BucketAlreadyExists");
  if (isUnmade(entry.value)) return await createNew(entry, request, ports);
  if (phase !== "settled" && !ports.resettler.abandoned(entry)) throw changing();
  if (phase !== "deleting") return await createAgain(entry, request, ports);
  await passCommitPoint(request);
  const held = await hold(entry, entry.value, ports);
  const whole = await putBack(held, request.identity, ports);
  if (whole === null) throw changing();
  return await createAgain(whole, request, ports);
}

/** @param left what an earlier CreateBucket has left */
async function createNew(
  left: BucketEntry | null,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  assertLocation(request, ports);
  const wanted = wantedRecord(request, ports);
  await passCommitPoint(request);
  const isSame =
    left?.value.phase === "creating" &&
    left.value.asked === wanted.asked &&
    !isAnothers(left.value, request);
  const entry = isSame ? left : await claimed(left, wanted, { request, ports });
  const places = placesOf(entry.value, request.identity);
  const results = await createOnAll(entry, places, request, ports);
  const refusals = results.map(refusalOf);
  const refusal = refusals.find((each) => each !== null);
  if (refusal !== undefined) {
    // A bucket that is there all the same is not ours, or not this caller's, to delete.
    const ours = places.filter((_, index) => !foreign.has(refusals[index]?.status ?? 0));
    await takeBack(entry, ours, ports);
    throw refusal;
  }
  assertAll(results);
  if ((await settle(entry, ports)) === null) {
    const now = entryNow(entry.value, ports)?.value;
    // Another one that asked for the same was faster.
    const isDone = now?.phase === "settled" && now.createdAt === entry.value.createdAt;
    if (!isDone) throw changing();
  }
  return created(entry.value);
}

/** The record comes first, so that all agree on one route, and what else was made comes away before. */
async function claimed(
  left: BucketEntry | null,
  wanted: BucketRecord,
  { request, ports }: { readonly request: OperationRequest; readonly ports: OperationPorts },
): Promise<BucketEntry> {
  const entry =
    left === null
      ? await claim(wanted, ports)
      : await replace(await cleared(left, { request, ports }), wanted, ports);
  if (entry === null) throw changing();
  return entry;
}

async function cleared(
  left: BucketEntry,
  { request, ports }: { readonly request: OperationRequest; readonly ports: OperationPorts },
): Promise<BucketEntry> {
  try {
    return await clearAway(left, request.identity, ports);
  } catch (caught) {
    // Somebody filled it past Headgate: the next request finds a bucket.
    if (caught instanceof S3Error && caught.code === "BucketNotEmpty") throw changing();
    // Where a cluster knows its users, what somebody else made there is not this one's to clear away.
    const isTheirs = caught instanceof S3Error && caught.status === 403;
    if (isTheirs && isAnothers(left.value, request)) throw new S3Error("BucketAlreadyExists");
    throw caught;
  }
}

/**
 * Whose a bucket is, and whether it is as it is wanted now, its clusters know: creating it again succeeds
 * for its owner alone, and on an RGW only with the same ACL. One that all its clusters have lost is no
 * bucket, and stands in the way of a new one's route: the same request again creates it afresh.
 */
async function createAgain(
  entry: BucketEntry,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const places = placesOf(entry.value, request.identity);
  const { signal } = new AbortController();
  const there = await Promise.all(places.map((place) => hasBucket(place, ports, signal)));
  await passCommitPoint(request);
  if (there.every((answer) => answer === false)) {
    await drop(entry, ports);
    throw changing();
  }
  if (!canBe(entry.value, request, ports)) throw new S3Error("BucketAlreadyOwnedByYou");
  const having = places.filter((_, index) => there[index] !== false);
  const results = await createOnAll(entry, having, request, ports);
  const made = having.filter((_, index) => refusalOf(results[index]) === null);
  const stands = await standsStill(entry, made, ports);
  assertAll(results);
  if (!stands) throw changing();
  // One that has it no more is asked where the others agree to what is wanted, and gets their settings.
  if (there.includes(false)) {
    const wanted = { identity: request.identity, creation: creationOf(request) };
    if ((await remake(entry, wanted, ports)) === null) throw changing();
  }
  return created(entry.value);
}

/**
 * Whether a bucket may be what is asked for, where its clusters do not know: one on several has no object
 * lock, and one that is elsewhere is not on the cluster that the location names.
 */
function canBe(
  record: BucketRecord,
  request: OperationRequest,
  { snapshots }: Pick<OperationPorts, "snapshots">,
): boolean {
  const clusters = clustersOf(record);
  if (clusters.length > 1 && wantsObjectLock(request)) return false;
  const location = parseClusterId(request.locationConstraint ?? "");
  if (location === null || !snapshots.current().clusters.has(location)) return true;
  return clusters.length === 1 && clusters[0] === location;
}

type Made = readonly PromiseSettledResult<void>[];

/** Asks all clusters. Not ended by the client's leaving: what it made must be seen to stand, or to be cleared. */
async function createOnAll(
  entry: BucketEntry,
  places: readonly BucketPlace[],
  request: OperationRequest,
  ports: OperationPorts,
): Promise<Made> {
  const { signal } = new AbortController();
  const creation = creationOf(request);
  const end = begin(entry, ports);
  const made = await Promise.allSettled(
    places.map((place) => createOn(place, ports, signal, creation)),
  );
  end();
  return made;
}

function assertAll(results: Made): void {
  const refused = results.find((result) => refusalOf(result) !== null);
  const failed = refused ?? results.find((result) => result.status === "rejected");
  if (failed?.status === "rejected") throw failed.reason;
}

/** What the caller may not have, whoever asks again. */
function refusalOf(result: PromiseSettledResult<void> | undefined): S3Error | null {
  if (result?.status !== "rejected") return null;
  const reason: unknown = result.reason;
  return reason instanceof S3Error && reason.status < 500 ? reason : null;
}

const aboutBucket = /^x-amz-(?:acl|grant-.*|object-ownership|bucket-object-lock-enabled)$/;

function creationOf(request: OperationRequest): BucketCreation {
  const headers = request.headers.filter(([name]) => aboutBucket.test(name));
  return { headers, location: request.locationConstraint };
}

function wantsObjectLock(request: OperationRequest): boolean {
  return request.headers.some(
    ([name, value]) =>
      name === "x-amz-bucket-object-lock-enabled" && value.trim().toLowerCase() === "true",
  );
}

/** The record that the request begins with. */
function wantedRecord(request: OperationRequest, ports: OperationPorts): BucketRecord {
  const { tenant } = request;
  const name = bucketOf(request);
  let { route, placement } = request;
  // One with object lock is versioned from its first moment on, so it is on one cluster and stays there.
  if (route !== null && wantsObjectLock(request)) {
    const single = onOneCluster({ tenant, name, route });
    route = single?.route ?? null;
    placement = single?.placement ?? null;
  }
  if (route === null) throw new S3Error("ServiceUnavailable");
  const { headers, location } = creationOf(request);
  const fields = headers.map(([field, value]) => `${field}:${value.trim()}`).sort();
  return createdRecord({
    tenant,
    name,
    createdAtMs: ports.clock.nowMs(),
    route,
    owner: request.caller,
    placement,
    asked: [location ?? "", ...fields],
  });
}

/** A location must be one there is: a cluster, its region, or what an RGW among them may know. */
function assertLocation(request: OperationRequest, ports: OperationPorts): void {
  const wanted = request.locationConstraint ?? "";
  if (wanted === "") return;
  for (const { value } of ports.snapshots.current().clusters.values()) {
    const known = value.region === wanted || value.id === wanted;
    if (known || ports.facts(value.id).backend === "rgw") return;
  }
  throw new S3Error("InvalidLocationConstraint", {
    message: "The location constraint is neither the region nor the id of a cluster",
    details: { LocationConstraint: wanted },
  });
}

function created({ name }: BucketRecord): OperationAnswer {
  return emptyAnswer(200, null, [["location", `/${name}`]]);
}
