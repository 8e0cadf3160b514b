// Views, inputs and counters for policy tests, over the committed bundles.

import { join } from "node:path";
import { emptyBucketTable } from "../../proxy/placement/bucket-table.ts";
import type { Meter } from "../../proxy/placement/ports.ts";
import type { ClusterRecord, ClusterState } from "../../proxy/placement/records.ts";
import type { PlacementSnapshot, Versioned } from "../../proxy/placement/snapshot.ts";
import type { PolicyBundle } from "../../proxy/policy/bundle.ts";
import { readBundle } from "../../proxy/policy/bundle-file.ts";
import { policyData } from "../../proxy/policy/data.ts";
import { openEngine } from "../../proxy/policy/engine.ts";
import type { DecisionInput, DecisionView, Principal } from "../../proxy/policy/ports.ts";
import type { ClusterId } from "../../proxy/s3/names.ts";
import { noTenant } from "../../proxy/s3/names.ts";
import { operationFacts, type S3Operation } from "../../proxy/s3/operation.ts";
import { bucketNamed, clusterNamed, keyNamed } from "./placement-names.ts";

const root = join(import.meta.dirname, "../..");

export const defaultBundle = (): Promise<PolicyBundle> =>
  readBundle(join(root, "policies/default"));
export const hostileBundle = (): Promise<PolicyBundle> =>
  readBundle(join(root, "test/vectors/policy/hostile"));

type ClusterFacts = readonly [state: ClusterState, weight: number | null];

/** `{a: ["live", 1]}` as a snapshot without buckets. */
export function snapshotOf(
  clusters: Readonly<Record<string, ClusterFacts>>,
  fields: {
    readonly classes?: Readonly<Record<string, string>>;
    readonly data?: Readonly<Record<string, unknown>>;
  } = {},
): PlacementSnapshot {
  const records = new Map<ClusterId, Versioned<ClusterRecord>>();
  for (const [name, [state, weight]] of Object.entries(clusters)) {
    const id = clusterNamed(name);
    const value: ClusterRecord = {
      id,
      state,
      weight,
      endpoints: [],
      profile: "rgw-pacific",
      region: "default",
      addressing: "path",
      labels: {},
    };
    records.set(id, { value, modRevision: 1n });
  }
  const classes = Object.entries(fields.classes ?? {}).map(
    ([name, cluster]) => [name, { value: clusterNamed(cluster), modRevision: 1n }] as const,
  );
  return {
    revision: 7n,
    origin: "live",
    clusters: records,
    classes: new Map(classes),
    buckets: emptyBucketTable,
    data: new Map(Object.entries(fields.data ?? {})),
    credentials: new Map(),
  };
}

export function viewOf(bundle: PolicyBundle, placement: PlacementSnapshot): DecisionView {
  return { placement, policy: openEngine(bundle, policyData(placement)) };
}

const everyone: Principal = {
  accessKey: "AKEXAMPLE",
  account: "acme",
  displayName: null,
  tenant: noTenant,
  groups: [],
  grants: [{ buckets: ["*"], keys: ["*"], allow: ["read", "list", "write", "delete", "admin"] }],
  scheme: "header",
};

export const nobody: Principal = {
  ...everyone,
  accessKey: null,
  account: null,
  grants: [],
  scheme: "anonymous",
};

export function inputOf(
  operation: S3Operation,
  fields: Partial<DecisionInput> = {},
): DecisionInput {
  const facts = operationFacts[operation];
  return {
    requestId: "r-1",
    nowMs: 1_796_000_000_000,
    method: "PUT",
    operation,
    operationClass: facts.class,
    tenant: noTenant,
    bucket: facts.scope === "service" ? null : bucketNamed("logs"),
    key: facts.scope === "object" ? keyNamed("2026/a.txt") : null,
    versionId: null,
    uploadId: null,
    partNumber: null,
    query: {},
    headers: {},
    contentLengthBytes: null,
    payloadMode: "unsigned",
    storageClass: "",
    copySource: null,
    deleteKeysCount: null,
    locationConstraint: null,
    principal: everyone,
    clientAddress: "127.0.0.1",
    tls: false,
    record: null,
    ...fields,
  };
}

/** Counts what decisions report, as `authz allow`, `memo hit`. */
export class DecisionTally {
  readonly lines: string[] = [];
  readonly meter: Pick<Meter, "decided" | "policyMemo"> = {
    decided: (entrypoint, outcome) => void this.lines.push(`${entrypoint} ${outcome}`),
    policyMemo: (outcome) => void this.lines.push(`memo ${outcome}`),
  };
}
