// The memory store: etcd's semantics inside one process, for `npm start`, tests and the simulation.
// Transactions are serial; watches read the shared history, so a slow one costs no memory and is
// compacted rather than buffered. `EmbeddedStore` leaves one hook, `keep`, in which the file store
// makes a revision durable before anybody is told of it.

import type { Clock, Meter } from "../proxy/placement/ports.ts";
import { FaultError } from "../proxy/placement/ports.ts";
import type { Revision } from "../proxy/placement/records.ts";
import type {
  StateStore,
  StoreBatch,
  StoreCompare,
  StoreOperation,
  StoreTxnResult,
} from "../proxy/placement/state-store.ts";
import type { KeptLease, LeaseStore } from "./kept-lease.ts";
import { StoreLog, type StoreWrite, writesOf } from "./store-log.ts";

/** Revisions whose events are kept for watches; etcd's own auto compaction is of this order. */
const defaultMaxHistory = 10_000;
/** Timers beyond 2^31 ms fire at once in Node, so long leases are slept in days. */
const maxSleepMs = 86_400_000;

export type StoreCallMeter = Pick<Meter, "storeCalled">;

export interface EmbeddedStoreOptions {
  readonly clock: Clock;
  readonly meter: StoreCallMeter;
  /** Revisions kept for watches, default 10,000. */
  readonly maxHistory?: number;
}

interface LeaseState {
  readonly ended: () => void;
  readonly stop: AbortController;
}

interface Signal {
  readonly promise: Promise<void>;
  readonly fire: () => void;
}

function signalOnce(): Signal {
  let fire = (): void => undefined;
  const promise = new Promise<void>((resolve) => {
    fire = resolve;
  });
  return { promise, fire };
}

function unavailable(message: string, cause?: unknown): FaultError {
  return new FaultError("state_unavailable", message, cause);
}

/** An in-process store in etcd's shape. Subclasses say how a revision becomes durable. */
export abstract class EmbeddedStore implements LeaseStore {
  abstract readonly driver: StateStore["driver"];
  protected readonly log: StoreLog;
  readonly #clock: Clock;
  readonly #meter: StoreCallMeter;
  readonly #leases = new Map<string, LeaseState>();
  readonly #closing = new AbortController();
  #nextLease = 1;
  #changed = signalOnce();
  /** Highest revision watches may see: the durable one. */
  #shown: Revision;
  #turn: Promise<unknown> = Promise.resolve();

  protected constructor(options: EmbeddedStoreOptions, log?: StoreLog) {
    this.#clock = options.clock;
    this.#meter = options.meter;
    this.log = log ?? new StoreLog(options.maxHistory ?? defaultMaxHistory);
    this.#shown = this.log.revision;
  }

  /**
   * Makes the image after `writes` durable, before they are applied. Resolves at once in memory.
   * A rejection leaves the store as it was.
   */
  protected abstract keep(writes: readonly StoreWrite[]): Promise<void>;

