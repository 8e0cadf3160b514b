// Reads what policy returned. A result is untrusted data: a member of the wrong type, an unknown
// member, an unknown cluster or a weight out of range makes the whole result malformed, and the
// request is refused (policy.md §1). Nothing is repaired or guessed here.

import type { PlacementMode, Spread } from "../placement/records.ts";
import { isS3ErrorCode, S3Error } from "../s3/errors.ts";
import { type ClusterId, parseClusterId } from "../s3/names.ts";
import type { AuthzResult, EvaluationOutcome, Refusal, RouteResult } from "./ports.ts";

/** What a client waits before it tries a closed cluster again, where policy says nothing. */
const defaultRetryAfterSeconds = 300;
const maxRetryAfterSeconds = 86_400;
const maxTextLength = 512;

type Fields = Readonly<Record<string, unknown>>;

const authzMembers = new Set(["allow", "code", "reason"]);
const routeMembers = new Set([
  "weights",
  "mode",
  "spread",
  "source",
  "reason",
  "closed",
  "retry_after_seconds",
]);
const refusalMembers = new Set(["code", "status", "retry_after_seconds", "message", "mode"]);

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Printable text of at most 512 characters: it goes into logs and error documents. */
function isText(value: unknown): value is string {
  if (typeof value !== "string" || value.length > maxTextLength) return false;
  for (let index = 0; index < value.length; index++) {
    const unit = value.charCodeAt(index);
    if (unit < 0x20 || unit === 0x7f || unit >= 0xfffe) return false;
  }
  return value.isWellFormed();
}

function isMode(value: unknown): value is PlacementMode {
  return value === "weighted" || value === "strict";
}

function isSpread(value: unknown): value is Spread {
  return value === "object" || value === "prefix" || value === "bucket";
}

function isRetryAfter(value: unknown): value is number {
  return isIntegerIn(value, 0, maxRetryAfterSeconds);
}

function isIntegerIn(value: unknown, least: number, most: number): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= least && value <= most;
}

function unknownMember(fields: Fields, known: ReadonlySet<string>): string | null {
  for (const name of Object.keys(fields)) {
    if (!known.has(name)) return `has an unknown member "${name.slice(0, 64)}"`;
  }
  return null;
}

type Fault = Extract<AuthzResult, { kind: "fault" }>;

function malformed(reason: string): Fault {
  return { kind: "fault", fault: "malformed", reason: `the result ${reason}` };
}

/** Undefined results and traps, which both entrypoints treat as faults; `null` when defined. */
function outcomeFault(outcome: EvaluationOutcome): Fault | null {
  switch (outcome.kind) {
    case "undefined":
      return { kind: "fault", fault: "undefined", reason: "the decision is undefined" };
    case "trap":
      return { kind: "fault", fault: "trap", reason: outcome.cause.message };
    case "defined":
      return null;
  }
}

/** Reads the result of the authz entrypoint, `{allow: false, code: "AccessDenied", reason: "…"}`. */
export function readAuthzResult(outcome: EvaluationOutcome): AuthzResult {
  const fault = outcomeFault(outcome);
  if (fault !== null || outcome.kind !== "defined") return fault ?? malformed("is missing");
  const fields = outcome.value;
  if (!isFields(fields)) return malformed("is not an object");
  const stranger = unknownMember(fields, authzMembers);
  if (stranger !== null) return malformed(stranger);
  const { allow, code = "AccessDenied", reason = "" } = fields;
  if (typeof allow !== "boolean") return malformed("has no boolean allow");
  if (!isText(reason)) return malformed("has a reason that is not a short text");
  if (!isRefusalCode(code)) return malformed("has a code that is no S3 error to deny with");
  return allow ? { kind: "allow" } : { kind: "deny", code, reason };
}

function isRefusalCode(value: unknown): value is string {
  return typeof value === "string" && statusOf(value) !== null;
}

/** The status that belongs to a code that policy may refuse with; never 500. */
function statusOf(code: string): number | null {
  if (!isS3ErrorCode(code)) return null;
  const { status } = new S3Error(code);
  return status === 500 ? null : status;
}

/** Reads the result of the route entrypoint; `clusters` are those of the view it was evaluated on. */
export function readRouteResult(
  outcome: EvaluationOutcome,
  clusters: ReadonlyMap<ClusterId, unknown>,
): RouteResult {
  const fault = outcomeFault(outcome);
  if (fault !== null || outcome.kind !== "defined") return fault ?? malformed("is missing");
  const fields = outcome.value;
  if (!isFields(fields)) return malformed("is not an object");
  if (Object.hasOwn(fields, "refuse")) {
    if (Object.keys(fields).length > 1) return malformed("holds a route beside its refusal");
    return readRefusal(fields["refuse"]);
  }
  return readRoute(fields, clusters);
}

