// Which S3 operation a request is. Names are those of the S3 API Reference. Classification looks at
// the method, the address and the *names* of query parameters and headers, never at credentials.

/** What policy sees as the kind of access. */
export type OperationClass = "read" | "write" | "list" | "delete" | "admin";

interface OperationFacts {
  readonly class: OperationClass;
  /** Places new bytes: a drain refuses it (placement.md §2 rule 7). */
  readonly places: boolean;
  readonly scope: "service" | "bucket" | "object";
}

const read = { class: "read", places: false, scope: "object" } as const;
const write = { class: "write", places: false, scope: "object" } as const;
const bucketRead = { class: "read", places: false, scope: "bucket" } as const;
const bucketAdmin = { class: "admin", places: false, scope: "bucket" } as const;

/** Facts about each operation Headgate knows by name. */
export const operationFacts = {
  ListBuckets: { class: "list", places: false, scope: "service" },
  CreateBucket: { class: "admin", places: true, scope: "bucket" },
  HeadBucket: bucketRead,
  DeleteBucket: { class: "admin", places: false, scope: "bucket" },
  ListObjects: { class: "list", places: false, scope: "bucket" },
  ListObjectsV2: { class: "list", places: false, scope: "bucket" },
  ListObjectVersions: { class: "list", places: false, scope: "bucket" },
  ListMultipartUploads: { class: "list", places: false, scope: "bucket" },
  GetBucketLocation: bucketRead,
  DeleteObjects: { class: "delete", places: false, scope: "bucket" },
  PostObject: { class: "write", places: true, scope: "bucket" },
  BucketSubresourceRead: bucketRead,
  BucketSubresourceWrite: bucketAdmin,
  GetObject: read,
  HeadObject: read,
  PutObject: { class: "write", places: true, scope: "object" },
  CopyObject: { class: "write", places: true, scope: "object" },
  DeleteObject: { class: "delete", places: false, scope: "object" },
  CreateMultipartUpload: { class: "write", places: true, scope: "object" },
  UploadPart: write,
  UploadPartCopy: write,
  CompleteMultipartUpload: write,
  AbortMultipartUpload: write,
  ListParts: { class: "list", places: false, scope: "object" },
  ObjectSubresourceRead: read,
  ObjectSubresourceWrite: write,
} as const satisfies Record<string, OperationFacts>;

export type S3Operation = keyof typeof operationFacts;
