// An in-memory Registry and Snapshots with real compare-and-swap, for tests of the admin surface.

import { bucketTableOf, withBucket, withoutBucket } from "../../proxy/placement/bucket-table.ts";
import type {
  AuditLine,
  Clock,
  CommitResult,
  Registry,
  RegistryChange,
  Snapshots,
} from "../../proxy/placement/ports.ts";
import type { BucketRecord, ClusterRecord, MemberRecord } from "../../proxy/placement/records.ts";
import type { PlacementSnapshot, Versioned } from "../../proxy/placement/snapshot.ts";
import {
  type BucketName,
  type ClusterId,
  noTenant,
  parseBucketName,
  parseClusterId,
} from "../../proxy/s3/names.ts";

export const fixedClock: Clock = {
  nowMs: () => 1_700_000_000_000,
  monotonicMs: () => 0,
  sleep: () => Promise.resolve(),
};

export function adminClusterId(text: string): ClusterId {
  const id = parseClusterId(text);
  if (id === null) throw new Error(`bad cluster id ${text}`);
  return id;
}

function adminBucketName(text: string): BucketName {
  const name = parseBucketName(text);
  if (name === null) throw new Error(`bad bucket name ${text}`);
  return name;
}

export function adminCluster(id: string, rest: Partial<ClusterRecord> = {}): ClusterRecord {
  return {
    id: adminClusterId(id),
    state: "live",
    weight: 1,
    endpoints: ["http://127.0.0.1:7480"],
    profile: "rgw-pacific",
    region: "default",
    addressing: "path",
    labels: {},
    ...rest,
  };
}

export function adminBucket(name: string, rest: Partial<BucketRecord> = {}): BucketRecord {
  return {
    tenant: noTenant,
    name: adminBucketName(name),
    origin: "created",
    owner: "alice",
    placement: null,
    route: {
      weights: new Map([[adminClusterId("a"), 1]]),
      mode: "weighted",
      spread: "object",
      source: "default_wheel",
    },
    epochs: [1],
    order: [],
    phase: "settled",
    extra: [],
    conflict: false,
    frozen: false,
    asked: null,
    createdAt: "2026-11-29T00:00:00.000Z",
    ...rest,
  };
}

export interface AdminState {
  readonly clusters?: readonly ClusterRecord[];
  readonly classes?: Readonly<Record<string, string>>;
  readonly buckets?: readonly BucketRecord[];
}

export function adminSnapshot(state: AdminState): PlacementSnapshot {
  const at = <T>(value: T): Versioned<T> => ({ value, modRevision: 1n });
  return {
    revision: 1n,
    origin: "live",
    clusters: new Map((state.clusters ?? []).map((record) => [record.id, at(record)])),
    classes: new Map(
      Object.entries(state.classes ?? {}).map(([name, id]) => [name, at(adminClusterId(id))]),
    ),
    buckets: bucketTableOf((state.buckets ?? []).map(at)),
    data: new Map(),
    credentials: new Map(),
  };
}

/** State whose commits are applied at once. `beforeCommit` may write in between, to lose a race. */
export class AdminMemory implements Registry, Snapshots {
  readonly audit: AuditLine[] = [];
  memberList: readonly { readonly record: MemberRecord; readonly alive: boolean }[] = [];
  beforeCommit: (() => void) | null = null;
  #view: PlacementSnapshot;

  constructor(state: AdminState) {
    this.#view = adminSnapshot(state);
  }

  current(): PlacementSnapshot {
    return this.#view;
  }

  reached(): Promise<void> {
    return Promise.resolve();
  }

  subscribe(): () => void {
    return () => undefined;
  }

  forgetMember(id: string): Promise<"forgotten" | "alive" | "unknown"> {
    const found = this.memberList.find(({ record }) => record.id === id);
    if (found === undefined) return Promise.resolve("unknown");
    if (found.alive) return Promise.resolve("alive");
    this.memberList = this.memberList.filter((member) => member !== found);
    return Promise.resolve("forgotten");
  }

  members(): Promise<AdminMemory["memberList"]> {
    return Promise.resolve(this.memberList);
  }

  commit(changes: readonly RegistryChange[], audit: AuditLine | null): Promise<CommitResult> {
    const hook = this.beforeCommit;
    this.beforeCommit = null;
    hook?.();
    if (changes.some((change) => this.#modRevision(change) !== change.expected)) {
      return Promise.resolve({ kind: "conflict" });
    }
    this.write(changes);
    if (audit !== null) this.audit.push(audit);
    return Promise.resolve({ kind: "committed", revision: this.#view.revision });
  }

  /** Applies changes whatever they expect. */
  write(changes: readonly RegistryChange[]): void {
    const view = this.#view;
    const modRevision = view.revision + 1n;
    const clusters = new Map(view.clusters);
    const classes = new Map(view.classes);
    const credentials = new Map(view.credentials);
    let { buckets } = view;
    for (const change of changes) {
      switch (change.kind) {
        case "cluster":
          if (change.record === null) clusters.delete(change.id);
          else clusters.set(change.id, { value: change.record, modRevision });
          break;
        case "class":
          if (change.cluster === null) classes.delete(change.storageClass);
          else classes.set(change.storageClass, { value: change.cluster, modRevision });
          break;
        case "credential":
          if (change.record === null) credentials.delete(change.accessKeyId);
          else credentials.set(change.accessKeyId, { value: change.record, modRevision });
          break;
        case "bucket":
          buckets =
            change.record === null
              ? withoutBucket(buckets, change.tenant, change.name)
              : withBucket(buckets, { value: change.record, modRevision });
          break;
      }
    }
    this.#view = { ...view, revision: modRevision, clusters, classes, buckets, credentials };
  }

  #modRevision(change: RegistryChange): bigint {
    const view = this.#view;
    switch (change.kind) {
      case "cluster":
        return view.clusters.get(change.id)?.modRevision ?? 0n;
      case "class":
        return view.classes.get(change.storageClass)?.modRevision ?? 0n;
      case "credential":
        return view.credentials.get(change.accessKeyId)?.modRevision ?? 0n;
      case "bucket":
        return view.buckets.find(change.tenant, change.name)?.modRevision ?? 0n;
    }
  }
}
