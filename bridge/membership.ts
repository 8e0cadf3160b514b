// This process among the members (placement.md §5, rule 8): `members/{id}` persists, `live/{id}`
// stands under a lease. A lost lease means a new id, registered only over a live view. The fence is
// measured from the *send* of the last answered keep-alive, on the monotonic clock. Acknowledgements are
// written only for revisions at which a bucket is moved or deleted: an idle member writes nothing.

import type { Clock, Log, Membership, Random } from "../proxy/placement/ports.ts";
import { FaultError } from "../proxy/placement/ports.ts";
import type { MemberRecord, Revision } from "../proxy/placement/records.ts";
import type { StoreOperation } from "../proxy/placement/state-store.ts";
import type { BucketName, TenantName } from "../proxy/s3/names.ts";
import { Acknowledgements } from "./acknowledgement.ts";
import { encodeMember, type Stamp } from "./codec.ts";
import type { KeptLease, LeaseStore } from "./kept-lease.ts";
import type { Keyspace } from "./keyspace.ts";
import type { LiveSnapshots } from "./snapshots.ts";
import { Waiters } from "./waiters.ts";

const retryPauseMs = 1000;

export interface MembershipOptions {
  readonly store: LeaseStore;
  readonly keys: Keyspace;
  readonly snapshots: LiveSnapshots;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly nodeId: string;
  readonly version: string;
  readonly mode: "full" | "observer";
  /** Default 30. */
  readonly leaseTtlSeconds: number;
  /** Default 600,000; `null`: never fenced. */
  readonly fenceAfterMs: number | null;
}

interface Registration {
  readonly id: string;
  readonly lease: KeptLease;
}

export class StoreMembership implements Membership {
  readonly #options: MembershipOptions;
  readonly #closing = new AbortController();
  readonly #acks: Acknowledgements;
  readonly #changed = new Waiters();
  readonly #startedAt: string;
  readonly #stop: () => void;
  #id: string;
  #registration: Registration | null = null;
  #keptAtMs: number | null = null;
  #hasFailed = false;
  #acked: Revision = 0n;
  #toAck: Revision = 0n;
  #loop: Promise<void> = Promise.resolve();
  #acker: Promise<void> = Promise.resolve();

