// The record of a bucket while it is created and deleted: where its bucket is, and how the record ends
// either way, by compare-and-swap.

import { clustersOf } from "../placement/candidates.ts";
import type { UpstreamIdentity } from "../placement/ports.ts";
import type { BucketRecord } from "../placement/records.ts";
import type { Versioned } from "../placement/snapshot.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationPorts } from "./context.ts";
import type { BucketPlace } from "./emptiness.ts";

/** Ends a record, where it is still the one that was read: nobody holds a name beyond the bucket's end. */
export async function giveUp(claim: Versioned<BucketRecord>, ports: OperationPorts): Promise<void> {
  const { tenant, name } = claim.value;
  await ports.registry.commit(
    [{ kind: "bucket", tenant, name, expected: claim.modRevision, record: null }],
    null,
  );
}

/** Whole again, where the record is still the one that was read. */
export async function settle(
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

export function changing(): S3Error {
  return new S3Error("SlowDown", {
    message: "The bucket is being changed by another request",
    retryAfterSeconds: 1,
  });
}

/** The bucket on each of its clusters, the first one first. */
export function placesOf(record: BucketRecord, identity: UpstreamIdentity): readonly BucketPlace[] {
  return clustersOf(record).map((cluster: ClusterId) => ({
    tenant: record.tenant,
    name: record.name,
    cluster,
    identity,
  }));
}
