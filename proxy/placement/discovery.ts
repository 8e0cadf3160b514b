// What is concluded from asking every non-removed cluster for a bucket without a record, and the
// records that buckets begin with. One unclear answer forbids any conclusion: a bucket must not be
// called absent, or found in one place, while a cluster could not be asked.
// Spec: placement.md §2 rule 8.

import { createHash } from "node:crypto";
import type { BucketName, ClusterId, TenantName } from "../s3/names.ts";
import type { BucketPlacement, BucketRecord, Route, Weights } from "./records.ts";
import { normaliseWeights } from "./routes.ts";

/** One cluster's answer to HEAD bucket; `status` is null when no complete head was received. */
export interface BucketProbe {
  readonly cluster: ClusterId;
  readonly status: number | null;
}

export type DiscoveryResult =
  /** Every cluster said 404. */
  | { readonly kind: "absent" }
  /** On these clusters, by id; more than one is a conflict for an operator to settle. */
  | { readonly kind: "found"; readonly clusters: readonly [ClusterId, ...ClusterId[]] }
  /** Some cluster gave no clear answer (503), or there was none to ask. */
  | { readonly kind: "unknown"; readonly clusters: readonly ClusterId[] };

/** 301: it exists in another region of that cluster; 403: it exists and is closed to this caller. */
const presentStatuses: ReadonlySet<number> = new Set([200, 301, 403]);

/** Concludes from one probe of each non-removed cluster. */
export function decideDiscovery(probes: readonly BucketProbe[]): DiscoveryResult {
  const present: ClusterId[] = [];
  const unclear: ClusterId[] = [];
  for (const { cluster, status } of probes) {
    if (status !== null && presentStatuses.has(status)) present.push(cluster);
    else if (status !== 404) unclear.push(cluster);
  }
  if (unclear.length > 0 || probes.length === 0) {
    return { kind: "unknown", clusters: unclear.sort() };
  }
  const [first, ...others] = present.sort();
  if (first === undefined) return { kind: "absent" };
  return { kind: "found", clusters: [first, ...others] };
}

interface RecordIdentity {
  readonly tenant: TenantName;
  readonly name: BucketName;
  readonly createdAtMs: number;
}

/**
 * The record of a bucket that was there before: spread bucket, strict, on the one cluster that has
 * it. On several: a conflict, all of them in `order` and `extra`, so that reads ask them all.
 */
export function discoveredRecord(
  identity: RecordIdentity,
  clusters: readonly [ClusterId, ...ClusterId[]],
): BucketRecord {
  const weights: Weights = new Map([[clusters[0], 1]]);
  const conflict = clusters.length > 1;
  return {
    ...commonFields(identity),
    origin: "discovered",
    owner: null,
    placement: { weights, mode: "strict", spread: "bucket", weighting: "weights" },
    route: { weights, mode: "strict", spread: "bucket", source: "bucket_policy" },
    order: conflict ? [...clusters] : [],
    phase: "settled",
    extra: conflict ? [...clusters] : [],
    conflict,
    asked: null,
  };
}

/** The record that CreateBucket writes first: `creating` until every cluster of the route has it. */
export function createdRecord(
  settings: RecordIdentity & {
    readonly route: Route;
    /** Access key or account of the creator. */
    readonly owner: string;
    readonly placement?: BucketPlacement | null;
    /** What the creator asks for, but for the place. */
    readonly asked?: readonly string[];
  },
): BucketRecord {
  const { route, placement = null, asked = [] } = settings;
  return {
    ...commonFields(settings),
    origin: "created",
    owner: settings.owner,
    placement,
    route,
    order: [],
    phase: "creating",
    extra: [],
    conflict: false,
    asked: askedDigest(asked, route, placement),
  };
}

/** Equal where two requests ask for the same bucket in the same place. */
function askedDigest(
  asked: readonly string[],
  { weights, mode, spread }: Route,
  placement: BucketPlacement | null,
): string {
  const place = [[...normaliseWeights(weights)], mode, spread, placement !== null];
  return createHash("sha256")
    .update(JSON.stringify([asked, place]))
    .digest("hex");
}

/** Whether a record only claims a name: there is no bucket of it yet, whatever stands on a cluster. */
export function isUnmade({ phase }: Pick<BucketRecord, "phase">): boolean {
  return phase === "creating" || phase === "clearing";
}

function commonFields({ tenant, name, createdAtMs }: RecordIdentity) {
  const createdAt = new Date(createdAtMs).toISOString();
  return { tenant, name, createdAt, epochs: [1], frozen: false };
}