function readRoute(fields: Fields, clusters: ReadonlyMap<ClusterId, unknown>): RouteResult {
  const stranger = unknownMember(fields, routeMembers);
  if (stranger !== null) return malformed(stranger);
  const { mode, spread, source, reason } = fields;
  if (!isMode(mode)) return malformed("has a mode that is neither weighted nor strict");
  if (!isSpread(spread)) return malformed("has a spread that is not object, prefix or bucket");
  if (typeof source !== "string" || !/^[a-z][a-z0-9_]{0,63}$/.test(source)) {
    return malformed("has a source that is not a lower-case word");
  }
  if (!isText(reason)) return malformed("has a reason that is not a short text");
  const weights = readWeights(fields["weights"], clusters);
  if (typeof weights === "string") return malformed(weights);
  const closed = readClosed(fields["closed"], weights, clusters);
  if (typeof closed === "string") return malformed(closed);
  const retryAfterSeconds = fields["retry_after_seconds"] ?? defaultRetryAfterSeconds;
  if (!isRetryAfter(retryAfterSeconds)) return malformed("has a retry_after_seconds out of range");
  const route = { weights, mode, spread, source };
  return { kind: "route", route, closed, retryAfterSeconds, reason };
}

/** Weights of known clusters, the zero ones left out; or what is wrong. */
function readWeights(
  value: unknown,
  clusters: ReadonlyMap<ClusterId, unknown>,
): ReadonlyMap<ClusterId, number> | string {
  if (!isFields(value)) return "has no object of weights";
  const weights = new Map<ClusterId, number>();
  for (const [name, weight] of Object.entries(value)) {
    const id = parseClusterId(name);
    if (id === null || !clusters.has(id)) return `names an unknown cluster "${name.slice(0, 64)}"`;
    if (!isIntegerIn(weight, 0, 100)) return `has a weight of "${id}" that is no integer 0–100`;
    if (weight > 0) weights.set(id, weight);
  }
  return weights.size > 0 ? weights : "has no weight above 0";
}

/** Without `closed`, every cluster outside the weights counts as closed. */
function readClosed(
  value: unknown,
  weights: ReadonlyMap<ClusterId, number>,
  clusters: ReadonlyMap<ClusterId, unknown>,
): ReadonlySet<ClusterId> | string {
  if (value === undefined) return new Set([...clusters.keys()].filter((id) => !weights.has(id)));
  if (!Array.isArray(value)) return "has a closed that is no array";
  const closed = new Set<ClusterId>();
  for (const name of value as readonly unknown[]) {
    const id = typeof name === "string" ? parseClusterId(name) : null;
    if (id === null || !clusters.has(id)) return "has an unknown cluster in closed";
    closed.add(id);
  }
  return closed;
}

function readRefusal(value: unknown): RouteResult {
  if (!isFields(value)) return malformed("has a refuse that is no object");
  const stranger = unknownMember(value, refusalMembers);
  if (stranger !== null) return malformed(stranger);
  const { code, status, message, mode = null } = value;
  const retryAfterSeconds = value["retry_after_seconds"] ?? null;
  if (typeof code !== "string") return malformed("has a refusal without code");
  const expected = statusOf(code);
  if (expected === null) return malformed("has a code that is no S3 error to refuse with");
  if (status !== expected) return malformed(`has a status that is not the ${expected} of ${code}`);
  if (!isText(message) || message === "") return malformed("has a refusal without short message");
  if (mode !== null && !isMode(mode)) return malformed("has a refusal with an unknown mode");
  if (retryAfterSeconds !== null && !isRetryAfter(retryAfterSeconds)) {
    return malformed("has a retry_after_seconds out of range");
  }
  return { kind: "refuse", refusal: { code, status: expected, retryAfterSeconds, message, mode } };
}

/** A placing write whose place is a cluster that takes no new bytes. Never names the cluster. */
export function closedRefusal(mode: PlacementMode, retryAfterSeconds: number): Refusal {
  const message = "The cluster that holds this part of the bucket is draining";
  return { code: "DrainRefused", status: 503, retryAfterSeconds, message, mode };
}

/** A bucket whose settled route names a cluster that is not known any more. */
export function lostClusterRefusal(mode: PlacementMode): Refusal {
  const message = "The bucket is settled on a cluster that is not known";
  return { code: "ServiceUnavailable", status: 503, retryAfterSeconds: null, message, mode };
}

/** Policy sends this write where the bucket is not settled; that needs epochs (placement.md 2b). */
export function divergentRefusal(mode: PlacementMode): Refusal {
  const message = "This write belongs on a cluster that the bucket does not use";
  return { code: "NotImplemented", status: 501, retryAfterSeconds: null, message, mode };
}
