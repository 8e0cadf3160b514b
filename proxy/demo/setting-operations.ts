// What stands beside the content of a demo cluster: settings of buckets and of objects (policy, CORS,
// tagging, ACL, …), kept as the documents they came as and never acted on. Sub-resources that Ceph RGW
// does not know are taken for none, as it does: a GET lists, a DELETE deletes the bucket.

import { errorText } from "../s3/error-texts.ts";
import { S3Error } from "../s3/errors.ts";
import { type OperationFacts, operationFacts } from "../s3/operation.ts";
import { s3Document } from "../s3/xml.ts";
import { type DemoAnswer, documentAnswer, emptyAnswer } from "./answer.ts";
import { deleteBucket } from "./bucket-operations.ts";
import { listObjects } from "./listing-operation.ts";
import { bucketOf, type DemoPorts, type DemoRequest } from "./request.ts";

const unknown: ReadonlySet<string> = new Set([
  "accelerate",
  "analytics",
  "encryption",
  "intelligent-tiering",
  "inventory",
  "metrics",
  "ownershipControls",
]);

/** What is answered for a setting that was not made: an error code, or an empty document. */
const unset: Readonly<Record<string, string>> = {
  cors: "NoSuchCORSConfiguration",
  "legal-hold": "NoSuchObjectLockConfiguration",
  lifecycle: "NoSuchLifecycleConfiguration",
  "object-lock": "ObjectLockConfigurationNotFoundError",
  policy: "NoSuchBucketPolicy",
  publicAccessBlock: "NoSuchPublicAccessBlockConfiguration",
  replication: "ReplicationConfigurationNotFoundError",
  retention: "NoSuchObjectLockConfiguration",
  website: "NoSuchWebsiteConfiguration",
};
const emptyRoots: Readonly<Record<string, string>> = {
  acl: "AccessControlPolicy",
  logging: "BucketLoggingStatus",
  notification: "NotificationConfiguration",
  requestPayment: "RequestPaymentConfiguration",
  versioning: "VersioningConfiguration",
};

/** Any operation that a sub-resource of a bucket or of an object names. @throws S3Error */
export function settingOperation(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const { subresource, method }: OperationFacts = operationFacts[request.operation];
  const bucket = ports.store.bucket(bucketOf(request));
  if (subresource === null) throw new S3Error("NotImplemented");
  if (unknown.has(subresource)) return accident(request, ports);
  if (request.key !== null && bucket.object(request.key) === null) throw new S3Error("NoSuchKey");
  const settings = bucket.settings(request.key);
  if (method === "GET") {
    return read(settings.get(subresource) ?? null, { request, subresource });
  }
  if (method === "DELETE") settings.delete(subresource);
  else settings.set(subresource, request.body);
  return emptyAnswer(method === "DELETE" ? 204 : 200);
}

function read(
  document: Buffer | null,
  at: {
    readonly request: DemoRequest;
    readonly subresource: string;
  },
): DemoAnswer {
  if (document !== null) return documentAnswer(document.toString("utf8"));
  const { subresource, request } = at;
  const code =
    subresource === "tagging" && request.key === null ? "NoSuchTagSet" : unset[subresource];
  if (code !== undefined) {
    const message = errorText(code, 404);
    throw new S3Error("NoSuchKey", { refused: { code, status: 404 }, message });
  }
  const root = emptyRoots[subresource];
  return documentAnswer(
    root === undefined ? s3Document("Tagging", ["<TagSet></TagSet>"]) : s3Document(root, []),
  );
}

function accident(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  switch (request.method) {
    case "GET":
      return listObjects({ ...request, operation: "ListObjects" }, ports);
    case "DELETE":
      return deleteBucket(request, ports);
    default:
      throw new S3Error("InvalidArgument");
  }
}
