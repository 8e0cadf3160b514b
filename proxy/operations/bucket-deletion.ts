// DeleteBucket over several clusters: of a bucket that is empty on all of them, or 409 with nothing changed.
// Its phase (bucket-phases.ts) keeps writes out while it goes, and makes it repeatable: a half-deleted
// bucket is finished by the same request sent again, or put back with its settings (placement.md §2, §12).

import { clustersOf } from "../placement/candidates.ts";
import { isUnmade } from "../placement/discovery.ts";
import { serviceIdentity, type UpstreamIdentity } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import { deleteOn } from "./bucket-on-cluster.ts";
import {
  type BucketEntry,
  begin,
  changing,
  clearAway,
  drop,
  hold,
  isAnothers,
  passCommitPoint,
  placesOf,
  settle,
} from "./bucket-phases.ts";
import { putBack } from "./bucket-whole.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { type BucketPlace, holdsObjects } from "./emptiness.ts";
import { emptyAnswer } from "./send.ts";

/** Asked before writers are kept out, so that a bucket that holds something is not in their way. */
export async function deleteBucket(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const { record: entry, identity } = request;
  if (entry === null) throw new S3Error("NoSuchBucket");
  const { phase } = entry.value;
  if (isUnmade(entry.value)) {
    // There is no bucket, and the claim is its owner's.
    if (isAnothers(entry.value, request)) throw new S3Error("NoSuchBucket");
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
