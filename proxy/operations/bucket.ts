// Buckets over several clusters: what the first one answers for, and DeleteBucket, which deletes a bucket
// that is empty everywhere. A phase in the record makes that repeatable: a half-deleted bucket is finished by
// the same request sent again (placement.md §2, §12).

import { clustersOf } from "../placement/candidates.ts";
import { serviceIdentity, type UpstreamIdentity } from "../placement/ports.ts";
import type { BucketRecord } from "../placement/records.ts";
import type { Versioned } from "../placement/snapshot.ts";
import { bucketLocationDocument } from "../s3/bucket-document.ts";
import { S3Error } from "../s3/errors.ts";
import { createOn, deleteOn } from "./bucket-on-cluster.ts";
import { changing, giveUp, placesOf, settle } from "./bucket-record.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { hasBucket } from "./drift-reading.ts";
import { holdsObjects } from "./emptiness.ts";
import { mutate } from "./mutation.ts";
import {
  assertAbsenceKnown,
  documentAnswer,
  emptyAnswer,
  firstCandidate,
  passOn,
  readDocument,
  upstreamRequest,
} from "./send.ts";

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
