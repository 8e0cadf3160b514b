// All bucket records of a snapshot, found by (tenant, name). Immutable: a change copies one shard of
// 2048 and shares the rest. Strings that many records have in common are held once.
// Rule: placement.md §14 (every member holds all records; one shard copy a change, never all).

import type { BucketName, ClusterId, TenantName } from "../s3/names.ts";
import { bucketText } from "./hrw.ts";
import type { BucketPlacement, BucketRecord, Route, Weights } from "./records.ts";
import type { BucketTable, Versioned } from "./snapshot.ts";

type Entry = Versioned<BucketRecord>;
/** Keyed `name` or `tenant:name`; neither part can hold a colon. */
type Shard = ReadonlyMap<string, Entry>;

/** A power of two. At 10^6 records a change copies about 500 entries. */
const shardCount = 2048;
const emptyShard: Shard = new Map();
const emptyShards: readonly Shard[] = Array.from({ length: shardCount }, () => emptyShard);

/** FNV-1a over code units, folded to a shard number. Not part of any contract. */
function shardOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  }
  return (hash ^ (hash >>> 11) ^ (hash >>> 22)) & (shardCount - 1);
}

class ShardedBucketTable implements BucketTable {
  readonly size: number;
  readonly #shards: readonly Shard[];

  constructor(shards: readonly Shard[], size: number) {
    this.#shards = shards;
    this.size = size;
  }

  find(tenant: TenantName, name: BucketName): Entry | undefined {
    const text = bucketText(tenant, name);
    return this.#shards[shardOf(text)]?.get(text);
  }

  *all(): Iterable<Entry> {
    for (const shard of this.#shards) yield* shard.values();
  }

  /** The table with these entries set (a record) or removed (`null`), each shard copied once. */
  apply(changes: ReadonlyMap<string, Entry | null>): ShardedBucketTable {
    if (changes.size === 0) return this;
    const shards = [...this.#shards];
    const copied = new Map<number, Map<string, Entry>>();
    let { size } = this;
    for (const [text, entry] of changes) {
      const at = shardOf(text);
      let shard = copied.get(at);
      if (shard === undefined) {
        shard = new Map(shards[at]);
        copied.set(at, shard);
        shards[at] = shard;
      }
      size -= shard.has(text) ? 1 : 0;
      if (entry === null) {
        shard.delete(text);
      } else {
        shard.set(text, entry);
        size += 1;
      }
    }
    return new ShardedBucketTable(shards, size);
  }
}

/** A table without records. */
export const emptyBucketTable: BucketTable = new ShardedBucketTable(emptyShards, 0);

/** One step of a change: a record put, or the name of one deleted. */
export type BucketTableChange =
  | { readonly kind: "put"; readonly entry: Versioned<BucketRecord> }
  | { readonly kind: "delete"; readonly tenant: TenantName; readonly name: BucketName };

/** The table after all changes in order; a later change of the same bucket wins. */
export function withBuckets(table: BucketTable, changes: Iterable<BucketTableChange>): BucketTable {
  const byText = new Map<string, Entry | null>();
  for (const change of changes) {
    if (change.kind === "delete") {
      byText.set(bucketText(change.tenant, change.name), null);
    } else {
      const { tenant, name } = change.entry.value;
      byText.set(bucketText(tenant, name), change.entry);
    }
  }
  return sharded(table).apply(byText);
}

/** The table with this record in place of any other of its name. */
export function withBucket(table: BucketTable, entry: Versioned<BucketRecord>): BucketTable {
  return withBuckets(table, [{ kind: "put", entry }]);
}

/** The table without this bucket; the same table when it had none. */
export function withoutBucket(
  table: BucketTable,
  tenant: TenantName,
  name: BucketName,
): BucketTable {
  if (table.find(tenant, name) === undefined) return table;
  return withBuckets(table, [{ kind: "delete", tenant, name }]);
}

/** A table of many records at once; a later record of the same name wins. */
export function bucketTableOf(entries: Iterable<Versioned<BucketRecord>>): BucketTable {
  return withBuckets(emptyBucketTable, putsOf(entries));
}

function* putsOf(entries: Iterable<Versioned<BucketRecord>>): Iterable<BucketTableChange> {
  for (const entry of entries) yield { kind: "put", entry };
}

function sharded(table: BucketTable): ShardedBucketTable {
  if (table instanceof ShardedBucketTable) return table;
  const entries = new Map<string, Entry>();
  for (const entry of table.all()) {
    entries.set(bucketText(entry.value.tenant, entry.value.name), entry);
  }
  return new ShardedBucketTable(emptyShards, 0).apply(entries);
}

/**
 * Gives records with equal parts one object for each, so that a million records share a handful of
 * routes and each route is prepared for ranking once. Lives as long as the reducer that uses it.
 */
export class RecordInterner {
  readonly #routes: Shared<Route>;
  readonly #placements: Shared<BucketPlacement>;
  readonly #lists: Shared<readonly ClusterId[]>;
  readonly #epochs: Shared<readonly number[]>;

  /** Past `maxParts` distinct values of a kind sharing starts anew: partial, never wrong. */
  constructor(maxParts = 65536) {
    this.#routes = new Shared(maxParts, (route) => [
      sortedWeights(route.weights),
      route.mode,
      route.spread,
      route.source,
    ]);
    this.#placements = new Shared(maxParts, (placement) => [
      sortedWeights(placement.weights),
      placement.mode,
      placement.spread,
      placement.weighting,
    ]);
    this.#lists = new Shared(maxParts, (list) => list);
    this.#epochs = new Shared(maxParts, (epochs) => epochs);
  }

  /** An equal record whose parts are those of earlier records where equal. */
  record(record: BucketRecord): BucketRecord {
    return {
      ...record,
      route: this.#routes.one(record.route),
      placement: record.placement === null ? null : this.#placements.one(record.placement),
      epochs: this.#epochs.one(record.epochs),
      order: this.#clusters(record.order),
      extra: this.#clusters(record.extra),
    };
  }

  /** Nearly all lists are empty: those need no text. */
  #clusters(list: readonly ClusterId[]): readonly ClusterId[] {
    return list.length === 0 ? noClusters : this.#lists.one(list);
  }
}

const noClusters: readonly ClusterId[] = [];

/** First value seen of each kind, by its JSON text. */
class Shared<T> {
  readonly #known = new Map<string, T>();
  readonly #maxParts: number;
  readonly #parts: (value: T) => unknown;

  constructor(maxParts: number, parts: (value: T) => unknown) {
    this.#maxParts = maxParts;
    this.#parts = parts;
  }

  one(value: T): T {
    const text = JSON.stringify(this.#parts(value));
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    if (this.#known.size >= this.#maxParts) this.#known.clear();
    this.#known.set(text, value);
    return value;
  }
}

function sortedWeights(weights: Weights): readonly (readonly [ClusterId, number])[] {
  return [...weights].sort((a, b) => (a[0] < b[0] ? -1 : 1));
}
