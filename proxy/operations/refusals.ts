// Every 501 and 503 that an S3 request can be given, one row a reason: which operations, why, and where
// in the code. The README's list is made from it, and a place that gives one and is in no row fails a
// test. What the operations that are not served lack is in s3/operation.ts.

import type { OperationFacts, S3Operation } from "../s3/operation.ts";

/** Names for many operations → which they are. */
export const operationGroups = {
  "every operation": () => true,
  "operations that are not served": ({ supported }) => !supported,
  "operations on buckets and objects": ({ scope }) => scope !== "service",
  "operations that place bytes": ({ places }) => places,
  "operations that write": ({ class: kind, supported }) =>
    supported && kind !== "read" && kind !== "list",
  "operations with a document or a form": ({ document, scope, method }) =>
    document || (scope === "bucket" && method === "POST"),
  "reads of bucket settings": ({ routing, subresource }) =>
    routing === "first" && subresource !== null && subresource !== "location",
  "writes of bucket settings": ({ routing }) => routing === "every",
  lists: ({ routing }) => routing === "merged",
} as const satisfies Readonly<Record<string, (facts: OperationFacts) => boolean>>;

type RefusalCode = "NotImplemented" | "ServiceUnavailable" | "SlowDown" | "DrainRefused";

export interface RefusalRow {
  readonly code: RefusalCode;
  readonly operations: keyof typeof operationGroups | readonly S3Operation[];
  readonly why: string;
  /** File below `proxy/` → in how many places it gives this code for this reason. */
  readonly from: Readonly<Record<string, number>>;
}

const copies = ["CopyObject", "UploadPartCopy"] as const;
const reads = ["GetObject", "HeadObject"] as const;
const conditional = [
  "PutObject",
  "CopyObject",
  "PostObject",
  "AppendObject",
  "DeleteObject",
  "DeleteObjects",
  "CreateMultipartUpload",
  "UploadPart",
  "UploadPartCopy",
  "CompleteMultipartUpload",
] as const;

const notImplemented: readonly Omit<RefusalRow, "code">[] = [
  {
    operations: "operations that are not served",
    why: "as the table above says",
    from: { "s3/classify.ts": 1, "operations/table.ts": 1 },
  },
  {
    operations: "every operation",
    why: "a query parameter or header that would make it an operation not known here",
    from: { "s3/classify.ts": 1 },
  },
  {
    operations: "every operation",
    why: "signature version 4A",
    from: { "s3/authorization.ts": 2, "s3/post-signature.ts": 1 },
  },
  {
    operations: "every operation",
    why: "a form of payload, `x-amz-content-sha256: STREAMING-…`, that is not known",
    from: { "s3/payload.ts": 1 },
  },
  {
    operations: conditional,
    why: "a condition that its cluster, or the form of the request, would ignore; any on the destination of a copy that goes through here, and on an object that may be on several clusters, as in a bucket that was found on them",
    from: { "operations/write-conditions.ts": 1 },
  },
  {
    operations: "operations that place bytes",
    why: "policy sends the write, such as by its storage class, to a cluster that is not the bucket's",
    from: { "policy/results.ts": 1 },
  },
  {
    operations: ["CreateBucket"],
    why: "a document with what only AWS has",
    from: { "s3/bucket-document.ts": 1 },
  },
  {
    operations: copies,
    why: "the source is named by an access point",
    from: { "s3/copy-source.ts": 1 },
  },
  {
    operations: reads,
    why: "`partNumber`, where the cluster does not tell the sizes of the parts and none can be proven",
    from: { "operations/part-read.ts": 1 },
  },
  {
    operations: ["AppendObject"],
    why: "the cluster does not show that it is a Ceph RGW, or the object may be on several clusters",
    from: { "operations/object-setting.ts": 2 },
  },
  {
    operations: [
      "GetObjectAcl",
      "GetObjectLegalHold",
      "GetObjectRetention",
      "GetObjectTagging",
      "GetObjectTorrent",
    ],
    why: "the cluster answers something else, so it does not know the setting",
    from: { "operations/object-setting.ts": 1 },
  },
  {
    operations: [
      "PutObjectAcl",
      "PutObjectLegalHold",
      "PutObjectRetention",
      "PutObjectTagging",
      "DeleteObjectTagging",
      "RestoreObject",
      "SelectObjectContent",
    ],
    why: "the cluster answers the object when it is asked for a setting, and would overwrite or delete it",
    from: { "operations/known-setting.ts": 1 },
  },
  {
    operations: "reads of bucket settings",
    why: "the cluster lists the bucket instead, so it does not know the setting",
    from: { "operations/bucket-setting.ts": 1 },
  },
  {
    operations: "writes of bucket settings",
    why: "a cluster of the bucket does not know the setting",
    from: { "operations/bucket-setting.ts": 1, "operations/single-cluster.ts": 1 },
  },
  {
    operations: ["GetUsage"],
    why: "a cluster is no Ceph RGW, or does not know the caller",
    from: { "operations/usage.ts": 2 },
  },
  {
    operations: "every operation",
    why: "the cluster itself says so",
    from: { "operations/error-answer.ts": 1 },
  },
];

