// Documents, fields and parts of copies and bulk deletes: what upstreams say, what clients are told.

import t from "tap";
import { copyResultDocument, readCopyResult, readTags } from "../../proxy/s3/copy-document.ts";
import { destinationFields, readDirectives, sourceReadFields } from "../../proxy/s3/copy-fields.ts";
import { copyParts } from "../../proxy/s3/copy-parts.ts";
import {
  deleteRequestBody,
  deleteResultDocument,
  readDeleteRequest,
  readDeleteResult,
} from "../../proxy/s3/delete-document.ts";
import { readXml } from "../../proxy/s3/xml.ts";

const bytes = (text: string): Uint8Array => Buffer.from(text, "utf8");
const mebibyte = 1024 * 1024;

t.test("a copy's result is read in every form and written in one", async (t) => {
  const date = "2026-11-30T03:10:17.514Z";
  for (const [etag, read] of [
    ["abc", '"abc"'],
    ["&quot;abc&quot;", '"abc"'],
    ['"abc"', '"abc"'],
    ["", null],
  ] as const) {
    const inner = `<LastModified>${date}</LastModified><ETag>${etag}</ETag>`;
    const text = `  \n<?xml version="1.0"?><CopyObjectResult xmlns="x"><Progress>1</Progress>${inner}<ChecksumCRC32>x==</ChecksumCRC32></CopyObjectResult>`;
    const result = readCopyResult(bytes(text));
    t.match(result, { kind: "copied", name: "CopyObjectResult", etag: read, lastModified: date });
    if (result.kind !== "copied") continue;
    const answer = copyResultDocument("CopyObjectResult", result);
    t.match(answer, `<ETag>${read === null ? "" : "&quot;abc&quot;"}</ETag><ChecksumCRC32>x==</`);
  }
  const failed = readCopyResult(bytes("\n \n<Error><Code>SlowDown</Code><Message/></Error>"));
  t.match(failed, { kind: "failed", document: { code: "SlowDown" } });
  for (const text of [
    "",
    "<CopyObjectResult>",
    "<CopyObjectResult/>",
    "<Error/>",
    "<A><ETag/></A>",
  ]) {
    t.equal(readCopyResult(bytes(text)).kind, "unreadable", text);
  }
});

