// Signature Version 2: what botocore signs verifies, nothing changed does, and times are limits.

import { readFileSync } from "node:fs";
import t from "tap";
import { readV2Authorization } from "../../proxy/s3/authorization.ts";
import type { HeaderList } from "../../proxy/s3/headers.ts";
import type { RequestHead } from "../../proxy/s3/request-head.ts";
import { signatureV2, stringToSignV2 } from "../../proxy/s3/sigv2.ts";
import { type VerifyV2Request, verifySignatureV2 } from "../../proxy/s3/verify-v2.ts";
import { credentials, headOf, nowMs } from "../support/s3-request.ts";

interface Vector {
  readonly method: string;
  readonly host: string;
  readonly target: string;
  readonly headers: HeaderList;
}

const file = new URL("../vectors/sigv2-botocore.json", import.meta.url);
const vectors = JSON.parse(readFileSync(file, "utf8")) as readonly Vector[];
const utf8 = (text: string): string => Buffer.from(text, "utf8").toString("latin1");

function outcome(head: RequestHead, changes: Partial<VerifyV2Request> = {}) {
  const authorization = readV2Authorization(head);
  if (authorization === null) return "not version 2";
  if (authorization.kind === "error") return authorization.error.code;
  const hostBucket = head.host.startsWith("b.") ? "b" : null;
  const sessionToken = authorization.sessionToken === null ? null : "to+ken/=";
  const known = { ...credentials, sessionToken };
  const request = { head, authorization, credentials: known, hostBucket, nowMs, ...changes };
  const result = verifySignatureV2(request);
  return result.kind === "error" ? result.error.code : result.kind;
}

/** A header-signed request over the given parts. */
function signed(vector: Partial<Vector>, more: HeaderList = []): RequestHead {
  const { method = "GET", target = "/b/k" } = vector;
  const headers: HeaderList = [
    ["date", "Sun, 29 Nov 2026 12:00:00 GMT"],
    ...(vector.headers ?? []),
  ];
  const bare = headOf({ method, target, headers });
  const { rawPath, query } = bare;
  const text = stringToSignV2({
    method,
    hostBucket: null,
    rawPath,
    query,
    headers: bare.headers,
    expires: null,
    emptyValues: "drop",
    dateBeside: "drop",
  });
  const value = `AWS AKIDEXAMPLE:${signatureV2(credentials.secretAccessKey, text)}`;
  return headOf({ method, target, headers: [...headers, ["authorization", value], ...more] });
}

t.test("what botocore signs verifies, and not after any change", async (t) => {
  t.equal(vectors.length, 11);
  for (const vector of vectors) {
    const headers = vector.headers.map(([name, value]) => [name, utf8(value)] as const);
    const given = { ...vector, headers };
    const what = `${vector.method} ${vector.target}`;
    t.equal(outcome(headOf(given)), "verified", what);
    const method = vector.method === "GET" ? "HEAD" : "GET";
    const [path = "", query] = vector.target.split("?");
    const rest = query === undefined ? "" : `?${query}`;
    const and = query === undefined ? "?" : "&";
    const wrong = [
      { ...given, method },
      { ...given, target: `${path}x${rest}` },
      { ...given, target: `${vector.target}${and}cors` },
      { ...given, target: `${vector.target}${and}response-expires=0` },
      { ...given, headers: [...headers, ["x-amz-meta-z", "1"]] as const },
      { ...given, headers: [...headers, ["x-amz-copy-source", "/b/other"]] as const },
      ...headers.flatMap(([name], at) =>
        name === "authorization"
          ? []
          : [
              {
                ...given,
                headers: headers.map((f, n) =>
                  n === at ? ([name, "Mon, 30 Nov 2026 12:00:01 GMT"] as const) : f,
                ),
              },
            ],
      ),
    ];
    for (const [at, changed] of wrong.entries()) {
      const limits = { maxSkewMs: 200_000_000, maxPresignSeconds: 604_800 };
      t.equal(
        outcome(headOf(changed), { limits }),
        "SignatureDoesNotMatch",
        `${what}, change ${at}`,
      );
    }
  }
});