const unavailable: readonly Omit<RefusalRow, "code">[] = [
  {
    operations: "every operation",
    why: "a cluster that it needs does not answer; of DeleteObjects only the keys of that cluster",
    from: {
      "gateway/fault.ts": 1,
      "operations/delete-on-cluster.ts": 1,
      "operations/slow-answer.ts": 1,
    },
  },
  {
    operations: "every operation",
    why: "the placement state is out of reach, or the policy fails",
    from: { "gateway/fault.ts": 1, "gateway/placing.ts": 1 },
  },
  {
    operations: "every operation",
    why: "the access key is new and cannot be looked up, or its record cannot be opened",
    from: { "gateway/rgw-credentials.ts": 1, "gateway/sealed-credentials.ts": 1 },
  },
  {
    operations: "operations on buckets and objects",
    why: "no cluster can take it: those of the bucket were removed, or none fits a new one",
    from: {
      "gateway/placing.ts": 2,
      "operations/bucket-creation.ts": 1,
      "operations/delete-plan.ts": 1,
      "operations/send.ts": 1,
      "operations/visible-copy.ts": 1,
      "policy/results.ts": 1,
    },
  },
  {
    operations: "operations that place bytes",
    why: "policy refuses the write, with a code and message of its own",
    from: { "gateway/placing.ts": 1 },
  },
  {
    operations: "operations on buckets and objects",
    why: "a cluster does not tell whether it has a bucket that is not known here",
    from: { "operations/discovery.ts": 1 },
  },
  {
    operations: "operations on buckets and objects",
    why: "absence cannot be told while the placement state is out of reach",
    from: { "operations/send.ts": 1 },
  },
  {
    operations: "every operation",
    why: "a cluster answers what is not S3: a redirect, or a document too long or unreadable",
    from: {
      "operations/delete-on-cluster.ts": 1,
      "operations/emptiness.ts": 1,
      "operations/list-buckets.ts": 1,
      "operations/listing.ts": 1,
      "operations/send.ts": 3,
      "operations/usage.ts": 1,
    },
  },
  {
    operations: "operations that write",
    why: "a cluster has not shown yet what kind of server it is, and the write needs to know",
    from: { "operations/proven-facts.ts": 1, "operations/delete-plan.ts": 1 },
  },
  {
    operations: ["CreateBucket", "DeleteBucket"],
    why: "a cluster refuses its part; the same request again finishes it",
    from: { "operations/bucket-on-cluster.ts": 1, "operations/bucket-whole.ts": 1 },
  },
  {
    operations: "writes of bucket settings",
    why: "some clusters have the setting and one does not answer, or does not tell what is needed to write it; the same request again finishes it",
    from: {
      "operations/bucket-setting.ts": 1,
      "operations/setting-owner.ts": 1,
      "operations/setting-write.ts": 1,
    },
  },
  {
    operations: ["PutBucketVersioning", "PutObjectLockConfiguration"],
    why: "the bucket cannot come onto one cluster now, or a cluster does not tell whether it is versioned",
    from: { "operations/single-cluster.ts": 2 },
  },
  {
    operations: "lists",
    why: "a cluster of the bucket does not have it",
    from: { "operations/list-refusal.ts": 1 },
  },
  {
    operations: ["ListBuckets", "ListMultipartUploads"],
    why: "a cluster has more than one request can list",
    from: { "operations/list-buckets.ts": 1, "operations/upload-listing.ts": 1 },
  },
  {
    operations: copies,
    why: "the source is not given whole, or a cluster fails at a part of the copy",
    from: { "operations/source-read.ts": 1, "operations/copy-refusal.ts": 2 },
  },
  {
    operations: ["PostObject"],
    why: "the cluster fails at the tags or the lock of a file in parts; the object is removed, or, where it took the place of another one, stays and is given them later, as the message says",
    from: { "operations/form-settings.ts": 1 },
  },
  {
    operations: "every operation",
    why: "the cluster itself says so",
    from: { "operations/error-answer.ts": 1 },
  },
];

const slowDown: readonly Omit<RefusalRow, "code">[] = [
  {
    operations: "every operation",
    why: "too many requests are under way, or too many new access keys are looked up",
    from: { "gateway/exchange.ts": 1, "gateway/rgw-credentials.ts": 1 },
  },
  {
    operations: reads,
    why: "`partNumber`, while the parts of too many objects are measured",
    from: { "operations/fair-line.ts": 1 },
  },
  {
    operations: "operations with a document or a form",
    why: "those under way fill the memory set aside for them",
    from: { "gateway/room.ts": 1 },
  },
  {
    operations: [
      "ListBuckets",
      "ListObjects",
      "ListObjectsV2",
      "ListObjectVersions",
      "ListMultipartUploads",
    ],
    why: "those under way fill the memory set aside for them, for thirty seconds",
    from: { "operations/list-room.ts": 1 },
  },
  {
    operations: "operations that write",
    why: "the placement of the bucket is changing, or changed during the request",
    from: {
      "gateway/placing.ts": 2,
      "operations/bucket-phases.ts": 1,
      "operations/mutation.ts": 1,
      "operations/single-cluster.ts": 1,
    },
  },
  {
    operations: "operations that write",
    why: "this proxy has lost contact with the placement state and takes no writes",
    from: { "gateway/placing.ts": 1 },
  },
  {
    operations: "operations on buckets and objects",
    why: "another proxy finds the same bucket at this moment",
    from: { "operations/discovery.ts": 1 },
  },
  {
    operations: [...reads, "GetObjectAttributes", ...copies],
    why: "the object changed while it was read",
    from: {
      "operations/conditional-read.ts": 1,
      "operations/copy-refusal.ts": 1,
      "operations/part-sizes.ts": 1,
    },
  },
];

const drainRefused: readonly Omit<RefusalRow, "code">[] = [
  {
    operations: "operations that place bytes",
    why: "the cluster that would take the bytes drains",
    from: { "policy/results.ts": 1 },
  },
];

const coded = (code: RefusalCode, rows: readonly Omit<RefusalRow, "code">[]): RefusalRow[] =>
  rows.map((row) => ({ code, ...row }));

export const refusals: readonly RefusalRow[] = [
  ...coded("NotImplemented", notImplemented),
  ...coded("ServiceUnavailable", unavailable),
  ...coded("SlowDown", slowDown),
  ...coded("DrainRefused", drainRefused),
];
