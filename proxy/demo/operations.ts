// Which function answers which operation of the demo cluster.

import { S3Error } from "../s3/errors.ts";
import { type OperationFacts, operationFacts, type S3Operation } from "../s3/operation.ts";
import type { DemoAnswer } from "./answer.ts";
import {
  bucketLocation,
  createBucket,
  deleteBucket,
  headBucket,
  listBuckets,
} from "./bucket-operations.ts";
import { copyObject, uploadPartCopy } from "./copy-operations.ts";
import { listObjects, listVersions } from "./listing-operation.ts";
import {
  abortUpload,
  completeUpload,
  createUpload,
  listParts,
  listUploads,
  uploadPart,
} from "./multipart-operations.ts";
import {
  deleteObject,
  deleteObjects,
  objectAttributes,
  putObject,
  readObject,
} from "./object-operations.ts";
import type { DemoPorts, DemoRequest } from "./request.ts";
import { settingOperation } from "./setting-operations.ts";

type DemoOperation = (request: DemoRequest, ports: DemoPorts) => DemoAnswer;

const operations: Partial<Record<S3Operation, DemoOperation>> = {
  ListBuckets: (_request, ports) => listBuckets(ports),
  CreateBucket: createBucket,
  HeadBucket: headBucket,
  DeleteBucket: deleteBucket,
  GetBucketLocation: bucketLocation,
  ListMultipartUploads: listUploads,
  ListObjectVersions: listVersions,
  ListObjects: listObjects,
  ListObjectsV2: listObjects,
  GetObject: readObject,
  HeadObject: readObject,
  GetObjectAttributes: objectAttributes,
  PutObject: putObject,
  DeleteObject: deleteObject,
  CreateMultipartUpload: createUpload,
  UploadPart: uploadPart,
  ListParts: listParts,
  CompleteMultipartUpload: completeUpload,
  AbortMultipartUpload: abortUpload,
  DeleteObjects: deleteObjects,
  CopyObject: copyObject,
  UploadPartCopy: uploadPartCopy,
};

/** What permission WRITE of a bucket's ACL allows (S3 User Guide "Access control list overview"). */
export const publicWriteOperations: ReadonlySet<S3Operation> = new Set([
  "PutObject",
  "DeleteObject",
  "CreateMultipartUpload",
  "UploadPart",
  "CompleteMultipartUpload",
  "AbortMultipartUpload",
]);

/** Does the work of one verified request. @throws S3Error */
export function answerRequest(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const operation = operations[request.operation] ?? settingOf(request.operation);
  if (operation === undefined) {
    throw new S3Error("NotImplemented", { message: `${request.operation} is not implemented` });
  }
  return operation(request, ports);
}

function settingOf(operation: S3Operation): DemoOperation | undefined {
  const { scope, subresource, method }: OperationFacts = operationFacts[operation];
  const sets = method === "GET" || method === "PUT" || method === "DELETE";
  return subresource !== null && scope !== "service" && sets ? settingOperation : undefined;
}
