// Store entries and events → placement snapshot. Pure: no clock, no store, no log; what cannot be
// read is returned, not reported. Rules: events at or below the view's revision are already in it
// and change nothing (applying a batch twice is applying it once); a value that cannot be read
// removes what stood there and is remembered as unreadable; a list replaces everything.

import type { BucketTableChange } from "../proxy/placement/bucket-table.ts";
import { emptyBucketTable, RecordInterner, withBuckets } from "../proxy/placement/bucket-table.ts";
import type {
  BucketRecord,
  ClusterRecord,
  CredentialRecord,
  Revision,
} from "../proxy/placement/records.ts";
import type { BucketTable, PlacementSnapshot, Versioned } from "../proxy/placement/snapshot.ts";
import type { StoreBatch, StoreEntry } from "../proxy/placement/state-store.ts";
import type { AccessKeyId, BucketName, ClusterId, TenantName } from "../proxy/s3/names.ts";
import {
  type Decoded,
  decodeBucket,
  decodeClass,
  decodeCluster,
  decodeCredential,
  decodeData,
} from "./codec.ts";
import type { Keyspace } from "./keyspace.ts";

/** A value under a snapshotted folder that this version does not understand. */
interface Unreadable {
  readonly key: string;
  readonly modRevision: Revision;
  /** Written by a newer version; else it is damaged. */
  readonly newer: boolean;
  readonly reason: string;
}

export interface StateView {
  readonly snapshot: PlacementSnapshot;
  /** Mod revisions of `snapshot.data`, by path. */
  readonly dataRevisions: ReadonlyMap<string, Revision>;
  /** By key. Writes to these keys are refused. */
  readonly unreadable: ReadonlyMap<string, Unreadable>;
}

export interface BucketId {
  readonly tenant: TenantName;
  readonly name: BucketName;
}

/** Phases that are acted on when all that began before has ended. */
const announcedPhases: ReadonlySet<BucketRecord["phase"]> = new Set([
  "rerouting",
  "deleting",
  "clearing",
]);

export interface Reduction {
  readonly view: StateView;
  /** Buckets whose record came in with a phase in which no write begins: members acknowledge it. */
  readonly announced: readonly BucketId[];
  /** Whether the step touched anything a snapshot holds, beyond its revision. */
  readonly changed: boolean;
  /** Values that became unreadable with this step. */
  readonly unreadable: readonly Unreadable[];
  /** The newest `updated_at` among the values applied. */
  readonly updatedAtMs: number | null;
}

function sameEntries<K>(a: ReadonlyMap<K, Revision>, b: ReadonlyMap<K, Revision>): boolean {
  if (a.size !== b.size) return false;
  for (const [key, revision] of a) if (b.get(key) !== revision) return false;
  return true;
}

/** The earlier map when it holds the same records at the same revisions. */
function unchanged<K, T>(
  next: ReadonlyMap<K, Versioned<T>>,
  last: ReadonlyMap<K, Versioned<T>> | undefined,
): ReadonlyMap<K, Versioned<T>> {
  if (last === next || last?.size !== next.size) return next;
  for (const [key, { modRevision }] of next) {
    if (last.get(key)?.modRevision !== modRevision) return next;
  }
  return last;
}

/** Changes on the way from one view to the next. */
class Draft {
  readonly #keys: Keyspace;
  readonly #interner: RecordInterner;
  readonly #known: StateView | null;
  readonly #clusters: Map<ClusterId, Versioned<ClusterRecord>>;
  readonly #classes: Map<string, Versioned<ClusterId>>;
  readonly #data: Map<string, unknown>;
  readonly #dataRevisions: Map<string, Revision>;
  readonly #unreadable: Map<string, Unreadable>;
  readonly #announced: BucketId[] = [];
  readonly #newUnreadable: Unreadable[] = [];
  /** The base's own until the first change: there may be many, and most batches touch none. */
  #credentials: ReadonlyMap<AccessKeyId, Versioned<CredentialRecord>>;
  #credentialChanges: Map<AccessKeyId, Versioned<CredentialRecord>> | null = null;
  #buckets: BucketTable;
  #bucketChanges: BucketTableChange[] = [];
  #updatedAtMs: number | null = null;
  #changed = false;

