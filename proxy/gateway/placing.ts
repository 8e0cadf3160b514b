// From a caller's request to where it may go: the decision, the bucket's record (found by discovery
// when there is none), and the re-check at the commit point. Everything that reads the view twice
// lives here, so that exchange.ts reads it once.

import { undelete } from "../operations/bucket-deletion.ts";
import type { OperationPorts, Resettlement } from "../operations/context.ts";
import type { Discovery } from "../operations/discovery.ts";
import { candidatesOf, clustersOf, isFixed } from "../placement/candidates.ts";
import { isUnmade } from "../placement/discovery.ts";
import type { AuditLine, UpstreamIdentity } from "../placement/ports.ts";
import type { BucketPlacement, BucketRecord, Route } from "../placement/records.ts";
import { sameOwners } from "../placement/routes.ts";
import type { Versioned } from "../placement/snapshot.ts";
import { decide, mapOf } from "../policy/decide.ts";
import type { Decision, DecisionView, Refusal } from "../policy/ports.ts";
import { isS3ErrorCode, S3Error } from "../s3/errors.ts";
import type { BucketName, ClusterId } from "../s3/names.ts";
import type { OperationFacts, S3Operation } from "../s3/operation.ts";
import { operationFacts } from "../s3/operation.ts";
import type { InputFacts } from "./decision-input.ts";
import { callerOf, decisionInput, tenantOf } from "./decision-input.ts";
import { describe } from "./fault.ts";
import type { Views } from "./views.ts";

export interface PlacingParts {
  readonly views: Views;
  readonly discovery: Discovery;
  readonly ports: OperationPorts;
}

interface Placing {
  readonly view: DecisionView;
  readonly parts: PlacingParts;
  readonly identity: UpstreamIdentity | undefined;
}

export interface Placed {
  readonly decision: Decision;
  readonly record: Versioned<BucketRecord> | null;
  readonly candidates: readonly ClusterId[];
  readonly target: ClusterId | null;
  /** The route a new bucket is settled on; null unless it has no record yet. */
  readonly route: Route | null;
  /** A new bucket's own placement, where policy placed this request apart from the bucket. */
  readonly placement: BucketPlacement | null;
}

/**
 * Authorises a request and finds where it goes.
 * @param identity of the caller; for a read, which changes no bucket, it may be left out
 * @throws S3Error AccessDenied, NoSuchBucket, DrainRefused, SlowDown, ServiceUnavailable.
 */
export async function placeRequest(
  facts: InputFacts,
  parts: PlacingParts,
  identity?: UpstreamIdentity,
): Promise<Placed> {
  let view = parts.views.current();
  let record = recordOf(view, facts);
  let decision = decide(view, decisionInput(facts, judged(record, facts)), parts.ports.meter);
  assertAllowed(decision, facts);
  if (facts.address.bucket === null) return { ...nowhere, decision };
  if (record === null) {
    if (facts.operation === "OptionsObject") assertOpen(facts, parts);
    record = await findBucket(facts, parts);
    view = parts.views.current();
    decision = decide(view, decisionInput(facts, judged(record, facts)), parts.ports.meter);
    assertAllowed(decision, facts);
  }
  if (record !== null) {
    const moved =
      (await undeleteIfAbandoned(record, facts, parts)) ??
      (await resumeIfAbandoned(record, facts, { view, parts, identity })) ??
      (await resettleIfEmpty(record, facts, { view, parts, identity }));
    if (moved !== null) {
      record = moved;
      view = parts.views.current();
      decision = decide(view, decisionInput(facts, record.value), parts.ports.meter);
      assertAllowed(decision, facts);
    }
  }
  return placed(decision, record, { view, facts, parts });
}

/** Whether the caller may do it at all, before its body is read. @throws S3Error AccessDenied */
export function authorise(facts: InputFacts, parts: PlacingParts): void {
  const view = parts.views.current();
  const record = judged(recordOf(view, facts), facts);
  assertAllowed(decide(view, decisionInput(facts, record), parts.ports.meter), facts);
}

