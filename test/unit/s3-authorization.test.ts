// Which credentials a request brings, what its payload is, and the two together.

import t from "tap";

import {
  AuthorizationCache,
  readAuthorization,
  readV2Authorization,
} from "../../proxy/s3/authorization.ts";
import type { HeaderField, HeaderList } from "../../proxy/s3/headers.ts";
import type { S3Operation } from "../../proxy/s3/operation.ts";
import { maxBodyBytes, type PayloadOptions, readPayload } from "../../proxy/s3/payload.ts";
import { emptyPayloadHash } from "../../proxy/s3/sigv4.ts";
import { headOf } from "../support/s3-request.ts";

const signature = "0123456789abcdef".repeat(4);
const scope = "AKID/20261129/us-east-1/s3/aws4_request";
const header = `AWS4-HMAC-SHA256 Credential=${scope}, SignedHeaders=host;x-amz-date, Signature=${signature}`;
const dated: HeaderField = ["x-amz-date", "20261129T120000Z"];

function parameters(changes: Readonly<Record<string, string | null>> = {}): string {
  const all: Record<string, string | null> = {
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": encodeURIComponent(scope),
    "X-Amz-Date": "20261129T120000Z",
    "X-Amz-Expires": "900",
    "X-Amz-SignedHeaders": "host",
    "X-Amz-Signature": signature,
    ...changes,
  };
  const pairs = Object.entries(all).flatMap(([name, value]) =>
    value === null ? [] : [`${name}=${value}`],
  );
  return `/b/k?${pairs.join("&")}`;
}

function read(authorization: string | null, target = "/b/k", more: HeaderList = [dated]) {
  const own: HeaderList = authorization === null ? [] : [["authorization", authorization]];
  return readAuthorization(headOf({ target, headers: [...own, ...more] }));
}

const code = (result: ReturnType<typeof read>): string =>
  result.kind === "error" ? result.error.code : result.kind;

t.test("a header is read with its parts in any order and any blanks", async (t) => {
  const expected = {
    kind: "header",
    accessKeyId: "AKID",
    date: "20261129",
    region: "us-east-1",
    amzDate: "20261129T120000Z",
    signedAtMs: Date.UTC(2026, 10, 29, 12),
    signedHeaders: ["host", "x-amz-date"],
    signature,
    sessionToken: null,
  };
  const parts = [`Credential=${scope}`, "SignedHeaders=host;x-amz-date", `Signature=${signature}`];
  for (const text of [
    header,
    `AWS4-HMAC-SHA256 ${parts.join(",")}`,
    `AWS4-HMAC-SHA256   ${parts.toReversed().join(" ,  ")}`,
    `AWS4-HMAC-SHA256\t${parts.join(",\t")}`,
  ]) {
    t.strictSame(read(text), expected, text);
  }
  const token: HeaderField = ["x-amz-security-token", "token"];
  t.match(read(header, "/b/k", [dated, token]), { sessionToken: "token" });
});

t.test("a scope is read from the right, so that a key id may hold slashes", async (t) => {
  t.match(read(header.replace("AKID", "a/b/c")), { accessKeyId: "a/b/c", date: "20261129" });
  t.match(read(header.replace("us-east-1", "")), { region: "" });
});

t.test("a header that does not parse is malformed", async (t) => {
  const wrong = [
    header.replace("Credential=", "Cred="),
    header.replace(/, Signature=.*/, ""),
    `${header}, Signature=${signature}`,
    `${header}, Extra=1`,
    `${header},`,
    header.replace("/s3/", "/ec2/"),
    header.replace("aws4_request", "aws5_request"),
    header.replace("AKID/", ""),
    header.replace("20261129", "20261130"),
    header.replace("20261129", "2026112"),
    header.replace("host;x-amz-date", ""),
    header.replace("host;x-amz-date", "Host;x-amz-date"),
    header.replace("host;x-amz-date", "host;host"),
    header.replace("host;x-amz-date", "host;;x-amz-date"),
    header.replace("0123", "ABCD"),
    header.slice(0, -1),
    "AWS4-HMAC-SHA256 ",
  ];
  for (const text of wrong) t.equal(code(read(text)), "AuthorizationHeaderMalformed", text);
});

