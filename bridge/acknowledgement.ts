// Which revision a member may acknowledge (placement.md §5.3a): one at which a bucket came to be moved,
// deleted or cleared away counts once every mutation of that bucket that was under way then has ended.
// Pure bookkeeping; membership.ts writes the result. Revisions are acknowledged in their order.

import type { Revision } from "../proxy/placement/records.ts";
import type { BucketName, TenantName } from "../proxy/s3/names.ts";

interface Pending {
  readonly revision: Revision;
  /** Mutations begun before the revision was applied and not ended. */
  readonly waiting: Set<symbol>;
}

function bucketText(tenant: TenantName, name: BucketName): string {
  return `${tenant}:${name}`;
}

export class Acknowledgements {
  readonly #running = new Map<string, Set<symbol>>();
  #pending: Pending[] = [];
  #reached: Revision = 0n;
  readonly #onReached: (revision: Revision) => void;

  /** `onReached`: a higher revision may be acknowledged now. */
  constructor(onReached: (revision: Revision) => void) {
    this.#onReached = onReached;
  }

  /** Call the result once when the mutation has ended; again does nothing. */
  begin(tenant: TenantName, name: BucketName): () => void {
    const bucket = bucketText(tenant, name);
    const token = Symbol(bucket);
    const running = this.#running.get(bucket) ?? new Set<symbol>();
    running.add(token);
    this.#running.set(bucket, running);
    return () => {
      running.delete(token);
      if (running.size === 0 && this.#running.get(bucket) === running) {
        this.#running.delete(bucket);
      }
      for (const pending of this.#pending) pending.waiting.delete(token);
      this.#advance();
    };
  }

  /** The view at `revision` has these buckets in a phase in which no write begins. */
  announced(
    buckets: readonly { readonly tenant: TenantName; readonly name: BucketName }[],
    revision: Revision,
  ): void {
    const waiting = new Set<symbol>();
    for (const { tenant, name } of buckets) {
      for (const token of this.#running.get(bucketText(tenant, name)) ?? []) waiting.add(token);
    }
    this.#pending.push({ revision, waiting });
    this.#advance();
  }

  #advance(): void {
    const before = this.#reached;
    let count = 0;
    for (const { revision, waiting } of this.#pending) {
      if (waiting.size > 0) break;
      this.#reached = revision > this.#reached ? revision : this.#reached;
      count += 1;
    }
    if (count > 0) this.#pending = this.#pending.slice(count);
    if (this.#reached > before) this.#onReached(this.#reached);
  }

  /** What may be acknowledged when nothing newer was announced than `revision`. */
  upTo(revision: Revision): Revision {
    return this.#pending.length === 0 && revision > this.#reached ? revision : this.#reached;
  }
}
