// Which function runs which S3 operation. Those that a sub-resource names follow from the table of
// facts; what has no function never gets this far: classify.ts refuses it by name.

import { S3Error } from "../s3/errors.ts";
import type { OperationFacts, S3Operation } from "../s3/operation.ts";
import { operationFacts } from "../s3/operation.ts";
import { getBucketLocation, preflight } from "./bucket.ts";
import { createBucket } from "./bucket-creation.ts";
import { deleteBucket } from "./bucket-deletion.ts";
import { readBucketSetting, writeBucketSetting } from "./bucket-setting.ts";
import type { OperationAnswer, OperationPorts, OperationRequest, RunOperation } from "./context.ts";
import { copyObject } from "./copy-object.ts";
import { uploadPartCopy } from "./copy-part.ts";
import { withCorsFields } from "./cors-fields.ts";
import { deleteObjects } from "./delete-objects.ts";
import { headBucket } from "./head-bucket.ts";
import { listBuckets } from "./list-buckets.ts";
import { listObjects } from "./listing.ts";
import { abortUpload, completeUpload, createUpload, listParts, uploadPart } from "./multipart.ts";
import { deleteObject, putObject, readObject } from "./object.ts";
import { getObjectAttributes } from "./object-attributes.ts";
import {
  appendObject,
  readObjectSetting,
  selectContent,
  writeObjectSetting,
} from "./object-setting.ts";
import { postObject } from "./post-object.ts";
import { writeSingleSetting } from "./single-cluster.ts";
import { listUploads } from "./upload-listing.ts";
import { getUsage } from "./usage.ts";
import { listVersions } from "./version-listing.ts";

const table: Partial<Record<S3Operation, RunOperation>> = {
  AbortMultipartUpload: abortUpload,
  AppendObject: appendObject,
  CompleteMultipartUpload: completeUpload,
  CopyObject: copyObject,
  CreateBucket: createBucket,
  CreateMultipartUpload: createUpload,
  DeleteBucket: deleteBucket,
  DeleteObject: deleteObject,
  DeleteObjects: deleteObjects,
  GetBucketLocation: getBucketLocation,
  GetObject: readObject,
  GetObjectAttributes: getObjectAttributes,
  GetUsage: getUsage,
  HeadBucket: headBucket,
  HeadObject: readObject,
  ListBuckets: listBuckets,
  ListMultipartUploads: listUploads,
  ListObjectVersions: listVersions,
  ListObjects: listObjects,
  ListObjectsV2: listObjects,
  ListParts: listParts,
  PostObject: postObject,
  OptionsObject: preflight,
  PutBucketVersioning: writeSingleSetting,
  PutObject: putObject,
  PutObjectLockConfiguration: writeSingleSetting,
  SelectObjectContent: selectContent,
  UploadPart: uploadPart,
  UploadPartCopy: uploadPartCopy,
};

/** Whether an operation is served: the same set that operation.ts calls supported. */
export function isServed(operation: S3Operation): boolean {
  return functionOf(operation) !== undefined;
}

function functionOf(operation: S3Operation): RunOperation | undefined {
  return table[operation] ?? settingFunction(operation);
}

/** What a sub-resource without a function of its own is read or written by. */
function settingFunction(operation: S3Operation): RunOperation | undefined {
  const { supported, scope, subresource, routing, method }: OperationFacts =
    operationFacts[operation];
  if (!supported || subresource === null) return undefined;
  if (scope === "object" && routing === "owner") {
    return method === "GET" ? readObjectSetting : writeObjectSetting;
  }
  if (scope !== "bucket") return undefined;
  if (routing === "first") return readBucketSetting;
  return routing === "every" ? writeBucketSetting : undefined;
}

export async function runOperation(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const run = functionOf(request.operation);
  if (run === undefined) throw new S3Error("NotImplemented");
  return await withCorsFields(run, request, ports);
}
