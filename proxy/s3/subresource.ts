// The query names S3 and Ceph RGW give a meaning to, as data: sub-resources, which turn a request into
// another operation, and plain parameters, which do not. Sources: S3 API Reference (index of actions,
// 2026) and the RGW S3 handlers. Names are case-sensitive. Anything in neither list is unknown.

/** Sub-resources of a bucket (`GET /b?acl`). */
export const bucketSubresources: ReadonlySet<string> = new Set([
  "delete",
  "location",
  "uploads",
  "versions",
  "abac",
  "accelerate",
  "acl",
  "analytics",
  "cors",
  "encryption",
  "intelligent-tiering",
  "inventory",
  "lifecycle",
  "logging",
  "metadataConfiguration",
  "metadataInventoryTable",
  "metadataJournalTable",
  "metadataTable",
  "metrics",
  "notification",
  "object-lock",
  "ownershipControls",
  "policy",
  "policyStatus",
  "publicAccessBlock",
  "replication",
  "requestPayment",
  "session",
  "tagging",
  "torrent",
  "versioning",
  "website",
  // Ceph RGW
  "bucket-quota",
  "mdsearch",
  "object-retention",
  "replicate-from",
  "syncing",
]);

/** Sub-resources of an object (`GET /b/k?acl`). */
export const objectSubresources: ReadonlySet<string> = new Set([
  "uploads",
  "acl",
  "annotation",
  "attributes",
  "encryption",
  "legal-hold",
  "renameObject",
  "restore",
  "retention",
  "select",
  "tagging",
  "torrent",
  // Ceph RGW: writes at an offset, and the layout of an object.
  "append",
  "layout",
  "position",
]);

/** Parameters of reads and lists at the service or a bucket. A write there takes none. */
export const bucketReadParameters: ReadonlySet<string> = new Set([
  "bucket-region",
  "continuation-token",
  "delimiter",
  "encoding-type",
  "fetch-owner",
  "list-type",
  "marker",
  "max-buckets",
  "max-keys",
  "prefix",
  "start-after",
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