t.test("the string to sign of the S3 developer guide", async (t) => {
  // https://docs.aws.amazon.com/AmazonS3/latest/userguide/RESTAuthentication.html, "Upload"
  const headers: HeaderList = [
    ["date", "Tue, 27 Mar 2007 21:06:08 +0000"],
    ["x-amz-acl", "public-read"],
    ["content-type", "application/x-download"],
    ["content-md5", "4gJE4saaMU4BqNR0kLY+lw=="],
    ["x-amz-meta-reviewedby", "joe@example.com"],
    ["x-amz-meta-reviewedby", "jane@example.com"],
    ["x-amz-meta-filechecksum", "0x02661779"],
    ["x-amz-meta-checksumalgorithm", "crc32"],
    ["content-length", "5913339"],
  ];
  const text = stringToSignV2({
    method: "PUT",
    hostBucket: "static.example.com",
    rawPath: "/db-backup.dat.gz",
    query: [],
    headers,
    expires: null,
    emptyValues: "drop",
    dateBeside: "drop",
  });
  t.equal(
    text,
    [
      "PUT",
      "4gJE4saaMU4BqNR0kLY+lw==",
      "application/x-download",
      "Tue, 27 Mar 2007 21:06:08 +0000",
      "x-amz-acl:public-read",
      "x-amz-meta-checksumalgorithm:crc32",
      "x-amz-meta-filechecksum:0x02661779",
      "x-amz-meta-reviewedby:joe@example.com,jane@example.com",
      "/static.example.com/db-backup.dat.gz",
    ].join("\n"),
  );
});

t.test("Date may be left out of what is signed beside an x-amz-date", async (t) => {
  t.equal(
    outcome(signed({ headers: [["x-amz-date", "Sun, 29 Nov 2026 12:00:00 GMT"]] })),
    "verified",
  );
});

t.test("spellings of the query that mean the same verify", async (t) => {
  const acl = signed({ target: "/b?acl" });
  t.equal(outcome(acl), "verified");
  t.equal(outcome({ ...acl, query: [["acl", ""]] }), "verified", "acl= signed as acl");
  t.equal(outcome(signed({ target: "/b?prefix=a+b&acl=" })), "verified");
  const plus = signed({ target: "/b/k?response-content-type=a%2Bb" });
  const raw = headOf({ target: "/b/k?response-content-type=a+b", headers: plus.headers.slice(1) });
  const authorization = readV2Authorization(raw);
  if (authorization?.kind !== "header-v2") throw new Error("Header is not read");
  const result = verifySignatureV2({
    head: raw,
    authorization,
    credentials,
    hostBucket: null,
    nowMs,
  });
  t.match(result, { kind: "verified", query: [["response-content-type", "a+b"]] });
});

t.test("a bucket is a bucket with and without a slash behind it, a key is not", async (t) => {
  const rows = [
    ["/b", "/b/", "verified"],
    ["/b?acl", "/b/?acl", "verified"],
    ["/b/", "/b", "SignatureDoesNotMatch"],
    ["/b/k", "/b/k/", "SignatureDoesNotMatch"],
  ] as const;
  for (const [target, signedTarget, expected] of rows) {
    const { headers } = signed({ target: signedTarget });
    t.equal(outcome(headOf({ target, headers: headers.slice(1) })), expected, target);
  }
  const { headers } = signed({ target: "/b/k/" });
  const inHost = { host: "b.s3.example.com", headers: headers.slice(1) };
  t.equal(outcome(headOf({ ...inHost, target: "/k/" })), "verified", "a bucket in Host");
  t.equal(outcome(headOf({ ...inHost, target: "/k" })), "SignatureDoesNotMatch");
});

t.test("a signature in the header covers no x-amz parameter, so there must be none", async (t) => {
  for (const name of ["x-amz-acl", "X-Amz-Meta-A"]) {
    t.equal(outcome(signed({ method: "PUT", target: `/b/k?${name}=1` })), "AccessDenied", name);
  }
});

t.test("times: skew of a header, expiry of a query", async (t) => {
  const head = signed({});
  const cases = [
    [900, "verified"],
    [-900, "verified"],
    [901, "RequestTimeTooSkewed"],
    [-901, "RequestTimeTooSkewed"],
  ] as const;
  for (const [seconds, expected] of cases) {
    t.equal(outcome(head, { nowMs: nowMs + seconds * 1000 }), expected, `${seconds}`);
  }
  const [, , , , , , , vector] = vectors;
  if (vector === undefined) throw new Error("Vector is missing");
  const url = headOf(vector);
  t.equal(outcome(url, { nowMs: nowMs + 899_999 }), "verified");
  t.equal(outcome(url, { nowMs: nowMs + 900_000 }), "AccessDenied");
  const limits = { maxSkewMs: 900_000, maxPresignSeconds: 899 };
  t.equal(outcome(url, { limits }), "AccessDenied", "lives longer than allowed");
  const exact = { ...limits, maxPresignSeconds: 900 };
  t.equal(outcome(url, { limits: exact }), "verified");
  t.equal(outcome(url, { limits: exact, nowMs: nowMs - 1 }), "AccessDenied");
});

