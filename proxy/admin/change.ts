// How every change of the admin surface is made: read the newest view, compute, compare-and-swap with
// an audit line, and begin again when another writer was faster. A caller that named a revision wants
// no second try: a failed `If-Match` is 412, a stale `revision` in the body 409.

import type { Clock, Registry, RegistryChange, Snapshots } from "../placement/ports.ts";
import type { Revision } from "../placement/records.ts";
import type { PlacementSnapshot } from "../placement/snapshot.ts";
import {
  type AdminReply,
  type AdminRequest,
  done,
  etagOf,
  json,
  malformed,
  problem,
} from "./reply.ts";

export interface ChangePorts {
  readonly registry: Registry;
  readonly snapshots: Snapshots;
  readonly clock: Clock;
}

/** What a change comes to on one view of the state. */
export type Plan =
  | { readonly kind: "reply"; readonly reply: AdminReply }
  | {
      readonly kind: "changes";
      /** Revision of what is changed: what `If-Match` speaks of. */
      readonly revision: Revision;
      /** Empty: nothing to write. */
      readonly changes: readonly RegistryChange[];
      readonly audit: {
        readonly action: string;
        readonly resource: string;
        readonly detail: string;
      };
      /** What a dry run shows. */
      readonly effect: unknown;
      readonly warning?: string | null;
    };

/** More tries than any sane number of concurrent operators. */
const maxAttempts = 5;
const pauseMs = 25;

/** Makes one change and answers 204, or 200 with the effect for a dry run. */
export async function change(
  request: AdminRequest,
  ports: ChangePorts,
  plan: (view: PlacementSnapshot) => Plan,
): Promise<AdminReply> {
  const bodyRevision = readRevision(request.body["revision"]);
  if (bodyRevision === null) return malformed('Body key "revision" needs a decimal number as text');
  const named = request.ifMatch !== null || bodyRevision !== undefined;
  for (let attempt = 1; attempt <= maxAttempts; attempt += 1) {
    const planned = plan(ports.snapshots.current());
    if (planned.kind === "reply") return planned.reply;
    const stale = staleReply(request.ifMatch, bodyRevision, planned.revision);
    if (stale !== null) return stale;
    if (request.dryRun) {
      return json(200, { dry_run: true, effect: planned.effect, warning: planned.warning ?? null });
    }
    if (planned.changes.length === 0) return done(planned.warning);
    const result = await ports.registry.commit(planned.changes, {
      ...planned.audit,
      actor: request.actor,
      requestId: request.requestId,
    });
    if (result.kind === "committed") return done(planned.warning);
    if (named) return raceLost(request.ifMatch !== null);
    // The other writer's event is on its way to this view.
    await ports.clock.sleep(pauseMs * attempt, request.signal);
  }
  return raceLost(false);
}

/** Another writer was faster. */
export function raceLost(byHeader: boolean): AdminReply {
  return byHeader
    ? problem(412, "PreconditionFailed", "The record was changed meanwhile")
    : problem(409, "Conflict", "The record was changed meanwhile, try again");
}

/** What to answer when the caller named another revision than the present one, or null. */
export function staleReply(
  ifMatch: string | null,
  bodyRevision: Revision | undefined,
  present: Revision,
): AdminReply | null {
  if (!matchesEtag(ifMatch, present)) {
    return problem(412, "PreconditionFailed", `The record is at ${etagOf(present)}`);
  }
  if (bodyRevision !== undefined && bodyRevision !== present) {
    return problem(409, "Conflict", `The record is at revision ${present}, not ${bodyRevision}`);
  }
  return null;
}

/** RFC 9110 §13.1.1, strong comparison. */
function matchesEtag(ifMatch: string | null, present: Revision): boolean {
  if (ifMatch === null) return true;
  if (ifMatch.trim() === "*") return present !== 0n;
  return ifMatch.split(",").some((tag) => tag.trim() === etagOf(present));
}

/** A revision in a body: text or a safe integer; undefined: none; null: not readable. */
export function readRevision(value: unknown): Revision | undefined | null {
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return BigInt(value);
  return typeof value === "string" && /^\d{1,20}$/.test(value) ? BigInt(value) : null;
}