/**
 * The commit point of a mutation (placement.md rule 14): decides again if anything changed since,
 * and counts the mutation from here on. Synchronous between its check and its count, so that no
 * acknowledgement can slip in between.
 */
export function commitPoint(first: Placed, facts: InputFacts, parts: PlacingParts): () => void {
  const tenant = tenantOf(facts.address, facts.principal);
  const { bucket } = facts.address;
  const { membership } = parts.ports;
  if (bucket === null) return () => {};
  const view = parts.views.current();
  const record = recordOf(view, facts);
  if (record?.modRevision !== first.record?.modRevision || !sameView(view, first.decision)) {
    const decision = decide(view, decisionInput(facts, judged(record, facts)), parts.ports.meter);
    assertAllowed(decision, facts);
    const isGone = record === null && first.record !== null;
    if (isGone && facts.operation !== "CreateBucket") throw new S3Error("NoSuchBucket");
    const now = placed(decision, record, { view, facts, parts });
    if (now.target !== first.target || now.candidates.join() !== first.candidates.join()) {
      throw new S3Error("SlowDown", {
        message: "The placement of the bucket changed during the request",
        retryAfterSeconds: 1,
      });
    }
  }
  if (!membership.mayMutate() && (record === null || !isFixed(record.value))) {
    throw new S3Error("SlowDown", {
      message: "This proxy has lost contact with the placement state and takes no writes",
      retryAfterSeconds: 1,
    });
  }
  return membership.beginMutation(tenant, bucket);
}

function sameView(view: DecisionView, decision: Decision): boolean {
  return (
    decision.why.stateRevision === view.placement.revision.toString() &&
    decision.why.policyRevision === view.policy.revision
  );
}

/** Whether the caller could do anything with a bucket: what ListBuckets may show. */
export function mayShow(bucket: BucketName, facts: InputFacts, parts: PlacingParts): boolean {
  const view = parts.views.current();
  const address = { ...facts.address, bucket, key: null };
  return (["ListObjectsV2", "HeadBucket"] as const).some((operation) => {
    const input = decisionInput({ ...facts, operation, address }, null);
    return decide(view, input, parts.ports.meter).authz.kind === "allow";
  });
}

function recordOf(view: DecisionView, facts: InputFacts): Versioned<BucketRecord> | null {
  const { bucket } = facts.address;
  if (bucket === null) return null;
  return view.placement.buckets.find(tenantOf(facts.address, facts.principal), bucket) ?? null;
}

/** The bucket that a request is about: none yet, where only its creation is under way, for another one. */
function judged(
  record: Versioned<BucketRecord> | null,
  { operation }: InputFacts,
): BucketRecord | null {
  if (record === null || (operation === "CreateBucket" && isUnmade(record.value))) return null;
  return record.value;
}

/** Nobody is looked up for a preflight, which everybody may send, unless anybody may read there. */
function assertOpen(facts: InputFacts, parts: PlacingParts): void {
  const view = parts.views.current();
  const operation = facts.address.key === null ? "ListObjectsV2" : "GetObject";
  const input = decisionInput({ ...facts, operation }, null);
  if (decide(view, input, parts.ports.meter).authz.kind !== "allow") {
    throw new S3Error("NoSuchBucket");
  }
}

async function findBucket(
  facts: InputFacts,
  parts: PlacingParts,
): Promise<Versioned<BucketRecord> | null> {
  const { bucket } = facts.address;
  if (bucket === null) return null;
  const tenant = tenantOf(facts.address, facts.principal);
  const isCreation = facts.operation === "CreateBucket";
  if (isCreation) parts.discovery.forgetAbsence(tenant, bucket);
  const found = await parts.discovery.find(tenant, bucket, parts.ports);
  // It is made now; whatever comes of it is looked for again.
  if (isCreation) parts.discovery.forgetAbsence(tenant, bucket);
  if (found === null && !isCreation) throw new S3Error("NoSuchBucket");
  await parts.views.reached(found?.modRevision ?? 0n);
  return found;
}

