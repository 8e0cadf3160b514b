// Which S3 operation a request is, and the facts about each. Names are those of the S3 API Reference.
// Classification looks at the method, the address and the *names* of query parameters and headers,
// never at credentials. A request that is not surely one of the supported operations is refused: a
// sub-resource must never fall through to a list, an object read or a delete.

import type { Address } from "./address.ts";
import { S3Error } from "./errors.ts";
import { fieldValue } from "./headers.ts";
import { hasParameter, queryValue } from "./query.ts";
import type { RequestHead } from "./request-head.ts";
import {
  bucketReadParameters,
  bucketSubresources,
  objectParameters,
  objectReadParameters,
  objectSubresources,
} from "./subresource.ts";

/** What policy sees as the kind of access. */
export type OperationClass = "read" | "write" | "list" | "delete" | "admin";

export interface OperationFacts {
  readonly class: OperationClass;
  /** Places new bytes: a drain refuses it (placement.md §2 rule 7). */
  readonly places: boolean;
  readonly scope: "service" | "bucket" | "object";
  /** `false`: known by name and answered with 501 NotImplemented. */
  readonly supported: boolean;
}

const read = { class: "read", places: false, scope: "object", supported: true } as const;
const write = { class: "write", places: false, scope: "object", supported: true } as const;
const bucketRead = { class: "read", places: false, scope: "bucket", supported: true } as const;
const bucketAdmin = { class: "admin", places: false, scope: "bucket", supported: true } as const;
const bucketList = { class: "list", places: false, scope: "bucket", supported: true } as const;
const supportedLater = { supported: false } as const;

/** Facts about each operation Headgate knows by name. */
export const operationFacts = {
  ListBuckets: { class: "list", places: false, scope: "service", supported: true },
  CreateBucket: { class: "admin", places: true, scope: "bucket", supported: true },
  HeadBucket: bucketRead,
  DeleteBucket: bucketAdmin,
  ListObjects: bucketList,
  ListObjectsV2: bucketList,
  ListObjectVersions: { ...bucketList, ...supportedLater },
  ListMultipartUploads: { ...bucketList, ...supportedLater },
  GetBucketLocation: bucketRead,
  DeleteObjects: { class: "delete", places: false, scope: "bucket", supported: false },
  PostObject: { class: "write", places: true, scope: "bucket", supported: false },
  BucketSubresourceRead: { ...bucketRead, ...supportedLater },
  BucketSubresourceWrite: { ...bucketAdmin, ...supportedLater },
  GetObject: read,
  HeadObject: read,
  PutObject: { class: "write", places: true, scope: "object", supported: true },
  CopyObject: { class: "write", places: true, scope: "object", supported: false },
  DeleteObject: { class: "delete", places: false, scope: "object", supported: true },
  CreateMultipartUpload: { class: "write", places: true, scope: "object", supported: true },
  UploadPart: write,
  UploadPartCopy: { ...write, ...supportedLater },
  CompleteMultipartUpload: write,
  AbortMultipartUpload: write,
  ListParts: { class: "list", places: false, scope: "object", supported: true },
  ObjectSubresourceRead: { ...read, ...supportedLater },
  ObjectSubresourceWrite: { ...write, ...supportedLater },
  /** An `Action=` form at `/`: STS and IAM on RGW. */
  ServiceAction: { class: "admin", places: false, scope: "service", supported: false },
  /** A CORS preflight or any other OPTIONS. */
  OptionsObject: { class: "read", places: false, scope: "bucket", supported: false },
} as const satisfies Record<string, OperationFacts>;

export type S3Operation = keyof typeof operationFacts;

/** Sub-resources that are an operation of their own name, by scope, query name and method. */
const namedSubresources: Readonly<
  Record<"bucket" | "object", ReadonlyMap<string, readonly [method: string, S3Operation]>>
> = {
  bucket: new Map<string, readonly [string, S3Operation]>([
    ["delete", ["POST", "DeleteObjects"]],
    ["location", ["GET", "GetBucketLocation"]],
    ["uploads", ["GET", "ListMultipartUploads"]],
    ["versions", ["GET", "ListObjectVersions"]],
  ]),
  object: new Map<string, readonly [string, S3Operation]>([
    ["uploads", ["POST", "CreateMultipartUpload"]],
  ]),
};

