// The query names S3 and Ceph RGW give a meaning to, as data: sub-resources, which turn a request into
// another operation (operation.ts), and plain parameters, which do not. Sources: S3 API Reference
// (index of actions, 2026) and the RGW S3 handlers. Names are case-sensitive. What is nowhere here is
// unknown.

import type { OperationFacts, S3Operation } from "./operation.ts";
import { isOperation, operationFacts } from "./operation.ts";

type Scope = OperationFacts["scope"];

/** Sub-resources that some S3 or Ceph RGW knows and Headgate does not serve under any method. */
const refusedNames: Readonly<Record<Scope, readonly string[]>> = {
  service: [],
  bucket: [
    "metadataAnnotationTable",
    "torrent",
    // Ceph RGW
    "bucket-quota",
    "mdsearch",
    "object-retention",
    "replicate-from",
    "syncing",
  ],
  // Ceph RGW: the layout of an object.
  object: ["layout"],
};

/** An operation that a query name leads to, and the parameter that it needs besides. */
interface NamedOperation {
  readonly operation: S3Operation;
  readonly method: OperationFacts["method"];
  readonly parameter: string | null;
}

type Names = ReadonlyMap<string, readonly NamedOperation[]>;

function namesOf(scope: Scope): Names {
  const names = new Map<string, NamedOperation[]>();
  for (const name of refusedNames[scope]) names.set(name, []);
  for (const operation of Object.keys(operationFacts).filter(isOperation)) {
    const facts: OperationFacts = operationFacts[operation];
    if (facts.scope !== scope || facts.subresource === null) continue;
    const { method, parameter } = facts;
    const known = names.get(facts.subresource) ?? [];
    // The one that needs more stands first.
    if (parameter === null) known.push({ operation, method, parameter });
    else known.unshift({ operation, method, parameter });
    names.set(facts.subresource, known);
  }
  return names;
}

/** Sub-resources by scope, `GET /b?acl`, with what each method makes of them. */
export const subresources: Readonly<Record<Scope, Names>> = {
  service: namesOf("service"),
  bucket: namesOf("bucket"),
  object: namesOf("object"),
};

/** Parameters of reads and lists at the service or a bucket. A write there takes none. */
export const bucketReadParameters: ReadonlySet<string> = new Set([
  "bucket-region",
  "continuation-token",
  "delimiter",
  "encoding-type",
  "fetch-owner",
  "key-marker",
  "list-type",
  "marker",
  "max-buckets",
  "max-keys",
  "max-uploads",
  "prefix",
  "start-after",
  "upload-id-marker",
  "version-id-marker",
  // Ceph RGW
  "allow-unordered",
  "read-stats",
]);

/** Parameters of operations that a sub-resource names. */
export const subresourceParameters: ReadonlySet<string> = new Set([
  "id",
  "position",
  "select-type",
]);

/** Parameters of any operation on an object. */
export const objectParameters: ReadonlySet<string> = new Set([
  "partNumber",
  "uploadId",
  "versionId",
]);

/** Further parameters of reads of an object. */
export const objectReadParameters: ReadonlySet<string> = new Set([
  "encoding-type",
  "max-parts",
  "part-number-marker",
  "response-cache-control",
  "response-content-disposition",
  "response-content-encoding",
  "response-content-language",
  "response-content-type",
  "response-expires",
]);
