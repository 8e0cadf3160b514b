// What only one cluster can do as a whole: an order of versions, object lock. Versioned buckets stay on
// one cluster (placement.md §7): where a bucket is on one its cluster is asked; a bucket on several comes
// onto one first while it is empty or all it has is there, and is refused when it is not.

import { clustersOf } from "../placement/candidates.ts";
import type { BucketRecord } from "../placement/records.ts";
import { onOneCluster } from "../placement/routes.ts";
import type { Versioned } from "../placement/snapshot.ts";
import { S3Error } from "../s3/errors.ts";
import { writeBucketSetting } from "./bucket-setting.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { holdsAnything } from "./emptiness.ts";
import { discard, ownRequest } from "./send.ts";

/** PutBucketVersioning, PutObjectLockConfiguration. */
export async function writeSingleSetting(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const { record } = request;
  if (record === null) throw new S3Error("NoSuchBucket");
  if (request.candidates.length < 2) return await writeBucketSetting(request, ports);
  await gather(record, request, ports);
  // Placed anew by the same request sent again: this one was decided on under the old placement.
  throw new S3Error("SlowDown", {
    message: "The bucket was brought onto one cluster, send the request again",
    retryAfterSeconds: 1,
  });
}

/**
 * Brings a bucket onto the one of its clusters that holds all it has; an empty one onto any of them.
 * @throws S3Error VersionedBucketPinned
 */
async function gather(
  entry: Versioned<BucketRecord>,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<void> {
  await assertOwner(entry.value, request, ports);
  const single = await onlyCluster(entry.value, request, ports);
  if (single === null) throw spread();
  const result = await ports.resettler.resettle(
    entry,
    {
      ...single,
      gathers: true,
      identity: request.identity,
      audit: {
        action: "system:SettleBucket",
        resource: `${entry.value.tenant}/${entry.value.name}`,
        actor: { kind: "client", name: request.caller, remoteAddress: null },
        requestId: request.requestId,
        detail: "on one cluster, becomes versioned",
      },
    },
    ports,
  );
  switch (result.kind) {
    case "settled":
      return;
    case "busy":
      throw spread();
    case "contended":
      throw new S3Error("SlowDown", { retryAfterSeconds: 1 });
    case "unavailable":
      throw new S3Error("ServiceUnavailable", {
        message:
          "The bucket cannot be brought onto one cluster now. Create a bucket that is on one: " +
          "with a placement of one cluster, or with object lock",
        retryAfterSeconds: 1,
      });
  }
}

/**
 * Where a cluster knows its users, whose a bucket is decides there who may make it versioned: somebody who
 * may merely list it must not have it moved. Asked before anything changes.
 * @throws S3Error AccessDenied
 */
async function assertOwner(
  record: BucketRecord,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<void> {
  const knowing = clustersOf(record).filter((cluster) => ports.identity(cluster) !== "service");
  if (knowing.length === 0) return;
  if (record.owner !== null && record.owner !== request.caller) throw new S3Error("AccessDenied");
  // What only an owner may, or somebody whom the owner lets see how the bucket is kept.
  await Promise.all(
    knowing.map(async (cluster) => {
      const asked = ownRequest(request, record.name, {
        operation: "GetBucketVersioning",
        query: [["versioning", null]],
      });
      const response = await ports.upstream.send(cluster, asked, request.signal);
      await discard(response);
      if (response.status === 403) throw new S3Error("AccessDenied");
    }),
  );
}

/** A route of the one cluster where the bucket's content is; `null` where it is on several. */
async function onlyCluster(
  record: BucketRecord,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<ReturnType<typeof onOneCluster>> {
  // A conflict is for an operator to settle. What a cluster that was away has left of it is not.
  if (record.conflict) return null;
  const clusters = clustersOf(record);
  const holds = await Promise.all(
    clusters.map((cluster) =>
      holdsAnything(
        [{ tenant: record.tenant, name: record.name, cluster, identity: request.identity }],
        ports,
        request.signal,
      ),
    ),
  );
  const [holder, ...others] = clusters.filter((_, index) => holds[index] === true);
  if (holder === undefined) return onOneCluster(record);
  if (others.length > 0) return null;
  const weights = new Map([[holder, 1]]);
  return onOneCluster({ ...record, route: { ...record.route, weights } });
}

function spread(): S3Error {
  return new S3Error("VersionedBucketPinned", {
    message:
      "Versioning and object lock need a bucket that is on one cluster, and this one holds objects or " +
      "open uploads on several. Create another bucket, switch versioning on while it is empty, and copy",
  });
}
