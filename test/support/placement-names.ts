// Names and records for placement tests, through the product's own parsers.

import type { BucketRecord, ClusterRecord, Route, Weights } from "../../proxy/placement/records.ts";
import type { BucketName, ClusterId, ObjectKey, TenantName } from "../../proxy/s3/names.ts";
import {
  noTenant,
  parseBucketName,
  parseClusterId,
  parseObjectKey,
  parseTenantName,
} from "../../proxy/s3/names.ts";

function parsed<T>(value: T | null, text: string): T {
  if (value === null) throw new Error(`Test name does not parse: "${text}"`);
  return value;
}

export const clusterNamed = (text: string): ClusterId => parsed(parseClusterId(text), text);
export const bucketNamed = (text: string): BucketName => parsed(parseBucketName(text), text);
export const keyNamed = (text: string): ObjectKey => parsed(parseObjectKey(text), text);
export const tenantNamed = (text: string): TenantName => parsed(parseTenantName(text), text);

/** `{a: 1, b: 3}` as weights. */
export function weightsOf(weights: Readonly<Record<string, number>>): Weights {
  return new Map(Object.entries(weights).map(([id, weight]) => [clusterNamed(id), weight]));
}

export function routeOf(
  weights: Readonly<Record<string, number>>,
  fields: Partial<Route> = {},
): Route {
  return {
    weights: weightsOf(weights),
    mode: "weighted",
    spread: "object",
    source: "default_wheel",
    ...fields,
  };
}

export function bucketRecord(name: string, fields: Partial<BucketRecord> = {}): BucketRecord {
  return {
    tenant: noTenant,
    name: bucketNamed(name),
    origin: "created",
    owner: "someone",
    placement: null,
    route: routeOf({ a: 1, b: 1 }),
    epochs: [1],
    order: [],
    phase: "settled",
    extra: [],
    conflict: false,
    frozen: false,
    asked: null,
    createdAt: "2026-11-29T00:00:00.000Z",
    ...fields,
  };
}

export function clusterRecord(id: string, fields: Partial<ClusterRecord> = {}): ClusterRecord {
  return {
    id: clusterNamed(id),
    state: "live",
    weight: 50,
    endpoints: ["http://127.0.0.1:7480"],
    profile: "rgw-pacific",
    region: "default",
    addressing: "path",
    labels: {},
    ...fields,
  };
}