  constructor(options: MembershipOptions) {
    this.#options = options;
    this.#startedAt = new Date(options.clock.nowMs()).toISOString();
    this.#id = this.#newId();
    this.#acks = new Acknowledgements((revision) => {
      this.#toAck = revision;
      this.#changed.check();
    });
    this.#stop = options.snapshots.subscribeAnnounced((buckets, revision) =>
      this.#acks.announced(buckets, revision),
    );
  }

  get id(): string {
    return this.#id;
  }

  /** Whether `members/` and `live/` hold this process now. */
  get registered(): boolean {
    return this.#registration !== null;
  }

  /**
   * Begins to register; resolves after the first attempt, or at once when the view is a persisted
   * one. Until it is registered `mayMutate` is false; attempts go on.
   */
  async start(signal: AbortSignal): Promise<void> {
    this.#loop = this.#run();
    this.#acker = this.#ackLoop();
    if (this.#options.snapshots.current().origin === "persisted") return;
    await this.#changed.until(() => this.#registration !== null || this.#hasFailed, signal);
  }

  mayMutate(): boolean {
    const { mode, store, fenceAfterMs, clock } = this.#options;
    if (mode === "observer") return false;
    if (store.driver !== "etcd") return true;
    const keptAtMs = this.#registration?.lease.keptAtMs() ?? this.#keptAtMs;
    if (keptAtMs === null) return false;
    return fenceAfterMs === null || clock.monotonicMs() - keptAtMs <= fenceAfterMs;
  }

  beginMutation(tenant: TenantName, bucket: BucketName): () => void {
    return this.#acks.begin(tenant, bucket);
  }

  #newId(): string {
    return Buffer.from(this.#options.random.bytes(16)).toString("hex");
  }

  async #run(): Promise<void> {
    const { snapshots, clock, log } = this.#options;
    let last: Registration | null = null;
    while (!this.#isClosed()) {
      try {
        // A fenced member re-reads everything before it counts again.
        if (last !== null && !this.mayMutate()) await snapshots.refresh(this.#closing.signal);
        else await snapshots.connected(this.#closing.signal);
        last = await this.#register(last);
        await Promise.race([last.lease.lost, this.#closed()]);
        if (this.#isClosed()) return;
        log.write("warn", "member_lease_lost", { member: last.id });
      } catch (error) {
        if (this.#isClosed()) return;
        log.write("warn", "member_not_registered", { error: messageOf(error) });
        this.#hasFailed = true;
        this.#changed.check();
        await clock.sleep(retryPauseMs, this.#closing.signal).catch(() => undefined);
      }
      this.#keptAtMs = last?.lease.keptAtMs() ?? this.#keptAtMs;
      this.#registration = null;
    }
  }

  #isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  #closed(): Promise<void> {
    const { signal } = this.#closing;
    return new Promise((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  async #register(last: Registration | null): Promise<Registration> {
    const { store, keys, leaseTtlSeconds, log, mode, snapshots } = this.#options;
    const lease = await store.lease(leaseTtlSeconds);
    const id = last === null ? this.#id : this.#newId();
    const acked = this.#acks.upTo(snapshots.current().revision);
    const stamp = this.#stamp(id);
    const operations: StoreOperation[] = [
      { kind: "put", key: keys.member(id), value: encodeMember(this.#record(id, acked), stamp) },
      {
        kind: "put",
        key: keys.live(id),
        value: encodeMember(this.#record(id, acked), stamp),
        lease,
      },
    ];
    // The same process goes on, its mutations are counted on: nobody needs to await the old id.
    if (last !== null) {
      operations.push({ kind: "delete", key: keys.member(last.id) });
      operations.push({ kind: "delete", key: keys.live(last.id) });
    }
    try {
      const result = await store.txn([], operations, []);
      if (!result.succeeded) throw new FaultError("bug", "Cannot register: a bare txn failed");
    } catch (error) {
      lease.abandon();
      throw error;
    }
    this.#id = id;
    this.#acked = acked;
    this.#registration = { id, lease };
    this.#keptAtMs = lease.keptAtMs();
    log.write("info", "member_registered", { member: id, mode });
    this.#changed.check();
    return this.#registration;
  }

  #record(id: string, acked: Revision): MemberRecord {
    const { nodeId, mode, version } = this.#options;
    return { id, nodeId, mode, startedAt: this.#startedAt, version, acked };
  }

  #stamp(id: string): Stamp {
    const updatedAt = new Date(this.#options.clock.nowMs()).toISOString();
    return { updatedAt, updatedBy: `member:${id}` };
  }

  async #ackLoop(): Promise<void> {
    const { store, keys, clock, log } = this.#options;
    const { signal } = this.#closing;
    try {
      for (;;) {
        await this.#changed.until(
          () => this.#registration !== null && this.#toAck > this.#acked,
          signal,
        );
        const id = this.#id;
        const acked = this.#toAck;
        const value = encodeMember(this.#record(id, acked), this.#stamp(id));
        try {
          await store.txn(
            [{ kind: "present", key: keys.member(id) }],
            [{ kind: "put", key: keys.member(id), value }],
            [],
          );
          if (id === this.#id) this.#acked = acked;
        } catch (error) {
          log.write("warn", "member_not_acknowledged", { error: messageOf(error) });
          await clock.sleep(retryPauseMs, signal);
        }
      }
    } catch {
      // Closing.
    }
  }

  /** Deregisters: nobody waits for a member that stopped by itself. Never rejects. */
  async close(): Promise<void> {
    const { store, keys, log } = this.#options;
    this.#closing.abort(new FaultError("state_unavailable", "Membership is closed"));
    this.#stop();
    await this.#loop;
    await this.#acker;
    const registration = this.#registration;
    this.#registration = null;
    if (registration === null) return;
    try {
      await store.txn(
        [],
        [
          { kind: "delete", key: keys.member(registration.id) },
          { kind: "delete", key: keys.live(registration.id) },
        ],
        [],
      );
      await registration.lease.revoke();
    } catch (error) {
      log.write("warn", "member_not_deregistered", { error: messageOf(error) });
    }
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