  range(
    prefix: string,
    options: Parameters<StateStore["range"]>[1],
  ): ReturnType<StateStore["range"]> {
    this.#meter.storeCalled("range");
    return this.#inTurn(() => {
      options.signal.throwIfAborted();
      const found = this.log.range(prefix, {
        revision: options.revision ?? null,
        limit: options.limit ?? Number.MAX_SAFE_INTEGER,
        after: options.after ?? null,
      });
      return Promise.resolve({ ...found, revision: this.log.revision });
    });
  }

  txn(
    compares: readonly StoreCompare[],
    success: readonly StoreOperation[],
    failure: readonly StoreOperation[],
  ): Promise<StoreTxnResult> {
    this.#meter.storeCalled("txn");
    return this.#inTurn(async () => {
      const succeeded = this.log.holds(compares);
      const writes = writesOf(succeeded ? success : failure);
      for (const write of writes) {
        if (write.kind === "put" && write.leaseId !== null && !this.#leases.has(write.leaseId)) {
          throw unavailable(`Cannot write "${write.key}": its lease is gone`);
        }
      }
      return { succeeded, revision: await this.#commit(writes) };
    });
  }

  async #commit(writes: readonly StoreWrite[]): Promise<Revision> {
    const effective = this.log.effective(writes);
    if (effective.length > 0) {
      await this.keep(effective);
      this.#shown = this.log.apply(effective);
      this.#wake();
    }
    return this.log.revision;
  }

  #wake(): void {
    const changed = this.#changed;
    this.#changed = signalOnce();
    changed.fire();
  }

  /** One thing at a time: a transaction sees no half of another. */
  #inTurn<T>(step: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(() => {
      if (this.#closing.signal.aborted) throw unavailable("Cannot use state store: it is closed");
      return step();
    });
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  async *watch(
    prefix: string,
    fromRevision: Revision,
    signal: AbortSignal,
  ): AsyncGenerator<StoreBatch> {
    this.#meter.storeCalled("watch");
    const aborted = signalOnce();
    signal.addEventListener("abort", aborted.fire, { once: true });
    try {
      let revision = fromRevision;
      for (;;) {
        signal.throwIfAborted();
        if (this.#closing.signal.aborted) throw unavailable("Cannot watch: state store is closed");
        const changed = this.#changed.promise;
        const step = revision < this.#shown ? this.log.next(prefix, revision) : null;
        if (step === null) {
          if (revision < this.log.compacted) this.log.next(prefix, revision);
          await Promise.race([changed, aborted.promise]);
          continue;
        }
        revision = step.revision;
        if (step.events.length > 0) yield step;
      }
    } finally {
      signal.removeEventListener("abort", aborted.fire);
    }
  }

  lease(ttlSeconds: number): Promise<KeptLease> {
    this.#meter.storeCalled("lease");
    if (this.#closing.signal.aborted) {
      return Promise.reject(unavailable("Cannot grant lease: state store is closed"));
    }
    const id = String(this.#nextLease);
    this.#nextLease += 1;
    const lost = signalOnce();
    this.#leases.set(id, { ended: lost.fire, stop: new AbortController() });
    let endsAtMs: number | null = null;
    let abandonedAtMs = 0;
    return Promise.resolve({
      id,
      lost: lost.promise,
      keptAtMs: () => (endsAtMs === null ? this.#clock.monotonicMs() : abandonedAtMs),
      revoke: () => this.#endLease(id),
      abandon: () => {
        if (endsAtMs !== null) return;
        abandonedAtMs = this.#clock.monotonicMs();
        endsAtMs = abandonedAtMs + ttlSeconds * 1000;
        void this.#expire(id, endsAtMs);
      },
    });
  }

  async #expire(id: string, endsAtMs: number): Promise<void> {
    const lease = this.#leases.get(id);
    if (lease === undefined) return;
    try {
      for (;;) {
        const leftMs = endsAtMs - this.#clock.monotonicMs();
        if (leftMs <= 0) break;
        await this.#clock.sleep(Math.min(leftMs, maxSleepMs), lease.stop.signal);
      }
      await this.#endLease(id);
    } catch {
      // Revoked or closed meanwhile, or the disk refused: the key then stays until a restart drops it.
    }
  }

  #endLease(id: string): Promise<void> {
    const lease = this.#leases.get(id);
    if (lease === undefined) return Promise.resolve();
    lease.stop.abort();
    return this.#inTurn(async () => {
      if (!this.#leases.delete(id)) return;
      await this.#commit(this.log.leaseDeletes(id));
      lease.ended();
    });
  }

  /** Ends the lease that holds a key, as an expiry at the store would. For tests and simulation. */
  dropLeaseOf(key: string): Promise<void> {
    const id = this.log.leaseOf(key);
    return id === null ? Promise.resolve() : this.#endLease(id);
  }

  /** Drops the history up to and including `revision`, as an etcd compaction does. */
  compact(revision: Revision): void {
    this.log.compact(revision);
    this.#wake();
  }

  async close(): Promise<void> {
    const turn = this.#turn;
    this.#closing.abort();
    for (const lease of this.#leases.values()) {
      lease.stop.abort();
      lease.ended();
    }
    this.#leases.clear();
    this.#wake();
    await turn;
  }
}

/** A store that forgets everything with the process. */
export class MemoryStore extends EmbeddedStore {
  readonly driver = "memory";

  constructor(options: EmbeddedStoreOptions) {
    super(options);
  }

  protected keep(): Promise<void> {
    return Promise.resolve();
  }
}