t.test("tags become a header", async (t) => {
  const tag = (key: string, value: string) => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`;
  const set = `${tag("a&amp;b", "1 2")}${tag("é", "")}`;
  t.equal(readTags(bytes(`<Tagging><TagSet>${set}</TagSet></Tagging>`)), "a%26b=1%202&%C3%A9=");
  t.equal(readTags(bytes("<Tagging/>")), "");
  t.equal(readTags(bytes("<ListBucketResult/>")), null);
});

t.test("fields of the destination", async (t) => {
  const request = [
    ["x-amz-copy-source", "b/k"],
    ["x-amz-copy-source-if-match", "e"],
    ["x-amz-copy-source-server-side-encryption-customer-key", "old"],
    ["x-amz-server-side-encryption-customer-key", "new"],
    ["x-amz-metadata-directive", "REPLACE"],
    ["x-amz-acl", "private"],
    ["x-amz-meta-own", "1"],
    ["content-type", "text/own"],
    ["if-none-match", "*"],
    ["x-amz-tagging", "t=1"],
    ["x-amz-source-expected-bucket-owner", "me"],
    ["x-amz-checksum-algorithm", "SHA256"],
    ["x-amz-checksum-crc32", "AAAAAA=="],
  ] as const;
  const source = [
    ["content-type", "text/source"],
    ["x-amz-meta-of", "source"],
    ["x-amz-storage-class", "GLACIER"],
    ["x-amz-version-id", "v"],
    ["x-rgw-object-type", "Normal"],
    ["etag", "e"],
  ] as const;
  const directives = { metadata: "COPY", tagging: "COPY" } as const;
  t.strictSame(destinationFields(request, source, { directives, tags: "" }), [
    ["x-amz-server-side-encryption-customer-key", "new"],
    ["x-amz-acl", "private"],
    ["content-type", "text/source"],
    ["x-amz-meta-of", "source"],
  ]);
  const replaced = { ...directives, metadata: "REPLACE" } as const;
  t.strictSame(destinationFields(request, source, { directives: replaced, tags: "a=1" }), [
    ["x-amz-server-side-encryption-customer-key", "new"],
    ["x-amz-acl", "private"],
    ["x-amz-meta-own", "1"],
    ["content-type", "text/own"],
    ["x-amz-tagging", "a=1"],
  ]);
  t.strictSame(sourceReadFields(request), [
    ["x-amz-server-side-encryption-customer-key", "old"],
    ["x-amz-expected-bucket-owner", "me"],
  ]);
  t.match(readDirectives(request), { directives: { metadata: "REPLACE", tagging: "COPY" } });
  t.match(readDirectives([["x-amz-tagging-directive", "replace"]]), {
    directives: { tagging: "REPLACE" },
  });
  t.equal(readDirectives([["x-amz-metadata-directive", "x"]]).kind, "error");
});

t.test("parts cover an object without gap, and are as many as it had", async (t) => {
  const plain = `"${"0".repeat(32)}"`;
  const ofParts = (count: number) => `"${"0".repeat(32)}-${count}"`;
  for (const [size, etag, known, sizes] of [
    [0, plain, null, null],
    [64 * mebibyte, plain, null, null],
    [64 * mebibyte + 1, plain, null, [64 * mebibyte, 1]],
    [10, ofParts(1), null, [10]],
    [10, ofParts(2), null, null],
    [10, ofParts(2), 5, null],
    [11 * mebibyte, ofParts(3), null, [5, 5, 1].map((part) => part * mebibyte)],
    [20 * mebibyte, ofParts(3), null, [8, 8, 4].map((part) => part * mebibyte)],
    [20 * mebibyte, ofParts(3), 7 * mebibyte, [7, 7, 6].map((part) => part * mebibyte)],
    [9 * mebibyte, ofParts(2), null, [8, 1].map((part) => part * mebibyte)],
    [20 * mebibyte, ofParts(2), null, [16, 4].map((part) => part * mebibyte)],
    [15.5 * mebibyte, ofParts(2), null, [8, 7.5].map((part) => part * mebibyte)],
    [150 * mebibyte, ofParts(2), null, [75, 75].map((part) => part * mebibyte)],
  ] as const) {
    const parts = copyParts(size, etag, known);
    t.strictSame(
      parts?.map(({ first, last }) => last - first + 1) ?? null,
      sizes,
      `${size} ${etag} ${known}`,
    );
    let next = 0;
    for (const { first, last } of parts ?? []) {
      t.equal(first, next);
      next = last + 1;
    }
    if (parts !== null) t.equal(next, size);
  }
  t.strictSame(copyParts(0, ofParts(1), null), [{ first: 0, last: -1 }], "one part of nothing");
  const most = copyParts(5 * 1024 * mebibyte, ofParts(10_000), null);
  t.equal(most?.length, 80, "no part below 5 MiB");
});

t.test("a bulk delete is read, split and answered without loss", async (t) => {
  const key = "a&b<c>\"d'\r\né ";
  const body = `<Delete xmlns="x"><Quiet> TRUE </Quiet><Object><Key>a&amp;b&lt;c&gt;"d'&#xD;&#10;é </Key><VersionId/></Object><Object><VersionId>v</VersionId><Key>k</Key><Size>1</Size></Object></Delete>`;
  const reading = readDeleteRequest(bytes(body), []);
  if (reading.kind === "error") throw reading.error;
  const { entries, quiet } = reading.deletion;
  t.equal(quiet, true);
  t.match(entries, [
    { key, versionId: null, conditions: [] },
    { key: "k", versionId: "v", conditions: [{ name: "Size", text: "1" }] },
  ]);
  const made = deleteRequestBody(entries);
  const again = readDeleteRequest(made.bytes, [["content-md5", made.md5]]);
  t.match(again, { kind: "deletion", deletion: { entries, quiet: false } });

  const said = `<DeleteResult><Error><Key>k</Key><VersionId></VersionId><Code>AccessDenied</Code><Message></Message></Error><Deleted><Key>m</Key><DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>w</DeleteMarkerVersionId></Deleted></DeleteResult>`;
  const rows = readDeleteResult(bytes(said)) ?? [];
  t.strictSame(rows, [
    {
      key: "k",
      versionId: null,
      outcome: { kind: "failed", code: "AccessDenied", message: "" },
    },
    {
      key: "m",
      versionId: null,
      outcome: { kind: "deleted", deleteMarker: "true", deleteMarkerVersionId: "w" },
    },
  ]);
  const whole = deleteResultDocument(rows, false);
  t.strictSame(readDeleteResult(bytes(whole)), rows);
  const failures = readXml(deleteResultDocument(rows, true), { maxBytes: 10_000 });
  t.match(failures, { root: { children: [{ name: "Error" }] } });
  t.equal(readDeleteResult(bytes("<ListBucketResult/>")), null);
});
