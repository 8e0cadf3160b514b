// What x-amz-copy-source, its range and its conditions are read as, and what goes to an upstream.

import t from "tap";
import { hasSourceConditions, sourceConditionsHold } from "../../proxy/s3/copy-conditions.ts";
import {
  copySourceValue,
  parseCopySource,
  readCopyRange,
  survivesSecondDecoding,
  withoutCopyFields,
} from "../../proxy/s3/copy-source.ts";
import { noTenant, parseTenantName } from "../../proxy/s3/names.ts";

/** As node:http hands over what a client wrote in UTF-8. */
function latin1(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}

const read: readonly (readonly [
  value: string,
  tenant: string | null,
  bucket: string,
  key: string,
  version: string | null,
  canonical: string,
])[] = [
  ["b/k", null, "b", "k", null, "/b/k"],
  ["/b/k", null, "b", "k", null, "/b/k"],
  ["b%2Fdir%2Fk", null, "b", "dir/k", null, "/b/dir/k"],
  ["%2Fb%2Fk", null, "b", "k", null, "/b/k"],
  ["b//k", null, "b", "/k", null, "/b//k"],
  ["b/dir/", null, "b", "dir/", null, "/b/dir/"],
  ["b/../k/./x", null, "b", "../k/./x", null, "/b/../k/./x"],
  ["/b/c%2B%2B", null, "b", "c++", null, "/b/c%2B%2B"],
  ["b/2017+0000.jpg", null, "b", "2017+0000.jpg", null, "/b/2017%2B0000.jpg"],
  ["b/key%3Dvalue/f1", null, "b", "key=value/f1", null, "/b/key%3Dvalue/f1"],
  ["b/a b", null, "b", "a b", null, "/b/a%20b"],
  ["b/a%2520b", null, "b", "a%20b", null, "/b/a%2520b"],
  ["b/100%25", null, "b", "100%", null, "/b/100%25"],
  ["b/what%3F%23", null, "b", "what?#", null, "/b/what%3F%23"],
  ["b/%3FversionId", null, "b", "?versionId", null, "/b/%3FversionId"],
  ["b/%C3%A9", null, "b", "é", null, "/b/%C3%A9"],
  ["b/é/日本", null, "b", "é/日本", null, "/b/%C3%A9/%E6%97%A5%E6%9C%AC"],
  ["b/k?versionId=v1.-_~", null, "b", "k", "v1.-_~", "/b/k?versionId=v1.-_~"],
  ["b/k?versionId=a%2Bb%3D", null, "b", "k", "a+b=", "/b/k?versionId=a%2Bb%3D"],
  ["b/k?versionId=null", null, "b", "k", "null", "/b/k?versionId=null"],
  ["team:b/k", "team", "b", "k", null, "/team:b/k"],
  ["/team%3Ab/k:1", "team", "b", "k:1", null, "/team:b/k%3A1"],
  [":b/k", "-", "b", "k", null, "/b/k"],
];

t.test("every form names one object and goes on encoded once", async (t) => {
  // https://github.com/jamhall/s3rver/pull/207
  for (const [value, tenant, bucket, key, versionId, canonical] of read) {
    const result = parseCopySource(latin1(value));
    if (result.kind === "error") {
      t.fail(`${value}: ${result.error.message}`);
      continue;
    }
    t.strictSame(result.source, { tenant, bucket, key, versionId }, value);
    t.equal(copySourceValue(result.source, noTenant), canonical, value);
    const team = parseTenantName("team") ?? noTenant;
    const again = parseCopySource(copySourceValue(result.source, team));
    t.strictSame(again, result, `${value}: the canonical form is read the same`);
  }
});

t.test("what names no object is refused", async (t) => {
  for (const [value, code] of [
    ["", "InvalidArgument"],
    ["/", "InvalidArgument"],
    ["//", "InvalidArgument"],
    ["b", "InvalidArgument"],
    ["/b", "InvalidArgument"],
    ["/b/", "InvalidArgument"],
    ["b%2F", "InvalidArgument"],
    ["//b/k", "InvalidArgument"],
    ["/b/any%.txt", "InvalidArgument"],
    ["/b/any%zz", "InvalidArgument"],
    ["/b/%E9", "InvalidArgument"],
    ["/b/k%00", "InvalidArgument"],
    ["/b/?versionId=v", "InvalidArgument"],
    ["/b/k?versionId=", "InvalidArgument"],
    ["/b/k?versionId", "InvalidArgument"],
    ["/b/k?versionId=%", "InvalidArgument"],
    ["/b/k?versionId=a%0Ab", "InvalidArgument"],
    ["/b/k?versionId=a&partNumber=1", "InvalidArgument"],
    ["/b/k?acl", "InvalidArgument"],
    ["/b/k?", "InvalidArgument"],
    ["/b/what?.txt", "InvalidArgument"],
    ["..//k", "InvalidBucketName"],
    ["b#/k", "InvalidBucketName"],
    ["-:b/k", "InvalidBucketName"],
    ["te am:b/k", "InvalidBucketName"],
    ["admin/user", "InvalidBucketName"],
    [`b/${"k".repeat(1025)}`, "KeyTooLongError"],
    ["arn:aws:s3:us-east-1:1:accesspoint/ap/object/k", "NotImplemented"],
    ["arn:aws:s3-outposts:us-east-1:1:outpost/o/bucket/b/object/k", "NotImplemented"],
    ["/arn%3Aaws-cn%3As3:x:1:accesspoint/ap/object/k", "NotImplemented"],
  ] as const) {
    const result = parseCopySource(latin1(value));
    t.equal(result.kind === "error" ? result.error.code : "read", code, value);
  }
  t.equal(parseCopySource("b/\xff").kind, "error", "bytes that are not UTF-8");
});

