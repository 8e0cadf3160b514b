// Records for the bridge's tests, valid unless a test says otherwise.

import type {
  BucketRecord,
  ClusterRecord,
  CredentialRecord,
} from "../../proxy/placement/records.ts";
import type { AccessKeyId, BucketName, ClusterId } from "../../proxy/s3/names.ts";
import {
  noTenant,
  parseAccessKeyId,
  parseBucketName,
  parseClusterId,
} from "../../proxy/s3/names.ts";

export function clusterId(text: string): ClusterId {
  const id = parseClusterId(text);
  if (id === null) throw new Error(`not a cluster id: ${text}`);
  return id;
}

export function bucketName(text: string): BucketName {
  const name = parseBucketName(text);
  if (name === null) throw new Error(`not a bucket name: ${text}`);
  return name;
}

export function accessKeyId(text: string): AccessKeyId {
  const id = parseAccessKeyId(text);
  if (id === null) throw new Error(`not an access key id: ${text}`);
  return id;
}

export function credentialRecord(
  id: string,
  more: Partial<CredentialRecord> = {},
): CredentialRecord {
  return {
    accessKeyId: accessKeyId(id),
    uid: "alice",
    displayName: null,
    tenant: noTenant,
    groups: [],
    grants: [],
    status: "active",
    sealed: "c2VhbA",
    ...more,
  };
}

export function clusterRecord(id: string, more: Partial<ClusterRecord> = {}): ClusterRecord {
  return {
    id: clusterId(id),
    state: "live",
    weight: 1,
    endpoints: [`http://${id}.example:7480`],
    profile: "rgw-pacific",
    region: "default",
    addressing: "path",
    labels: {},
    ...more,
  };
}

export function bucketRecord(name: string, more: Partial<BucketRecord> = {}): BucketRecord {
  return {
    tenant: noTenant,
    name: bucketName(name),
    origin: "created",
    owner: "alice",
    placement: null,
    route: {
      weights: new Map([[clusterId("a"), 1]]),
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
    ...more,
  };
}
