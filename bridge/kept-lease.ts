// What the bridge knows of its own stores beyond the `StateStore` port: a lease that tells when it
// was last kept alive (rule 8 of placement.md measures its fence from there) and that can be left
// to run out. Nothing outside bridge/ sees these shapes.

import type { StateStore, StoreLease } from "../proxy/placement/state-store.ts";

/** A lease the store keeps alive by itself until revoked, abandoned or lost. */
export interface KeptLease extends StoreLease {
  /**
   * Monotonic milliseconds at which the last keep-alive that was answered had been *sent*; an
   * embedded store answers at once, so it is now while the lease is held.
   */
  keptAtMs(): number;
  /** Stops keeping it alive: it ends one TTL from now. `lost` then resolves. */
  abandon(): void;
}

export interface LeaseStore extends StateStore {
  lease(ttlSeconds: number): Promise<KeptLease>;
}
