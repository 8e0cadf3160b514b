// What a request head must not be, and how target, query and address are read from it.

import t from "tap";

import { parseAddress } from "../../proxy/s3/address.ts";
import { S3Error } from "../../proxy/s3/errors.ts";
import type { HeaderList } from "../../proxy/s3/headers.ts";
import { decodeOnce, encodePath } from "../../proxy/s3/percent.ts";
import { encodeQuery, parseQuery } from "../../proxy/s3/query.ts";
import { fieldValue, readRequestHead } from "../../proxy/s3/request-head.ts";
import { headOf, tryHead } from "../support/s3-request.ts";

const codeOf = (result: unknown): string => (result instanceof S3Error ? result.code : "accepted");

t.test("ambiguous request targets are refused", async (t) => {
  // https://github.com/maximhq/bifrost/pull/7315: an absolute form must not choose the upstream.
  const targets = [
    "http://169.254.169.254/latest",
    "s3.example.com:443",
    "*",
    "",
    "b/k",
    "/b/k#fragment",
    "/b/a b",
    "/b/\u00e9",
    "/b/a\tb",
    "/b/a\u0000",
    "/b/100%",
    "/b/%4",
    "/b/%zz",
    "/b/%ff",
    "/b/%c0%af",
    "/b/%ed%a0%80",
    "/b?prefix=%",
    "/b?%zz=1",
    "/b?prefix=%ff",
    "/b?prefix=%00",
  ];
  for (const target of targets) t.equal(codeOf(tryHead({ target })), "InvalidURI", target);
});

t.test("the target's bytes are kept", async (t) => {
  for (const target of [
    "/b//a/../c/./",
    "/b/%2e%2E/\\x",
    "/b/%61?a=%2f&&b",
    "//",
    "/b?",
    "/b??a=?",
  ]) {
    t.equal(headOf({ target }).rawTarget, target);
  }
  const head = headOf({ target: "/b/k?a=1?b=2" });
  t.strictSame([head.rawPath, head.rawQuery], ["/b/k", "a=1?b=2"]);
});

t.test("a query name given twice is refused, as RGW and S3 pick different ones", async (t) => {
  for (const target of ["/b?a=1&a=2", "/b?acl&acl=", "/b?prefix=a&pre%66ix=b"]) {
    t.equal(codeOf(tryHead({ target })), "InvalidArgument", target);
  }
  t.equal(codeOf(tryHead({ target: "/b?a=1&A=2" })), "accepted", "names are case-sensitive");
});

t.test("fields that must be single are refused when repeated", async (t) => {
  // https://github.com/ceph/ceph/pull/70459
  const names = [
    "Host",
    "authorization",
    "Content-Length",
    "x-amz-date",
    "X-Amz-Content-Sha256",
    "x-amz-security-token",
    "x-amz-copy-source",
  ];
  for (const name of names) {
    const headers: HeaderList = [
      [name, "1"],
      [name.toUpperCase(), "1"],
    ];
    t.equal(codeOf(tryHead({ headers })), "InvalidRequest", name);
  }
});

t.test("ambiguous framing is refused", async (t) => {
  // https://github.com/litespeedtech/openlitespeed/issues/392
  const heads: readonly HeaderList[] = [
    [
      ["content-length", "3"],
      ["transfer-encoding", "chunked"],
    ],
    [
      ["transfer-encoding", "chunked"],
      ["content-length", "3"],
    ],
    [["transfer-encoding", "xchunked"]],
    [["transfer-encoding", "gzip, chunked"]],
    [["transfer-encoding", "chunked\t"]],
    [["transfer-encoding", ""]],
  ];
  for (const headers of heads) {
    t.equal(codeOf(tryHead({ headers })), "InvalidRequest", JSON.stringify(headers));
  }
  t.equal(codeOf(tryHead({ headers: [["transfer-encoding", "chunked"]] })), "accepted");
});

t.test("Connection must not nominate a signed or framing field", async (t) => {
  const values = [
    "x-amz-acl",
    "close, X-Amz-Copy-Source",
    "authorization",
    "host",
    "Content-Length",
    "content-type",
    "If-None-Match",
    "close, if-unmodified-since",
    "range",
  ];
  for (const value of values) {
    t.equal(codeOf(tryHead({ headers: [["connection", value]] })), "InvalidRequest", value);
  }
  t.equal(codeOf(tryHead({ headers: [["connection", "keep-alive, TE"]] })), "accepted");
});

t.test("Host is present, single and a host", async (t) => {
  const hosts = ["b@evil", "", "a b", "a/b", "[::1", "::1", "h:port", "h:123456", "h#x"];
  for (const host of hosts) t.equal(codeOf(tryHead({ host })), "InvalidRequest", host);
  // https://github.com/apache/ozone/pull/10809
  for (const host of ["[2001:db8::1]:9878", "[::1]", "b.s3.example.com:19000", "a_b.s3.x"]) {
    t.equal(codeOf(tryHead({ host })), "accepted", host);
  }
  const none = readRequestHead({ method: "GET", target: "/", rawHeaders: [] });
  t.match(none, { kind: "error", error: { code: "InvalidRequest" } });
});