  /** `base`: what to start from; `known`: a view whose equal records may be reused. */
  constructor(
    keys: Keyspace,
    interner: RecordInterner,
    from: { readonly base: StateView | null; readonly known: StateView | null },
  ) {
    this.#keys = keys;
    this.#interner = interner;
    this.#known = from.known;
    this.#clusters = new Map(from.base?.snapshot.clusters);
    this.#classes = new Map(from.base?.snapshot.classes);
    this.#data = new Map(from.base?.snapshot.data);
    this.#dataRevisions = new Map(from.base?.dataRevisions);
    this.#unreadable = new Map(from.base?.unreadable);
    this.#credentials = from.base?.snapshot.credentials ?? new Map();
    this.#buckets = from.base?.snapshot.buckets ?? emptyBucketTable;
  }

  delete(key: string): void {
    const name = this.#keys.readKey(key);
    if (name.kind !== "other") this.#changed = true;
    this.#unreadable.delete(key);
    switch (name.kind) {
      case "cluster":
        this.#clusters.delete(name.id);
        return;
      case "class":
        this.#classes.delete(name.storageClass);
        return;
      case "bucket":
        this.#bucketChanges.push({ kind: "delete", tenant: name.tenant, name: name.name });
        return;
      case "data":
        this.#data.delete(name.path);
        this.#dataRevisions.delete(name.path);
        return;
      case "credential":
        this.#credentialDraft().delete(name.accessKeyId);
        return;
      case "malformed":
      case "other":
        return;
    }
  }

  put(entry: StoreEntry): void {
    const name = this.#keys.readKey(entry.key);
    const { modRevision } = entry;
    if (name.kind !== "other") this.#changed = true;
    switch (name.kind) {
      case "cluster": {
        const value = this.#read(entry, decodeCluster(name.id, entry.value));
        if (value !== null) this.#clusters.set(name.id, { value, modRevision });
        return;
      }
      case "class": {
        const value = this.#read(entry, decodeClass(entry.value));
        if (value !== null) this.#classes.set(name.storageClass, { value, modRevision });
        return;
      }
      case "bucket":
        this.#putBucket(entry, name);
        return;
      case "data": {
        const read = decodeData(entry.value);
        this.#read(entry, read);
        if (read.kind === "record") {
          this.#data.set(name.path, read.value);
          this.#dataRevisions.set(name.path, modRevision);
        }
        return;
      }
      case "credential": {
        const value = this.#read(entry, decodeCredential(name.accessKeyId, entry.value));
        if (value !== null) this.#credentialDraft().set(name.accessKeyId, { value, modRevision });
        return;
      }
      case "malformed":
        this.#refuse(entry, false, "key is not one of this layout");
        return;
      case "other":
        return;
    }
  }