t.test("the date is x-amz-date, else Date in either form, and must exist", async (t) => {
  const rows: readonly (readonly [HeaderList, string])[] = [
    [[["date", "Sun, 29 Nov 2026 12:00:00 GMT"]], "header"],
    [[["date", "20261129T120000Z"]], "header"],
    [[["date", "Mon, 30 Feb 2026 12:00:00 GMT"], dated], "header"],
    [[["date", "Mon, 30 Feb 2026 12:00:00 GMT"]], "AccessDenied"],
    [[["date", "29 Nov 2026"]], "AccessDenied"],
    [[], "AccessDenied"],
    [[["x-amz-date", "20261129T126000Z"]], "AccessDenied"],
    [[["x-amz-date", "20261129T240000Z"]], "AccessDenied"],
    [[["x-amz-date", "20261129T120060Z"]], "AccessDenied"],
    [[["x-amz-date", "20260230T120000Z"]], "AccessDenied"],
    [[["date", "Sun, 29 Nox 2026 12:00:00 GMT"]], "AccessDenied"],
    [[["x-amz-date", "20261329T120000Z"]], "AccessDenied"],
    [[["x-amz-date", "20261100T120000Z"]], "AccessDenied"],
    [[["x-amz-date", "Sun, 29 Nov 2026 12:00:00 GMT"]], "AccessDenied"],
  ];
  for (const [fields, expected] of rows) {
    t.equal(code(read(header, "/b/k", fields)), expected, JSON.stringify(fields));
  }
  const fromDate = read(header, "/b/k", [["date", "Sun, 29 Nov 2026 12:00:00 GMT"]]);
  t.match(fromDate, { amzDate: "20261129T120000Z" });
});

t.test("a presigned query is read, its expiry bounded", async (t) => {
  // https://github.com/gaul/s3proxy/issues/648
  t.match(read(null, parameters(), []), {
    kind: "presigned",
    expiresSeconds: 900,
    region: "us-east-1",
  });
  const rows = [
    [{ "X-Amz-Expires": "604800" }, "presigned"],
    [{ "X-Amz-Expires": "1" }, "presigned"],
    [{ "X-Amz-Expires": "604801" }, "AccessDenied"],
    [{ "X-Amz-Expires": "0" }, "AccessDenied"],
    [{ "X-Amz-Expires": "-1" }, "AccessDenied"],
    [{ "X-Amz-Expires": "NaN" }, "AuthorizationQueryParametersError"],
    [{ "X-Amz-Expires": "1e3" }, "AuthorizationQueryParametersError"],
    [{ "X-Amz-Expires": null }, "AuthorizationQueryParametersError"],
    [{ "X-Amz-Date": null }, "AuthorizationQueryParametersError"],
    [{ "X-Amz-Date": "20261128T120000Z" }, "AuthorizationQueryParametersError"],
    [{ "X-Amz-Signature": null }, "AuthorizationQueryParametersError"],
    [{ "X-Amz-Signature": "junk" }, "AuthorizationQueryParametersError"],
    [{ "X-Amz-Algorithm": null }, "AuthorizationQueryParametersError"],
    [{ "X-Amz-Algorithm": "AWS4-HMAC-SHA512" }, "AuthorizationQueryParametersError"],
    [{ "X-Amz-Algorithm": "AWS4-ECDSA-P256-SHA256" }, "NotImplemented"],
    [{ "X-Amz-Credential": "AKID" }, "AuthorizationQueryParametersError"],
  ] as const;
  for (const [changes, expected] of rows) {
    t.equal(code(read(null, parameters(changes), [])), expected, JSON.stringify(changes));
  }
  // What a shell leaves of a URL without quotes.
  t.match(read(null, parameters().split("&")[0] ?? "", []), {
    error: {
      message:
        "The presigned URL is not whole, it lacks X-Amz-Credential, X-Amz-Date, X-Amz-Expires, X-Amz-SignedHeaders, X-Amz-Signature",
    },
  });
  for (const text of ["a+b/c=", "a%2Bb/c="]) {
    const target = parameters({ "X-Amz-Security-Token": text });
    t.match(read(null, target, []), { sessionToken: "a+b/c=" }, text);
  }
});

