// The state of an embedded store, in etcd's semantics and without any effect: keys in order, one
// revision a transaction that changes something, and the history that watches and pinned ranges
// read. Keys are ASCII (keyspace.ts encodes them), so that string order is etcd's byte order.
// Invariant: `history` holds every event with compacted < revision <= current, oldest first.

import type { Revision } from "../proxy/placement/records.ts";
import type {
  StoreCompare,
  StoreEntry,
  StoreEvent,
  StoreOperation,
} from "../proxy/placement/state-store.ts";
import { WatchCompactedError } from "../proxy/placement/state-store.ts";

/** A put or delete decided on; `leaseId` ties the key to a lease. */
export type StoreWrite =
  | {
      readonly kind: "put";
      readonly key: string;
      readonly value: string;
      readonly leaseId: string | null;
    }
  | { readonly kind: "delete"; readonly key: string };

interface Held {
  readonly entry: StoreEntry;
  readonly leaseId: string | null;
}

interface Change {
  readonly event: StoreEvent;
  readonly before: StoreEntry | null;
}

interface HistoryStep {
  readonly revision: Revision;
  readonly changes: readonly Change[];
}

/** Position of the first element not below `key`. */
function lowerBound(keys: readonly string[], key: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const at = keys[middle];
    if (at !== undefined && at < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Where a listing of `prefix` behind `after` begins. */
function startOf(keys: readonly string[], prefix: string, after: string | null): number {
  if (after === null || after < prefix) return lowerBound(keys, prefix);
  const index = lowerBound(keys, after);
  return keys[index] === after ? index + 1 : index;
}

/** What `StoreLog.load` starts from: entries that survive a restart. */
export interface StoreImage {
  readonly revision: Revision;
  readonly entries: readonly StoreEntry[];
}

export class StoreLog {
  readonly #held = new Map<string, Held>();
  #keys: string[] = [];
  #history: HistoryStep[] = [];
  /** As in a fresh etcd, the empty store has revision 1. */
  #revision: Revision = 1n;
  #compacted: Revision = 0n;
  readonly #maxHistory: number;

  constructor(maxHistory: number) {
    this.#maxHistory = maxHistory;
  }

  get revision(): Revision {
    return this.#revision;
  }

  /** Events up to and including this revision are gone. */
  get compacted(): Revision {
    return this.#compacted;
  }

  /** Replaces everything. The history starts behind the image: older watches are compacted. */
  load(image: StoreImage): void {
    this.#held.clear();
    for (const entry of image.entries) this.#held.set(entry.key, { entry, leaseId: null });
    this.#keys = [...this.#held.keys()].sort((a, b) => (a < b ? -1 : 1));
    this.#history = [];
    this.#revision = image.revision;
    this.#compacted = image.revision;
  }

  /** Whether all compares hold. */
  holds(compares: readonly StoreCompare[]): boolean {
    return compares.every((compare) => {
      const entry = this.#held.get(compare.key)?.entry;
      return compare.kind === "present"
        ? entry !== undefined
        : (entry?.modRevision ?? 0n) === compare.revision;
    });
  }

  /** The writes that would change something: a delete of an absent key does not. */
  effective(writes: readonly StoreWrite[]): readonly StoreWrite[] {
    return writes.filter((write) => write.kind === "put" || this.#held.has(write.key));
  }

  /** Keys tied to a lease, as deletes. */
  leaseDeletes(leaseId: string): readonly StoreWrite[] {
    const deletes: StoreWrite[] = [];
    for (const [key, held] of this.#held) {
      if (held.leaseId === leaseId) deletes.push({ kind: "delete", key });
    }
    return deletes;
  }

  leaseOf(key: string): string | null {
    return this.#held.get(key)?.leaseId ?? null;
  }

  /** Applies effective writes as one revision; none leave the revision as it is. */
  apply(writes: readonly StoreWrite[]): Revision {
    if (writes.length === 0) return this.#revision;
    const revision = this.#revision + 1n;
    const changes = writes.map((write) => this.#write(write, revision));
    this.#revision = revision;
    this.#history.push({ revision, changes });
    if (this.#history.length > this.#maxHistory) {
      const oldest = this.#history[this.#history.length - this.#maxHistory - 1];
      if (oldest !== undefined) this.compact(oldest.revision);
    }
    return revision;
  }

  #write(write: StoreWrite, revision: Revision): Change {
    const held = this.#held.get(write.key);
    const before = held?.entry ?? null;
    if (write.kind === "delete") {
      this.#held.delete(write.key);
      this.#keys.splice(lowerBound(this.#keys, write.key), 1);
      return { event: { kind: "delete", key: write.key, modRevision: revision }, before };
    }
    const entry: StoreEntry = {
      key: write.key,
      value: write.value,
      createRevision: before?.createRevision ?? revision,
      modRevision: revision,
    };
    if (held === undefined) this.#keys.splice(lowerBound(this.#keys, write.key), 0, write.key);
    this.#held.set(write.key, { entry, leaseId: write.leaseId });
    return { event: { kind: "put", entry }, before };
  }

  /** Forgets events up to and including `revision`. */
  compact(revision: Revision): void {
    if (revision <= this.#compacted) return;
    this.#compacted = revision < this.#revision ? revision : this.#revision;
    const kept = this.#history.findIndex((step) => step.revision > this.#compacted);
    this.#history = kept === -1 ? [] : this.#history.slice(kept);
  }

  /** @throws WatchCompactedError when the pinned revision is gone. */
  range(
    prefix: string,
    options: {
      readonly revision: Revision | null;
      readonly limit: number;
      readonly after: string | null;
    },
  ): { readonly entries: readonly StoreEntry[]; readonly more: boolean } {
    const pinned = options.revision;
    if (pinned !== null && pinned < this.#compacted) {
      throw new WatchCompactedError(
        `Cannot read at revision ${pinned}: compacted up to ${this.#compacted}`,
      );
    }
    const undone = pinned === null ? null : this.#undo(pinned);
    const keys = undone === null ? this.#keys : this.#keysWith(undone);
    const entries: StoreEntry[] = [];
    for (let index = startOf(keys, prefix, options.after); ; index += 1) {
      const key = keys[index];
      if (!key?.startsWith(prefix)) return { entries, more: false };
      const entry = undone?.has(key) ? undone.get(key) : this.#held.get(key)?.entry;
      if (entry === null || entry === undefined) continue;
      if (entries.length === options.limit) return { entries, more: true };
      entries.push(entry);
    }
  }

  /** What each key changed since `revision` held then; `null`: nothing. */
  #undo(revision: Revision): ReadonlyMap<string, StoreEntry | null> {
    const then = new Map<string, StoreEntry | null>();
    for (let index = this.#history.length - 1; index >= 0; index -= 1) {
      const step = this.#history[index];
      if (step === undefined || step.revision <= revision) break;
      for (const { event, before } of step.changes) {
        then.set(event.kind === "put" ? event.entry.key : event.key, before);
      }
    }
    return then;
  }

  #keysWith(undone: ReadonlyMap<string, StoreEntry | null>): readonly string[] {
    const gone = [...undone.keys()].filter((key) => !this.#held.has(key));
    if (gone.length === 0) return this.#keys;
    return [...this.#keys, ...gone].sort((a, b) => (a < b ? -1 : 1));
  }

  /** The first revision after `revision` and its events under the prefix, or `null`: none yet. */
  next(
    prefix: string,
    revision: Revision,
  ): { readonly revision: Revision; readonly events: readonly StoreEvent[] } | null {
    if (revision < this.#compacted) {
      throw new WatchCompactedError(
        `Cannot watch from revision ${revision}: compacted up to ${this.#compacted}`,
      );
    }
    const first = this.#history[0];
    if (first === undefined || revision >= this.#revision) return null;
    const step =
      this.#history[revision < first.revision ? 0 : Number(revision - first.revision) + 1];
    if (step === undefined) return null;
    const events = step.changes
      .map((change) => change.event)
      .filter((event) => (event.kind === "put" ? event.entry.key : event.key).startsWith(prefix));
    return { revision: step.revision, events };
  }

  /** Everything not tied to a lease, in key order. */
  *durable(): Iterable<StoreEntry> {
    for (const key of this.#keys) {
      const held = this.#held.get(key);
      if (held !== undefined && held.leaseId === null) yield held.entry;
    }
  }
}

/** Store operations as writes. A key may be written once a transaction, as in etcd. */
export function writesOf(operations: readonly StoreOperation[]): readonly StoreWrite[] {
  return operations.map((operation) =>
    operation.kind === "put"
      ? {
          kind: "put",
          key: operation.key,
          value: operation.value,
          leaseId: operation.lease?.id ?? null,
        }
      : operation,
  );
}
