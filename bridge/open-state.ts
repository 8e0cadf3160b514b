// Puts the bridge together for main: store, snapshots, registry and membership, started in this
// order and stopped in the opposite one. Nothing outside main imports it.

import type { Clock, Log, Meter, Random } from "../proxy/placement/ports.ts";
import type { ClusterRecord } from "../proxy/placement/records.ts";
import type { DurableFiles } from "./durable-files.ts";
import type { EtcdOptions } from "./etcd-options.ts";
import { EtcdStore } from "./etcd-store.ts";
import { FileStore } from "./file-store.ts";
import { type HandleKeys, loadHandleKeys } from "./handle-keys.ts";
import type { LeaseStore } from "./kept-lease.ts";
import { Keyspace } from "./keyspace.ts";
import { StoreMembership } from "./membership.ts";
import { MemoryStore } from "./memory-store.ts";
import { nodeFiles } from "./node-files.ts";
import { StoreRegistry } from "./registry.ts";
import { seedClusters } from "./seed-clusters.ts";
import { LiveSnapshots } from "./snapshots.ts";

/** A burst of changes writes the snapshot file once. */
const snapshotDebounceMs = 2000;

export type StateDriverOptions =
  | { readonly driver: "memory" }
  | { readonly driver: "file"; readonly path: string }
  | {
      readonly driver: "etcd";
      readonly etcd: EtcdOptions;
      /** Last good snapshot, read when etcd is away at start; `null`: none. */
      readonly snapshotFile: string | null;
    };

export interface StateOptions {
  readonly store: StateDriverOptions;
  /** `/headgate/v1/` */
  readonly prefix: string;
  readonly member: {
    readonly nodeId: string;
    readonly version: string;
    readonly mode: "full" | "observer";
    readonly leaseTtlSeconds: number;
    /** `null`: never. */
    readonly fenceAfterMs: number | null;
  };
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly meter: Meter;
  /** The real disk unless a test says otherwise. */
  readonly files?: DurableFiles;
}

export interface OpenState {
  readonly store: LeaseStore;
  readonly keys: Keyspace;
  readonly snapshots: LiveSnapshots;
  readonly registry: StoreRegistry;
  readonly membership: StoreMembership;
  /** Waits for a live view: do not await it when `snapshots.current().origin` is `persisted`. */
  readonly seedClusters: (
    configured: readonly ClusterRecord[],
    signal: AbortSignal,
  ) => Promise<void>;
  /** Waits for the store; with etcd away at start a handle key file spares the wait. */
  readonly handleKeys: (signal: AbortSignal) => Promise<HandleKeys>;
  /** Deregisters, saves the snapshot, closes the store. Never rejects. */
  readonly close: () => Promise<void>;
}

async function openStore(options: StateOptions, files: DurableFiles): Promise<LeaseStore> {
  const { store, clock, meter } = options;
  switch (store.driver) {
    case "memory":
      return new MemoryStore({ clock, meter });
    case "file":
      return FileStore.open({ clock, meter, path: store.path, files });
    case "etcd":
      return new EtcdStore(store.etcd, meter);
  }
}

/** One process alone holds a file store: whoever is registered there is gone. */
async function dropStaleMembers(
  store: LeaseStore,
  keys: Keyspace,
  signal: AbortSignal,
): Promise<void> {
  const { entries } = await store.range(keys.folder("members/"), { signal });
  if (entries.length === 0) return;
  await store.txn(
    [],
    entries.map(({ key }) => ({ kind: "delete", key })),
    [],
  );
}

/**
 * Opens the state and resolves once there is a view: live, or persisted while etcd is away. With
 * neither it waits for etcd until `signal` aborts.
 * @throws FaultError state_unavailable
 */
export async function openState(options: StateOptions, signal: AbortSignal): Promise<OpenState> {
  const { clock, random, log, meter } = options;
  const files = options.files ?? nodeFiles;
  const store = await openStore(options, files);
  const keys = new Keyspace(options.prefix);
  const path = options.store.driver === "etcd" ? options.store.snapshotFile : null;
  const snapshots = new LiveSnapshots({
    store,
    keys,
    clock,
    random,
    log,
    meter,
    persist: path === null ? null : { path, files, debounceMs: snapshotDebounceMs },
  });
  const membership = new StoreMembership({
    store,
    keys,
    snapshots,
    clock,
    random,
    log,
    ...options.member,
  });
  const close = async (): Promise<void> => {
    await membership.close();
    await snapshots.close();
    try {
      await store.close();
    } catch (error) {
      log.write("warn", "state_not_closed", { error: String(error) });
    }
  };
  try {
    if (store.driver === "file") await dropStaleMembers(store, keys, signal);
    await snapshots.start(signal);
    await membership.start(signal);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    store,
    keys,
    snapshots,
    registry: new StoreRegistry({ store, keys, snapshots, clock, random, log }),
    membership,
    seedClusters: (configured, seedSignal) =>
      seedClusters(configured, { store, keys, snapshots, clock, log }, seedSignal),
    handleKeys: async (keySignal) => {
      for (;;) {
        await snapshots.connected(keySignal);
        try {
          return await loadHandleKeys({ store, keys, random, clock, log }, keySignal);
        } catch (error) {
          // A store that went away in between is waited for; keys that do not read are an error.
          if (snapshots.status().connected) throw error;
        }
      }
    },
    close,
  };
}