t.test("one mechanism only, and old ones are named, not taken for anonymous", async (t) => {
  // https://github.com/KensioSoftware/yulin/pull/183
  // https://github.com/versity/versitygw/issues/478
  const v2 = "/b/k?AWSAccessKeyId=a&Expires=1&Signature=b";
  const rows = [
    [header, parameters(), "InvalidArgument"],
    [header, "/b?list-type=2&X-Amz-Signature=junk", "InvalidArgument"],
    [header, v2, "InvalidArgument"],
    ["AWS id:sig", parameters(), "InvalidArgument"],
    [null, `${parameters()}&AWSAccessKeyId=a`, "InvalidArgument"],
    ["AWS id:sig", "/b/k", "InvalidRequest"],
    [null, v2, "InvalidRequest"],
    [null, "/b/k?AWSAccessKeyId=a", "InvalidRequest"],
    ["AWS4-ECDSA-P256-SHA256 Credential=x", "/b/k", "NotImplemented"],
    ["Bearer abc", "/b/k", "AccessDenied"],
    ["Basic abc", "/b/k", "AccessDenied"],
    ["", "/b/k", "AccessDenied"],
    ["aws4-hmac-sha256 Credential=x", "/b/k", "AccessDenied"],
    ["Bearer abc", parameters(), "presigned"],
    ["Basic abc", parameters(), "presigned"],
    [null, "/b/k", "anonymous"],
    [null, "/b/k?x-amz-signature=a&x-amz-algorithm=b", "anonymous"],
  ] as const;
  for (const [text, target, expected] of rows) {
    t.equal(code(read(text, target)), expected, `${text} ${target}`);
  }
});

// ---- payload ----

interface PayloadInput {
  readonly auth: (typeof allForms)[number];
  readonly sha256: string | null;
  readonly length?: string | null;
  readonly method?: string;
  readonly operation?: S3Operation;
  readonly more?: HeaderList;
  readonly target?: string;
  readonly options?: PayloadOptions;
}

const allForms = ["header", "presigned", "header-v2", "presigned-v2", "anonymous"] as const;
const v2Value = "frJIUN8DYpKDtOLCwo//yllqDzg=";

/** The authorization of a request in one of its forms. */
function authorizationOf(form: PayloadInput["auth"]) {
  switch (form) {
    case "header":
      return read(header);
    case "presigned":
      return read(null, parameters());
    case "anonymous":
      return read(null);
    case "header-v2":
      return readV2(`AWS AKID:${v2Value}`, "/b/k");
    case "presigned-v2":
      return readV2(null, `/b/k?AWSAccessKeyId=A&Expires=1&Signature=${v2Value}`);
  }
}

function readV2(value: string | null, target: string) {
  const own: HeaderList = value === null ? [] : [["authorization", value]];
  const headers: HeaderList = [...own, ["date", "Sun, 29 Nov 2026 12:00:00 GMT"]];
  const result = readV2Authorization(headOf({ target, headers }));
  if (result === null) throw new Error("Version 2 is not read");
  return result;
}

function payload(input: PayloadInput) {
  const { length = "5", method = "PUT", operation = "PutObject", more = [] } = input;
  const headers: HeaderField[] = [...more];
  if (input.sha256 !== null) headers.push(["x-amz-content-sha256", input.sha256]);
  if (length !== null) headers.push(["content-length", length]);
  const authorization = authorizationOf(input.auth);
  if (authorization.kind === "error") throw authorization.error;
  const head = headOf({ method, target: input.target ?? "/b/k", headers });
  const result = readPayload(head, authorization, { operation, ...input.options });
  return result.kind === "error" ? result.error.code : `${result.mode} ${result.lengthBytes}`;
}

t.test("every payload form by form of authorization", async (t) => {
  const hash = "ab".repeat(32);
  const all = (outcome: string) => Array<string>(5).fill(outcome);
  // Chunks are chained to a signature of version 4 only.
  const streaming = (signed: string) => [
    signed,
    signed,
    ...Array<string>(3).fill("InvalidRequest"),
  ];
  const rows = [
    [hash, ...all("single-chunk 5")],
    ["UNSIGNED-PAYLOAD", ...all("unsigned 5")],
    [null, ...all("unsigned 5")],
    [emptyPayloadHash, ...all("XAmzContentSHA256Mismatch")],
    ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD", ...streaming("streaming-signed 3")],
    ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", ...streaming("InvalidRequest")],
    ["STREAMING-UNSIGNED-PAYLOAD-TRAILER", ...streaming("streaming-unsigned-trailer 3")],
    ["STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", ...streaming("NotImplemented")],
    ["STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER", ...streaming("NotImplemented")],
    [hash.toUpperCase(), ...all("InvalidArgument")],
    ["garbage", ...all("InvalidArgument")],
    ["unsigned-payload", ...all("InvalidArgument")],
    ["", ...all("InvalidArgument")],
  ];
  for (const [sha256 = null, ...expected] of rows) {
    const more: HeaderList = [["x-amz-decoded-content-length", "3"]];
    const seen = allForms.map((auth) => payload({ auth, sha256, more }));
    t.strictSame(seen, expected, `${sha256}`);
  }
});

