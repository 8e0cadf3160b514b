// Buckets over several clusters: created when every cluster of the route has it and the record is
// written, deleted when empty everywhere. Phases in the record make both repeatable: a half-made or
// half-deleted bucket is finished by the same request sent again (placement.md §2, §12).

import { clustersOf } from "../placement/candidates.ts";
import { createdRecord } from "../placement/discovery.ts";
import { serviceIdentity, type UpstreamIdentity } from "../placement/ports.ts";
import type { BucketRecord, Revision } from "../placement/records.ts";
import { onOneCluster } from "../placement/routes.ts";
import type { Versioned } from "../placement/snapshot.ts";
import { bucketLocationDocument } from "../s3/bucket-document.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import { newBucketNameFault } from "../s3/names.ts";
import { type BucketCreation, createOn, deleteOn } from "./bucket-on-cluster.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { hasBucket } from "./drift-reading.ts";
import type { BucketPlace } from "./emptiness.ts";
import { holdsObjects } from "./emptiness.ts";
import { mutate } from "./mutation.ts";
import {
  assertAbsenceKnown,
  bucketOf,
  documentAnswer,
  emptyAnswer,
  firstCandidate,
  passOn,
  readDocument,
  upstreamRequest,
} from "./send.ts";

/** CreateBucket: idempotent for the same owner, as RGW is. */
export async function createBucket(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const name = bucketOf(request);
  const existing = request.record;
  const owner = existing?.value.owner ?? null;
  if (owner !== null && owner !== request.caller) throw new S3Error("BucketAlreadyExists");
  if (existing !== null) {
    const { phase } = existing.value;
    if (phase === "settled" || phase === "rerouting") {
      await createAgain(existing.value, request, ports);
      return created(name);
    }
    // Half created, it is finished here; half deleted, only if whoever deletes it is gone.
    if (phase === "deleting" && !ports.resettler.abandoned(existing)) throw changing();
  }
  const nameFault = existing === null ? newBucketNameFault(name) : null;
  if (nameFault !== null) throw new S3Error("InvalidBucketName", { message: nameFault });
  assertLocation(request, ports);
  return await mutate(request, ports, async (mutation) => {
    await mutation.commit();
    const claim = existing ?? (await claimName(request, ports));
    try {
      await finishCreation(claim.value, claim.modRevision, request, ports);
    } catch (caught) {
      if (existing === null && isRefusal(caught)) await giveUp(claim, ports);
      throw caught;
    }
    return created(name);
  });
}

/**
 * Whose a bucket is, and whether it is as it is wanted now, its clusters know: creating it again
 * succeeds for its owner alone, and on an RGW only with the same ACL.
 */