/** A write that meets a deletion left behind takes it back, as a repeated DeleteBucket would end it. */
async function undeleteIfAbandoned(
  record: Versioned<BucketRecord>,
  { operation }: InputFacts,
  { ports, views }: PlacingParts,
): Promise<Versioned<BucketRecord> | null> {
  if (record.value.phase !== "deleting" || !needsSettled(operation)) return null;
  if (operation === "CreateBucket" || !ports.resettler.abandoned(record)) return null;
  const settled = await undelete(record, ports);
  await views.reached(settled?.modRevision ?? 0n);
  return settled;
}

/** An empty bucket follows policy with its first bytes; what holds objects waits for an operator. */
async function resettleIfEmpty(
  record: Versioned<BucketRecord>,
  facts: InputFacts,
  { view, parts }: Placing,
): Promise<Versioned<BucketRecord> | null> {
  const { tenant, name, phase, frozen, route: old } = record.value;
  const { operation } = facts;
  const follows = operationFacts[operation].places && operation !== "CreateBucket";
  if (!follows || phase !== "settled" || frozen) return null;
  if (parts.ports.resettler.staysForNow(tenant, name)) return null;
  const wanted = mapOf(view, record.value);
  if (wanted.kind !== "route" || sameOwners(wanted.route, old)) return null;
  const { route } = wanted;
  const detail = `empty, follows policy: ${route.source}`;
  return await resettle(record, { route, gathers: false, detail }, { facts, parts });
}

/**
 * A change that was left behind is ended by any write that would wait for it: gone on with where that can
 * be, its owner's on the owner's behalf, else taken back. Whatever policy says now, it does not stay.
 */
async function resumeIfAbandoned(
  record: Versioned<BucketRecord>,
  facts: InputFacts,
  { view, parts, identity }: Placing,
): Promise<Versioned<BucketRecord> | null> {
  const { phase, owner, route: old } = record.value;
  const { operation, principal } = facts;
  if (phase !== "rerouting" || !needsSettled(operation)) return null;
  if (operation === "CreateBucket" || !parts.ports.resettler.abandoned(record)) return null;
  const wanted = mapOf(view, record.value);
  const route = wanted.kind === "route" ? wanted.route : old;
  // What it holds on the one cluster that it was on its way to is there already.
  const gathers = sameOwners(route, old);
  const isOwners = owner === callerOf(principal) && identity !== undefined;
  const change = { route, gathers, detail: `left on its way: ${route.source}` };
  return await resettle(record, isOwners ? { ...change, identity } : change, { facts, parts });
}

interface Change extends Pick<Resettlement, "route" | "gathers" | "identity"> {
  readonly detail: string;
}

/** `null`: the state store or a cluster does not answer; the bucket stays, and so may its writes. */
async function resettle(
  record: Versioned<BucketRecord>,
  { detail, ...change }: Change,
  { facts, parts }: { readonly facts: InputFacts; readonly parts: PlacingParts },
): Promise<Versioned<BucketRecord> | null> {
  const { tenant, name: bucket, placement } = record.value;
  const { ports, views } = parts;
  const warn = (cause: unknown): void =>
    ports.log.write("warn", "bucket.not_resettled", { bucket, cause: describe(cause) });
  const audit: AuditLine = {
    action: "system:SettleBucket",
    resource: `${tenant}/${bucket}`,
    actor: { kind: "system", name: "placement", remoteAddress: null },
    requestId: facts.requestId,
    detail,
  };
  try {
    const to: Resettlement = { ...change, placement, audit };
    const result = await ports.resettler.resettle(record, to, ports);
    if (result.kind === "taken_back" && result.cause !== null) warn(result.cause);
    if (result.kind !== "settled" && result.kind !== "taken_back") return null;
    await views.reached(result.record.modRevision);
    return result.record;
  } catch (caught) {
    warn(caught);
    return null;
  }
}