t.test("a streaming value is for uploads only, whoever signs", async (t) => {
  const more: HeaderList = [["x-amz-decoded-content-length", "3"]];
  for (const operation of ["CreateBucket", "DeleteObjects", "CompleteMultipartUpload"] as const) {
    for (const auth of allForms) {
      const sha256 = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
      t.equal(payload({ auth, sha256, more, operation, method: "POST" }), "InvalidRequest");
    }
  }
});

t.test(
  "checksums in a presigned query mean nothing, unless they are taken at their word",
  async (t) => {
    // https://github.com/seaweedfs/seaweedfs/issues/10216
    const target = "/b/k?x-amz-checksum-crc32=AAAAAA%3D%3D&X-Amz-Sdk-Checksum-Algorithm=CRC32";
    const checksum = (form: "presigned" | "presigned-v2" | "header", options: PayloadOptions) => {
      const authorization = authorizationOf(form);
      if (authorization.kind === "error") throw authorization.error;
      const head = headOf({ method: "PUT", target, headers: [["content-length", "5"], unsigned] });
      const result = readPayload(head, authorization, { operation: "PutObject", ...options });
      return result.kind === "error" ? result.error.code : (result.checksum?.algorithm ?? null);
    };
    const unsigned: HeaderField = ["x-amz-content-sha256", "UNSIGNED-PAYLOAD"];
    for (const form of ["presigned", "presigned-v2"] as const) {
      t.equal(checksum(form, {}), null);
      t.equal(checksum(form, { presignedQueryChecksums: "ignore" }), null);
      t.equal(checksum(form, { presignedQueryChecksums: "verify" }), "crc32");
    }
    t.equal(checksum("header", { presignedQueryChecksums: "verify" }), null);
  },
);

t.test("a presigned query may pin the hash of the body", async (t) => {
  const target = `/b/k?X-Amz-Content-Sha256=${"ab".repeat(32)}`;
  t.equal(payload({ auth: "presigned", sha256: null, target }), "single-chunk 5");
  t.equal(payload({ auth: "anonymous", sha256: null, target }), "unsigned 5");
});

t.test("empty bodies and streaming outside of uploads", async (t) => {
  const base = { auth: "header", sha256: emptyPayloadHash } as const;
  t.equal(payload({ ...base, length: "0" }), "single-chunk 0");
  t.equal(payload({ ...base, sha256: "ab".repeat(32), length: "0" }), "XAmzContentSHA256Mismatch");
  const streaming = { ...base, sha256: "STREAMING-UNSIGNED-PAYLOAD-TRAILER" };
  t.equal(payload({ ...streaming, operation: "CompleteMultipartUpload" }), "InvalidRequest");
});

t.test("a streaming body declares its decoded length and its trailer", async (t) => {
  const decoded = (text: string): HeaderField => ["x-amz-decoded-content-length", text];
  const announced: HeaderField = ["x-amz-trailer", "x-amz-checksum-crc32c"];
  const checksum: HeaderField = ["x-amz-checksum-crc32c", "AAAAAA=="];
  const inChunks: HeaderField = ["transfer-encoding", "chunked"];
  const signed = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
  const unsigned = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
  const large = String(maxBodyBytes);
  const rows: readonly (readonly [string, Partial<PayloadInput>, string])[] = [
    [signed, {}, "MissingContentLength"],
    [signed, { more: [decoded("5")], length: null }, "MissingContentLength"],
    [signed, { more: [decoded("5"), inChunks], length: null }, "streaming-signed 5"],
    [signed, { more: [decoded("5")], length: "x" }, "InvalidRequest"],
    [signed, { more: [decoded("0")], length: "86" }, "streaming-signed 0"],
    [signed, { more: [decoded("")] }, "InvalidArgument"],
    [signed, { more: [decoded("-1")] }, "InvalidArgument"],
    [signed, { more: [decoded("0x5")] }, "InvalidArgument"],
    [signed, { more: [decoded("9".repeat(16))] }, "InvalidArgument"],
    [signed, { more: [decoded(String(maxBodyBytes + 1))] }, "EntityTooLarge"],
    [signed, { more: [decoded(large)], length: `${large}0` }, `streaming-signed ${large}`],
    [signed, { more: [decoded("5"), checksum] }, "streaming-signed 5"],
    [signed, { more: [decoded("5"), announced] }, "InvalidRequest"],
    [`${signed}-TRAILER`, { more: [decoded("5")] }, "InvalidRequest"],
    [`${signed}-TRAILER`, { more: [decoded("5"), announced] }, "streaming-signed-trailer 5"],
    [unsigned, { more: [decoded("5"), announced] }, "streaming-unsigned-trailer 5"],
    [unsigned, { more: [decoded("5"), announced, checksum] }, "InvalidRequest"],
    [unsigned, { more: [decoded("5")], operation: "UploadPart" }, "streaming-unsigned-trailer 5"],
    [unsigned, { more: [decoded("5")], operation: "CreateBucket" }, "InvalidRequest"],
    ["UNSIGNED-PAYLOAD", { more: [decoded("9"), announced] }, "unsigned 5"],
    ["UNSIGNED-PAYLOAD", { more: [checksum, ["x-amz-checksum-sha1", "x"]] }, "InvalidRequest"],
    [
      "UNSIGNED-PAYLOAD",
      { more: [["x-amz-checksum-x", "x"]], method: "POST", operation: "CompleteMultipartUpload" },
      "unsigned 5",
    ],
  ];
  for (const [sha256, input, expected] of rows) {
    t.equal(payload({ auth: "header", sha256, ...input }), expected, JSON.stringify(input));
  }
});