  #credentialDraft(): Map<AccessKeyId, Versioned<CredentialRecord>> {
    this.#credentialChanges ??= new Map(this.#credentials);
    return this.#credentialChanges;
  }

  #putBucket(entry: StoreEntry, id: BucketId): void {
    const known = this.#known?.snapshot.buckets.find(id.tenant, id.name);
    const same = known?.modRevision === entry.modRevision ? known : undefined;
    const record = same?.value ?? this.#decodeBucket(entry, id);
    if (record === null) return;
    // A list finds phases already announced: those of the known view were reported then.
    if (announcedPhases.has(record.phase) && same === undefined)
      this.#announced.push({ tenant: id.tenant, name: id.name });
    this.#bucketChanges.push({
      kind: "put",
      entry: same ?? { value: record, modRevision: entry.modRevision },
    });
  }

  #decodeBucket(entry: StoreEntry, id: BucketId): BucketRecord | null {
    const record = this.#read(entry, decodeBucket(id.tenant, id.name, entry.value));
    return record === null ? null : this.#interner.record(record);
  }

  #read<T>(entry: StoreEntry, decoded: Decoded<T>): T | null {
    if (decoded.kind === "unreadable") {
      this.delete(entry.key);
      this.#refuse(entry, decoded.newer, decoded.reason);
      return null;
    }
    this.#unreadable.delete(entry.key);
    const { updatedAtMs } = decoded;
    if (updatedAtMs !== null && updatedAtMs > (this.#updatedAtMs ?? Number.NEGATIVE_INFINITY)) {
      this.#updatedAtMs = updatedAtMs;
    }
    return decoded.value;
  }

  #refuse(entry: StoreEntry, newer: boolean, reason: string): void {
    const refused = { key: entry.key, modRevision: entry.modRevision, newer, reason };
    const known = this.#known?.unreadable.get(entry.key);
    if (known?.modRevision !== entry.modRevision) this.#newUnreadable.push(refused);
    this.#unreadable.set(entry.key, refused);
  }

  /** Moves collected bucket changes into the table: between pages of a list. */
  settle(): void {
    this.#buckets = withBuckets(this.#buckets, this.#bucketChanges);
    this.#bucketChanges = [];
  }

  finish(revision: Revision, origin: PlacementSnapshot["origin"]): Reduction {
    this.settle();
    // Parts that are as they were stay the same objects: readers compare them by identity.
    const last = this.#known;
    const isSameData = last !== null && sameEntries(this.#dataRevisions, last.dataRevisions);
    const snapshot: PlacementSnapshot = Object.freeze({
      revision,
      origin,
      clusters: unchanged(this.#clusters, last?.snapshot.clusters),
      classes: unchanged(this.#classes, last?.snapshot.classes),
      buckets: this.#buckets,
      data: isSameData ? last.snapshot.data : this.#data,
      credentials: unchanged(
        this.#credentialChanges ?? this.#credentials,
        last?.snapshot.credentials,
      ),
    });
    const dataRevisions = isSameData ? last.dataRevisions : this.#dataRevisions;
    return {
      view: { snapshot, dataRevisions, unreadable: this.#unreadable },
      announced: this.#announced,
      changed: this.#changed,
      unreadable: this.#newUnreadable,
      updatedAtMs: this.#updatedAtMs,
    };
  }
}

/** A full list, page by page; nobody sees it before `finish`. */
export interface ListDraft {
  add(entries: readonly StoreEntry[]): void;
  /** Ends a page: cheap for 5000 entries. */
  settle(): void;
  finish(revision: Revision): Reduction;
}

export class Reducer {
  readonly #keys: Keyspace;
  readonly #interner = new RecordInterner();

  constructor(keys: Keyspace) {
    this.#keys = keys;
  }

  /** The view after one batch; the same view when it holds nothing new. */
  batch(view: StateView, batch: StoreBatch): Reduction {
    const { revision, origin } = view.snapshot;
    if (batch.revision <= revision) {
      return { view, announced: [], changed: false, unreadable: [], updatedAtMs: null };
    }
    const draft = new Draft(this.#keys, this.#interner, { base: view, known: view });
    for (const event of batch.events) {
      const at = event.kind === "put" ? event.entry.modRevision : event.modRevision;
      if (at <= revision) continue;
      if (event.kind === "put") draft.put(event.entry);
      else draft.delete(event.key);
    }
    return draft.finish(batch.revision, origin);
  }

  /** Begins a list that replaces `known`; what it lacks is gone, what is unchanged is reused. */
  list(known: StateView | null, origin: PlacementSnapshot["origin"]): ListDraft {
    const draft = new Draft(this.#keys, this.#interner, { base: null, known });
    return {
      add: (entries) => {
        for (const entry of entries) draft.put(entry);
      },
      settle: () => draft.settle(),
      finish: (revision) => draft.finish(revision, origin),
    };
  }
}
