// A bucket's own placement: shown, set, cleared. Whether it may change depends on what the clusters
// hold, so that goes through PlacementChanges.

import { checkPlacement } from "../placement/placement-request.ts";
import type { BucketPlacement, BucketRecord } from "../placement/records.ts";
import type { Versioned } from "../placement/snapshot.ts";
import { findBucket, noSuchBucket, placementBody, targetOf } from "./buckets.ts";
import { type ChangePorts, raceLost, readRevision, staleReply } from "./change.ts";
import type { PlacementChangeResult, PlacementChanges } from "./ports.ts";
import {
  type AdminReply,
  type AdminRequest,
  done,
  json,
  malformed,
  problem,
  unknownKeys,
} from "./reply.ts";

export interface PlacementPorts extends ChangePorts {
  readonly placementChanges: PlacementChanges;
}

/** GET /admin/v1/buckets/{b}/placement */
export function showBucketPlacement(request: AdminRequest, ports: ChangePorts): AdminReply {
  const entry = findBucket(request, ports);
  if (entry === null) return noSuchBucket(request);
  if (entry.value.placement === null) return noSuchPlacement(request);
  return json(200, placementBody(entry.value.placement), entry.modRevision);
}

function noSuchPlacement(request: AdminRequest): AdminReply {
  const name = request.params.get("bucket") ?? "";
  return problem(404, "NoSuchPlacement", `Bucket "${name}" has no placement of its own`);
}

/** PUT /admin/v1/buckets/{b}/placement `{placement: {id: 0..100}, mode, spread, weighting}` */
export async function putBucketPlacement(
  request: AdminRequest,
  ports: PlacementPorts,
): Promise<AdminReply> {
  const wrong = unknownKeys(request.body, ["placement", "mode", "spread", "weighting"]);
  if (wrong !== null) return wrong;
  const { placement, mode, spread, weighting } = request.body;
  const checked = checkPlacement(
    { placement, mode, spread, weighting },
    new Map([...ports.snapshots.current().clusters].map(([id, { value }]) => [id, value])),
  );
  if (checked.kind === "invalid") return problem(400, checked.code, checked.message);
  return await changePlacement(request, ports, checked.placement);
}

/** DELETE /admin/v1/buckets/{b}/placement */
export async function deleteBucketPlacement(
  request: AdminRequest,
  ports: PlacementPorts,
): Promise<AdminReply> {
  const wrong = unknownKeys(request.body, []);
  if (wrong !== null) return wrong;
  const entry = findBucket(request, ports);
  if (entry === null) return noSuchBucket(request);
  if (entry.value.placement === null) return noSuchPlacement(request);
  return await changePlacement(request, ports, null);
}

async function changePlacement(
  request: AdminRequest,
  ports: PlacementPorts,
  placement: BucketPlacement | null,
): Promise<AdminReply> {
  const target = targetOf(request);
  const entry = findBucket(request, ports);
  if (target === null || entry === null) return noSuchBucket(request);
  const revision = readRevision(request.body["revision"]);
  if (revision === null) return malformed('Body key "revision" needs a decimal number as text');
  const stale = staleReply(request.ifMatch, revision, entry.modRevision);
  if (stale !== null) return stale;
  const named = request.ifMatch !== null || revision !== undefined;
  const result = await ports.placementChanges.putPlacement(target, placement, {
    actor: request.actor,
    requestId: request.requestId,
    expected: named ? entry.modRevision : null,
    dryRun: request.dryRun,
    signal: request.signal,
  });
  return result.kind === "changed"
    ? changedReply(request, entry, placement)
    : refusedReply(request, result);
}

function changedReply(
  request: AdminRequest,
  entry: Versioned<BucketRecord>,
  placement: BucketPlacement | null,
): AdminReply {
  if (!request.dryRun) return done();
  const before = entry.value.placement;
  const effect = {
    before: before === null ? null : placementBody(before),
    after: placement === null ? null : placementBody(placement),
  };
  return json(200, { dry_run: true, effect, warning: null });
}

function refusedReply(
  request: AdminRequest,
  result: Exclude<PlacementChangeResult, { readonly kind: "changed" }>,
): AdminReply {
  switch (result.kind) {
    case "busy":
      return problem(
        409,
        "PlacementBusy",
        "The bucket holds objects that this change would have to move",
      );
    case "pinned":
      return problem(
        409,
        "VersionedBucketPinned",
        "The bucket is versioned or has object lock, so it stays on its cluster. " +
          "Create another one where it is wanted and copy",
      );
    case "no_such_bucket":
      return noSuchBucket(request);
    case "conflict":
      return raceLost(request.ifMatch !== null);
    case "unavailable":
      return problem(503, "StateUnavailable", result.message);
  }
}
