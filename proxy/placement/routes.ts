// Whether a change of route or weights can move a key. Changes that cannot open no epoch and need no
// settling (placement.md §3 and §5); everything here errs towards "can".

import type { ClusterId } from "../s3/names.ts";
import { bucketText, gcd, owner } from "./hrw.ts";
import type { BucketPlacement, BucketRecord, Route, Weights } from "./records.ts";

/** The same shares in smallest terms: positive weights by cluster id, divided by their gcd. */
export function normaliseWeights(weights: Weights): Weights {
  const entries = [...weights].filter(([, weight]) => weight > 0);
  const divisor = gcd(entries.map(([, weight]) => weight));
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return new Map(entries.map(([id, weight]): [ClusterId, number] => [id, weight / divisor]));
}

/** Whether two weight maps rank every text alike: proportional on the same clusters. */
export function sameShares(a: Weights, b: Weights): boolean {
  const left = normaliseWeights(a);
  const right = normaliseWeights(b);
  if (left.size !== right.size) return false;
  for (const [id, weight] of left) if (right.get(id) !== weight) return false;
  return true;
}

/** Whether no key can have another owner under `b` than under `a`. Mode and source have no say. */
export function sameOwners(a: Route, b: Route): boolean {
  if (!sameShares(a.weights, b.weights)) return false;
  return a.spread === b.spread || normaliseWeights(a.weights).size < 2;
}

/** A route and a placement of the one cluster that owns the bucket as a whole. */
export function onOneCluster(
  bucket: Pick<BucketRecord, "tenant" | "name" | "route">,
): { readonly route: Route; readonly placement: BucketPlacement } | null {
  const { tenant, name, route } = bucket;
  const cluster = owner(route.weights, bucketText(tenant, name));
  if (cluster === null) return null;
  const weights: Weights = new Map([[cluster, 1]]);
  const settled = { weights, mode: "strict", spread: "bucket" } as const;
  return {
    route: { ...settled, source: "bucket_policy" },
    placement: { ...settled, weighting: "weights" },
  };
}
