// The configured share of each cluster on the default wheel, as ratios.

import type { ClusterRecord, Revision } from "../placement/records.ts";
import type { PlacementSnapshot, Versioned } from "../placement/snapshot.ts";
import { type AssignedWeights, effectiveWeights } from "../placement/weights.ts";
import type { ClusterId } from "../s3/names.ts";

/** Live clusters with their assigned weights. */
export function wheelWeights(
  clusters: ReadonlyMap<ClusterId, Versioned<ClusterRecord>>,
): AssignedWeights {
  const weights = new Map<ClusterId, number | null>();
  for (const [id, { value }] of clusters) if (value.state === "live") weights.set(id, value.weight);
  return weights;
}

/** Cluster → 0..1; clusters that get nothing are left out. */
export function wheelShares(
  clusters: ReadonlyMap<ClusterId, Versioned<ClusterRecord>>,
): ReadonlyMap<ClusterId, number> {
  const weights = effectiveWeights(wheelWeights(clusters));
  let total = 0;
  for (const weight of weights.values()) total += weight;
  return new Map([...weights].map(([id, weight]) => [id, weight / total]));
}

/** The newest mod revision of any cluster: what a view of all of them is at. */
export function clustersRevision(view: PlacementSnapshot): Revision {
  let newest = 0n;
  for (const { modRevision } of view.clusters.values()) {
    if (modRevision > newest) newest = modRevision;
  }
  return newest;
}
