// Writes of domain records: one transaction over mod revisions, with its audit entry in the same
// transaction, answered when this process itself applies the result, so that whoever asked reads
// what was written. A value this version cannot read is never written over.

import type {
  Actor,
  AuditLine,
  Clock,
  CommitResult,
  Log,
  Random,
  Registry,
  RegistryChange,
} from "../proxy/placement/ports.ts";
import { FaultError } from "../proxy/placement/ports.ts";
import type { MemberRecord } from "../proxy/placement/records.ts";
import type { StoreCompare, StoreOperation } from "../proxy/placement/state-store.ts";
import {
  decodeMember,
  encodeBucket,
  encodeClass,
  encodeCluster,
  encodeCredential,
  recordSchema,
  type Stamp,
} from "./codec.ts";
import type { KeptLease, LeaseStore } from "./kept-lease.ts";
import type { Keyspace } from "./keyspace.ts";
import type { LiveSnapshots } from "./snapshots.ts";

/** Audit entries are dropped by the store after 30 days (control.md "House decisions"). */
const auditTtlSeconds = 30 * 86_400;
/** Entries of one day share a lease, so most commits cost one call. */
const auditLeaseUsedMs = 86_400_000;
/** A commit that is not applied here by then is an error although it happened. */
const applyTimeoutMs = 10_000;

export interface RegistryOptions {
  readonly store: LeaseStore;
  readonly keys: Keyspace;
  readonly snapshots: LiveSnapshots;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

function actorText(actor: Actor): string {
  return `${actor.kind}:${actor.name}`;
}

function hex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class StoreRegistry implements Registry {
  readonly #options: RegistryOptions;
  #auditLease: { readonly lease: KeptLease; readonly sinceMs: number } | null = null;

  constructor(options: RegistryOptions) {
    this.#options = options;
  }

  async commit(changes: readonly RegistryChange[], audit: AuditLine | null): Promise<CommitResult> {
    const { store, clock, snapshots } = this.#options;
    const stamp: Stamp = {
      updatedAt: new Date(clock.nowMs()).toISOString(),
      updatedBy: audit === null ? "system:headgate" : actorText(audit.actor),
    };
    const compares: StoreCompare[] = [];
    const operations: StoreOperation[] = [];
    for (const change of changes) {
      const key = this.#keyOf(change);
      const reason = snapshots.unreadable(key);
      if (reason !== null) {
        throw new FaultError(
          "state_conflict",
          `Cannot write "${key}": its value is unreadable, ${reason}`,
        );
      }
      compares.push({ kind: "mod_revision", key, revision: change.expected });
      const value = valueOf(change, stamp);
      operations.push(value === null ? { kind: "delete", key } : { kind: "put", key, value });
    }
    if (audit !== null) operations.push(await this.#auditEntry(audit, stamp));
    const result = await store.txn(compares, operations, []).catch((error: unknown) => {
      // Perhaps because the audit lease is gone at the store: the next commit takes a new one.
      this.#auditLease = null;
      throw error;
    });
    if (!result.succeeded) {
      this.#logAudit(audit, "conflict", null);
      return { kind: "conflict" };
    }
    this.#logAudit(audit, "committed", result.revision.toString());
    await this.#applied(result.revision);
    return { kind: "committed", revision: result.revision };
  }

  #keyOf(change: RegistryChange): string {
    const { keys } = this.#options;
    switch (change.kind) {
      case "cluster":
        return keys.cluster(change.id);
      case "class":
        return keys.storageClass(change.storageClass);
      case "bucket":
        return keys.bucket(change.tenant, change.name);
      case "credential":
        return keys.credential(change.accessKeyId);
    }
  }

  async #applied(revision: bigint): Promise<void> {
    const timer = new AbortController();
    const waited = new AbortController();
    const { clock, snapshots } = this.#options;
    const timeout = clock.sleep(applyTimeoutMs, timer.signal).then(
      () =>
        waited.abort(
          new FaultError(
            "state_unavailable",
            `Cannot apply revision ${revision}: it was written, but the watch has not delivered it`,
          ),
        ),
      () => undefined,
    );
    try {
      await snapshots.reached(revision, waited.signal);
    } finally {
      timer.abort();
      await timeout;
    }
  }

