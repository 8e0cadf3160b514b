// Requests and answers of the admin API as values, and the errors it speaks: `{code, message}` with
// Strata's codes. Handlers return replies; nothing is thrown for an expected outcome.

import type { Actor } from "../placement/ports.ts";
import type { Revision } from "../placement/records.ts";

export interface AdminRequest {
  readonly method: string;
  readonly path: string;
  /** Path parameters, percent-decoded. */
  readonly params: ReadonlyMap<string, string>;
  readonly query: URLSearchParams;
  /** The JSON body; `{}` when there was none. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly requestId: string;
  readonly actor: Actor;
  readonly ifMatch: string | null;
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
}

export interface AdminReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Null: no body. */
  readonly body: string | null;
}

export type AdminErrorCode =
  | "AccessDenied"
  | "ClusterUnavailable"
  | "Conflict"
  | "InternalError"
  | "InvalidCredential"
  | "InvalidPlacement"
  | "InvalidPlacementMode"
  | "InvalidTransition"
  | "InvalidWeight"
  | "MalformedRequest"
  | "MemberAlive"
  | "MethodNotAllowed"
  | "NoSuchBucket"
  | "NoSuchCredential"
  | "NoSuchMember"
  | "NoSuchPath"
  | "NoSuchPlacement"
  | "NoSuchStorageClass"
  | "NotImplemented"
  | "PlacementBusy"
  | "PreconditionFailed"
  | "StateUnavailable"
  | "Unauthorized"
  | "UnknownCluster"
  | "VersionedBucketPinned";

/** A JSON answer; `revision` becomes its ETag. */
export function json(status: number, body: unknown, revision?: Revision): AdminReply {
  return {
    status,
    headers: {
      "content-type": "application/json",
      ...(revision === undefined ? {} : { etag: etagOf(revision) }),
    },
    body: `${JSON.stringify(body)}\n`,
  };
}

export function text(status: number, body: string, contentType = "text/plain"): AdminReply {
  return { status, headers: { "content-type": `${contentType}; charset=utf-8` }, body };
}

/** A write that was done; a warning goes along as a header. */
export function done(warning: string | null = null): AdminReply {
  const headers: Record<string, string> = warning === null ? {} : { "x-headgate-warning": warning };
  return { status: 204, headers, body: null };
}

/** An error answer. Messages: sentence case, no final stop. */
export function problem(
  status: number,
  code: AdminErrorCode,
  message: string,
  details: Readonly<Record<string, string>> = {},
): AdminReply {
  return json(status, { code, message, ...details });
}

export function malformed(message: string): AdminReply {
  return problem(400, "MalformedRequest", message);
}

export function unknownCluster(id: string): AdminReply {
  return problem(400, "UnknownCluster", `Cluster "${id}" is not known`);
}

/** 409 with what Strata's runbooks look at. */
export function invalidTransition(
  id: string,
  refused: { readonly currentState: string; readonly requestedMode: string },
): AdminReply {
  const message = `Cluster "${id}" is ${refused.currentState}, which does not allow ${refused.requestedMode}`;
  return problem(409, "InvalidTransition", message, {
    current_state: refused.currentState,
    requested_mode: refused.requestedMode,
  });
}

/** `"12"`, strong: the mod revision of what was shown. */
export function etagOf(revision: Revision): string {
  return `"${revision}"`;
}

/** Says which keys of a body are unknown, or null. */
export function unknownKeys(
  body: Readonly<Record<string, unknown>>,
  known: readonly string[],
): AdminReply | null {
  const unknown = Object.keys(body).filter((key) => !known.includes(key) && key !== "revision");
  const valid = known.length === 0 ? "none is valid" : `valid are ${known.join(", ")}`;
  return unknown.length === 0
    ? null
    : malformed(`Unknown key "${unknown.join('", "')}" in the body, ${valid}`);
}
