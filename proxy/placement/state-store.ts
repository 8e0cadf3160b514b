// The state store as the bridge sees it: keys, revisions, transactions, watches and leases in etcd's
// shape. Drivers implement it (bridge/); nothing on the data path asks it.

import type { Revision } from "./records.ts";

export interface StoreEntry {
  readonly key: string;
  readonly value: string;
  readonly createRevision: Revision;
  readonly modRevision: Revision;
}

export type StoreCompare =
  /** The key was last written at exactly this revision; 0n: the key is absent. */
  | { readonly kind: "mod_revision"; readonly key: string; readonly revision: Revision }
  | { readonly kind: "present"; readonly key: string };

export type StoreOperation =
  | {
      readonly kind: "put";
      readonly key: string;
      readonly value: string;
      readonly lease?: StoreLease;
    }
  | { readonly kind: "delete"; readonly key: string };

export interface StoreTxnResult {
  readonly succeeded: boolean;
  /** The store revision after the transaction. */
  readonly revision: Revision;
}

export type StoreEvent =
  | { readonly kind: "put"; readonly entry: StoreEntry }
  | { readonly kind: "delete"; readonly key: string; readonly modRevision: Revision };

/** All events of one or more whole revisions, in order. `revision`: complete up to and including it. */
export interface StoreBatch {
  readonly revision: Revision;
  readonly events: readonly StoreEvent[];
}

export interface StoreLease {
  readonly id: string;
  /** Resolves when the lease is gone: expired, revoked, or given up by the store. Never rejects. */
  readonly lost: Promise<void>;
  revoke(): Promise<void>;
}

export interface StateStore {
  readonly driver: "memory" | "file" | "etcd";
  /** Entries under a prefix in key order, at a pinned revision if given; at most `limit` from `after`. */
  range(
    prefix: string,
    options: {
      readonly revision?: Revision;
      readonly limit?: number;
      /** Exclusive: start behind this key. */
      readonly after?: string;
      readonly signal: AbortSignal;
    },
  ): Promise<{
    readonly entries: readonly StoreEntry[];
    readonly revision: Revision;
    readonly more: boolean;
  }>;
  /** @throws FaultError state_unavailable: the outcome is unknown. */
  txn(
    compares: readonly StoreCompare[],
    success: readonly StoreOperation[],
    failure: readonly StoreOperation[],
  ): Promise<StoreTxnResult>;
  /**
   * Every event under the prefix after `fromRevision` (exclusive), once and in order.
   * Ends by throwing: `WatchCompactedError` when events are gone, FaultError state_unavailable when
   * the store is away, the signal's reason when aborted.
   */
  watch(prefix: string, fromRevision: Revision, signal: AbortSignal): AsyncIterable<StoreBatch>;
  lease(ttlSeconds: number): Promise<StoreLease>;
  close(): Promise<void>;
}

/** The events a watch asked for were compacted away: list again and diff. */
export class WatchCompactedError extends Error {
  override readonly name = "WatchCompactedError";
}
