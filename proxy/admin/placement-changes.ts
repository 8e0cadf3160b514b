// An operator's change of a bucket's placement. What moves no key is written at once; what would move
// keys needs an empty bucket, which is then settled anew; anything else is `busy` until epochs exist.

import { hasSettings, isVersioned } from "../operations/bucket-settings-kept.ts";
import type { OperationPorts } from "../operations/context.ts";
import { holdsAnything } from "../operations/emptiness.ts";
import { mustBeEmpty } from "../operations/resettle.ts";
import { clustersOf } from "../placement/candidates.ts";
import type { AuditLine } from "../placement/ports.ts";
import { UpstreamError } from "../placement/ports.ts";
import type { BucketPlacement, BucketRecord, Route } from "../placement/records.ts";
import { sameOwners } from "../placement/routes.ts";
import type { Versioned } from "../placement/snapshot.ts";
import { mapOf } from "../policy/decide.ts";
import type { DecisionView, RouteResult } from "../policy/ports.ts";

import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import type { ChangeContext, PlacementChangeResult, PlacementChanges } from "./ports.ts";

interface Change {
  readonly entry: Versioned<BucketRecord>;
  readonly placement: BucketPlacement | null;
  readonly route: Route;
  readonly gathers: boolean;
  readonly audit: AuditLine;
}

export function placementChanges(
  views: { current(): DecisionView },
  ports: OperationPorts,
): PlacementChanges {
  return {
    async putPlacement({ tenant, bucket }, placement, context) {
      const view = views.current();
      const entry = view.placement.buckets.find(tenant, bucket);
      if (entry === undefined) return { kind: "no_such_bucket" };
      if (context.expected !== null && entry.modRevision !== context.expected) {
        return { kind: "conflict" };
      }
      const wanted = mapOf(view, { ...entry.value, placement });
      const route = routeFor(wanted, entry.value, placement);
      if (route === null) {
        return {
          kind: "unavailable",
          message: "Policy gives the bucket no route with this placement",
        };
      }
      const audit = auditLine(entry.value, placement, context);
      const change = { entry, placement, route, gathers: placement !== null, audit };
      return await apply(change, context, ports);
    },
  };
}

async function apply(
  change: Change,
  context: ChangeContext,
  ports: OperationPorts,
): Promise<PlacementChangeResult> {
  const { value: record } = change.entry;
  if (record.phase !== "settled") return { kind: "conflict" };
  if (record.frozen) return busy;
  try {
    const moves = !sameOwners(change.route, record.route) || record.conflict;
    if (context.dryRun) {
      if (!moves || !(await holdsAny(change, ports, context.signal))) return changed;
      return await whyBusy(record, ports, context.signal);
    }
    if (!moves) return await rewrite(change, ports);
    const moved = await move(change, ports);
    return moved.kind === "busy" ? await whyBusy(record, ports, context.signal) : moved;
  } catch (caught) {
    if (caught instanceof UpstreamError || caught instanceof S3Error) {
      return { kind: "unavailable", message: "A cluster of the bucket does not answer" };
    }
    throw caught;
  }
}

async function move(change: Change, ports: OperationPorts): Promise<PlacementChangeResult> {
  const result = await ports.resettler.resettle(change.entry, change, ports);
  switch (result.kind) {
    case "settled":
      return changed;
    case "busy":
      return busy;
    case "contended":
    case "taken_back":
      return { kind: "conflict" };
    case "unavailable":
      return { kind: "unavailable", message: "A member or a cluster does not answer" };
  }
}

/** No key goes elsewhere: the record alone changes. */
async function rewrite(change: Change, ports: OperationPorts): Promise<PlacementChangeResult> {
  const { entry, placement, route, audit } = change;
  const { value: record, modRevision: expected } = entry;
  const key = { kind: "bucket", tenant: record.tenant, name: record.name, expected } as const;
  const result = await ports.registry.commit(
    [{ ...key, record: { ...record, placement, route } }],
    audit,
  );
  return result.kind === "committed" ? changed : { kind: "conflict" };
}

const changed: PlacementChangeResult = { kind: "changed" };
const busy: PlacementChangeResult = { kind: "busy" };

/** A versioned bucket is `pinned`, empty or not. */
async function whyBusy(
  record: BucketRecord,
  ports: OperationPorts,
  signal: AbortSignal,
): Promise<PlacementChangeResult> {
  const [cluster] = clustersOf(record);
  if (cluster === undefined) return busy;
  const { tenant, name } = record;
  return (await isVersioned({ tenant, name, cluster }, ports, signal)) ? { kind: "pinned" } : busy;
}

/** Whether the change would leave anything behind. */
async function holdsAny(
  change: Change,
  ports: OperationPorts,
  signal: AbortSignal,
): Promise<boolean> {
  const { entry, route } = change;
  const { tenant, name } = entry.value;
  const place = (cluster: ClusterId) => ({ tenant, name, cluster });
  const old = clustersOf(entry.value);
  const emptied = mustBeEmpty(entry.value, change).map(place);
  if (await holdsAnything(emptied, ports, signal)) return true;
  const joins = [...route.weights.keys()].some((cluster) => !old.includes(cluster));
  const [first] = old;
  return joins && first !== undefined && (await hasSettings(place(first), ports, signal));
}

/**
 * What policy makes of the bucket with this placement. Where policy refuses it now (all it names is
 * draining) the operator's own words stand as the route: writes are refused by policy all the same.
 */
function routeFor(
  wanted: RouteResult,
  record: BucketRecord,
  placement: BucketPlacement | null,
): Route | null {
  if (wanted.kind === "route") return wanted.route;
  if (wanted.kind === "fault" || placement === null) return null;
  const uniform = placement.weighting === "uniform";
  const named = [...placement.weights].filter(([, weight]) => weight > 0);
  const weights = new Map(named.map(([id, weight]) => [id, uniform ? 1 : weight]));
  const { mode } = placement;
  return {
    weights,
    mode,
    spread: placement.spread ?? record.route.spread,
    source: "bucket_policy",
  };
}

function auditLine(
  record: BucketRecord,
  placement: BucketPlacement | null,
  context: ChangeContext,
): AuditLine {
  const detail =
    placement === null
      ? "cleared"
      : JSON.stringify({ placement: Object.fromEntries(placement.weights), mode: placement.mode });
  return {
    action: placement === null ? "admin:DeleteBucketPlacement" : "admin:PutBucketPlacement",
    resource: `${record.tenant}/${record.name}`,
    actor: context.actor,
    requestId: context.requestId,
    detail,
  };
}
