// The etcd store. Every call has a deadline; nothing is retried here, since only the caller knows
// what a lost answer means: a transaction without one is `state_unavailable`, outcome unknown.
// Reads are linearizable. Splits: options, faults, watch, lease.

import type { IRequestOp } from "etcd3";
import { Etcd3, EtcdLeaseInvalidError } from "etcd3";
import { FaultError } from "../proxy/placement/ports.ts";
import type { Revision } from "../proxy/placement/records.ts";
import type {
  StateStore,
  StoreBatch,
  StoreCompare,
  StoreOperation,
  StoreTxnResult,
} from "../proxy/placement/state-store.ts";
import { etcdFault } from "./etcd-faults.ts";
import { type EtcdLease, grantEtcdLease } from "./etcd-lease.ts";
import { type EtcdOptions, etcdClientOptions } from "./etcd-options.ts";
import { entryOf, rangeEnd, watchEtcd } from "./etcd-watch.ts";
import type { KeptLease, LeaseStore } from "./kept-lease.ts";
import type { StoreCallMeter } from "./memory-store.ts";

type Compare = NonNullable<Parameters<Etcd3["kv"]["txn"]>[0]["compare"]>[number];

function compareOf(compare: StoreCompare): Compare {
  const key = Buffer.from(compare.key);
  return compare.kind === "present"
    ? { key, target: "Mod", result: "Greater", mod_revision: "0" }
    : { key, target: "Mod", result: "Equal", mod_revision: compare.revision.toString() };
}

function operationOf(operation: StoreOperation): IRequestOp {
  const key = Buffer.from(operation.key);
  if (operation.kind === "delete") return { request_delete_range: { key } };
  const value = Buffer.from(operation.value);
  return {
    request_put: {
      key,
      value,
      ...(operation.lease === undefined ? {} : { lease: operation.lease.id }),
    },
  };
}

export class EtcdStore implements LeaseStore {
  readonly driver: StateStore["driver"] = "etcd";
  readonly #client: Etcd3;
  readonly #meter: StoreCallMeter;
  readonly #openTimeoutMs: number;
  readonly #closing = new AbortController();
  readonly #leases = new Set<EtcdLease>();

  /** Connects lazily: an etcd that is away shows at the first call. */
  constructor(options: EtcdOptions, meter: StoreCallMeter) {
    this.#client = new Etcd3(etcdClientOptions(options));
    this.#meter = meter;
    this.#openTimeoutMs = options.dialTimeoutMs;
  }

  async range(
    prefix: string,
    options: Parameters<StateStore["range"]>[1],
  ): ReturnType<StateStore["range"]> {
    this.#meter.storeCalled("range");
    options.signal.throwIfAborted();
    const { after, limit, revision } = options;
    try {
      const answer = await this.#client.kv.range({
        // A NUL behind the last key makes it exclusive.
        key: Buffer.from(after === undefined || after < prefix ? prefix : `${after}\0`),
        range_end: rangeEnd(prefix),
        ...(limit === undefined ? {} : { limit }),
        ...(revision === undefined ? {} : { revision: revision.toString() }),
      });
      return {
        entries: answer.kvs.map(entryOf),
        revision: BigInt(answer.header.revision),
        more: answer.more,
      };
    } catch (error) {
      throw etcdFault(`read "${prefix}"`, error);
    }
  }

  async txn(
    compares: readonly StoreCompare[],
    success: readonly StoreOperation[],
    failure: readonly StoreOperation[],
  ): Promise<StoreTxnResult> {
    this.#meter.storeCalled("txn");
    try {
      const answer = await this.#client.kv.txn({
        compare: compares.map(compareOf),
        success: success.map(operationOf),
        failure: failure.map(operationOf),
      });
      return { succeeded: answer.succeeded, revision: BigInt(answer.header.revision) };
    } catch (error) {
      throw etcdFault(`write ${success.length} keys`, error);
    }
  }

  async *watch(
    prefix: string,
    fromRevision: Revision,
    signal: AbortSignal,
  ): AsyncGenerator<StoreBatch> {
    this.#meter.storeCalled("watch");
    yield* watchEtcd(this.#client.watchClient, {
      prefix,
      fromRevision,
      signal: AbortSignal.any([signal, this.#closing.signal]),
      openTimeoutMs: this.#openTimeoutMs,
    });
  }

  async lease(ttlSeconds: number): Promise<KeptLease> {
    this.#meter.storeCalled("lease");
    try {
      const lease = await grantEtcdLease(this.#client.leaseClient, ttlSeconds);
      this.#leases.add(lease);
      void lease.lost.then(() => this.#leases.delete(lease));
      return {
        id: lease.id,
        lost: lease.lost,
        keptAtMs: () => lease.keptAtMs(),
        abandon: () => lease.abandon(),
        revoke: () => this.#revoke(lease),
      };
    } catch (error) {
      throw etcdFault(`grant a lease of ${ttlSeconds} s`, error);
    }
  }

  async #revoke(lease: EtcdLease): Promise<void> {
    this.#meter.storeCalled("lease");
    try {
      await lease.revoke();
    } catch (error) {
      if (error instanceof EtcdLeaseInvalidError) return;
      throw etcdFault(`revoke lease ${lease.id}`, error);
    }
  }

  close(): Promise<void> {
    this.#closing.abort(new FaultError("state_unavailable", "State store is closed"));
    for (const lease of this.#leases) lease.drop();
    this.#client.close();
    return Promise.resolve();
  }
}
