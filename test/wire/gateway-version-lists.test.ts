// ListObjectVersions and ListMultipartUploads over several clusters, by a client that pages them.

import {
  AbortMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  ListObjectVersionsCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import { compareKeys } from "../../proxy/s3/listing.ts";
import { startTestHeadgate } from "../support/headgate.ts";

const unavailable = { name: "ServiceUnavailable", $metadata: { httpStatusCode: 503 } };
const keys = ["a", "a b", "a-b", "a/1", "a/2", "amp&<", "b/x", "c%d", "é", "\u{1f600}", "z/é/1"];

t.test("versions of all clusters are one list in key order, page by page", async (t) => {
  const { s3, clusters } = await startTestHeadgate(t);
  const Bucket = "versions";
  await s3.send(new CreateBucketCommand({ Bucket }));
  for (const Key of keys) await s3.send(new PutObjectCommand({ Bucket, Key, Body: Key }));
  t.ok(Object.values(clusters).filter((cluster) => cluster.objects(Bucket).length > 0).length > 1);
  const expected = keys.toSorted(compareKeys);
  for (const MaxKeys of [1, 3, 1000]) {
    for (const encoding of [{}, { EncodingType: "url" as const }]) {
      const seen: (string | undefined)[] = [];
      let KeyMarker: string | undefined;
      let VersionIdMarker: string | undefined;
      for (let turn = 0; turn < 50; turn += 1) {
        const page = await s3.send(
          new ListObjectVersionsCommand({
            Bucket,
            MaxKeys,
            ...encoding,
            ...(KeyMarker === undefined ? {} : { KeyMarker }),
            ...(VersionIdMarker === undefined ? {} : { VersionIdMarker }),
          }),
        );
        const decode = (text: string | undefined): string =>
          page.EncodingType === "url" ? decodeURIComponent(text ?? "") : (text ?? "");
        for (const version of page.Versions ?? []) seen.push(decode(version.Key));
        if (page.IsTruncated !== true) break;
        KeyMarker = decode(page.NextKeyMarker);
        VersionIdMarker = page.NextVersionIdMarker;
      }
      t.strictSame(seen, expected, `pages of ${MaxKeys}`);
    }
  }
  const rolled = await s3.send(new ListObjectVersionsCommand({ Bucket, Delimiter: "/" }));
  t.strictSame(
    rolled.CommonPrefixes?.map(({ Prefix }) => Prefix),
    ["a/", "b/", "z/"],
  );
  t.equal(rolled.Versions?.length, 7);
  clusters["b"]?.setFault(() => "reset");
  await t.rejects(s3.send(new ListObjectVersionsCommand({ Bucket })), unavailable);
});

/** `key handle` of every upload, page by page. */
async function uploadsOf(s3: S3Client, Bucket: string, MaxUploads: number): Promise<string[]> {
  const seen: string[] = [];
  let marker = {};
  for (let turn = 0; turn < 50; turn += 1) {
    const page: ListMultipartUploadsCommandOutput = await s3.send(
      new ListMultipartUploadsCommand({ Bucket, MaxUploads, ...marker }),
    );
    for (const { Key, UploadId } of page.Uploads ?? []) seen.push(`${Key} ${UploadId}`);
    if (page.IsTruncated !== true) break;
    marker = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker };
  }
  return seen;
}

t.test("uploads of all clusters are one list of handles that work", async (t) => {
  const { s3, clusters } = await startTestHeadgate(t);
  const Bucket = "uploads";
  await s3.send(new CreateBucketCommand({ Bucket }));
  const made: string[] = [];
  for (const Key of [...keys, "a", "a"]) {
    const { UploadId } = await s3.send(new CreateMultipartUploadCommand({ Bucket, Key }));
    made.push(`${Key} ${UploadId}`);
  }
  for (const MaxUploads of [1, 2, 1000]) {
    const seen = await uploadsOf(s3, Bucket, MaxUploads);
    t.strictSame(seen.toSorted(), made.toSorted(), `pages of ${MaxUploads}`);
    const order = seen.map((text) => text.slice(0, text.lastIndexOf(" ")));
    t.strictSame(order, order.toSorted(compareKeys));
  }
  const rolled = await s3.send(new ListMultipartUploadsCommand({ Bucket, Delimiter: "/" }));
  t.strictSame(
    rolled.CommonPrefixes?.map(({ Prefix }) => Prefix),
    ["a/", "b/", "z/"],
  );
  const [one] = rolled.Uploads ?? [];
  const upload = { Bucket, Key: one?.Key ?? "", UploadId: one?.UploadId ?? "" };
  await s3.send(new UploadPartCommand({ ...upload, PartNumber: 1, Body: "x" }));
  await s3.send(new AbortMultipartUploadCommand(upload));
  const after = await s3.send(new ListMultipartUploadsCommand({ Bucket, Prefix: "a" }));
  t.equal(after.Uploads?.length, 7);
  await t.rejects(
    s3.send(new ListMultipartUploadsCommand({ Bucket, KeyMarker: "a", UploadIdMarker: "other" })),
    { name: "InvalidArgument" },
  );
  const none = await s3.send(new ListMultipartUploadsCommand({ Bucket, MaxUploads: 0 }));
  t.strictSame([none.Uploads, none.IsTruncated], [undefined, false]);
  clusters["a"]?.setFault(() => "reset");
  await t.rejects(s3.send(new ListMultipartUploadsCommand({ Bucket })), unavailable);
});
