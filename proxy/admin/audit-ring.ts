// The last audited changes made through this process, for `GET /admin/v1/audit`. The durable trail is
// what a Registry writes and logs with the change itself.

import type { AuditLine, Clock, Registry } from "../placement/ports.ts";

export interface AuditEvent {
  readonly atMs: number;
  readonly line: AuditLine;
}

const maxEvents = 1000;

export class AuditRing {
  readonly #events: AuditEvent[] = [];

  add(event: AuditEvent): void {
    this.#events.push(event);
    if (this.#events.length > maxEvents) this.#events.shift();
  }

  newest(limit: number): readonly AuditEvent[] {
    return this.#events.slice(-limit).toReversed();
  }
}

/** The same registry, whose audited commits are also kept in the ring. */
export function auditedRegistry(
  registry: Registry,
  into: { readonly ring: AuditRing; readonly clock: Clock },
): Registry {
  return {
    members: (signal) => registry.members(signal),
    async forgetMember(id, audit) {
      const result = await registry.forgetMember(id, audit);
      if (result === "forgotten" && audit !== null) {
        into.ring.add({ atMs: into.clock.nowMs(), line: audit });
      }
      return result;
    },
    async commit(changes, audit) {
      const result = await registry.commit(changes, audit);
      if (result.kind === "committed" && audit !== null) {
        into.ring.add({ atMs: into.clock.nowMs(), line: audit });
      }
      return result;
    },
  };
}
