// Which S3 operation a request is. Decided on the method, the address and the *names* of query
// parameters and headers, never on credentials. A request that is not surely one of the supported
// operations is refused: a sub-resource must never fall through to a list, an object read or a delete.

import type { Address } from "./address.ts";
import { v2Parameters } from "./authorization-v2.ts";
import { S3Error } from "./errors.ts";
import { fieldValue } from "./headers.ts";
import type { OperationFacts, S3Operation } from "./operation.ts";
import { operationFacts } from "./operation.ts";
import { hasParameter, queryValue } from "./query.ts";
import type { RequestHead } from "./request-head.ts";
import { overrideError } from "./response-overrides.ts";
import {
  bucketReadParameters,
  objectParameters,
  objectReadParameters,
  subresourceParameters,
  subresources,
} from "./subresource.ts";

export type ClassifyResult =
  | { readonly kind: "operation"; readonly operation: S3Operation }
  /** `operation` is the name when it has one, for logs and metrics. */
  | { readonly kind: "error"; readonly error: S3Error; readonly operation: S3Operation | null };

type NameResult =
  | { readonly kind: "operation"; readonly operation: S3Operation }
  | { readonly kind: "error"; readonly error: S3Error; readonly operation: null };

const writeOffset = "x-amz-write-offset-bytes";

type Scope = OperationFacts["scope"];

/** Names the operation of a request; one that this release does not serve is an error. */
export function classifyOperation(head: RequestHead, address: Address): ClassifyResult {
  const named = nameOperation(head, address);
  if (named.kind === "error") return named;
  const { operation } = named;
  const { supported, refusal }: OperationFacts = operationFacts[operation];
  const wrong = overrideError(head.query);
  if (wrong !== null) return { kind: "error", error: wrong, operation };
  if (supported) return { kind: "operation", operation };
  const message = `${operation} is not implemented${refusal === null ? "" : `: ${refusal}`}`;
  return { kind: "error", error: new S3Error("NotImplemented", { message }), operation };
}

function nameOperation(head: RequestHead, address: Address): NameResult {
  const misplaced = head.query.find(([name]) => isOfHeaders(name));
  if (misplaced !== undefined) {
    return notImplemented(`Parameter "${misplaced[0]}" is not implemented`);
  }
  if (head.method === "OPTIONS") return operation("OptionsObject");
  const scope = scopeOf(address);
  const special = subresourceOperation(head, scope);
  if (special !== null) return special;
  switch (scope) {
    case "service":
      return serviceOperation(head);
    case "bucket":
      return bucketOperation(head);
    case "object":
      return objectOperation(head);
  }
}

function scopeOf(address: Address): Scope {
  if (address.bucket === null) return "service";
  return address.key === null ? "bucket" : "object";
}

function serviceOperation(head: RequestHead): NameResult {
  if (head.method === "POST") return operation("ServiceAction");
  if (head.method !== "GET") return methodNotAllowed();
  if (hasParameter(head.query, "Action")) return operation("ServiceAction");
  const directory = queryValue(head.query, "x-id") === "ListDirectoryBuckets";
  return operation(directory ? "ListDirectoryBuckets" : "ListBuckets");
}

/** The operation when a query name makes it one; `null` when none does. */
function subresourceOperation(head: RequestHead, scope: Scope): NameResult | null {
  const known = subresources[scope];
  const [name, second] = head.query.map(([text]) => text).filter((text) => known.has(text));
  if (second !== undefined) {
    return invalidArgument(`Query parameters "${name}" and "${second}" exclude each other`);
  }
  if (name === undefined) {
    // A form at `/` holds its action in the body, and whatever it likes in the query.
    const unknown = head.method === "POST" && scope === "service" ? null : unknownOf(head, scope);
    return unknown === null ? null : notImplemented(`Parameter "${unknown}" is not implemented`);
  }
  const operations = known.get(name) ?? [];
  if (operations.length === 0) return notImplemented(`Parameter "${name}" is not implemented`);
  const named = operations.find(
    ({ method, parameter }) =>
      method === head.method && (parameter === null || hasParameter(head.query, parameter)),
  );
  if (named === undefined) return methodNotAllowed();
  const unknown = unknownOf(head, scope, { name, parameter: named.parameter });
  if (unknown !== null) return notImplemented(`Parameter "${unknown}" is not implemented`);
  return operation(named.operation);
}