export type ClassifyResult =
  | { readonly kind: "operation"; readonly operation: S3Operation }
  /** `operation` is the name when it has one, for logs and metrics. */
  | { readonly kind: "error"; readonly error: S3Error; readonly operation: S3Operation | null };

type NameResult =
  | { readonly kind: "operation"; readonly operation: S3Operation; readonly feature?: string }
  | { readonly kind: "error"; readonly error: S3Error; readonly operation: null };

/** Names the operation of a request; one that this release does not serve is an error. */
export function classifyOperation(head: RequestHead, address: Address): ClassifyResult {
  const named = nameOperation(head, address);
  if (named.kind === "error") return named;
  const { operation } = named;
  if (operationFacts[operation].supported) return { kind: "operation", operation };
  const what = named.feature === undefined ? operation : `Parameter "${named.feature}"`;
  const error = new S3Error("NotImplemented", { message: `${what} is not implemented` });
  return { kind: "error", error, operation };
}

function nameOperation(head: RequestHead, address: Address): NameResult {
  if (head.method === "OPTIONS") return operation("OptionsObject");
  if (address.bucket === null) return serviceOperation(head);
  const scope = address.key === null ? "bucket" : "object";
  const special = subresourceOperation(head, scope);
  if (special !== null) return special;
  return scope === "bucket" ? bucketOperation(head) : objectOperation(head);
}

function serviceOperation(head: RequestHead): NameResult {
  if (head.method === "GET") {
    const unknown = unknownParameter(head, "bucket");
    return unknown === null ? operation("ListBuckets") : operation("ServiceAction", unknown);
  }
  return head.method === "POST" ? operation("ServiceAction") : methodNotAllowed();
}

/** The operation when a query name makes it one; `null` when none does. */
function subresourceOperation(head: RequestHead, scope: "bucket" | "object"): NameResult | null {
  const known = scope === "bucket" ? bucketSubresources : objectSubresources;
  const [name, second] = head.query.map(([text]) => text).filter((text) => known.has(text));
  if (second !== undefined) {
    return invalidArgument(`Query parameters "${name}" and "${second}" exclude each other`);
  }
  const named = name === undefined ? undefined : namedSubresources[scope].get(name);
  if (named !== undefined) {
    return named[0] === head.method ? operation(named[1]) : methodNotAllowed();
  }
  const feature = name ?? unknownParameter(head, scope);
  if (feature === null) return null;
  const generic = scope === "bucket" ? "BucketSubresource" : "ObjectSubresource";
  return operation(isRead(head) ? `${generic}Read` : `${generic}Write`, feature);
}

/**
 * The first parameter that could change what the request does and is not known here. Reads tolerate
 * an unknown one that has a value (`?v=17`): it is dropped on the way upstream. A write does not, so
 * that a new kind of `DELETE /b?something=1` never deletes the bucket. Names in `x-` are for logs.
 */
function unknownParameter(head: RequestHead, scope: "bucket" | "object"): string | null {
  const reads = isRead(head);
  for (const [name, value] of head.query) {
    const lower = name.toLowerCase();
    if (lower === "x-amz-copy-source" || lower === "x-amz-rename-source") return name;
    if (lower.startsWith("x-") || isParameter(name, scope, reads)) continue;
    if (!reads || value === null || value === "") return name;
  }
  return null;
}

function isParameter(name: string, scope: "bucket" | "object", reads: boolean): boolean {
  if (scope === "bucket") return reads && bucketReadParameters.has(name);
  return objectParameters.has(name) || (reads && objectReadParameters.has(name));
}

function isRead(head: RequestHead): boolean {
  return head.method === "GET" || head.method === "HEAD";
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
  if (upload) return operation(copies ? "UploadPartCopy" : "UploadPart");
  return operation(copies ? "CopyObject" : "PutObject");
}

function isForm(head: RequestHead): boolean {
  const type = fieldValue(head.headers, "content-type") ?? "";
  return type.trimStart().toLowerCase().startsWith("multipart/form-data");
}

function operation(name: S3Operation, feature?: string): NameResult {
  return feature === undefined
    ? { kind: "operation", operation: name }
    : { kind: "operation", operation: name, feature };
}

function methodNotAllowed(): NameResult {
  return { kind: "error", error: new S3Error("MethodNotAllowed"), operation: null };
}

function invalidArgument(message: string): NameResult {
  return { kind: "error", error: new S3Error("InvalidArgument", { message }), operation: null };
}