/** Why policy denies stays in the log; that it was policy, and not a cluster, the client may know. */
function assertAllowed({ authz }: Decision, { principal, operation }: InputFacts): void {
  switch (authz.kind) {
    case "allow":
      return;
    case "deny": {
      if (isS3ErrorCode(authz.code) && authz.code !== "AccessDenied") throw new S3Error(authz.code);
      const who = principal.scheme === "anonymous" ? "unsigned requests" : "this caller";
      throw new S3Error("AccessDenied", {
        message: `Access denied: policy does not allow ${operation} to ${who}`,
      });
    }
    case "fault":
      throw new S3Error(authz.fault === "trap" ? "ServiceUnavailable" : "AccessDenied");
  }
}

function placed(
  decision: Decision,
  record: Versioned<BucketRecord> | null,
  at: { readonly view: DecisionView; readonly facts: InputFacts; readonly parts: PlacingParts },
): Placed {
  const { facts } = at;
  const places = operationFacts[facts.operation].places;
  const bucket = judged(record, facts);
  if (bucket !== null) assertPhase(bucket, facts);
  if (places) assertRoute(decision, bucket, at.parts);
  if (record === null || bucket === null) {
    return { ...nowhere, decision, record, ...newBucket(decision) };
  }
  const { key } = facts.address;
  const candidates = key === null ? clustersOf(record.value) : candidatesOf(record.value, key);
  for (const cluster of candidates) {
    const known = at.view.placement.clusters.get(cluster);
    if (known === undefined || known.value.state === "removed") {
      throw new S3Error("ServiceUnavailable", { message: "A cluster of the bucket was removed" });
    }
  }
  const target = places ? decision.owner : null;
  return { decision, record, candidates, target, route: null, placement: null };
}

const nowhere = { record: null, candidates: [], target: null, route: null, placement: null };

/** A bucket that policy sends elsewhere for this very request (a location) keeps that as its own. */
function newBucket(decision: Decision): Pick<Placed, "route" | "placement"> {
  const { map, route } = decision;
  if (route?.kind !== "route") return { route: null, placement: null };
  if (map?.kind === "route" && sameOwners(map.route, route.route)) {
    return { route: map.route, placement: null };
  }
  return { route: route.route, placement: { ...route.route, weighting: "weights" } };
}

/** New bytes, and settings, which a bucket that is being moved or deleted would lose. */
function needsSettled(operation: S3Operation): boolean {
  const { places, routing }: OperationFacts = operationFacts[operation];
  return places || routing === "every" || routing === "single";
}

/** What a record that is not settled allows. */
function assertPhase(record: BucketRecord, { operation }: InputFacts): void {
  if (operation === "CreateBucket" || operation === "DeleteBucket") return;
  switch (record.phase) {
    case "settled":
      return;
    case "creating":
    case "clearing":
      throw new S3Error("NoSuchBucket");
    case "rerouting":
    case "deleting":
      if (!needsSettled(operation)) return;
      throw new S3Error("SlowDown", {
        message: "The placement of the bucket is changing",
        retryAfterSeconds: 1,
      });
  }
}

function assertRoute(decision: Decision, record: BucketRecord | null, parts: PlacingParts): void {
  const { route } = decision;
  if (route === null || route.kind === "fault") {
    parts.ports.meter.writeRefused(null, "no_candidate");
    throw new S3Error("ServiceUnavailable");
  }
  if (route.kind === "refuse") {
    const drains = route.refusal.code === "DrainRefused";
    parts.ports.meter.writeRefused(decision.owner, drains ? "drain_refused" : "policy_refused");
    throw refusalError(route.refusal, record);
  }
}

function refusalError(refusal: Refusal, record: BucketRecord | null): S3Error {
  const mode = refusal.mode ?? record?.route.mode ?? null;
  const details: Record<string, string> = {};
  if (record !== null) details["Bucket"] = record.name;
  if (mode !== null) details["PlacementMode"] = mode;
  const { code, status, message, retryAfterSeconds } = refusal;
  return new S3Error("ServiceUnavailable", {
    refused: { code, status },
    message,
    details,
    retryAfterSeconds,
  });
}
