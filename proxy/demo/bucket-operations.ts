// CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation and ListBuckets of the demo cluster
// (S3 API Reference). There is one owner, so creating again is answered like RGW does: 200.

import { S3Error } from "../s3/errors.ts";
import { fieldValue } from "../s3/headers.ts";
import { newBucketNameFault } from "../s3/names.ts";
import { element, group, s3Document } from "../s3/xml.ts";
import { type DemoAnswer, documentAnswer, emptyAnswer } from "./answer.ts";
import { bucketOf, type DemoPorts, type DemoRequest } from "./request.ts";

const owner = group("Owner", [
  element("ID", "headgate-demo"),
  element("DisplayName", "headgate-demo"),
]);

export function createBucket(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const name = bucketOf(request);
  if (newBucketNameFault(name) !== null) throw new S3Error("InvalidBucketName");
  const isPublic = fieldValue(request.headers, "x-amz-acl") === "public-read-write";
  ports.store.create(name, ports.nowMs(), isPublic);
  return emptyAnswer(200, [["location", `/${name}`]]);
}

export function headBucket(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  ports.store.bucket(bucketOf(request));
  return emptyAnswer(200, [["x-amz-bucket-region", "us-east-1"]]);
}

export function deleteBucket(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  ports.store.remove(bucketOf(request));
  return emptyAnswer(204);
}

export function bucketLocation(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  ports.store.bucket(bucketOf(request));
  return documentAnswer(s3Document("LocationConstraint", []));
}

export function listBuckets(ports: DemoPorts): DemoAnswer {
  const buckets = ports.store
    .buckets()
    .map((bucket) =>
      group("Bucket", [
        element("Name", bucket.name),
        element("CreationDate", new Date(bucket.createdMs).toISOString()),
      ]),
    );
  return documentAnswer(s3Document("ListAllMyBucketsResult", [owner, group("Buckets", buckets)]));
}
