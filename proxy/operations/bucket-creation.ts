// CreateBucket over several clusters: created when every cluster of the route has it and the record is
// written. A half-made bucket is finished by the same request sent again (placement.md §2, §12), and one that
// is there is created again without being brought back by it once it was deleted or moved meanwhile.

import { clustersOf } from "../placement/candidates.ts";
import { createdRecord } from "../placement/discovery.ts";
import type { BucketRecord, Revision } from "../placement/records.ts";
import { onOneCluster } from "../placement/routes.ts";
import type { Versioned } from "../placement/snapshot.ts";
import { S3Error } from "../s3/errors.ts";
import { newBucketNameFault } from "../s3/names.ts";
import { type BucketCreation, createOn, deleteOn } from "./bucket-on-cluster.ts";
import { changing, giveUp, placesOf } from "./bucket-record.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { hasBucket } from "./drift-reading.ts";
import type { BucketPlace } from "./emptiness.ts";
import { mutate } from "./mutation.ts";
import { bucketOf, emptyAnswer } from "./send.ts";

/** A deletion that goes on beside a creation ends within milliseconds, if its clusters answer. */
const deletionSeenWithinMs = 10_000;
const deletionPollMs = 10;

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
    if (phase === "rerouting" && !ports.resettler.abandoned(existing)) throw changing();
    if (phase === "settled" || phase === "rerouting") {
      if (owner === null) await dropIfGone(existing, request, ports);
      return await createAgain(existing, request, ports);
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
 * succeeds for its owner alone, and on an RGW only with the same ACL. Counted as a mutation, which a
 * change of route waits for, and not ended by the client's leaving: what it made must be seen to stand.
 */
async function createAgain(
  existing: Versioned<BucketRecord>,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const places = placesOf(existing.value, request.identity);
  const { signal } = new AbortController();
  return await mutate(request, ports, async (mutation) => {
    await mutation.commit();
    const [made] = await Promise.allSettled([
      createEverywhere(places, { ...request, signal }, ports),
    ]);
    const stands = await standsStill(existing, places, ports);
    if (made.status === "rejected") throw made.reason;
    if (!stands) throw changing();
    return created(existing.value.name);
  });
}

/**
 * Whether the record is the one that the bucket was created again under. Where it is not, the bucket is
 * taken away from where it is no longer named: a deletion, whose end is awaited, was there already.
 */
async function standsStill(
  { value: { tenant, name }, modRevision }: Versioned<BucketRecord>,
  places: readonly BucketPlace[],
  ports: OperationPorts,
): Promise<boolean> {
  const { signal } = new AbortController();
  const untilMs = ports.clock.monotonicMs() + deletionSeenWithinMs;
  for (;;) {
    const now = ports.snapshots.current().buckets.find(tenant, name);
    if (now?.modRevision === modRevision) return true;
    if (now?.value.phase !== "deleting") {
      const named = now === undefined ? [] : clustersOf(now.value);
      const unnamed = places.filter(({ cluster }) => !named.includes(cluster));
      await Promise.allSettled(unnamed.map((place) => deleteOn(place, ports, signal)));
      return false;
    }
    if (ports.clock.monotonicMs() >= untilMs) return false;
    await ports.clock.sleep(deletionPollMs, signal);
  }
}

/**
 * A bucket that was found, and went before it was recorded, stands in the way of a new one's route: where no
 * cluster of its record has it the record is dropped, and the same request again creates it afresh.
 */
async function dropIfGone(
  existing: Versioned<BucketRecord>,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<void> {
  const places = placesOf(existing.value, request.identity);
  const answers = await Promise.all(places.map((place) => hasBucket(place, ports, request.signal)));
  if (!answers.every((answer) => answer === false)) return;
  await giveUp(existing, ports);
  throw changing();
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
