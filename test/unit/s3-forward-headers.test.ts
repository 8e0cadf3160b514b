// What of a client's request reaches an upstream, and what of its answer reaches the client.

import t from "tap";
import {
  requestHeadersUpstream,
  responseHeadersToClient,
  upstreamQuery,
} from "../../proxy/s3/forward-headers.ts";
import type { HeaderField, HeaderList } from "../../proxy/s3/headers.ts";
import { encodeQuery } from "../../proxy/s3/query.ts";
import { headOf } from "../support/s3-request.ts";

const forwarded = (headers: HeaderList): HeaderList => requestHeadersUpstream(headOf({ headers }));

t.test("fields of the object and of conditions travel to the byte", async (t) => {
  // https://github.com/versity/versitygw/issues/1215
  // https://github.com/developmentseed/multistore/issues/120
  const fields: HeaderList = [
    ["content-type", "Text/Plain;  charset=x"],
    ["cache-control", "no-cache"],
    ["content-encoding", "gzip"],
    ["content-md5", "m=="],
    ["expires", "0"],
    ["x-amz-meta-first", "L\u00c3\u00a9o"],
    ["x-amz-tagging", "k=a%20b&k2=&k3"],
    ["x-amz-checksum-crc32", "AAAAAA=="],
    ["if-none-match", "*"],
    ["if-match", '"wrong"'],
    ["range", "bytes=0-9"],
    ["accept-encoding", "identity"],
    ["user-agent", "aws-cli"],
    ["origin", "http://a"],
    ["access-control-request-method", "PUT"],
    ["if-range", '"e"'],
    ["if-modified-since", "d"],
    ["if-unmodified-since", "d"],
    ["content-language", "de"],
    ["content-disposition", "inline"],
    ["referer", "http://a"],
    ["traceparent", "00-x"],
    ["x-amzn-trace-id", "Root=1"],
  ];
  t.strictSame(forwarded(fields), fields);
});

t.test("of a decoded body nothing goes on that told of its framing", async (t) => {
  const fields: HeaderList = [
    ["content-encoding", "gzip, aws-chunked"],
    ["x-amz-sdk-checksum-algorithm", "CRC32"],
    ["x-amz-checksum-crc32", "AAAAAA=="],
    ["x-amz-trailer", "x-amz-checksum-crc32"],
  ];
  const checksum: HeaderField = ["x-amz-checksum-crc32", "AAAAAA=="];
  const gzip: HeaderField = ["content-encoding", "gzip"];
  t.strictSame(requestHeadersUpstream(headOf({ headers: fields }), true), [gzip, checksum]);
  t.strictSame(forwarded(fields), [gzip, ["x-amz-sdk-checksum-algorithm", "CRC32"], checksum]);
});

t.test("credentials, dates, hops and cookies end here", async (t) => {
  // https://github.com/tigrisdata/tag/pull/33
  const names = [
    "authorization",
    "date",
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-content-sha256",
    "x-amz-decoded-content-length",
    "x-amz-trailer",
    "x-amz-te",
    "content-length",
    "expect",
    "cookie",
    "x-forwarded-for",
    "x-forwarded-host",
    "forwarded",
    "via",
    "amz-sdk-invocation-id",
    "amz-sdk-request",
    "te",
    "trailer",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "upgrade",
  ];
  for (const name of names) t.strictSame(forwarded([[name, "1"]]), [], name);
  const nominated: HeaderList = [
    ["connection", "close, X-Custom"],
    ["x-custom", "1"],
    ["range", "bytes=0-1"],
  ];
  t.strictSame(forwarded(nominated), [["range", "bytes=0-1"]]);
  const encoded: HeaderList = [["accept-encoding", "br"]];
  t.strictSame(forwarded([["connection", "close"], ...encoded]), encoded);
  t.strictSame(forwarded([["connection", "accept-encoding"], ...encoded]), []);
});

t.test("a name that is none of those we know does not travel", async (t) => {
  const names = [
    // RGW maps `-` and `_` to the same variable, so these would be unsigned x-amz headers.
    "x_amz_copy_source",
    "x_amz-acl",
    "x-amz-object-lock_mode",
    "content_type",
    "rgwx-uid",
    // RGW reads these as x-amz-*.
    "x-goog-meta-role",
    "x-goog-tagging",
    "x-rgw-acl",
    "x-dho-acl",
    "x-object-meta-a",
    "x-container-meta-a",
    "x-account-meta-a",
    "x-minio-force-delete",
    "x-minio-source-mtime",
    "accept",
    "accept-language",
    "x-auth-token",
    "x-http-method-override",
    "x-custom",
  ];
  for (const name of names) {
    t.strictSame(requestHeadersUpstream({ headers: [[name, "1"]] }), [], name);
  }
  const metadata: HeaderList = [["x-amz-meta-my_key", "1"]];
  t.strictSame(forwarded(metadata), metadata, "metadata is never lost");
});

