// Buckets over several clusters: created when every cluster of the route has it and the record is
// written, deleted when empty everywhere. Phases in the record make both repeatable: a half-made or
// half-deleted bucket is finished by the same request sent again (placement.md §2, §12).

import { clustersOf } from "../placement/candidates.ts";
import { createdRecord } from "../placement/discovery.ts";
import type { BucketRecord, Revision } from "../placement/records.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import { isStrictBucketName } from "../s3/names.ts";
import { createOn, deleteOn } from "./bucket-on-cluster.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import type { BucketPlace } from "./emptiness.ts";
import { contentOver } from "./emptiness.ts";
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
  if (existing !== null && existing.value.phase === "settled") {
    if (existing.value.owner !== null && existing.value.owner !== request.caller) {
      throw new S3Error("BucketAlreadyExists");
    }
    return created(name);
  }
  if (existing === null && !isStrictBucketName(name)) throw new S3Error("InvalidBucketName");
  assertLocation(request, ports);
  const ended = await request.commit();
  try {
    const claim = existing ?? (await claimName(request, ports));
    await finishCreation(claim.value, claim.modRevision, request, ports);
    return created(name);
  } finally {
    ended();
  }
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
  throw new S3Error("SlowDown", {
    message: "The bucket is being created by another request",
    retryAfterSeconds: 1,
  });
}

async function finishCreation(
  record: BucketRecord,
  expected: Revision,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<void> {
  const places = placesOf(record);
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
  throw new S3Error("SlowDown", { retryAfterSeconds: 1 });
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

/** DeleteBucket: empty on every cluster, or 409 with nothing deleted. */
export async function deleteBucket(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const entry = request.record;
  if (entry === null) throw new S3Error("NoSuchBucket");
  const places = placesOf(entry.value);
  const contents = await contentOver(places, ports, request.signal);
  if ([...contents.values()].includes("holds")) throw new S3Error("BucketNotEmpty");
  const ended = await request.commit();
  try {
    await removeEverywhere(entry.value, entry.modRevision, places, { request, ports });
  } finally {
    ended();
  }
  return emptyAnswer(204, null);
}

async function removeEverywhere(
  record: BucketRecord,
  expected: Revision,
  places: readonly BucketPlace[],
  at: { readonly request: OperationRequest; readonly ports: OperationPorts },
): Promise<void> {
  const { request, ports } = at;
  const key = { kind: "bucket", tenant: record.tenant, name: record.name } as const;
  const marked = await ports.registry.commit(
    [{ ...key, expected, record: { ...record, phase: "deleting" } }],
    null,
  );
  if (marked.kind === "conflict") throw new S3Error("SlowDown", { retryAfterSeconds: 1 });
  const results = await Promise.all(places.map((place) => deleteOn(place, ports, request.signal)));
  if (results.includes("not_empty")) {
    // A write got in between the listing and the mark: put back what was taken away.
    await Promise.all(places.map((place) => createOn(place, ports, request.signal)));
    await ports.registry.commit(
      [{ ...key, expected: marked.revision, record: { ...record, phase: "settled" } }],
      null,
    );
    throw new S3Error("BucketNotEmpty");
  }
  const removed = await ports.registry.commit(
    [{ ...key, expected: marked.revision, record: null }],
    null,
  );
  if (removed.kind === "conflict") throw new S3Error("SlowDown", { retryAfterSeconds: 1 });
}

function placesOf(record: BucketRecord): readonly BucketPlace[] {
  return clustersOf(record).map((cluster: ClusterId) => ({
    tenant: record.tenant,
    name: record.name,
    cluster,
  }));
}
