// Configured clusters become records at start, once: the very first set with its configured state
// and weight, any later one `pending` (control.md "House decisions", "Clusters"). Afterwards the
// store wins; a configuration that says something else is a warning with both values.

import type { Clock, Log } from "../proxy/placement/ports.ts";
import { FaultError } from "../proxy/placement/ports.ts";
import type { ClusterRecord } from "../proxy/placement/records.ts";
import type { PlacementSnapshot } from "../proxy/placement/snapshot.ts";
import type { StateStore, StoreCompare, StoreOperation } from "../proxy/placement/state-store.ts";
import { encodeCluster, recordSchema, type Stamp } from "./codec.ts";
import type { Keyspace } from "./keyspace.ts";
import type { LiveSnapshots } from "./snapshots.ts";

/** Others may seed at the same time; each round sees what they wrote. */
const maxRounds = 10;

export interface SeedOptions {
  readonly store: StateStore;
  readonly keys: Keyspace;
  readonly snapshots: LiveSnapshots;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Creates records for configured clusters that have none. Waits for a live view, so a start from
 * the persisted snapshot must not await it.
 * @throws FaultError state_unavailable when the store goes away meanwhile.
 */
export async function seedClusters(
  configured: readonly ClusterRecord[],
  options: SeedOptions,
  signal: AbortSignal,
): Promise<void> {
  const { store, keys, snapshots, clock, log } = options;
  for (let round = 0; round < maxRounds; round += 1) {
    await snapshots.connected(signal);
    const snapshot = snapshots.current();
    const missing = configured.filter(({ id }) => !snapshot.clusters.has(id));
    if (missing.length === 0) {
      warnDifferences(configured, snapshot, log);
      return;
    }
    const isFirst = snapshot.clusters.size === 0 && !(await isInstalled(options, signal));
    const stamp: Stamp = {
      updatedAt: new Date(clock.nowMs()).toISOString(),
      updatedBy: "system:configuration",
    };
    const compares: StoreCompare[] = missing.map(({ id }) => absent(keys.cluster(id)));
    const operations: StoreOperation[] = missing.map((record) => ({
      kind: "put",
      key: keys.cluster(record.id),
      value: encodeCluster(isFirst ? record : { ...record, state: "pending" }, stamp),
    }));
    if (isFirst) {
      compares.push(absent(keys.installation()));
      operations.push({ kind: "put", key: keys.installation(), value: marker(stamp) });
    }
    const result = await store.txn(compares, operations, []);
    if (result.succeeded) {
      for (const { id, state, weight } of missing) {
        log.write("info", "cluster_seeded", {
          cluster: id,
          state: isFirst ? state : "pending",
          weight,
        });
      }
      await snapshots.reached(result.revision, signal);
    } else {
      // Someone else seeded, or a record is there that cannot be read: look again.
      await clock.sleep(50, signal);
    }
  }
  throw new FaultError(
    "state_conflict",
    "Cannot create cluster records: they are there, but cannot be read",
  );
}

function absent(key: string): StoreCompare {
  return { kind: "mod_revision", key, revision: 0n };
}

function marker(stamp: Stamp): string {
  return JSON.stringify({
    schema: recordSchema,
    updated_at: stamp.updatedAt,
    updated_by: stamp.updatedBy,
  });
}

async function isInstalled(options: SeedOptions, signal: AbortSignal): Promise<boolean> {
  const page = await options.store.range(options.keys.installation(), { limit: 1, signal });
  return page.entries.length > 0;
}

function warnDifferences(
  configured: readonly ClusterRecord[],
  snapshot: PlacementSnapshot,
  log: Log,
): void {
  for (const wanted of configured) {
    const held = snapshot.clusters.get(wanted.id)?.value;
    if (held === undefined) continue;
    const pairs = [
      ["endpoints", wanted.endpoints.join(" "), held.endpoints.join(" ")],
      ["profile", wanted.profile, held.profile],
      ["region", wanted.region, held.region],
      ["addressing", wanted.addressing, held.addressing],
    ] as const;
    for (const [field, configuredValue, recordedValue] of pairs) {
      if (configuredValue === recordedValue) continue;
      log.write("warn", "cluster_differs_from_configuration", {
        cluster: wanted.id,
        field,
        configured: configuredValue,
        recorded: recordedValue,
      });
    }
  }
}