async function createAgain(
  record: BucketRecord,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<void> {
  const places = placesOf(record, request.identity);
  const creation = creationOf(request);
  await Promise.all(places.map((place) => createOn(place, ports, request.signal, creation)));
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

/** The caller may not have the bucket, whoever asks again. */
function isRefusal(caught: unknown): boolean {
  return caught instanceof S3Error && caught.status < 500;
}

/** Nobody holds a name by having been refused it, or beyond the bucket's end. */
async function giveUp(claim: Versioned<BucketRecord>, ports: OperationPorts): Promise<void> {
  const { tenant, name } = claim.value;
  await ports.registry.commit(
    [{ kind: "bucket", tenant, name, expected: claim.modRevision, record: null }],
    null,
  );
}

function changing(): S3Error {
  return new S3Error("SlowDown", {
    message: "The bucket is being changed by another request",
    retryAfterSeconds: 1,
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

function created(name: string): OperationAnswer {
  return emptyAnswer(200, null, [["location", `/${name}`]]);
}

/** The record comes first, so that two creators agree on one route. */
async function claimName(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<{ readonly value: BucketRecord; readonly modRevision: Revision }> {
  const name = bucketOf(request);
  if (request.route === null) throw new S3Error("ServiceUnavailable");
  const createdAtMs = ports.clock.nowMs();
  const { tenant, route, placement } = request;
  // A bucket with object lock is versioned from its first moment on, so it must be on one cluster.
  const single =
    wantsObjectLock(request) && route.weights.size > 1
      ? onOneCluster({ tenant, name, route })
      : null;
  const record = createdRecord({
    tenant,
    name,
    createdAtMs,
    route,
    owner: request.caller,
    placement,
    ...single,
  });
  const result = await ports.registry.commit(
    [{ kind: "bucket", tenant: request.tenant, name, expected: 0n, record }],
    null,
  );
  if (result.kind === "committed") return { value: record, modRevision: result.revision };
  throw changing();
}

async function finishCreation(
  record: BucketRecord,
  expected: Revision,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<void> {
  await createEverywhere(placesOf(record, request.identity), request, ports);
  const result = await ports.registry.commit(
    [
      {
        kind: "bucket",
        tenant: record.tenant,
        name: record.name,
        expected,
        record: { ...record, phase: "settled" },
      },
    ],
    null,
  );
  if (result.kind === "committed") return;
  const now = ports.snapshots.current().buckets.find(record.tenant, record.name);
  if (now?.value.phase === "settled") return;
  throw changing();
}

/** On every cluster; where one refuses it for good, on none. */
async function createEverywhere(
  places: readonly BucketPlace[],
  request: OperationRequest,
  ports: OperationPorts,
): Promise<void> {
  const creation = creationOf(request);
  const results = await Promise.allSettled(
    places.map((place) => createOn(place, ports, request.signal, creation)),
  );
  const refused = results.find(
    (result) => result.status === "rejected" && isRefusal(result.reason),
  );
  const failed = refused ?? results.find((result) => result.status === "rejected");
  if (failed?.status !== "rejected") return;
  if (refused !== undefined && request.record === null) {
    const { signal } = new AbortController();
    const made = places.filter((_, index) => results[index]?.status === "fulfilled");
    await Promise.allSettled(made.map((place) => deleteOn(place, ports, signal)));
  }
  throw failed.reason;
}

/** What CreateBucket would have to be told to come to the same cluster, where the setting wants that. */
export async function getBucketLocation(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const answer = await passBucketRequest(request, ports);
  const only = request.candidates.length === 1 ? answer.cluster : null;
  if (ports.bucketLocation === "region" || only === null || answer.status !== 200) return answer;
  const { body } = answer;
  if (body !== null && !(body instanceof Uint8Array)) await readDocument({ body });
  return documentAnswer(bucketLocationDocument(only), only);
}

/** HeadBucket, …: asked of the first cluster of the bucket. */
export async function passBucketRequest(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const cluster = firstCandidate(request);
  const response = await ports.upstream.send(cluster, upstreamRequest(request), request.signal);
  if (response.status === 404) assertAbsenceKnown(request, ports);
  return passOn(response, cluster);
}

/** A CORS preflight: the bucket's own rules answer it, unsigned as it came. */
export async function preflight(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  if (request.bucket === null) {
    throw new S3Error("InvalidRequest", { message: "A preflight must name a bucket" });
  }
  return await passBucketRequest(request, ports);
}

/**
 * DeleteBucket: empty on every cluster, or 409 with nothing deleted. A single cluster judges that
 * itself. Over several one that fails midway puts back what it took away; one that a crash cut off is
 * finished by the next.
 */
export async function deleteBucket(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const entry = request.record;
  if (entry === null) throw new S3Error("NoSuchBucket");
  if (entry.value.phase === "rerouting" && !ports.resettler.abandoned(entry)) throw changing();
  const places = placesOf(entry.value, request.identity);
  const holds = places.length > 1 && (await holdsObjects(places, ports, request.signal));
  if (holds && entry.value.phase !== "deleting") throw new S3Error("BucketNotEmpty");
  return await mutate(request, ports, async (mutation) => {
    await mutation.commit();
    if (holds) await putBack(entry, request.identity, ports);
    else await removeEverywhere(entry, request.identity, ports);
    if (holds) throw new S3Error("BucketNotEmpty");
    return emptyAnswer(204, null);
  });
}

/**
 * Not ended by the client's leaving: a bucket must not stay half deleted. The first cluster, which readers
 * are answered from, loses it last: where another one fails it has the bucket still, with its settings.
 */
async function removeEverywhere(
  entry: Versioned<BucketRecord>,
  identity: UpstreamIdentity,
  ports: OperationPorts,
): Promise<void> {
  const { value: record } = entry;
  const { signal } = new AbortController();
  const key = { kind: "bucket", tenant: record.tenant, name: record.name } as const;
  const marked = await ports.registry.commit(
    [{ ...key, expected: entry.modRevision, record: { ...record, phase: "deleting" } }],
    null,
  );
  if (marked.kind === "conflict") throw changing();
  const now = { value: record, modRevision: marked.revision };
  const places = placesOf(record, identity);
  try {
    for (const place of places.toReversed()) {
      // A write got in between the listing and the mark.
      const result = await deleteOn(place, ports, signal);
      if (result === "not_empty") throw new S3Error("BucketNotEmpty");
    }
  } catch (caught) {
    // A single cluster still has it, or will say that it has not: there is nothing to put back.
    if (places.length === 1) await settle(now, ports);
    else if ((await putBack(now, identity, ports)) === "gone") return;
    throw caught;
  }
  const removed = await ports.registry.commit(
    [{ ...key, expected: marked.revision, record: null }],
    null,
  );
  if (removed.kind === "conflict") throw changing();
}

/**
 * Takes a deletion back that was left behind, by a crash or by clusters that were away: nobody was told
 * that the bucket is gone. `null`: it stays as it is. What is made anew here is the service user's, so
 * where a cluster knows its users only the owner's own request (to create or to delete) goes on.
 */
export async function undelete(
  entry: Versioned<BucketRecord>,
  ports: OperationPorts,
): Promise<Versioned<BucketRecord> | null> {
  const clusters = clustersOf(entry.value);
  if (clusters.some((cluster) => ports.identity(cluster) !== "service")) return null;
  if (!ports.membership.mayMutate()) return null;
  await putBack(entry, serviceIdentity, ports);
  const { tenant, name } = entry.value;
  const now = ports.snapshots.current().buckets.find(tenant, name);
  return now?.value.phase === "settled" ? now : null;
}

/**
 * The bucket on all its clusters again. Where that fails too it stays `deleting`, for a repetition. A cluster
 * that has it is left alone: what is made anew has no settings, which drift shows and heals from the first.
 * Where none has it any more it was deleted, though nobody could be told.
 */
async function putBack(
  entry: Versioned<BucketRecord>,
  identity: UpstreamIdentity,
  ports: OperationPorts,
): Promise<"settled" | "gone"> {
  const { value: record } = entry;
  const { signal } = new AbortController();
  const places = placesOf(record, identity);
  const answers = await Promise.all(places.map((place) => hasBucket(place, ports, signal)));
  if (answers.some((answer) => typeof answer === "string")) {
    throw new S3Error("ServiceUnavailable", {
      message:
        "A cluster of the bucket does not tell whether it has it, its deletion is unfinished",
      retryAfterSeconds: 1,
    });
  }
  const missing = places.filter((_, index) => answers[index] === false);
  if (missing.length === places.length) {
    await giveUp(entry, ports);
    return "gone";
  }
  await Promise.all(missing.map((place) => createOn(place, ports, signal)));
  await settle(entry, ports);
  return "settled";
}

async function settle(
  { value: record, modRevision }: Versioned<BucketRecord>,
  ports: OperationPorts,
): Promise<void> {
  const { tenant, name } = record;
  await ports.registry.commit(
    [
      {
        kind: "bucket",
        tenant,
        name,
        expected: modRevision,
        record: { ...record, phase: "settled" },
      },
    ],
    null,
  );
}

function placesOf(record: BucketRecord, identity: UpstreamIdentity): readonly BucketPlace[] {
  return clustersOf(record).map((cluster: ClusterId) => ({
    tenant: record.tenant,
    name: record.name,
    cluster,
    identity,
  }));
}
