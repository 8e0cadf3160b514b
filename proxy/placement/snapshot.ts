// One frozen view of everything that placement depends on. Snapshots are swapped, never edited:
// a request reads one at its start and again at its commit point.

import type { AccessKeyId, BucketName, ClusterId, TenantName } from "../s3/names.ts";
import type { BucketRecord, ClusterRecord, CredentialRecord, Revision } from "./records.ts";

/** A record with the store revision that last wrote it, for compare-and-swap. */
export interface Versioned<T> {
  readonly value: T;
  readonly modRevision: Revision;
}

/** All bucket records, found by (tenant, name). Immutable: `with` shares all but one shard. */
export interface BucketTable {
  readonly size: number;
  find(tenant: TenantName, name: BucketName): Versioned<BucketRecord> | undefined;
  /** Every record, in no particular order. */
  all(): Iterable<Versioned<BucketRecord>>;
}

export interface PlacementSnapshot {
  /** The store revision this view is complete up to. */
  readonly revision: Revision;
  /** `persisted`: read from the snapshot file while the store was away (placement.md rule 8). */
  readonly origin: "live" | "persisted";
  readonly clusters: ReadonlyMap<ClusterId, Versioned<ClusterRecord>>;
  /** Storage class → cluster. */
  readonly classes: ReadonlyMap<string, Versioned<ClusterId>>;
  readonly buckets: BucketTable;
  /** What operators put under `data/…`: path → JSON value. */
  readonly data: ReadonlyMap<string, unknown>;
  /** Client keys, secrets sealed. */
  readonly credentials: ReadonlyMap<AccessKeyId, Versioned<CredentialRecord>>;
}
