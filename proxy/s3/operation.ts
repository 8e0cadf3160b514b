// Every S3 operation Headgate knows, by its name in the S3 API Reference: what makes a request that
// operation, its class for policy, and how it reaches the clusters of a bucket. One table, from which
// classification, the README's list and the upstream's methods are made. What each routing means over
// several clusters is operations/; which names clients' SDKs have is tested against them.

/** What policy sees as the kind of access. */
export type OperationClass = "read" | "write" | "list" | "delete" | "admin";

type Method = "GET" | "HEAD" | "PUT" | "POST" | "DELETE" | "OPTIONS";

/**
 * How an operation reaches clusters.
 * `service`: every cluster, merged. `everywhere`: on all clusters of the bucket or on none. `first`:
 * asked of the first cluster of the bucket. `every`: written to every cluster of the bucket.
 * `single`: needs a bucket that is on one cluster. `merged`: all clusters of the bucket, one answer.
 * `owner`: the key's cluster. `upload`: the cluster where the upload began. `split`: each key's
 * cluster. `refused`: 501.
 */
export type OperationRouting =
  | "service"
  | "everywhere"
  | "first"
  | "every"
  | "single"
  | "merged"
  | "owner"
  | "upload"
  | "split"
  | "refused";

export interface OperationFacts {
  readonly class: OperationClass;
  readonly scope: "service" | "bucket" | "object";
  readonly method: Method;
  /** The query name that makes a request this operation, `acl`; `null` when none does. */
  readonly subresource: string | null;
  /** A further parameter that tells it from a list of the same name: `?metrics&id=x`. */
  readonly parameter: string | null;
  readonly routing: OperationRouting;
  /** Places new bytes: a drain refuses it (placement.md §2 rule 7). */
  readonly places: boolean;
  /** Its body is a document, read whole and checked here, and not the content of an object. */
  readonly document: boolean;
  /** `false`: known by name and answered with 501 NotImplemented. */
  readonly supported: boolean;
  /** Why it is not served; `null` when it is. */
  readonly refusal: string | null;
}

const plain = {
  subresource: null,
  parameter: null,
  places: false,
  document: false,
  supported: true,
  refusal: null,
} as const;
const bucket = { ...plain, scope: "bucket" } as const;
const object = { ...plain, scope: "object", routing: "owner" } as const;
const upload = { ...object, routing: "upload" } as const;
const placing = { ...object, class: "write", places: true } as const;

function readBucket(subresource: string): OperationFacts {
  return { ...bucket, class: "read", method: "GET", routing: "first", subresource };
}

function putBucket(subresource: string): OperationFacts {
  const facts = { ...bucket, class: "admin", method: "PUT", routing: "every" } as const;
  return { ...facts, subresource, document: true };
}

function deleteBucketSetting(subresource: string): OperationFacts {
  return { ...bucket, class: "admin", method: "DELETE", routing: "every", subresource };
}

function listBucket(subresource: string | null): OperationFacts {
  return { ...bucket, class: "list", method: "GET", routing: "merged", subresource };
}

/** A setting of which a bucket has several, each with an id. */
function withId(facts: OperationFacts): OperationFacts {
  return { ...facts, parameter: "id" };
}

function readObject(subresource: string | null): OperationFacts {
  return { ...object, class: "read", method: "GET", subresource };
}

function putObject(subresource: string): OperationFacts {
  return { ...object, class: "write", method: "PUT", subresource, document: true };
}

function refused(facts: Omit<OperationFacts, "routing">, refusal: string): OperationFacts {
  return { ...facts, routing: "refused", supported: false, refusal };
}

const directory = "Directory buckets are a service of AWS";
const metadata = "Metadata tables are a service of AWS";
const annotations = "Annotations are a service of AWS";

