// The decision of one request, as a pure function of a view and an input: may the caller do this,
// which clusters may take it, and which one owns the key. It knows no rule about states, modes or
// pins: those are Rego. What it adds is the rule of settled buckets (policies/README.md "Settled
// buckets"): bytes go where the bucket's recorded route says, or nowhere.

import { bucketText, rank, spreadText } from "../placement/hrw.ts";
import type { DecisionOutcome, Entrypoint, Meter } from "../placement/ports.ts";
import type { BucketRecord, Route } from "../placement/records.ts";
import type { PlacementSnapshot } from "../placement/snapshot.ts";
import type { BucketName, ClusterId, ObjectKey, TenantName } from "../s3/names.ts";
import { operationFacts } from "../s3/operation.ts";
import { canonicalInput, fullInput } from "./input.ts";
import type {
  AuthzResult,
  Decision,
  DecisionInput,
  DecisionMemo,
  DecisionView,
  EvaluationContext,
  EvaluationOutcome,
  Refusal,
  RouteResult,
  Why,
} from "./ports.ts";
import {
  closedRefusal,
  divergentRefusal,
  lostClusterRefusal,
  readAuthzResult,
  readRouteResult,
} from "./results.ts";

/** What an entrypoint answers, with how to read it and how to name it in metrics. */
interface Question<Result> {
  readonly entrypoint: Entrypoint;
  readonly document: unknown;
  readonly context: EvaluationContext | null;
  readonly memo: DecisionMemo<Result> | null;
  readonly read: (outcome: EvaluationOutcome) => Result;
}

type Fate = Pick<Decision, "map" | "route" | "owner" | "rank"> & {
  readonly source: string;
  readonly reason: string;
};

/** How evaluations are counted; `mapOf` counts nothing. */
type Counters = Pick<Meter, "decided" | "policyMemo">;

/**
 * Decides one request. Order: authz (a denial or a fault ends it); then, for operations that place
 * nothing, the settled route alone; for those that place bytes, the route entrypoint on the full
 * and on the canonical input, and the settled route where there is one.
 *
 * For a request without a key `owner` is null and `rank` holds the clusters of the bucket's route,
 * the same order on every member. Without a record `rank` is empty unless `map` gave a route.
 */
export function decide(view: DecisionView, input: DecisionInput, meter: Counters): Decision {
  const document = fullInput(input);
  const context = { nowMs: input.nowMs, requestId: input.requestId };
  const authz = ask(view, authzQuestion(view, document, context), meter);
  meter.decided("authz", outcomeOf(authz));
  const fate =
    authz.kind === "allow" ? place(view, input, { document, context, meter }) : nowhere(authz);
  const { map, route, owner, source, reason } = fate;
  if (route !== null) meter.decided("route", outcomeOf(route));
  const why = explain(view, fate, input.record);
  return { authz, map, route, owner, rank: fate.rank, why: { ...why, source, reason } };
}

/**
 * The route that policy would give the bucket now: what a settled record is compared with to see
 * whether its objects lie where policy wants them.
 */
export function mapOf(view: DecisionView, record: BucketRecord): RouteResult {
  const document = canonicalInput(record.tenant, record.name, { key: null, record });
  return ask(view, routeQuestion(view, document, null), silent);
}

const silent: Counters = { decided: () => undefined, policyMemo: () => undefined };

function place(
  view: DecisionView,
  input: DecisionInput,
  asked: {
    readonly document: unknown;
    readonly context: EvaluationContext;
    readonly meter: Counters;
  },
): Fate {
  const { tenant, bucket, key, record } = input;
  if (!operationFacts[input.operation].places) {
    if (record === null || bucket === null) return unplaced("none", "no bucket record is needed");
    const order = ranked(record.route, tenant, bucket, key);
    return { map: null, route: null, ...order, source: "settled", reason: settledReason(record) };
  }
  const route = askRoute(view, asked.document, asked);
  if (route.kind !== "route") return stopped(null, route);
  const canonical = canonicalInput(tenant, bucket, { key, record });
  const map = askRoute(view, canonical, { context: null, meter: asked.meter });
  if (map.kind !== "route") return stopped(map, map);
  if (bucket === null) return stopped(map, refused(lostClusterRefusal(route.route.mode)));
  if (record === null) {
    const order = ranked(map.route, tenant, bucket, key);
    return { map, route, ...order, source: map.route.source, reason: map.reason };
  }
  const order = ranked(record.route, tenant, bucket, key);
  if (order.owner === null) {
    return { map, route, ...order, source: "settled", reason: settledReason(record) };
  }
  const refusal = settledRefusal(view.placement, record, {
    owner: order.owner,
    map,
    route,
    routeOwner: ranked(route.route, tenant, bucket, key).owner,
  });
  if (refusal === null) {
    return { map, route, ...order, source: "settled", reason: settledReason(record) };
  }
  return { map, route: refused(refusal), ...order, source: "settled", reason: refusal.message };
}

type Routed = Extract<RouteResult, { kind: "route" }>;

