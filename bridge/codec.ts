// Domain records as JSON values in the store. Every value carries `schema`, `updated_at` (RFC 3339,
// UTC) and `updated_by`. Readers are written by hand and refuse what they do not know exactly: a
// value that is not understood becomes `unreadable`, is never guessed, and is never written over.

import { FaultError } from "../proxy/placement/ports.ts";
import type {
  BucketPlacement,
  BucketRecord,
  ClusterRecord,
  CredentialRecord,
  MemberRecord,
  Route,
  Weights,
} from "../proxy/placement/records.ts";
import { clusterStates } from "../proxy/placement/records.ts";
import type { AccessKeyId, BucketName, ClusterId, TenantName } from "../proxy/s3/names.ts";
import { parseClusterId, parseTenantName } from "../proxy/s3/names.ts";
import {
  asArray,
  asBoolean,
  asInteger,
  asObject,
  asOneOf,
  asRevision,
  asString,
  asStringOrNull,
  asUrl,
  type JsonObject,
  parseJson,
  shapeFault,
} from "./json-reader.ts";

/** The newest value formats this version writes and reads. Of buckets: 2 since records tell what was asked. */
export const recordSchema = 1;
const bucketSchema = 2;

/** Who wrote a value and when. */
export interface Stamp {
  /** RFC 3339 with milliseconds: `2026-11-29T23:00:00.000Z`. */
  readonly updatedAt: string;
  /** `{actor kind}:{actor name}` or `member:{id}`. */
  readonly updatedBy: string;
}

export type Decoded<T> =
  | { readonly kind: "record"; readonly value: T; readonly updatedAtMs: number | null }
  | { readonly kind: "unreadable"; readonly newer: boolean; readonly reason: string };

const modes = ["weighted", "strict"] as const;
const spreads = ["object", "prefix", "bucket"] as const;

function decode<T>(
  text: string,
  read: (value: JsonObject, schema: number) => T,
  newest = recordSchema,
): Decoded<T> {
  try {
    const value = asObject(parseJson(text), "value");
    const schema = asInteger(value["schema"], "schema", [1, Number.MAX_SAFE_INTEGER]);
    if (schema > newest) {
      const reason = `schema is ${schema}, this version knows ${newest}`;
      return { kind: "unreadable", newer: true, reason };
    }
    const updatedAt = value["updated_at"];
    const updatedAtMs = typeof updatedAt === "string" ? Date.parse(updatedAt) : Number.NaN;
    return {
      kind: "record",
      value: read(value, schema),
      updatedAtMs: Number.isNaN(updatedAtMs) ? null : updatedAtMs,
    };
  } catch (error) {
    if (!(error instanceof FaultError)) throw error;
    return { kind: "unreadable", newer: false, reason: error.message };
  }
}

function encode(stamp: Stamp, fields: JsonObject, schema = recordSchema): string {
  return JSON.stringify({
    schema,
    updated_at: stamp.updatedAt,
    updated_by: stamp.updatedBy,
    ...fields,
  });
}

// ---- shared parts ----

function asClusterId(value: unknown, name: string): ClusterId {
  const id = parseClusterId(asString(value, name));
  if (id === null) throw shapeFault(`"${name}" is not a cluster id`);
  return id;
}

function asClusterIds(value: unknown, name: string): readonly ClusterId[] {
  return asArray(value, name).map((id) => asClusterId(id, name));
}

function asWeights(value: unknown, bounds: readonly [number, number]): Weights {
  const weights = new Map<ClusterId, number>();
  for (const [id, weight] of Object.entries(asObject(value, "weights"))) {
    weights.set(asClusterId(id, "weights"), asInteger(weight, `weights.${id}`, bounds));
  }
  return weights;
}

/** Ids sorted, so that equal records have equal text. */
function weightsJson(weights: Weights): JsonObject {
  return Object.fromEntries([...weights].sort(([a], [b]) => (a < b ? -1 : 1)));
}

// ---- clusters, classes ----

export function encodeCluster(record: ClusterRecord, stamp: Stamp): string {
  return encode(stamp, {
    state: record.state,
    weight: record.weight,
    endpoints: record.endpoints,
    profile: record.profile,
    region: record.region,
    addressing: record.addressing,
    labels: record.labels,
  });
}

export function decodeCluster(id: ClusterId, text: string): Decoded<ClusterRecord> {
  return decode(text, (value) => ({
    id,
    state: asOneOf(value["state"], "state", clusterStates),
    weight: value["weight"] === null ? null : asInteger(value["weight"], "weight", [0, 100]),
    endpoints: asArray(value["endpoints"], "endpoints").map((url) => asUrl(url, "endpoints")),
    profile: asString(value["profile"], "profile"),
    region: asString(value["region"], "region"),
    addressing: asOneOf(value["addressing"], "addressing", ["path", "virtual"]),
    labels: Object.fromEntries(
      Object.entries(asObject(value["labels"], "labels")).map(([name, label]) => [
        name,
        asString(label, `labels.${name}`),
      ]),
    ),
  }));
}

export function encodeClass(cluster: ClusterId, stamp: Stamp): string {
  return encode(stamp, { cluster });
}

export function decodeClass(text: string): Decoded<ClusterId> {
  return decode(text, (value) => asClusterId(value["cluster"], "cluster"));
}

// ---- buckets ----

