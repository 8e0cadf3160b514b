// One of two clusters breaks in the middle of an operation: an error in place of half an answer, nothing
// half done that the same request does not finish, and the next request works. Its death at every point
// of every operation is gateway-cluster-deaths.test.ts.

import {
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  ListBucketsCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  ListObjectsCommand,
  type ListObjectsCommandOutput,
  ListObjectsV2Command,
  type ListObjectsV2CommandOutput,
  ListObjectVersionsCommand,
  type ListObjectVersionsCommandOutput,
  PutObjectCommand,
  type S3Client,
  S3ServiceException,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { DemoFault } from "../../proxy/demo/faults.ts";
import { startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";

const Bucket = "both";
const keys = Array.from({ length: 24 }, (_, index) => `key-${index}`).toSorted();

async function open(test: Test): Promise<TestHeadgate> {
  const headgate = await startTestHeadgate(test, { clusters: { a: 1, b: 1 } });
  await headgate.s3.send(new CreateBucketCommand({ Bucket }));
  for (const Key of keys) {
    await headgate.s3.send(new PutObjectCommand({ Bucket, Key, Body: Key }));
    await headgate.s3.send(new CreateMultipartUploadCommand({ Bucket, Key }));
  }
  return headgate;
}

async function statusOf(sending: Promise<unknown>): Promise<number | undefined> {
  try {
    await sending;
    return 200;
  } catch (caught) {
    if (!(caught instanceof S3ServiceException)) throw caught;
    return caught.$metadata.httpStatusCode;
  }
}

type Names = readonly (string | undefined)[];
/** Names of a page and how to ask for the next one. */
type Page = readonly [names: Names, next: (() => Promise<Page>) | null];

/** The first page of each list. */
const lists: Readonly<Record<string, (s3: S3Client) => Promise<Page>>> = {
  ListObjectsV2: (s3) => {
    const ask = async (ContinuationToken?: string): Promise<Page> => {
      const page: ListObjectsV2CommandOutput = await s3.send(
        new ListObjectsV2Command({ Bucket, MaxKeys: 10, ContinuationToken }),
      );
      const names = (page.Contents ?? []).map(({ Key }) => Key);
      return [names, page.IsTruncated === true ? () => ask(page.NextContinuationToken) : null];
    };
    return ask();
  },
  ListObjects: (s3) => {
    const ask = async (Marker?: string): Promise<Page> => {
      const page: ListObjectsCommandOutput = await s3.send(
        new ListObjectsCommand({ Bucket, MaxKeys: 10, Marker }),
      );
      const names = (page.Contents ?? []).map(({ Key }) => Key);
      return [names, page.IsTruncated === true ? () => ask(page.NextMarker) : null];
    };
    return ask();
  },
  ListObjectVersions: (s3) => {
    const ask = async (more = {}): Promise<Page> => {
      const page: ListObjectVersionsCommandOutput = await s3.send(
        new ListObjectVersionsCommand({ Bucket, MaxKeys: 10, ...more }),
      );
      const names = (page.Versions ?? []).map(({ Key }) => Key);
      const marks = { KeyMarker: page.NextKeyMarker, VersionIdMarker: page.NextVersionIdMarker };
      return [names, page.IsTruncated === true ? () => ask(marks) : null];
    };
    return ask();
  },
  ListMultipartUploads: (s3) => {
    const ask = async (more = {}): Promise<Page> => {
      const page: ListMultipartUploadsCommandOutput = await s3.send(
        new ListMultipartUploadsCommand({ Bucket, MaxUploads: 10, ...more }),
      );
      const names = (page.Uploads ?? []).map(({ Key }) => Key);
      const marks = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker };
      return [names, page.IsTruncated === true ? () => ask(marks) : null];
    };
    return ask();
  },
};

const broken: readonly (readonly [DemoFault, number])[] = [
  ["reset", 503],
  [{ cutAfterBytes: 150 }, 503],
  [{ status: 500 }, 500],
  [{ status: 503, code: "SlowDown" }, 503],
  [{ status: 404, code: "NoSuchBucket" }, 503],
];

for (const [name, begin] of Object.entries(lists)) {
  t.test(`${name}: an error, never a short page, and the page is there afterwards`, async (t) => {
    const headgate = await open(t);
    const [first, more] = await begin(headgate.s3);
    t.equal(first.length, 10);
    if (more === null) throw new Error("the list has one page");
    for (const id of ["a", "b"]) {
      for (const [fault, status] of broken) {
        headgate.clusters[id]?.setFault(({ method }) => (method === "GET" ? fault : null));
        t.equal(await statusOf(more()), status, `${id}: ${JSON.stringify(fault)}`);
        headgate.clusters[id]?.setFault(null);
      }
    }
    const seen = [...first];
    let next: (() => Promise<Page>) | null = more;
    while (next !== null) {
      const page: Page = await next();
      seen.push(...page[0]);
      next = page[1];
    }
    t.strictSame(seen, keys);
  });
}

t.test("ListBuckets is whole or an error", async (t) => {
  const { s3, clusters } = await open(t);
  for (const fault of ["reset", { cutAfterBytes: 60 }, { status: 500 }] as const) {
    clusters["b"]?.setFault(() => fault);
    t.equal(await statusOf(s3.send(new ListBucketsCommand({}))), 503, JSON.stringify(fault));
    clusters["b"]?.setFault(null);
  }
  t.equal((await s3.send(new ListBucketsCommand({}))).Buckets?.length, 1);
});

t.test("a bulk delete that broke on one cluster is finished by the same request", async (t) => {
  const { s3, clusters } = await open(t);
  const left = (): Names =>
    Object.values(clusters).flatMap((cluster) => cluster.objects(Bucket).map(({ key }) => key));
  const held = clusters["b"]?.objects(Bucket).map(({ key }) => key) ?? [];
  const Delete = { Objects: keys.map((Key) => ({ Key })) };
  for (const fault of ["reset", { status: 503, code: "SlowDown" }] as const) {
    clusters["b"]?.setFault(({ method }) => (method === "POST" ? fault : null));
    const answer = await s3.send(new DeleteObjectsCommand({ Bucket, Delete }));
    t.strictSame(answer.Errors?.map(({ Key }) => Key).toSorted(), held.toSorted());
    t.strictSame(answer.Deleted?.length, keys.length - held.length);
    t.strictSame(new Set(left()), new Set(held), "of those that failed nothing is gone");
  }
  clusters["b"]?.setFault(null);
  const again = await s3.send(new DeleteObjectsCommand({ Bucket, Delete }));
  t.strictSame([again.Errors, again.Deleted?.length], [undefined, keys.length]);
  t.strictSame(left(), []);
});

t.test("a Complete that broke is finished by the same request, or is done", async (t) => {
  const rows: readonly (readonly [DemoFault, number, number])[] = [
    ["reset", 503, 200],
    [{ status: 500 }, 500, 200],
    // It did its work: the demo cluster forgets an upload that was completed.
    [{ cutAfterBytes: 30 }, 503, 404],
  ];
  for (const [fault, status, repeated] of rows) {
    const { s3, clusters } = await open(t);
    const at = { Bucket, Key: "whole" };
    const { UploadId } = await s3.send(new CreateMultipartUploadCommand(at));
    const part = { ...at, UploadId, PartNumber: 1, Body: "all of it" };
    const { ETag } = await s3.send(new UploadPartCommand(part));
    const Parts = [{ PartNumber: 1, ETag }];
    const complete = () =>
      s3.send(new CompleteMultipartUploadCommand({ ...at, UploadId, MultipartUpload: { Parts } }));
    for (const cluster of Object.values(clusters)) {
      cluster.setFault(({ method }) => (method === "POST" ? fault : null));
    }
    t.equal(await statusOf(complete()), status, JSON.stringify(fault));
    for (const cluster of Object.values(clusters)) cluster.setFault(null);
    t.equal(await statusOf(complete()), repeated);
    const got = await s3.send(new GetObjectCommand(at));
    t.equal(await got.Body?.transformToString(), "all of it");
  }
});
