// The domain records that placement is computed from, as they live in memory. How they are encoded
// in the state store is bridge/codec.ts; how a snapshot is assembled is bridge/reduce.ts.
// Field meanings: placement.md §1 and §14; records carry the epoch fields from the start, although a
// bucket has exactly one epoch until epochs are opened by later work.

import type { AccessKeyId, BucketName, ClusterId, TenantName } from "../s3/names.ts";

/** A state store revision, compared as bigint: etcd's go beyond 2^53. */
export type Revision = bigint;

export const clusterStates = [
  "pending",
  "live",
  "draining_readonly",
  "evacuating",
  "removed",
] as const;
export type ClusterState = (typeof clusterStates)[number];

export type PlacementMode = "weighted" | "strict";
export type Spread = "object" | "prefix" | "bucket";

/** Cluster → integer weight 0–100. Iteration order has no meaning. */
export type Weights = ReadonlyMap<ClusterId, number>;

/** One S3 upstream. `weight` survives drain and undrain; `null` is unweighted (placement.md §3). */
export interface ClusterRecord {
  readonly id: ClusterId;
  readonly state: ClusterState;
  readonly weight: number | null;
  readonly endpoints: readonly string[];
  /** A name out of placement/profiles.ts. */
  readonly profile: string;
  readonly region: string;
  readonly addressing: "path" | "virtual";
  readonly labels: Readonly<Record<string, string>>;
}

/** A client's key in the state store, with whom it stands for. Its secret is sealed-secret.ts's. */
export interface CredentialRecord {
  readonly accessKeyId: AccessKeyId;
  readonly uid: string;
  readonly displayName: string | null;
  readonly tenant: TenantName;
  readonly groups: readonly string[];
  /** Data for policy: policies/README.md. */
  readonly grants: readonly {
    readonly buckets: readonly string[];
    readonly keys: readonly string[];
    readonly allow: readonly string[];
  }[];
  readonly status: "active" | "suspended";
  /** The secret access key, sealed together with all of the above. */
  readonly sealed: string;
}

/** What policy returned for a bucket, and what its keys are ranked over. */
export interface Route {
  /** Clusters with weight > 0 only. */
  readonly weights: Weights;
  readonly mode: PlacementMode;
  readonly spread: Spread;
  /** Which rule of placement.md §2 made it: `bucket_policy`, `default_wheel`, `pinned`, … */
  readonly source: string;
}

/** An operator's own placement of a bucket. */
export interface BucketPlacement {
  readonly weights: Weights;
  readonly mode: PlacementMode;
  readonly spread: Spread | null;
  /** `uniform` ignores the weights: every cluster named counts 1. */
  readonly weighting: "weights" | "uniform";
}

export interface BucketRecord {
  readonly tenant: TenantName;
  readonly name: BucketName;
  readonly origin: "created" | "discovered";
  /** Access key or account that created it; `null` when discovered. */
  readonly owner: string | null;
  readonly placement: BucketPlacement | null;
  /** The route the bucket is settled on: owners and candidates come from it alone. */
  readonly route: Route;
  /** Numbers of the open epochs, oldest first; one until epochs exist. */
  readonly epochs: readonly number[];
  /** Candidate order while a change is open; empty when settled. */
  readonly order: readonly ClusterId[];
  /**
   * `creating`: some cluster of the route may lack it. `clearing`: it never was a bucket, and what was made
   * of it is taken away. `rerouting`: no write may place bytes. Who may act when: operations/bucket-phases.ts.
   */
  readonly phase: "creating" | "clearing" | "settled" | "rerouting" | "deleting";
  /** Clusters where writes went that no epoch explains (placement.md §1). */
  readonly extra: readonly ClusterId[];
  /** Found on several clusters at discovery. */
  readonly conflict: boolean;
  readonly frozen: boolean;
  /** What CreateBucket asked for, as a digest, until the bucket is whole; then `null`. */
  readonly asked: string | null;
  readonly createdAt: string;
}

/** A process of this installation (placement.md §5). */
export interface MemberRecord {
  readonly id: string;
  readonly nodeId: string;
  readonly mode: "full" | "observer";
  readonly startedAt: string;
  readonly version: string;
  /** Highest revision up to which every mutation begun under an older view has ended. */
  readonly acked: Revision;
}