t.test("control characters in fields are refused, bytes above 7f are kept", async (t) => {
  for (const value of ["a\u0000", "a\rb", "a\nb", "\u007f"]) {
    t.equal(codeOf(tryHead({ headers: [["x-amz-meta-a", value]] })), "InvalidRequest");
  }
  t.equal(codeOf(tryHead({ headers: [["bad name", "1"]] })), "InvalidRequest");
  const head = headOf({ headers: [["X-Amz-Meta-First", "L\u00c3\u00a9o"]] });
  t.equal(fieldValue(head.headers, "x-amz-meta-first"), "L\u00c3\u00a9o");
});

t.test("repeated fields join in order of arrival without a blank", async (t) => {
  const headers: HeaderList = [
    ["x-amz-meta-a", "2"],
    ["other", "x"],
    ["X-AMZ-META-A", "1"],
  ];
  t.equal(fieldValue(headOf({ headers }).headers, "x-amz-meta-a"), "2,1");
  t.equal(fieldValue(headOf({ headers }).headers, "absent"), null);
});

t.test("a query has one canonical form", async (t) => {
  const rows = [
    ["acl", "acl="],
    ["a=2&a=1", "a=1&a=2"],
    ["A=1&a=2", "A=1&a=2"],
    ["a=2&A=1", "A=1&a=2"],
    ["a-b=1&a=2", "a=2&a-b=1"],
    ["delimiter=/", "delimiter=%2F"],
    ["marker=%e2%82%ac", "marker=%E2%82%AC"],
    ["x=a%2520b", "x=a%2520b"],
    ["uploads=", "uploads="],
    ["&&a=1&&", "a=1"],
    ["", ""],
    ["=v", "=v"],
    ["a=b=c", "a=b%3Dc"],
    ["prefix=10%2B2", "prefix=10%2B2"],
    // https://github.com/oven-sh/bun/pull/42994
    ["uploadId=2~X%2BM%2f9%3D%3D", "uploadId=2~X%2BM%2F9%3D%3D"],
    ["uploadId=2%7EX%2BM%2F9%3D%3D", "uploadId=2~X%2BM%2F9%3D%3D"],
    ["prefix=a%20b~'()*!", "prefix=a%20b~%27%28%29%2A%21"],
  ] as const;
  for (const [raw, canonical] of rows) t.equal(encodeQuery(parseQuery(raw) ?? []), canonical, raw);
});

t.test("a raw plus in a query has two readings and is never written", async (t) => {
  t.equal(encodeQuery(parseQuery("prefix=a+b", "blank") ?? []), "prefix=a%20b");
  t.equal(encodeQuery(parseQuery("prefix=a+b", "plus") ?? []), "prefix=a%2Bb");
  t.equal(encodeQuery(parseQuery("prefix=a%2Bb", "blank") ?? []), "prefix=a%2Bb");
});

t.test("every legal spelling of a path has one canonical form", async (t) => {
  // https://github.com/nginx/nginx-s3-gateway/issues/578
  // https://github.com/paradigmxyz/iron-proxy/issues/220
  // https://github.com/mhart/aws4/issues/115
  const rows = [
    ["/b/%61.txt", "/b/a.txt"],
    ["/b/plus%2bplus.txt", "/b/plus%2Bplus.txt"],
    ["/b/plus+plus.txt", "/b/plus%2Bplus.txt"],
    ["/b/year=2020/x", "/b/year%3D2020/x"],
    ["/b/it's(1)!*.txt", "/b/it%27s%281%29%21%2A.txt"],
    ["/bkt/dir/JULY%2027.zip", "/bkt/dir/JULY%2027.zip"],
    ["/b/a%2Fb", "/b/a/b"],
    ["/b/test%252F.txt", "/b/test%252F.txt"],
    ["/b/%c3%a9", "/b/%C3%A9"],
    ["/b//x/../y/./z", "/b//x/../y/./z"],
    ["/b/a:b@c,d", "/b/a%3Ab%40c%2Cd"],
    ["/b/x%23y%3Fz", "/b/x%23y%3Fz"],
    ["/b/a\\b%5C", "/b/a%5Cb%5C"],
    ["/b/%7Ex", "/b/~x"],
  ] as const;
  for (const [raw, canonical] of rows) t.equal(encodePath(decodeOnce(raw) ?? ""), canonical, raw);
});