t.test("repeated fields become one line", async (t) => {
  const fields: HeaderList = [
    ["x-amz-meta-a", "2"],
    ["content-type", "a"],
    ["X-Amz-Meta-A", "1"],
  ];
  t.strictSame(forwarded(fields), [
    ["x-amz-meta-a", "2,1"],
    ["content-type", "a"],
  ]);
});

t.test("Content-Encoding loses aws-chunked and nothing else", async (t) => {
  // https://github.com/trinodb/aws-proxy/issues/124
  const rows = [
    ["aws-chunked", null],
    ["gzip,aws-chunked", "gzip"],
    ["aws-chunked, gzip", "gzip"],
    ["gzip, AWS-Chunked", "gzip"],
    ["gzip , br", "gzip , br"],
    ["", ""],
  ] as const;
  for (const [value, expected] of rows) {
    const fields = forwarded([["content-encoding", value]]);
    t.equal(fields[0]?.[1] ?? null, expected, value);
  }
});

t.test(
  "parameters with a meaning travel, those of authorization and unknown ones do not",
  async (t) => {
    const kept =
      "list-type=2&partNumber=1&prefix=a%20b&response-content-type=t&uploadId=u&versionId=v&x-id=G";
    t.equal(
      encodeQuery(upstreamQuery(headOf({ target: `/b/k?${kept}` }).query, "GetObject")),
      kept,
    );
    const acl = headOf({ target: "/b/k?x-amz-acl=private&uploads" });
    t.equal(
      encodeQuery(upstreamQuery(acl.query, "CreateMultipartUpload")),
      "uploads=&x-amz-acl=private",
    );
    const names = [
      "X-Amz-Algorithm",
      "X-Amz-Credential",
      "X-Amz-Date",
      "X-Amz-Expires",
      "X-Amz-SignedHeaders",
      "X-Amz-Signature",
      "X-Amz-Security-Token",
      "X-Amz-Content-Sha256",
      "x-amz-signature",
      "x-amz-checksum-crc32",
      "x-amz-sdk-checksum-algorithm",
      "rgwx-uid",
      "v",
      "acl",
      "id",
    ];
    for (const name of names) t.strictSame(upstreamQuery([[name, "1"]], "GetObject"), [], name);
    const metrics = "id=a&metrics=";
    t.equal(
      encodeQuery(
        upstreamQuery(headOf({ target: `/b?${metrics}` }).query, "GetBucketMetricsConfiguration"),
      ),
      metrics,
    );
  },
);

t.test(
  "an answer keeps what is about the object and loses what is about the upstream",
  async (t) => {
    // https://github.com/cloud37/s3-encryption-gateway/issues/215
    // https://github.com/boto/botocore/issues/1708
    const kept: HeaderList = [
      ["etag", '"abc-2"'],
      ["content-length", "484"],
      ["content-encoding", "gzip"],
      ["content-range", "bytes 0-9/484"],
      ["last-modified", "Sun, 29 Nov 2026 12:00:00 GMT"],
      ["x-amz-meta-first", "L\u00c3\u00a9o"],
      ["x-amz-version-id", "v"],
      ["x-amz-checksum-crc32", "AAAAAA=="],
      ["retry-after", "1"],
      ["access-control-allow-origin", "*"],
    ];
    const dropped: HeaderList = [
      ["connection", "close, x-hop"],
      ["x-hop", "1"],
      ["keep-alive", "timeout=5"],
      ["transfer-encoding", "chunked"],
      ["trailer", "x"],
      ["date", "Sun, 29 Nov 2026 12:00:00 GMT"],
      ["server", "AmazonS3"],
      ["location", "http://rgw-a.internal/b"],
      ["set-cookie", "a=b"],
      ["x-amz-request-id", "tx1"],
      ["x-amz-id-2", "i"],
      ["rgwx-mtime", "1"],
      ["via", "1.1 rgw-a.internal"],
      ["x-rgw-replicated-from", "zone-a:bucket:id"],
      ["x-trans-id", "tx1-a"],
      ["x-minio-deployment-id", "d"],
    ];
    t.strictSame(responseHeadersToClient([...dropped, ...kept]), kept);
  },
);

t.test("aws-chunked that an upstream kept with an object is not shown", async (t) => {
  const rows = [
    ["aws-chunked", null],
    ["gzip,aws-chunked", "gzip"],
    ["aws-chunked, br, gzip", "br, gzip"],
    ["AWS-Chunked", null],
    ["gzip, aws-chunkedx", "gzip, aws-chunkedx"],
  ] as const;
  for (const [value, expected] of rows) {
    const fields = responseHeadersToClient([["content-encoding", value]]);
    t.equal(fields[0]?.[1] ?? null, expected, value);
  }
});
