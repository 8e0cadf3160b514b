// A lease kept alive on etcd's LeaseKeepAlive stream, every third of its TTL. The time that counts
// is when an answered keep-alive was sent. Lost: etcd says so (TTL 0), or a whole TTL passed without
// an answer. A broken stream is opened again; errors are always listened to, since etcd3 1.1.2
// otherwise ends the process.

import type { LeaseClient } from "etcd3";
import type { KeptLease } from "./kept-lease.ts";

const reopenMs = 300;

type KeepAliveStream = Awaited<ReturnType<LeaseClient["leaseKeepAlive"]>>;

/** Grants a lease and keeps it alive. Rejects with what etcd3 rejected. */
export async function grantEtcdLease(client: LeaseClient, ttlSeconds: number): Promise<EtcdLease> {
  const sentMs = performance.now();
  const { ID: id } = await client.leaseGrant({ TTL: ttlSeconds });
  return new EtcdLease(client, { id, ttlSeconds, sentMs });
}

export class EtcdLease implements KeptLease {
  readonly id: string;
  readonly lost: Promise<void>;
  readonly #client: LeaseClient;
  readonly #ttlMs: number;
  #lose: () => void = () => undefined;
  #stream: KeepAliveStream | null = null;
  #beat: NodeJS.Timeout | undefined;
  #reopen: NodeJS.Timeout | undefined;
  #expiry: NodeJS.Timeout | undefined;
  #keptAtMs: number;
  /** Sends not answered yet, oldest first: etcd answers in order. */
  #sentMs: number[] = [];
  #stopped = false;

  constructor(
    client: LeaseClient,
    granted: { readonly id: string; readonly ttlSeconds: number; readonly sentMs: number },
  ) {
    this.#client = client;
    this.id = granted.id;
    this.#ttlMs = granted.ttlSeconds * 1000;
    this.#keptAtMs = granted.sentMs;
    this.lost = new Promise((resolve) => {
      this.#lose = resolve;
    });
    this.#beat = setInterval(() => this.#send(), this.#ttlMs / 3);
    this.#armExpiry();
    void this.#open();
  }

  keptAtMs(): number {
    return this.#keptAtMs;
  }

  async #open(): Promise<void> {
    if (this.#stopped || this.#stream !== null) return;
    try {
      const stream = await this.#client.leaseKeepAlive();
      let isOver = false;
      const over = (): void => {
        if (isOver) return;
        isOver = true;
        if (this.#stream === stream) this.#stream = null;
        this.#openLater();
      };
      stream.on("error", over);
      stream.on("end", over);
      stream.on("data", (answer) => this.#answered(answer.TTL));
      if (this.#isStopped()) {
        stream.cancel();
        return;
      }
      this.#stream = stream;
      this.#sentMs = [];
      this.#send();
    } catch {
      this.#openLater();
    }
  }

  #isStopped(): boolean {
    return this.#stopped;
  }

  #openLater(): void {
    clearTimeout(this.#reopen);
    if (this.#stopped) return;
    this.#reopen = setTimeout(() => void this.#open(), reopenMs);
  }

  #send(): void {
    if (this.#stream === null) return;
    // Two sends without an answer: the connection is stalled, a new one may not be.
    if (this.#sentMs.length >= 2) {
      this.#stream.cancel();
      return;
    }
    this.#sentMs.push(performance.now());
    this.#stream.write({ ID: this.id });
  }

  #answered(ttl: string): void {
    const sentMs = this.#sentMs.shift();
    if (this.#stopped) return;
    if (ttl === "0") {
      this.#end();
      return;
    }
    if (sentMs !== undefined) this.#keptAtMs = sentMs;
    this.#armExpiry();
  }

  #armExpiry(): void {
    clearTimeout(this.#expiry);
    const leftMs = this.#keptAtMs + this.#ttlMs - performance.now();
    // Node runs timers beyond 2^31 ms at once; such leases are abandoned, not kept (audit).
    if (leftMs < 2 ** 31) this.#expiry = setTimeout(() => this.#end(), Math.max(0, leftMs));
  }

  #stopKeeping(): void {
    this.#stopped = true;
    clearInterval(this.#beat);
    clearTimeout(this.#reopen);
    this.#stream?.cancel();
    this.#stream = null;
  }

  #end(): void {
    this.#stopKeeping();
    clearTimeout(this.#expiry);
    this.#lose();
  }

  abandon(): void {
    this.#stopKeeping();
    this.#expiry?.unref();
  }

  async revoke(): Promise<void> {
    this.#end();
    await this.#client.leaseRevoke({ ID: this.id });
  }

  /** Stops timers and streams without a call: the store closes. */
  drop(): void {
    this.#end();
  }
}