t.test("a key or version that a second decoding changes is told", async (t) => {
  for (const [value, survives] of [
    ["b/k+ é", true],
    ["b/100%25", false],
    ["b/a%2541", false],
    ["b/k?versionId=a%2541", false],
    ["b/secret%3FversionId%3D", false],
    ["b/secret%3FversionId%3Dnull", false],
  ] as const) {
    const result = parseCopySource(latin1(value));
    t.equal(result.kind === "source" && survivesSecondDecoding(result.source), survives, value);
  }
});

t.test("a range has two ends", async (t) => {
  const none = readCopyRange([]);
  t.strictSame(none, { kind: "range", range: null });
  for (const [value, first, last] of [
    ["bytes=0-0", 0, 0],
    ["bytes=5-99999999999", 5, 99_999_999_999],
  ] as const) {
    const result = readCopyRange([["x-amz-copy-source-range", value]]);
    t.strictSame(result, { kind: "range", range: { first, last } }, value);
  }
  for (const value of [
    "",
    "0-2",
    "bytes=0",
    "bytes=hello-world",
    "bytes=0-bar",
    "bytes=hello-",
    "bytes=0-2,3-5",
    "bytes=-5",
    "bytes=5-",
    "bytes=3-2",
    "bytes=0-1234567890123456",
    "bytes 0-1",
  ]) {
    const result = readCopyRange([["x-amz-copy-source-range", value]]);
    t.equal(result.kind === "error" ? result.error.code : "read", "InvalidArgument", value);
  }
});

t.test("no field of a copy stays on another request", async (t) => {
  const left = withoutCopyFields([
    ["x-amz-copy-source", "b/k"],
    ["x-amz-copy-source-range", "bytes=0-1"],
    ["x-amz-copy-source-if-match", "x"],
    ["x-amz-copy-source-server-side-encryption-customer-key", "x"],
    ["x-amz-meta-copy", "y"],
  ]);
  t.strictSame(left, [["x-amz-meta-copy", "y"]]);
});

t.test("conditions on the source hold as S3 says", async (t) => {
  const at = Date.parse("Mon, 30 Nov 2026 02:00:00 GMT");
  const source = { etag: '"abc"', modifiedMs: at };
  const before = "Mon, 30 Nov 2026 01:59:59 GMT";
  const same = "Mon, 30 Nov 2026 02:00:00 GMT";
  t.equal(hasSourceConditions([["x-amz-copy-source", "b/k"]]), false);
  for (const [conditions, holds] of [
    [{ match: '"abc"' }, true],
    [{ match: "abc" }, true],
    [{ match: "*" }, true],
    [{ match: 'x, "abc"' }, true],
    [{ match: '"abd"' }, false],
    [{ "none-match": '"abc"' }, false],
    [{ "none-match": "abc" }, false],
    [{ "none-match": "*" }, false],
    [{ "none-match": '"abd"' }, true],
    [{ "unmodified-since": same }, true],
    [{ "unmodified-since": before }, false],
    [{ "modified-since": before }, true],
    [{ "modified-since": same }, false],
    [{ match: "abc", "unmodified-since": before }, true],
    [{ match: "abd", "unmodified-since": same }, false],
    [{ "none-match": "abc", "modified-since": before }, false],
    [{ "none-match": "abd", "modified-since": same }, true],
    [{ match: "abc", "none-match": "abc" }, false],
    [{ "modified-since": "soon" }, true],
  ] as const) {
    const headers = Object.entries(conditions).map(
      ([name, value]) => [`x-amz-copy-source-if-${name}`, value] as const,
    );
    t.equal(hasSourceConditions(headers), true);
    t.equal(sourceConditionsHold(headers, source), holds, JSON.stringify(conditions));
  }
});