/** Facts about each operation Headgate knows by name. */
export const operationFacts = {
  ListBuckets: { ...plain, class: "list", scope: "service", method: "GET", routing: "service" },
  ListDirectoryBuckets: refused(
    { ...plain, class: "list", scope: "service", method: "GET" },
    directory,
  ),
  /** Ceph RGW's `GET /?usage`: the caller's usage and quota. */
  GetUsage: {
    ...plain,
    class: "read",
    scope: "service",
    method: "GET",
    subresource: "usage",
    routing: "service",
  },
  /** An `Action=` form at `/`: STS, IAM and topics on RGW. */
  ServiceAction: refused(
    { ...plain, class: "admin", scope: "service", method: "POST" },
    "STS, IAM and topic actions go to one cluster, by passthrough of `/`, or nowhere",
  ),
  WriteGetObjectResponse: refused(
    { ...plain, class: "admin", scope: "service", method: "POST" },
    "Object Lambda is a service of AWS",
  ),

  CreateBucket: {
    ...bucket,
    class: "admin",
    method: "PUT",
    routing: "everywhere",
    places: true,
    document: true,
  },
  HeadBucket: { ...bucket, class: "read", method: "HEAD", routing: "first" },
  DeleteBucket: { ...bucket, class: "admin", method: "DELETE", routing: "everywhere" },
  GetBucketLocation: readBucket("location"),
  ListObjects: listBucket(null),
  ListObjectsV2: { ...listBucket(null), parameter: "list-type" },
  ListObjectVersions: listBucket("versions"),
  ListMultipartUploads: listBucket("uploads"),
  DeleteObjects: {
    ...bucket,
    class: "delete",
    method: "POST",
    subresource: "delete",
    routing: "split",
    document: true,
  },
  /** An HTML form with a policy. */
  PostObject: {
    ...bucket,
    class: "write",
    method: "POST",
    routing: "owner",
    places: true,
  },
  CreateSession: refused(readBucket("session"), directory),

  GetBucketAbac: refused(readBucket("abac"), "Attribute-based access is a service of AWS"),
  PutBucketAbac: refused(putBucket("abac"), "Attribute-based access is a service of AWS"),
  GetBucketAccelerateConfiguration: readBucket("accelerate"),
  PutBucketAccelerateConfiguration: putBucket("accelerate"),
  GetBucketAcl: readBucket("acl"),
  PutBucketAcl: putBucket("acl"),
  ListBucketAnalyticsConfigurations: readBucket("analytics"),
  GetBucketAnalyticsConfiguration: withId(readBucket("analytics")),
  PutBucketAnalyticsConfiguration: putBucket("analytics"),
  DeleteBucketAnalyticsConfiguration: deleteBucketSetting("analytics"),
  GetBucketCors: readBucket("cors"),
  PutBucketCors: putBucket("cors"),
  DeleteBucketCors: deleteBucketSetting("cors"),
  GetBucketEncryption: readBucket("encryption"),
  PutBucketEncryption: putBucket("encryption"),
  DeleteBucketEncryption: deleteBucketSetting("encryption"),
  ListBucketIntelligentTieringConfigurations: readBucket("intelligent-tiering"),
  GetBucketIntelligentTieringConfiguration: withId(readBucket("intelligent-tiering")),
  PutBucketIntelligentTieringConfiguration: putBucket("intelligent-tiering"),
  DeleteBucketIntelligentTieringConfiguration: deleteBucketSetting("intelligent-tiering"),
  ListBucketInventoryConfigurations: readBucket("inventory"),
  GetBucketInventoryConfiguration: withId(readBucket("inventory")),
  PutBucketInventoryConfiguration: putBucket("inventory"),
  DeleteBucketInventoryConfiguration: deleteBucketSetting("inventory"),
  GetBucketLifecycleConfiguration: readBucket("lifecycle"),
  PutBucketLifecycleConfiguration: putBucket("lifecycle"),
  DeleteBucketLifecycle: deleteBucketSetting("lifecycle"),
  GetBucketLogging: readBucket("logging"),
  PutBucketLogging: putBucket("logging"),
  CreateBucketMetadataConfiguration: refused(
    { ...putBucket("metadataConfiguration"), method: "POST" },
    metadata,
  ),
  GetBucketMetadataConfiguration: refused(readBucket("metadataConfiguration"), metadata),
  DeleteBucketMetadataConfiguration: refused(
    deleteBucketSetting("metadataConfiguration"),
    metadata,
  ),
  CreateBucketMetadataTableConfiguration: refused(
    { ...putBucket("metadataTable"), method: "POST" },
    metadata,
  ),
  GetBucketMetadataTableConfiguration: refused(readBucket("metadataTable"), metadata),
  DeleteBucketMetadataTableConfiguration: refused(deleteBucketSetting("metadataTable"), metadata),
  UpdateBucketMetadataAnnotationTableConfiguration: refused(
    putBucket("metadataAnnotationTable"),
    metadata,
  ),
  UpdateBucketMetadataInventoryTableConfiguration: refused(
    putBucket("metadataInventoryTable"),
    metadata,
  ),
  UpdateBucketMetadataJournalTableConfiguration: refused(
    putBucket("metadataJournalTable"),
    metadata,
  ),
  ListBucketMetricsConfigurations: readBucket("metrics"),
  GetBucketMetricsConfiguration: withId(readBucket("metrics")),
  PutBucketMetricsConfiguration: putBucket("metrics"),
  DeleteBucketMetricsConfiguration: deleteBucketSetting("metrics"),
  GetBucketNotificationConfiguration: readBucket("notification"),
  PutBucketNotificationConfiguration: putBucket("notification"),
  /** Ceph RGW's own. */
  DeleteBucketNotification: deleteBucketSetting("notification"),
  GetObjectLockConfiguration: readBucket("object-lock"),
  PutObjectLockConfiguration: { ...putBucket("object-lock"), routing: "single" },
  GetBucketOwnershipControls: readBucket("ownershipControls"),
  PutBucketOwnershipControls: putBucket("ownershipControls"),
  DeleteBucketOwnershipControls: deleteBucketSetting("ownershipControls"),
  GetBucketPolicy: readBucket("policy"),
  PutBucketPolicy: putBucket("policy"),
  DeleteBucketPolicy: deleteBucketSetting("policy"),
  GetBucketPolicyStatus: readBucket("policyStatus"),
  GetPublicAccessBlock: readBucket("publicAccessBlock"),
  PutPublicAccessBlock: putBucket("publicAccessBlock"),
  DeletePublicAccessBlock: deleteBucketSetting("publicAccessBlock"),
  GetBucketReplication: readBucket("replication"),
  PutBucketReplication: putBucket("replication"),
  DeleteBucketReplication: deleteBucketSetting("replication"),
  GetBucketRequestPayment: readBucket("requestPayment"),
  PutBucketRequestPayment: putBucket("requestPayment"),
  GetBucketTagging: readBucket("tagging"),
  PutBucketTagging: putBucket("tagging"),
  DeleteBucketTagging: deleteBucketSetting("tagging"),
  GetBucketVersioning: readBucket("versioning"),
  PutBucketVersioning: { ...putBucket("versioning"), routing: "single" },
  GetBucketWebsite: readBucket("website"),
  PutBucketWebsite: putBucket("website"),
  DeleteBucketWebsite: deleteBucketSetting("website"),

  GetObject: readObject(null),
  HeadObject: { ...readObject(null), method: "HEAD" },
  PutObject: { ...placing, method: "PUT" },
  CopyObject: { ...placing, method: "PUT" },
  /** Ceph RGW's `?append&position=N`. */
  AppendObject: { ...placing, method: "PUT", subresource: "append" },
  RenameObject: refused(
    { ...placing, method: "PUT", subresource: "renameObject" },
    "Renaming is for directory buckets, a service of AWS",
  ),
  DeleteObject: { ...object, class: "delete", method: "DELETE" },
  CreateMultipartUpload: { ...placing, method: "POST", subresource: "uploads" },
  UploadPart: { ...upload, class: "write", method: "PUT", parameter: "uploadId" },
  UploadPartCopy: {
    ...upload,
    class: "write",
    method: "PUT",
    parameter: "uploadId",
  },
  CompleteMultipartUpload: {
    ...upload,
    class: "write",
    method: "POST",
    parameter: "uploadId",
  },
  AbortMultipartUpload: { ...upload, class: "write", method: "DELETE", parameter: "uploadId" },
  ListParts: { ...upload, class: "list", method: "GET", parameter: "uploadId" },
  GetObjectAcl: readObject("acl"),
  PutObjectAcl: putObject("acl"),
  ListObjectAnnotations: refused(readObject("annotation"), annotations),
  GetObjectAnnotation: refused(
    { ...readObject("annotation"), parameter: "annotationName" },
    annotations,
  ),
  PutObjectAnnotation: refused(putObject("annotation"), annotations),
  DeleteObjectAnnotation: refused(
    { ...readObject("annotation"), class: "write", method: "DELETE" },
    annotations,
  ),
  GetObjectAttributes: readObject("attributes"),
  UpdateObjectEncryption: refused(
    putObject("encryption"),
    "Changing the encryption of an object is a service of AWS",
  ),
  GetObjectLegalHold: readObject("legal-hold"),
  PutObjectLegalHold: putObject("legal-hold"),
  RestoreObject: { ...putObject("restore"), method: "POST" },
  GetObjectRetention: readObject("retention"),
  PutObjectRetention: putObject("retention"),
  SelectObjectContent: { ...readObject("select"), method: "POST", document: true },
  GetObjectTagging: readObject("tagging"),
  PutObjectTagging: putObject("tagging"),
  DeleteObjectTagging: { ...readObject("tagging"), class: "write", method: "DELETE" },
  GetObjectTorrent: readObject("torrent"),
  /** A CORS preflight: never signed, answered by the bucket's own CORS rules. */
  OptionsObject: { ...bucket, class: "read", method: "OPTIONS", routing: "first" },
} as const satisfies Record<string, OperationFacts>;

export type S3Operation = keyof typeof operationFacts;

/** The facts by a name that only the process knows to be one, for loops over the table. */
export function isOperation(text: string): text is S3Operation {
  return Object.hasOwn(operationFacts, text);
}