t.test("bucket and key are those of the once-decoded path", async (t) => {
  // https://github.com/versity/versitygw/issues/2274
  // https://github.com/aws/aws-sdk-ruby/issues/762
  // https://github.com/awslabs/aws-sigv4-proxy/issues/246
  const rows = [
    ["/", null, null, null],
    ["/b", null, "b", null],
    ["/b/", null, "b", null],
    ["/b/k", null, "b", "k"],
    ["/b//foo", null, "b", "/foo"],
    ["/b//", null, "b", "/"],
    ["/b/a//b", null, "b", "a//b"],
    ["/b/dir/", null, "b", "dir/"],
    ["/b/../c", null, "b", "../c"],
    ["/b/%2e%2e/c", null, "b", "../c"],
    ["/b/.", null, "b", "."],
    ["/b%2Fk", null, "b", "k"],
    ["/%62/k", null, "b", "k"],
    ["/b/a%20b+c", null, "b", "a b+c"],
    ["/b/test%252F.txt", null, "b", "test%2F.txt"],
    ["/b/test%2F.txt", null, "b", "test/.txt"],
    ["/acme:logs/k", "acme", "logs", "k"],
    ["/acme%3Alogs/k", "acme", "logs", "k"],
    ["/:logs/k", "-", "logs", "k"],
    ["/b/a:b", null, "b", "a:b"],
    ["/B_c.d-1/k", null, "B_c.d-1", "k"],
    ["/acme:admin/k", "acme", "admin", "k"],
  ] as const;
  for (const [target, tenant, bucket, key] of rows) {
    const expected = { kind: "address", style: "path", tenant, bucket, key };
    t.strictSame(parseAddress(headOf({ target }), []), expected, target);
  }
});

t.test("a host below a base domain names the bucket", async (t) => {
  // https://github.com/chimera-nas/chimera/issues/501
  const domains = ["s3.example.com", "Example.com", "rgw.s3.example.com"];
  const rows = [
    ["s3.example.com", "/bkt/key", "path", "bkt", "key"],
    ["bkt.s3.example.com:19000", "/key", "virtual-hosted", "bkt", "key"],
    ["BKT.S3.Example.COM", "/key", "virtual-hosted", "bkt", "key"],
    ["my.dotted.bkt.s3.example.com", "/k", "virtual-hosted", "my.dotted.bkt", "k"],
    ["b.rgw.s3.example.com", "/k", "virtual-hosted", "b", "k"],
    ["rgw.s3.example.com", "/b/k", "path", "b", "k"],
    ["bkt.s3.example.com.", "/k", "virtual-hosted", "bkt", "k"],
    ["other.example.net", "/b/k", "path", "b", "k"],
    ["xs3.example.com", "/k", "virtual-hosted", "xs3", "k"],
    ["notexample.com", "/b/k", "path", "b", "k"],
    ["[::1]:9000", "/b/k", "path", "b", "k"],
    ["127.0.0.1:9000", "/b/k", "path", "b", "k"],
    ["bkt.s3.example.com", "/", "virtual-hosted", "bkt", null],
    ["bkt.s3.example.com", "//k", "virtual-hosted", "bkt", "/k"],
  ] as const;
  for (const [host, target, style, bucket, key] of rows) {
    const expected = { kind: "address", style, tenant: null, bucket, key };
    t.strictSame(parseAddress(headOf({ host, target }), domains), expected, `${host}${target}`);
  }
});

t.test("what cannot be a bucket or a key is refused", async (t) => {
  const rows = [
    ["//bucket/key", "NoSuchBucket"],
    ["/%2Fbucket/key", "NoSuchBucket"],
    ["/..", "InvalidBucketName"],
    ["/%2e/x", "InvalidBucketName"],
    ["/a b/k".replace(" ", "%20"), "InvalidBucketName"],
    ["/127.0.0.1:9000%23/k", "InvalidBucketName"],
    ["/-:b/k", "InvalidBucketName"],
    ["/a:b:c/k", "InvalidBucketName"],
    [`/${"b".repeat(256)}/k`, "InvalidBucketName"],
    // On an RGW these paths are its admin and Swift interfaces, which our credentials might open.
    ["/admin/user?uid=x", "InvalidBucketName"],
    ["/swift/v1", "InvalidBucketName"],
    ["/auth", "InvalidBucketName"],
    ["/b/a%00b", "InvalidURI"],
    [`/b/${"k".repeat(1025)}`, "KeyTooLongError"],
    [`/b/${"%C3%A9".repeat(513)}`, "KeyTooLongError"],
  ] as const;
  for (const [target, code] of rows) {
    t.match(parseAddress(headOf({ target }), []), { kind: "error", error: { code } }, target);
  }
  for (const key of ["k".repeat(1024), "%C3%A9".repeat(512)]) {
    t.match(parseAddress(headOf({ target: `/b/${key}` }), []), { kind: "address" });
  }
  const admin = headOf({ host: "admin.s3.example.com", target: "/user" });
  t.match(parseAddress(admin, ["s3.example.com"]), { error: { code: "InvalidBucketName" } });
});