/**
 * Why a placing write into a settled bucket must not happen; `null` when it may.
 * 1. Policy sends this very request elsewhere than it sends the bucket (another route on the full
 *    input than on the canonical one), and that is not where the key is settled.
 * 2. The recorded owner is no known cluster.
 * 3. The recorded owner takes no new bytes.
 */
function settledRefusal(
  placement: PlacementSnapshot,
  record: BucketRecord,
  places: {
    readonly owner: ClusterId;
    readonly routeOwner: ClusterId | null;
    readonly map: Routed;
    readonly route: Routed;
  },
): Refusal | null {
  const { owner, routeOwner, map, route } = places;
  const { mode } = record.route;
  if (routeOwner !== owner && !sameRoute(map.route, route.route)) return divergentRefusal(mode);
  if (!placement.clusters.has(owner)) return lostClusterRefusal(mode);
  if (route.closed.has(owner)) return closedRefusal(mode, route.retryAfterSeconds);
  return null;
}

function sameRoute(left: Route, right: Route): boolean {
  if (left === right) return true;
  if (left.spread !== right.spread || left.weights.size !== right.weights.size) return false;
  for (const [id, weight] of left.weights) {
    if (right.weights.get(id) !== weight) return false;
  }
  return true;
}

function ranked(
  route: Route,
  tenant: TenantName,
  bucket: BucketName,
  key: ObjectKey | null,
): Pick<Decision, "owner" | "rank"> {
  if (key === null) {
    const order = rank(route.weights, bucketText(tenant, bucket));
    return { owner: null, rank: order };
  }
  const order = rank(route.weights, spreadText(tenant, bucket, key, route.spread));
  return { owner: order[0] ?? null, rank: order };
}

function settledReason(record: BucketRecord): string {
  return `the route that the bucket is settled on (${record.route.source})`;
}

function unplaced(source: string, reason: string): Fate {
  return { map: null, route: null, owner: null, rank: [], source, reason };
}

function nowhere(authz: Exclude<AuthzResult, { kind: "allow" }>): Fate {
  return unplaced("authz", authz.reason);
}

function stopped(map: RouteResult | null, route: Exclude<RouteResult, { kind: "route" }>): Fate {
  const reason = route.kind === "refuse" ? route.refusal.message : route.reason;
  return { map, route, owner: null, rank: [], source: route.kind, reason };
}

function refused(refusal: Refusal): Extract<RouteResult, { kind: "refuse" }> {
  return { kind: "refuse", refusal };
}

// ---- asking ----

function authzQuestion(
  view: DecisionView,
  document: unknown,
  context: EvaluationContext,
): Question<AuthzResult> {
  const memo = view.policy.memos?.authz ?? null;
  return { entrypoint: "authz", document, context, memo, read: readAuthzResult };
}

function routeQuestion(
  view: DecisionView,
  document: unknown,
  context: EvaluationContext | null,
): Question<RouteResult> {
  const { clusters } = view.placement;
  const memo = view.policy.memos?.route ?? null;
  const read = (outcome: EvaluationOutcome) => readRouteResult(outcome, clusters);
  return { entrypoint: "route", document, context, memo, read };
}

function askRoute(
  view: DecisionView,
  document: unknown,
  asked: { readonly context: EvaluationContext | null; readonly meter: Counters },
): RouteResult {
  return ask(view, routeQuestion(view, document, asked.context), asked.meter);
}

/** Remembered, or evaluated and remembered. A trap is never remembered: it may be the instance's. */
function ask<Result extends AuthzResult | RouteResult>(
  view: DecisionView,
  question: Question<Result>,
  meter: Counters,
): Result {
  const { memo, entrypoint, document, context, read } = question;
  const key = memo?.keyOf(document) ?? null;
  if (memo === null || key === null) {
    return read(view.policy.evaluate(entrypoint, document, context));
  }
  const known = memo.find(key);
  meter.policyMemo(known === undefined ? "miss" : "hit");
  if (known !== undefined) return known;
  const outcome = view.policy.evaluate(entrypoint, document, context);
  const result = read(outcome);
  if (outcome.kind !== "trap") memo.remember(key, result);
  return result;
}

function outcomeOf(result: AuthzResult | RouteResult): DecisionOutcome {
  if (result.kind !== "fault") return result.kind;
  return result.fault === "trap" ? "error" : result.fault;
}

// ---- explaining ----

function explain(view: DecisionView, fate: Fate, record: BucketRecord | null): Why {
  const { map, route } = fate;
  const routed = route?.kind === "route" ? route : map?.kind === "route" ? map : null;
  const weights = record?.route.weights ?? routed?.route.weights;
  const candidates = fate.rank.map((cluster) => ({
    cluster,
    weight: weights?.get(cluster) ?? 0,
    closed: routed?.closed.has(cluster) ?? false,
  }));
  return {
    policyRevision: view.policy.revision,
    stateRevision: view.placement.revision.toString(),
    source: fate.source,
    reason: fate.reason,
    candidates,
  };
}
