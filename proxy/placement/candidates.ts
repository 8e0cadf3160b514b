// Where a key may be, from its bucket's record alone: the owner under the recorded route, then what
// no epoch explains. Never the current wheel, never the state of a cluster: reads must find what was
// written before either changed. Spec: placement.md §1 (candidates, order, extra).

import type { ClusterId, ObjectKey } from "../s3/names.ts";
import { owner, spreadText } from "./hrw.ts";
import type { BucketRecord } from "./records.ts";

/** The cluster that the recorded route gives a key; `null` when the route names none. */
export function keyOwner(record: BucketRecord, key: ObjectKey): ClusterId | null {
  const { tenant, name, route } = record;
  // One cluster owns every key: no text is made and nothing is hashed.
  if (route.weights.size === 1) return owner(route.weights, "");
  return owner(route.weights, spreadText(tenant, name, key, route.spread));
}

/**
 * The clusters that may hold a key, front first. Settled: exactly its owner. The owner and, in a
 * bucket found on several clusters, all of them stand in the record's order; `extra` comes last.
 */
export function candidatesOf(record: BucketRecord, key: ObjectKey): readonly ClusterId[] {
  const first = keyOwner(record, key);
  if (record.extra.length === 0) return first === null ? [] : [first];
  return inOrder(record, first === null ? [] : [first]);
}

/** Every cluster that may hold anything of the bucket, front first, the same on every member. */
export function clustersOf(record: BucketRecord): readonly ClusterId[] {
  const routed: ClusterId[] = [];
  for (const [id, weight] of record.route.weights) if (weight > 0) routed.push(id);
  return inOrder(record, routed.sort());
}

/**
 * Whether a bucket stays where it is whatever happens: frozen, and on one cluster. A member that has
 * lost the placement state may go on with it (placement.md rule 8).
 */
export function isFixed(record: BucketRecord): boolean {
  return record.frozen && clustersOf(record).length === 1;
}

/** Those of `owners` and `extra` that are in the order, then other owners, then other extras. */
function inOrder(record: BucketRecord, owners: readonly ClusterId[]): readonly ClusterId[] {
  const members = new Set([...owners, ...record.extra]);
  const placed = record.order.filter((id) => members.has(id));
  return [...new Set([...placed, ...members])];
}