function readPlacement(value: unknown): BucketPlacement | null {
  if (value === null) return null;
  const placement = asObject(value, "placement");
  const spread = placement["spread"];
  return {
    weights: asWeights(placement["weights"], [0, 100]),
    mode: asOneOf(placement["mode"], "mode", modes),
    spread: spread === null ? null : asOneOf(spread, "spread", spreads),
    weighting: asOneOf(placement["weighting"], "weighting", ["weights", "uniform"]),
  };
}

/** Route weights are what a policy returned: any positive integer, not only 0–100. */
const routeWeightBounds = [1, Number.MAX_SAFE_INTEGER] as const;

function readRoute(value: unknown): Route {
  const route = asObject(value, "route");
  const weights = asWeights(route["weights"], routeWeightBounds);
  if (weights.size === 0) throw shapeFault(`"route.weights" is empty, needs a cluster`);
  return {
    weights,
    mode: asOneOf(route["mode"], "mode", modes),
    spread: asOneOf(route["spread"], "spread", spreads),
    source: asString(route["source"], "source"),
  };
}

export function encodeBucket(record: BucketRecord, stamp: Stamp): string {
  const { placement, route } = record;
  const fields = {
    origin: record.origin,
    owner: record.owner,
    placement:
      placement === null ? null : { ...placement, weights: weightsJson(placement.weights) },
    route: { ...route, weights: weightsJson(route.weights) },
    epochs: record.epochs,
    order: record.order,
    phase: record.phase,
    extra: record.extra,
    conflict: record.conflict,
    frozen: record.frozen,
    asked: record.asked,
    created_at: record.createdAt,
  };
  return encode(stamp, fields, bucketSchema);
}

const phases = ["creating", "clearing", "settled", "rerouting", "deleting"] as const;

export function decodeBucket(
  tenant: TenantName,
  name: BucketName,
  text: string,
): Decoded<BucketRecord> {
  const read = (value: JsonObject, schema: number): BucketRecord => {
    const phase = asOneOf(value["phase"], "phase", phases);
    // Schema 1 did not say: whoever goes on with such a creation asks for something else.
    const unsaid = phase === "creating" ? "" : null;
    return {
      tenant,
      name,
      origin: asOneOf(value["origin"], "origin", ["created", "discovered"]),
      owner: asStringOrNull(value["owner"], "owner"),
      placement: readPlacement(value["placement"]),
      route: readRoute(value["route"]),
      epochs: asArray(value["epochs"], "epochs").map((epoch) =>
        asInteger(epoch, "epochs", [0, Number.MAX_SAFE_INTEGER]),
      ),
      order: asClusterIds(value["order"], "order"),
      phase,
      extra: asClusterIds(value["extra"], "extra"),
      conflict: asBoolean(value["conflict"], "conflict"),
      frozen: asBoolean(value["frozen"], "frozen"),
      asked: schema === 1 ? unsaid : asStringOrNull(value["asked"], "asked"),
      createdAt: asString(value["created_at"], "created_at"),
    };
  };
  return decode(text, read, bucketSchema);
}

// ---- credentials ----

export function encodeCredential(record: CredentialRecord, stamp: Stamp): string {
  return encode(stamp, {
    uid: record.uid,
    display_name: record.displayName,
    tenant: record.tenant,
    groups: record.groups,
    grants: record.grants,
    status: record.status,
    sealed: record.sealed,
  });
}

export function decodeCredential(
  accessKeyId: AccessKeyId,
  text: string,
): Decoded<CredentialRecord> {
  return decode(text, (value) => {
    const tenant = parseTenantName(asString(value["tenant"], "tenant"));
    if (tenant === null) throw shapeFault(`"tenant" is not a tenant`);
    return {
      accessKeyId,
      uid: asString(value["uid"], "uid"),
      displayName: asStringOrNull(value["display_name"], "display_name"),
      tenant,
      groups: asStrings(value["groups"], "groups"),
      grants: asArray(value["grants"], "grants").map((one) => {
        const grant = asObject(one, "grants");
        return {
          buckets: asStrings(grant["buckets"], "grants.buckets"),
          keys: asStrings(grant["keys"], "grants.keys"),
          allow: asStrings(grant["allow"], "grants.allow"),
        };
      }),
      status: asOneOf(value["status"], "status", ["active", "suspended"]),
      sealed: asString(value["sealed"], "sealed"),
    };
  });
}

function asStrings(value: unknown, name: string): readonly string[] {
  return asArray(value, name).map((text) => asString(text, name));
}

// ---- members, data ----

export function encodeMember(record: MemberRecord, stamp: Stamp): string {
  return encode(stamp, {
    node_id: record.nodeId,
    mode: record.mode,
    started_at: record.startedAt,
    version: record.version,
    acked: record.acked.toString(),
  });
}

export function decodeMember(id: string, text: string): Decoded<MemberRecord> {
  return decode(text, (value) => ({
    id,
    nodeId: asString(value["node_id"], "node_id"),
    mode: asOneOf(value["mode"], "mode", ["full", "observer"]),
    startedAt: asString(value["started_at"], "started_at"),
    version: asString(value["version"], "version"),
    acked: asRevision(value["acked"], "acked"),
  }));
}

/** Operators' data stands under `value`, whatever JSON it is. */
export function encodeData(data: unknown, stamp: Stamp): string {
  return encode(stamp, { value: data ?? null });
}

export function decodeData(text: string): Decoded<unknown> {
  return decode(text, (value) => {
    if (!("value" in value)) throw shapeFault(`"value" is missing`);
    return value["value"];
  });
}
