// From a verified request to what policy may see of it (policies/README.md, input version 1).
// An allow-list: nothing that authenticates or decrypts ever gets in.

import type { BucketRecord } from "../placement/records.ts";
import type { DecisionInput, Principal } from "../policy/ports.ts";
import type { Address } from "../s3/address.ts";
import type { CopySource } from "../s3/copy-source.ts";
import type { HeaderList, QueryList } from "../s3/headers.ts";
import { fieldValue } from "../s3/headers.ts";
import type { TenantName } from "../s3/names.ts";
import type { S3Operation } from "../s3/operation.ts";
import { operationFacts } from "../s3/operation.ts";

export interface InputFacts {
  readonly requestId: string;
  readonly nowMs: number;
  readonly method: string;
  readonly operation: S3Operation;
  readonly address: Address;
  readonly query: QueryList;
  readonly headers: HeaderList;
  readonly contentLengthBytes: number | null;
  readonly payloadMode: string;
  readonly locationConstraint: string | null;
  readonly copySource: CopySource | null;
  readonly deleteKeysCount: number | null;
  readonly principal: Principal;
  readonly clientAddress: string;
  readonly tls: boolean;
}

const plainFields = new Set([
  "cache-control",
  "content-disposition",
  "content-encoding",
  "content-language",
  "content-md5",
  "content-type",
  "if-match",
  "if-modified-since",
  "if-none-match",
  "if-unmodified-since",
  "range",
  "referer",
  "user-agent",
]);
/** Of x-amz-*, what carries a key or a token (s3-protocol.md 2.6; SSE-C). */
const secretField = /^x-amz-(?:security-token|.*server-side-encryption-customer-)/;

/** The tenant that a bucket name without one belongs to: the caller's. */
export function tenantOf(address: Address, principal: Principal): TenantName {
  return address.tenant ?? principal.tenant;
}

/** What a caller is called as the owner of a bucket. */
export function callerOf({ account, accessKey }: Principal): string {
  return account ?? accessKey ?? "anonymous";
}

export function decisionInput(facts: InputFacts, record: BucketRecord | null): DecisionInput {
  const { address, query, headers, operation } = facts;
  const partNumber = parameter(query, "partNumber");
  return {
    requestId: facts.requestId,
    nowMs: facts.nowMs,
    method: facts.method,
    operation,
    operationClass: operationFacts[operation].class,
    tenant: tenantOf(address, facts.principal),
    bucket: address.bucket,
    key: address.key,
    versionId: parameter(query, "versionId"),
    uploadId: parameter(query, "uploadId"),
    partNumber: partNumber !== null && /^\d{1,5}$/.test(partNumber) ? Number(partNumber) : null,
    query: queryTable(query),
    headers: headerTable(headers, query),
    contentLengthBytes: facts.contentLengthBytes,
    payloadMode: facts.payloadMode,
    storageClass:
      fieldValue(headers, "x-amz-storage-class") ?? hoisted(query, "x-amz-storage-class") ?? "",
    copySource: facts.copySource,
    deleteKeysCount: facts.deleteKeysCount,
    locationConstraint: facts.locationConstraint,
    principal: facts.principal,
    clientAddress: facts.clientAddress,
    tls: facts.tls,
    record,
  };
}

function parameter(query: QueryList, name: string): string | null {
  for (const [known, value] of query) if (known === name) return value ?? "";
  return null;
}

/** Of no presigned request, whose query holds no fields any more; of others a cluster might obey it there. */
function hoisted(query: QueryList, name: string): string | null {
  for (const [known, value] of query) if (known.toLowerCase() === name) return value ?? "";
  return null;
}

/** Whether a parameter is a key or a token that must not be in a URL, nor be seen by policy. */
export function isSecretParameter(name: string): boolean {
  return secretField.test(name.toLowerCase());
}

function queryTable(query: QueryList): DecisionInput["query"] {
  // Without a prototype: names come from the client.
  const table: Record<string, readonly string[]> = Object.create(null) as Record<string, never>;
  for (const [name, value] of query) table[name] = [value ?? ""];
  return table;
}

function headerTable(headers: HeaderList, query: QueryList): DecisionInput["headers"] {
  const table: Record<string, string[]> = Object.create(null) as Record<string, never>;
  for (const [name, value] of query) {
    const lower = name.toLowerCase();
    if (lower.startsWith("x-amz-") && !secretField.test(lower)) table[lower] = [value ?? ""];
  }
  for (const [name, value] of headers) {
    if (!plainFields.has(name) && !(name.startsWith("x-amz-") && !secretField.test(name))) continue;
    const values = table[name];
    if (values === undefined) table[name] = [value];
    else values.push(value);
  }
  return table;
}
