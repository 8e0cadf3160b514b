// Builds the JSON documents that policy is asked with: input version 1, policies/schemas/input.json.
// Never in them: secrets, signatures, Authorization, session tokens, presigned query values. The
// bucket's record is looked up by the host, so that WASM memory never holds a million of them.

import type { BucketRecord } from "../placement/records.ts";
import type { BucketName, ObjectKey, TenantName } from "../s3/names.ts";
import type { DecisionInput } from "./ports.ts";

type BucketSection = Readonly<Record<string, unknown>>;

/** Records are immutable, so that each is turned into its section once. */
const sections = new WeakMap<BucketRecord, BucketSection>();

/** The record of the bucket as policy sees it, `{tenant: "-", name: "logs", placement: {a: 70}, …}`. */
function bucketSection(record: BucketRecord): BucketSection {
  const known = sections.get(record);
  if (known !== undefined) return known;
  const { placement, route } = record;
  const section = {
    tenant: record.tenant,
    name: record.name,
    placement: placement === null ? null : Object.fromEntries(placement.weights),
    mode: placement?.mode ?? null,
    weighting: placement?.weighting ?? null,
    // A bucket without a spread of its own keeps the one it is settled on.
    spread: placement?.spread ?? route.spread,
    tags: {},
    created_here: record.origin === "created",
  };
  sections.set(record, section);
  return section;
}

/** The whole request, for both entrypoints. */
export function fullInput(input: DecisionInput): Readonly<Record<string, unknown>> {
  const { principal } = input;
  return {
    version: 1,
    request: {
      id: input.requestId,
      time_ns: input.nowMs * 1_000_000,
      method: input.method,
      operation: input.operation,
      operation_class: input.operationClass,
      tenant: input.tenant,
      bucket: input.bucket,
      key: input.key,
      version_id: input.versionId,
      upload_id: input.uploadId,
      part_number: input.partNumber,
      query: input.query,
      headers: input.headers,
      content_length: input.contentLengthBytes,
      payload_mode: input.payloadMode,
      storage_class: input.storageClass,
      copy_source:
        input.copySource === null
          ? null
          : {
              bucket: input.copySource.bucket,
              key: input.copySource.key,
              version_id: input.copySource.versionId,
            },
      delete_keys_count: input.deleteKeysCount,
      location_constraint: input.locationConstraint,
    },
    principal: {
      access_key: principal.accessKey,
      account: principal.account,
      display_name: principal.displayName,
      tenant: principal.tenant,
      groups: principal.groups,
      grants: principal.grants,
      scheme: principal.scheme,
      anonymous: principal.scheme === "anonymous",
    },
    client: { ip: input.clientAddress, secure: input.tls },
    bucket: input.record === null ? null : bucketSection(input.record),
  };
}

/**
 * What map(bucket, key) is evaluated on (placement.md §1): nothing of the caller or the moment, so
 * that owners are functions of bucket, key and epoch whatever a policy looks at.
 */
export function canonicalInput(
  tenant: TenantName,
  bucket: BucketName | null,
  options: { readonly key: ObjectKey | null; readonly record: BucketRecord | null },
): Readonly<Record<string, unknown>> {
  const { key, record } = options;
  return {
    version: 1,
    request: { operation: "PutObject", tenant, bucket, key, storage_class: "" },
    bucket: record === null ? null : bucketSection(record),
  };
}
