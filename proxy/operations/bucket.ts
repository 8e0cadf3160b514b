// Buckets over several clusters: created when every cluster of the route has it and the record is
// written, deleted when empty everywhere. Phases in the record make both repeatable: a half-made or
// half-deleted bucket is finished by the same request sent again (placement.md §2, §12).

import { clustersOf } from "../placement/candidates.ts";
import { createdRecord } from "../placement/discovery.ts";
import type { UpstreamIdentity } from "../placement/ports.ts";
import type { BucketRecord, Revision } from "../placement/records.ts";
import type { Versioned } from "../placement/snapshot.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import { isStrictBucketName } from "../s3/names.ts";
import { createOn, deleteOn } from "./bucket-on-cluster.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import type { BucketPlace } from "./emptiness.ts";
import { holdsAnything } from "./emptiness.ts";
import { mutate } from "./mutation.ts";
import {
  assertAbsenceKnown,
  bucketOf,
  emptyAnswer,
  firstCandidate,
  passOn,
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
      await assertOwned(existing.value, request, ports);
      return created(name);
    }
    // Half created, it is finished here; half deleted, only if whoever deletes it is gone.
    if (phase === "deleting" && !ports.resettler.abandoned(existing)) throw changing();
  }
  if (existing === null && !isStrictBucketName(name)) throw new S3Error("InvalidBucketName");
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
 * A record says nothing of who owns a bucket in a cluster that knows its users itself: there creating
 * it again succeeds for its owner alone.
 */
async function assertOwned(
  record: BucketRecord,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<void> {
  const places = placesOf(record, request.identity).filter(
    ({ cluster }) => ports.identity(cluster) !== "service",
  );
  await Promise.all(places.map((place) => createOn(place, ports, request.signal)));
}

/** The caller may not have the bucket, whoever asks again. */
function isRefusal(caught: unknown): boolean {
  return caught instanceof S3Error && caught.status < 500;
}

/** Nobody holds a name by having been refused it. */
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

/** As RGW does, a location must be one there is: the region of a cluster. */
function assertLocation(request: OperationRequest, ports: OperationPorts): void {
  const wanted = request.locationConstraint ?? "";
  if (wanted === "") return;
  for (const { value } of ports.snapshots.current().clusters.values()) {
    if (value.region === wanted) return;
  }
  throw new S3Error("InvalidLocationConstraint", { details: { LocationConstraint: wanted } });
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
  const record = createdRecord({
    tenant: request.tenant,
    name,
    createdAtMs,
    route: request.route,
    owner: request.caller,
    placement: request.placement,
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
  const places = placesOf(record, request.identity);
  await Promise.all(places.map((place) => createOn(place, ports, request.signal)));
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

/** HeadBucket, GetBucketLocation: asked of the first cluster of the bucket. */
export async function passBucketRequest(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const cluster = firstCandidate(request);
  const response = await ports.upstream.send(cluster, upstreamRequest(request), request.signal);
  if (response.status === 404) assertAbsenceKnown(request, ports);
  return passOn(response, cluster);
}

/**
 * DeleteBucket: empty on every cluster, or 409 with nothing deleted. One that fails midway puts back
 * what it took away; one that a crash cut off is finished by the next.
 */
export async function deleteBucket(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const entry = request.record;
  if (entry === null) throw new S3Error("NoSuchBucket");
  if (entry.value.phase === "rerouting" && !ports.resettler.abandoned(entry)) throw changing();
  const places = placesOf(entry.value, request.identity);
  const holds = await holdsAnything(places, ports, request.signal);
  if (holds && entry.value.phase !== "deleting") throw new S3Error("BucketNotEmpty");
  return await mutate(request, ports, async (mutation) => {
    await mutation.commit();
    if (holds) await putBack(entry, request.identity, ports);
    else await removeEverywhere(entry, request.identity, ports);
    if (holds) throw new S3Error("BucketNotEmpty");
    return emptyAnswer(204, null);
  });
}

/** Not ended by the client's leaving: a bucket must not stay half deleted. */
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
  const results = await Promise.allSettled(
    placesOf(record, identity).map((place) => deleteOn(place, ports, signal)),
  );
  const failed = results.find((result) => result.status === "rejected");
  // A write got in between the listing and the mark.
  const filled = results.some(
    (result) => result.status === "fulfilled" && result.value === "not_empty",
  );
  if (failed !== undefined || filled) {
    await putBack({ value: record, modRevision: marked.revision }, identity, ports);
    if (failed !== undefined) throw failed.reason;
    throw new S3Error("BucketNotEmpty");
  }
  const removed = await ports.registry.commit(
    [{ ...key, expected: marked.revision, record: null }],
    null,
  );
  if (removed.kind === "conflict") throw changing();
}

/** The bucket on all its clusters again. Where that fails too it stays `deleting`, for a repetition. */
async function putBack(
  entry: Versioned<BucketRecord>,
  identity: UpstreamIdentity,
  ports: OperationPorts,
): Promise<void> {
  const { value: record } = entry;
  const { signal } = new AbortController();
  const places = placesOf(record, identity);
  await Promise.all(places.map((place) => createOn(place, ports, signal)));
  const settled: BucketRecord = { ...record, phase: "settled" };
  const { tenant, name } = record;
  await ports.registry.commit(
    [{ kind: "bucket", tenant, name, expected: entry.modRevision, record: settled }],
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