/** Makes another operation of a request, and is a header or nothing. An upstream might not mind. */
function isOfHeaders(name: string): boolean {
  return /^x[-_]amz[-_](?:copy[-_]source|rename[-_]source|write[-_]offset)/i.test(name);
}

/**
 * The first parameter that could change what the request does and is not known here. Reads tolerate
 * an unknown one that has a value (`?v=17`): it is dropped on the way upstream. A write does not, so
 * that a new kind of `DELETE /b?something=1` never deletes the bucket. Names in `x-` are for logs.
 */
function unknownOf(
  head: RequestHead,
  scope: Scope,
  beside: { readonly name: string; readonly parameter: string | null } | null = null,
): string | null {
  const reads = head.method === "GET" || head.method === "HEAD";
  for (const [name, value] of head.query) {
    if (/^x-/i.test(name) || v2Parameters.has(name)) continue;
    if (isParameter(name, scope, reads)) continue;
    if (beside !== null && isBeside(name, beside)) continue;
    if (!reads || value === null || value === "") return name;
  }
  return null;
}

function isBeside(
  name: string,
  subresource: { readonly name: string; readonly parameter: string | null },
): boolean {
  const { name: itself, parameter } = subresource;
  return name === itself || name === parameter || subresourceParameters.has(name);
}

function isParameter(name: string, scope: Scope, reads: boolean): boolean {
  if (scope !== "object") return reads && bucketReadParameters.has(name);
  if (subresourceParameters.has(name)) return false;
  return objectParameters.has(name) || (reads && objectReadParameters.has(name));
}

function bucketOperation(head: RequestHead): NameResult {
  switch (head.method) {
    case "GET":
      return listOperation(head);
    case "HEAD":
      return operation("HeadBucket");
    case "PUT":
      return operation("CreateBucket");
    case "DELETE":
      return operation("DeleteBucket");
    case "POST":
      return isForm(head) ? operation("PostObject") : methodNotAllowed();
    default:
      return methodNotAllowed();
  }
}

function listOperation(head: RequestHead): NameResult {
  const listType = queryValue(head.query, "list-type");
  if (listType === null) return operation("ListObjects");
  if (listType === "2") return operation("ListObjectsV2");
  return invalidArgument('Query parameter "list-type" must be "2"');
}

function objectOperation(head: RequestHead): NameResult {
  const upload = hasParameter(head.query, "uploadId");
  switch (head.method) {
    case "GET":
      return operation(upload ? "ListParts" : "GetObject");
    case "HEAD":
      return upload ? methodNotAllowed() : operation("HeadObject");
    case "PUT":
      return putOperation(head, upload);
    case "DELETE":
      return operation(upload ? "AbortMultipartUpload" : "DeleteObject");
    case "POST":
      return upload ? operation("CompleteMultipartUpload") : methodNotAllowed();
    default:
      return methodNotAllowed();
  }
}

function putOperation(head: RequestHead, upload: boolean): NameResult {
  const copies = fieldValue(head.headers, "x-amz-copy-source") !== null;
  const part = hasParameter(head.query, "partNumber");
  if (upload !== part) {
    return invalidArgument('Query parameters "uploadId" and "partNumber" must be given together');
  }
  // A cluster that does not know it takes what should be put behind the object for the whole.
  if (fieldValue(head.headers, writeOffset) !== null) {
    return notImplemented(`Header "${writeOffset}" is for directory buckets, a service of AWS`);
  }
  if (upload) return operation(copies ? "UploadPartCopy" : "UploadPart");
  return operation(copies ? "CopyObject" : "PutObject");
}

function isForm(head: RequestHead): boolean {
  const type = fieldValue(head.headers, "content-type") ?? "";
  return type.trimStart().toLowerCase().startsWith("multipart/form-data");
}

function operation(name: S3Operation): NameResult {
  return { kind: "operation", operation: name };
}

function methodNotAllowed(): NameResult {
  return { kind: "error", error: new S3Error("MethodNotAllowed"), operation: null };
}

function notImplemented(message: string): NameResult {
  return { kind: "error", error: new S3Error("NotImplemented", { message }), operation: null };
}

function invalidArgument(message: string): NameResult {
  return { kind: "error", error: new S3Error("InvalidArgument", { message }), operation: null };
}