  async #auditEntry(audit: AuditLine, stamp: Stamp): Promise<StoreOperation> {
    const { keys, random } = this.#options;
    const lease = await this.#auditLeaseNow();
    const key = keys.audit(stamp.updatedAt, hex(random.bytes(4)));
    const value = JSON.stringify({
      schema: recordSchema,
      updated_at: stamp.updatedAt,
      updated_by: stamp.updatedBy,
      action: audit.action,
      resource: audit.resource,
      remote_address: audit.actor.remoteAddress,
      request_id: audit.requestId,
      detail: audit.detail,
    });
    return { kind: "put", key, value, lease };
  }

  async #auditLeaseNow(): Promise<KeptLease> {
    const { store, clock } = this.#options;
    const nowMs = clock.monotonicMs();
    if (this.#auditLease !== null && nowMs - this.#auditLease.sinceMs < auditLeaseUsedMs) {
      return this.#auditLease.lease;
    }
    const lease = await store.lease(auditTtlSeconds);
    // It shall run out: nobody keeps a log alive.
    lease.abandon();
    this.#auditLease = { lease, sinceMs: nowMs };
    void lease.lost.then(() => {
      if (this.#auditLease?.lease === lease) this.#auditLease = null;
    });
    return lease;
  }

  #logAudit(
    audit: AuditLine | null,
    outcome: "committed" | "conflict",
    revision: string | null,
  ): void {
    if (audit === null) return;
    this.#options.log.write("info", "audit", {
      action: audit.action,
      resource: audit.resource,
      actor: actorText(audit.actor),
      remote_address: audit.actor.remoteAddress,
      request_id: audit.requestId,
      detail: audit.detail,
      outcome,
      revision,
    });
  }

  async forgetMember(
    id: string,
    audit: AuditLine | null,
  ): Promise<"forgotten" | "alive" | "unknown"> {
    const { store, keys, log, clock } = this.#options;
    const operations: StoreOperation[] = [{ kind: "delete", key: keys.member(id) }];
    if (audit !== null) {
      const updatedAt = new Date(clock.nowMs()).toISOString();
      operations.push(
        await this.#auditEntry(audit, { updatedAt, updatedBy: actorText(audit.actor) }),
      );
    }
    const result = await store.txn(
      [
        { kind: "present", key: keys.member(id) },
        { kind: "mod_revision", key: keys.live(id), revision: 0n },
      ],
      operations,
      [],
    );
    this.#logAudit(audit, result.succeeded ? "committed" : "conflict", null);
    if (result.succeeded) {
      log.write("info", "member_forgotten", { member: id });
      return "forgotten";
    }
    const members = await this.members(new AbortController().signal);
    return members.some(({ record }) => record.id === id) ? "alive" : "unknown";
  }

  async members(
    signal: AbortSignal,
  ): Promise<readonly { readonly record: MemberRecord; readonly alive: boolean }[]> {
    const { store, keys, log } = this.#options;
    const folder = keys.folder("members/");
    const registered = await store.range(folder, { signal });
    const { entries } = await store.range(keys.folder("live/"), {
      signal,
      revision: registered.revision,
    });
    const alive = new Set(entries.map((entry) => entry.key));
    return registered.entries.flatMap(({ key, value }) => {
      const id = decodeURIComponent(key.slice(folder.length));
      const decoded = decodeMember(id, value);
      if (decoded.kind === "unreadable") {
        log.write("error", "state_value_unreadable", { key, reason: decoded.reason });
        return [];
      }
      return [{ record: decoded.value, alive: alive.has(keys.live(id)) }];
    });
  }
}

function valueOf(change: RegistryChange, stamp: Stamp): string | null {
  switch (change.kind) {
    case "cluster":
      return change.record === null ? null : encodeCluster(change.record, stamp);
    case "class":
      return change.cluster === null ? null : encodeClass(change.cluster, stamp);
    case "bucket":
      return change.record === null ? null : encodeBucket(change.record, stamp);
    case "credential":
      return change.record === null ? null : encodeCredential(change.record, stamp);
  }
}