t.test("the length of a body is declared and bounded", async (t) => {
  const base = { auth: "header", sha256: "UNSIGNED-PAYLOAD" } as const;
  const rows: readonly (readonly [Partial<PayloadInput>, string])[] = [
    [{ length: null }, "MissingContentLength"],
    [{ length: null, operation: "UploadPart" }, "MissingContentLength"],
    [{ length: null, more: [["transfer-encoding", "chunked"]] }, "MissingContentLength"],
    [{ length: null, operation: "CreateBucket" }, "unsigned 0"],
    [{ length: null, method: "POST", operation: "CreateMultipartUpload" }, "unsigned 0"],
    [{ length: null, method: "GET", operation: "GetObject" }, "unsigned 0"],
    [{ length: "0", method: "DELETE", operation: "DeleteObject" }, "unsigned 0"],
    [{ length: "1", method: "GET", operation: "GetObject" }, "InvalidRequest"],
    [{ length: "1", method: "HEAD", operation: "HeadObject" }, "InvalidRequest"],
    [{ length: "1", method: "DELETE", operation: "DeleteObject" }, "InvalidRequest"],
    [{ length: "-1" }, "InvalidRequest"],
    [{ length: "+1" }, "InvalidRequest"],
    [{ length: "0x10" }, "InvalidRequest"],
    [{ length: "" }, "InvalidRequest"],
    [{ length: "9".repeat(30) }, "InvalidRequest"],
    [{ length: String(maxBodyBytes) }, `unsigned ${maxBodyBytes}`],
    [{ length: String(maxBodyBytes + 1) }, "EntityTooLarge"],
  ];
  for (const [input, expected] of rows) {
    t.equal(payload({ ...base, ...input }), expected, JSON.stringify(input));
  }
});

t.test("what is remembered of a header changes no result", async (t) => {
  const cache = new AuthorizationCache();
  const again = (text: string, sent = "20261129T120000Z") =>
    readAuthorization(
      headOf({
        target: "/b/k",
        headers: [
          ["authorization", text],
          ["x-amz-date", sent],
        ],
      }),
      cache,
    );
  const other = signature.replaceAll(signature.slice(0, 1), "0");
  for (let round = 0; round < 2; round += 1) {
    t.match(again(header), { kind: "header", signature, signedHeaders: ["host", "x-amz-date"] });
    t.match(again(header.replace(signature, other)), { kind: "header", signature: other });
    t.match(again(header, "20261130T000000Z"), { kind: "error" }, "the day is checked each time");
    t.match(again(header, "yesterday"), { kind: "error" });
    t.match(again(header.replace(signature, "short")), { kind: "error" });
  }
});

t.test("more signed headers than a client needs are refused, and not remembered", async (t) => {
  const names = Array.from({ length: 129 }, (_, n) => `x-${n}`).join(";");
  t.equal(code(read(header.replace("host;x-amz-date", names))), "AuthorizationHeaderMalformed");
  const cache = new AuthorizationCache();
  const long = Array.from({ length: 128 }, (_, n) => `x-header-${n}`).join(";");
  const text = header.replace("host;x-amz-date", long);
  const head = headOf({ target: "/b/k", headers: [["authorization", text], dated] });
  t.equal(readAuthorization(head, cache).kind, "header");
  t.equal(cache.scopeFields(text.slice(0, -64)), undefined, "a long prefix is not kept");
});