t.test("an unknown key, a wrong secret and a wrong token are told apart", async (t) => {
  const head = signed({});
  t.equal(outcome(head, { credentials: null }), "InvalidAccessKeyId");
  const other = { ...credentials, secretAccessKey: "0000000000000000000000000000000000000000" };
  t.equal(outcome(head, { credentials: other }), "SignatureDoesNotMatch");
  t.equal(outcome(head, { credentials: { ...credentials, sessionToken: "x" } }), "InvalidToken");
  const token: HeaderList = [["x-amz-security-token", "x"]];
  t.equal(outcome(signed({ headers: token }), { credentials }), "InvalidToken", "issued with none");
});

t.test("a mismatch shows what was hashed, without tokens and customer keys", async (t) => {
  const headers: HeaderList = [
    ["x-amz-security-token", "token-text"],
    ["x-amz-server-side-encryption-customer-key", "key-text"],
  ];
  const head = signed({ headers });
  const authorization = readV2Authorization(head);
  if (authorization?.kind !== "header-v2") throw new Error("Header is not read");
  const wrong = { ...authorization, signature: "AAAAAAAAAAAAAAAAAAAAAAAAAAA=" };
  const request = { head, authorization: wrong, credentials, hostBucket: null, nowMs };
  const result = verifySignatureV2(request);
  if (result.kind !== "error") throw new Error("Wrong signature verifies");
  t.match(result.error.details["StringToSign"], /^GET\n\n\nSun, 29 Nov 2026 12:00:00 GMT\n/);
  t.notMatch(JSON.stringify(result.error.details), /token-text|key-text/);
});

t.test(
  "what does not parse is refused, what is not version 2 is left to the other reader",
  async (t) => {
    const date: HeaderList = [["date", "Sun, 29 Nov 2026 12:00:00 GMT"]];
    const good = "AWS AKID:frJIUN8DYpKDtOLCwo//yllqDzg=";
    const query = "AWSAccessKeyId=AKID&Expires=1795954500&Signature=frJIUN8DYpKDtOLCwo//yllqDzg%3D";
    const rows: readonly (readonly [string | null, string, HeaderList, string])[] = [
      [good, "/b/k", date, "header-v2"],
      ["AWS a:b/c:frJIUN8DYpKDtOLCwo//yllqDzg=", "/b/k", date, "header-v2"],
      ["AWS AKID", "/b/k", date, "AuthorizationHeaderMalformed"],
      ["AWS AKID:short=", "/b/k", date, "AuthorizationHeaderMalformed"],
      ["AWS :frJIUN8DYpKDtOLCwo//yllqDzg=", "/b/k", date, "AuthorizationHeaderMalformed"],
      [good, "/b/k", [], "AccessDenied"],
      [good, "/b/k", [["date", "Tue, 27 Mar 2007 19:36:42 +0000"]], "header-v2"],
      [good, "/b/k", [...date, ["x-amz-date", ""]], "AccessDenied"],
      [good, "/b/k", [...date, ["x-amz-date", "Bad Date"]], "AccessDenied"],
      [good, "/b/k", [["x-amz-date", "Tue, 07 Jul 1950 21:53:04 GMT"]], "AccessDenied"],
      [null, `/b/k?${query}`, [], "presigned-v2"],
      [null, `/b/k?${query.replace("%3D", "=").replace("//", "+/")}`, [], "presigned-v2"],
      ["Bearer x", `/b/k?${query}`, [], "presigned-v2"],
      [null, `/b/k?${query.replace(/Expires=\d+/, "Expires=1e9")}`, [], "AccessDenied"],
      [null, `/b/k?${query.replace(/Expires=\d+&/, "")}`, [], "AccessDenied"],
      [null, "/b/k?Signature=frJIUN8DYpKDtOLCwo//yllqDzg%3D", [], "AccessDenied"],
      [good, `/b/k?${query}`, date, "none"],
      [good, "/b/k?X-Amz-Signature=1", date, "none"],
      ["AWS4-HMAC-SHA256 Credential=x", "/b/k", date, "none"],
      ["AWS4-HMAC-SHA256 Credential=x", `/b/k?${query}`, date, "none"],
      [null, "/b/k", date, "none"],
      [null, `/b/k?awsaccesskeyid=AKID&signature=x`, date, "none"],
    ];
    for (const [value, target, headers, expected] of rows) {
      const own: HeaderList = value === null ? headers : [...headers, ["authorization", value]];
      const result = readV2Authorization(headOf({ target, headers: own }));
      const seen =
        result === null ? "none" : result.kind === "error" ? result.error.code : result.kind;
      t.equal(seen, expected, `${value} ${target}`);
    }
  },
);
