// Which function runs which S3 operation. What is not here never gets this far: operation.ts refuses
// it by name.

import { S3Error } from "../s3/errors.ts";
import type { S3Operation } from "../s3/operation.ts";
import { createBucket, deleteBucket, passBucketRequest } from "./bucket.ts";
import type { OperationAnswer, OperationPorts, OperationRequest, RunOperation } from "./context.ts";
import { listBuckets } from "./list-buckets.ts";
import { listObjects } from "./listing.ts";
import { abortUpload, completeUpload, createUpload, listParts, uploadPart } from "./multipart.ts";
import { getObjectAttributes } from "./object-attributes.ts";
import { deleteObject, putObject, readObject } from "./object.ts";

const table: Partial<Record<S3Operation, RunOperation>> = {
  AbortMultipartUpload: abortUpload,
  CompleteMultipartUpload: completeUpload,
  CreateBucket: createBucket,
  CreateMultipartUpload: createUpload,
  DeleteBucket: deleteBucket,
  DeleteObject: deleteObject,
  GetBucketLocation: passBucketRequest,
  GetObject: readObject,
  GetObjectAttributes: getObjectAttributes,
  HeadBucket: passBucketRequest,
  HeadObject: readObject,
  ListBuckets: listBuckets,
  ListObjects: listObjects,
  ListObjectsV2: listObjects,
  ListParts: listParts,
  PutObject: putObject,
  UploadPart: uploadPart,
};

/** Whether an operation is served: the same set that operation.ts calls supported. */
export function isServed(operation: S3Operation): boolean {
  return table[operation] !== undefined;
}

export async function runOperation(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const run = table[request.operation];
  if (run === undefined) throw new S3Error("NotImplemented");
  return await run(request, ports);
}
