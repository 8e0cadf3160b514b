// Which function answers which operation of the demo cluster.

import { S3Error } from "../s3/errors.ts";
import type { S3Operation } from "../s3/operation.ts";
import type { DemoAnswer } from "./answer.ts";
import {
  bucketLocation,
  createBucket,
  deleteBucket,
  headBucket,
  listBuckets,
} from "./bucket-operations.ts";
import { listObjects } from "./listing-operation.ts";
import {
  abortUpload,
  completeUpload,
  createUpload,
  listParts,
  uploadPart,
} from "./multipart-operations.ts";
import { deleteObject, putObject, readObject } from "./object-operations.ts";
import type { DemoPorts, DemoRequest } from "./request.ts";

type DemoOperation = (request: DemoRequest, ports: DemoPorts) => DemoAnswer;

const operations: Partial<Record<S3Operation, DemoOperation>> = {
  ListBuckets: (_request, ports) => listBuckets(ports),
  CreateBucket: createBucket,
  HeadBucket: headBucket,
  DeleteBucket: deleteBucket,
  GetBucketLocation: bucketLocation,
  ListObjects: listObjects,
  ListObjectsV2: listObjects,
  GetObject: readObject,
  HeadObject: readObject,
  PutObject: putObject,
  DeleteObject: deleteObject,
  CreateMultipartUpload: createUpload,
  UploadPart: uploadPart,
  ListParts: listParts,
  CompleteMultipartUpload: completeUpload,
  AbortMultipartUpload: abortUpload,
};

/** Does the work of one verified request. @throws S3Error */
export function answerRequest(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const operation = operations[request.operation];
  if (operation === undefined) {
    throw new S3Error("NotImplemented", { message: `${request.operation} is not implemented` });
  }
  return operation(request, ports);
}
