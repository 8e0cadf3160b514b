// Verification against requests signed by @smithy/signature-v4 and by hand, right and wrong.

import fc from "fast-check";
import t from "tap";

import { readAuthorization } from "../../proxy/s3/authorization.ts";
import type { HeaderField, HeaderList } from "../../proxy/s3/headers.ts";
import { encodeComponent, encodePath } from "../../proxy/s3/percent.ts";
import type { RequestHead } from "../../proxy/s3/request-head.ts";
import { formatAmzDate, SigningKeys } from "../../proxy/s3/sigv4.ts";
import { type VerifyRequest, verifySignature } from "../../proxy/s3/verify.ts";
import { credentials, type HandSigned, handSigned, headOf, nowMs } from "../support/s3-request.ts";
import { smithyPresign, smithySign } from "../support/s3-smithy.ts";

const keys = new SigningKeys(16);

function verify(head: RequestHead, changes: Partial<VerifyRequest> = {}) {
  const authorization = readAuthorization(head);
  if (authorization.kind === "error") return authorization;
  if (authorization.kind === "anonymous") throw new Error("Cannot verify: request is anonymous");
  return verifySignature({
    head,
    authorization,
    credentials,
    nowMs,
    regions: [],
    keys,
    ...changes,
  });
}

function outcome(head: RequestHead, changes: Partial<VerifyRequest> = {}): string {
  const result = verify(head, changes);
  return result.kind === "error" ? result.error.code : result.kind;
}

interface HandInput extends HandSigned {
  readonly target: string;
  /** What is sent beside Authorization, without Host. */
  readonly sent: HeaderList;
  readonly host?: string;
}

function handHead(input: HandInput): RequestHead {
  const headers = [...input.sent, ["authorization", handSigned(input)] as const];
  const { method = "GET", target, host = "s3.example.com" } = input;
  return headOf({ method, target, host, headers });
}

const date = formatAmzDate(nowMs);
const standard: readonly HeaderField[] = [
  ["x-amz-content-sha256", "UNSIGNED-PAYLOAD"],
  ["x-amz-date", date],
];
const withHost: readonly HeaderField[] = [["host", "s3.example.com"], ...standard];

// ---- the oracle ----

const someText = fc.string({ unit: "grapheme", minLength: 1, maxLength: 8 });
const someRequest = fc.record({
  method: fc.constantFrom("GET", "PUT", "POST", "DELETE", "HEAD"),
  segments: fc.array(someText, { maxLength: 4 }),
  query: fc.dictionary(fc.stringMatching(/^[a-z][a-z0-9 +/&=-]{0,6}$/), someText, { maxKeys: 4 }),
  meta: fc.stringMatching(/^[!-~ ]{0,12}$/),
  host: fc.constantFrom("s3.example.com", "b.s3.example.com:9000", "[::1]:9000"),
  token: fc.option(fc.stringMatching(/^[!-~]{1,12}$/)),
});

function targetOf(path: string, query: readonly (readonly [string, string])[]): string {
  const text = query.map(([name, value]) => `${encodeComponent(name)}=${encodeComponent(value)}`);
  return text.length === 0 ? path : `${path}?${text.reverse().join("&")}`;
}

t.test("what smithy signs in the header verifies, and not after any change", async (t) => {
  await fc.assert(
    fc.asyncProperty(someRequest, fc.nat(), async (input, choice) => {
      const { method, segments, query, meta, host, token } = input;
      const path = encodePath(`/b/${segments.join("/")}`);
      const signing = { ...credentials, sessionToken: token };
      const signed = await smithySign({
        method,
        path,
        query,
        headers: { host, "x-amz-meta-a": meta, "x-amz-content-sha256": "UNSIGNED-PAYLOAD" },
        epochMs: nowMs,
        region: "eu-west-1",
        credentials: signing,
      });
      const headers = signed.filter(([name]) => name !== "host");
      const target = targetOf(path, Object.entries(query));
      const changes = { credentials: signing };
      const right = outcome(headOf({ method, target, host, headers }), changes);
      if (right !== "verified") throw new Error(`Right signature is ${right}: ${target}`);
      const wrong = [
        { method: method === "GET" ? "HEAD" : "GET", target, host, headers },
        { method, target: `${path}x${target.slice(path.length)}`, host, headers },
        { method, target: `${target}${target.includes("?") ? "&" : "?"}zz=1`, host, headers },
        { method, target, host: `x${host.replaceAll(/[[\]]/g, "")}`.replace(/:.*/, ""), headers },
        { method, target, host, headers: changed(headers, "x-amz-meta-a", "other-value") },
        {
          method,
          target,
          host,
          headers: changed(headers, "x-amz-content-sha256", "a".repeat(64)),
        },
        { method, target, host, headers: flipped(headers, choice) },
      ];
      for (const [at, head] of wrong.entries()) {
        const code = outcome(headOf(head), changes);
        if (code !== "SignatureDoesNotMatch") throw new Error(`Wrong request ${at} is ${code}`);
      }
    }),
    { numRuns: 100 },
  );
  t.pass();
});

function changed(headers: HeaderList, name: string, value: string): HeaderList {
  return headers.map((field) => (field[0] === name ? ([name, value] as const) : field));
}

/** One hex digit of the signature replaced by another. */
function flipped(headers: HeaderList, choice: number): HeaderList {
  return headers.map(([name, value]) => {
    if (name !== "authorization") return [name, value] as const;
    const at = value.length - 1 - (choice % 64);
    const digit = ((Number.parseInt(value.charAt(at), 16) + 1 + (choice % 15)) % 16).toString(16);
    return [name, value.slice(0, at) + digit + value.slice(at + 1)] as const;
  });
}

t.test("what smithy presigns verifies, and not after any change", async (t) => {
  await fc.assert(
    fc.asyncProperty(someRequest, fc.nat(), async (input, choice) => {
      const { method, segments, query, host, token } = input;
      const path = encodePath(`/b/${segments.join("/")}`);
      const signing = { ...credentials, sessionToken: token };
      const signed = await smithyPresign(
        {
          method,
          path,
          query,
          headers: { host },
          epochMs: nowMs,
          region: "r",
          credentials: signing,
        },
        900,
      );
      const target = targetOf(path, signed);
      const changes = { credentials: signing };
      const right = outcome(headOf({ method, target, host }), changes);
      if (right !== "verified") throw new Error(`Right signature is ${right}: ${target}`);
      const at = choice % signed.length;
      const [name = "", value = ""] = signed[at] ?? [];
      const other = signed.map((pair, index) =>
        index === at ? ([name, flip(value)] as const) : pair,
      );
      const wrong = outcome(headOf({ method, target: targetOf(path, other), host }), changes);
      if (wrong === "verified") throw new Error(`Changed ${name} verifies`);
      const added = outcome(headOf({ method, target: `${target}&zz=1`, host }), changes);
      if (added !== "SignatureDoesNotMatch") throw new Error(`Added parameter is ${added}`);
    }),
    { numRuns: 100 },
  );
  t.pass();
});

/** The same text with its last character changed. */
function flip(text: string): string {
  return `${text.slice(0, -1)}${text.endsWith("1") ? "2" : "1"}`;
}

// ---- spellings ----

t.test("any header can be signed, as it was received and in the order named", async (t) => {
  // https://github.com/versity/versitygw/issues/396
  const extra: readonly HeaderField[] = [
    ["user-agent", "aws-sdk-java/1.12"],
    ["expect", "100-continue"],
    ["cache-control", "max-age=3"],
    ["te", "trailers"],
    ["range", "bytes=0-9"],
    ["accept-encoding", "identity"],
    ["content-length", "0"],
    ["connection", "keep-alive"],
    ["referer", "http://x/"],
    ["x-forwarded-for", "10.0.0.1"],
    ["amz-sdk-request", "attempt=1; max=3"],
    ["x_foo", "1"],
  ];
  for (const field of extra) {
    const fields = [...withHost, field];
    t.equal(
      outcome(handHead({ target: "/b/k", path: "/b/k", sent: [...standard, field], fields })),
      "verified",
      field[0],
    );
  }
});

t.test("repeated header lines are hashed as one, in order of arrival", async (t) => {
  // https://github.com/ceph/ceph/pull/70459
  const sent: HeaderList = [...standard, ["x-amz-meta-a", " 2"], ["x-amz-meta-a", "1 "]];
  const right = { target: "/b/k", path: "/b/k", sent };
  t.equal(
    outcome(handHead({ ...right, fields: [...withHost, ["x-amz-meta-a", "2,1"]] })),
    "verified",
  );
  const sorted = handHead({ ...right, fields: [...withHost, ["x-amz-meta-a", "1,2"]] });
  t.equal(outcome(sorted), "SignatureDoesNotMatch");
});

t.test("metadata bytes above 7f verify as bytes", async (t) => {
  // https://github.com/minio/minio-js/issues/1300
  const field: HeaderField = ["x-amz-meta-first", "L\u00c3\u00a9o"];
  const sent = [...standard, field];
  const head = handHead({ target: "/b/k", path: "/b/k", sent, fields: [...withHost, field] });
  t.equal(outcome(head), "verified");
});

t.test("runs of blanks inside quotes verify collapsed and as sent", async (t) => {
  const value = 'a  "x  y"  b';
  const sent: HeaderList = [...standard, ["x-amz-meta-a", value]];
  for (const signed of ['a "x y" b', 'a "x  y" b']) {
    const fields: HeaderList = [...withHost, ["x-amz-meta-a", signed]];
    t.equal(outcome(handHead({ target: "/b/k", path: "/b/k", sent, fields })), "verified", signed);
  }
  const fields: HeaderList = [...withHost, ["x-amz-meta-a", value]];
  t.equal(
    outcome(handHead({ target: "/b/k", path: "/b/k", sent, fields })),
    "SignatureDoesNotMatch",
  );
});

t.test("a path verifies in canonical form and as sent, and says which", async (t) => {
  const rows = [
    ["/b/a%2Fb", "/b/a/b", "canonical"],
    ["/b/a%2Fb", "/b/a%2Fb", "raw"],
    ["/b/%61+b", "/b/a%2Bb", "canonical"],
    ["/b/%61+b", "/b/%61+b", "raw"],
    ["/b/%c3%a9:x", "/b/%C3%A9%3Ax", "canonical"],
    ["/b//a/../c", "/b//a/../c", "canonical"],
    ["/b%2Fk", "/b/k", "canonical"],
    ["/b/", "/b/", "canonical"],
  ] as const;
  for (const [target, path, kind] of rows) {
    const head = handHead({ target, path, sent: standard, fields: withHost });
    t.match(verify(head), { kind: "verified", path: kind }, `${target} as ${path}`);
  }
  for (const [target, path] of [
    ["/b/", "/b"],
    ["/b/a%20b", "/b/a%2520b"],
    ["/b//a", "/b/a"],
    ["/b/a/../c", "/b/c"],
  ] as const) {
    const head = handHead({ target, path, sent: standard, fields: withHost });
    t.equal(outcome(head), "SignatureDoesNotMatch", `${target} as ${path}`);
  }
});

t.test("a raw plus in the query means what was signed", async (t) => {
  const input = { target: "/b?prefix=a+b", path: "/b", sent: standard, fields: withHost };
  t.match(verify(handHead({ ...input, query: "prefix=a%20b" })), { query: [["prefix", "a b"]] });
  t.match(verify(handHead({ ...input, query: "prefix=a%2Bb" })), { query: [["prefix", "a+b"]] });
  const raw = { ...input, target: "/b/%61?x-id=a+b", path: "/b/%61", query: "x-id=a%2Bb" };
  t.match(verify(handHead(raw)), { kind: "verified", path: "raw", query: [["x-id", "a+b"]] });
});

t.test("a host verifies with or without a default port only", async (t) => {
  const rows = [
    ["s3.example.com", "s3.example.com:443", "verified"],
    ["s3.example.com", "s3.example.com:80", "verified"],
    ["s3.example.com:80", "s3.example.com", "verified"],
    ["[::1]:443", "[::1]", "verified"],
    ["s3.example.com", "s3.example.com:9000", "SignatureDoesNotMatch"],
    ["s3.example.com:9000", "s3.example.com", "SignatureDoesNotMatch"],
    ["s3.example.com", "b.s3.example.com", "SignatureDoesNotMatch"],
  ] as const;
  for (const [host, signed, expected] of rows) {
    const fields: HeaderList = [["host", signed], ...standard];
    const head = handHead({ target: "/b/k", path: "/b/k", host, sent: standard, fields });
    t.equal(outcome(head), expected, `${host} as ${signed}`);
  }
});

// ---- what is refused ----

t.test("every x-amz header and host must be signed", async (t) => {
  const input = { method: "PUT", target: "/b/k", path: "/b/k", fields: withHost };
  for (const name of ["x-amz-acl", "x-amz-copy-source", "x-amz-tagging", "X-Amz-Meta-A"]) {
    const result = verify(handHead({ ...input, sent: [...standard, [name, "1"]] }));
    const details = { HeadersNotSigned: name.toLowerCase() };
    t.match(result, { kind: "error", error: { code: "AccessDenied", details } }, name);
  }
  const bare = handHead({ ...input, sent: standard, fields: standard });
  t.match(verify(bare), { error: { code: "AccessDenied", details: { HeadersNotSigned: "host" } } });
});

t.test("a signed header that is absent is named, even when signed as empty", async (t) => {
  const fields: HeaderList = [...withHost, ["x-amz-acl", ""]];
  const result = verify(handHead({ target: "/b/k", path: "/b/k", sent: standard, fields }));
  t.match(result, { error: { code: "SignatureDoesNotMatch", message: /"x-amz-acl"/ } });
  const rewritten = handHead({ target: "/b/k", path: "/b/k", sent: standard, fields });
  const alternativeFields: HeaderList = [["user-agent", "x"]];
  t.match(verify({ ...rewritten, alternativeFields }), { error: { message: /"x-amz-acl"/ } });
});

t.test("an unknown key and a wrong secret are told apart by code only", async (t) => {
  // https://github.com/gaul/s3proxy/issues/236
  const head = handHead({ target: "/", path: "/", sent: standard, fields: withHost });
  t.equal(outcome(head, { credentials: null }), "InvalidAccessKeyId");
  const other = { ...credentials, secretAccessKey: "other" };
  t.equal(outcome(head, { credentials: other }), "SignatureDoesNotMatch");
});

t.test("a mismatch shows what was hashed, without tokens and customer keys", async (t) => {
  const secretFields: HeaderList = [
    ["x-amz-meta-a", "L\u00c3\u00a9o"],
    ["x-amz-security-token", "token-text"],
    ["x-amz-server-side-encryption-customer-key", "key-text"],
  ];
  const sent = [...standard, ...secretFields];
  const fields = [...withHost, ...secretFields];
  const name = "x-amz-server-side-encryption-customer-key";
  const target = `/b/k?a&${name}=key-text&z`;
  const head = handHead({ target, path: "/wrong", sent, fields });
  const result = verify(head, { credentials: { ...credentials, sessionToken: "token-text" } });
  if (result.kind !== "error") throw new Error("Wrong path verifies");
  const shown = result.error.details["CanonicalRequest"] ?? "";
  t.equal(result.error.code, "SignatureDoesNotMatch");
  t.match(shown, `GET\n/b/k\na=&${name}=(not shown)&z=\nhost:s3.example.com\n`);
  t.match(shown, "x-amz-meta-a:Léo\n");
  t.notMatch(JSON.stringify(result.error.details), /token-text|key-text/);
  t.match(result.error.details["StringToSign"], /^AWS4-HMAC-SHA256\n20261129T120000Z\n/);
});

t.test("a session token must be the one issued", async (t) => {
  const field: HeaderField = ["x-amz-security-token", "a+b/c="];
  const sent = [...standard, field];
  const head = handHead({ target: "/b/k", path: "/b/k", sent, fields: [...withHost, field] });
  const session = (sessionToken: string | null) => ({
    credentials: { ...credentials, sessionToken },
  });
  t.equal(outcome(head, session("a+b/c=")), "verified");
  t.equal(outcome(head, session("a+b/d=")), "InvalidToken");
  t.equal(outcome(head, session("longer token")), "InvalidToken");
  t.equal(outcome(head, session(null)), "InvalidToken");
  const bare = handHead({ target: "/b/k", path: "/b/k", sent: standard, fields: withHost });
  t.equal(outcome(bare, session("a+b/c=")), "InvalidToken");
});

t.test("a region outside the configured ones is answered with ours", async (t) => {
  // https://github.com/peak/s5cmd/issues/325
  const head = handHead({
    target: "/b",
    path: "/b",
    sent: standard,
    fields: withHost,
    region: "x-1",
  });
  t.equal(outcome(head), "verified", "any region by default");
  t.equal(outcome(head, { regions: ["eu-nl-1", "x-1"] }), "verified");
  const refused = verify(head, { regions: ["eu-nl-1"] });
  const details = { Region: "eu-nl-1" };
  t.match(refused, { error: { code: "AuthorizationHeaderMalformed", details } });
});

// ---- time ----

t.test("header signatures are good for fifteen minutes either way", async (t) => {
  const head = handHead({ target: "/b", path: "/b", sent: standard, fields: withHost });
  for (const seconds of [0, 899, 900, -899, -900]) {
    t.equal(outcome(head, { nowMs: nowMs + seconds * 1000 }), "verified", `${seconds}`);
  }
  for (const seconds of [901, -901, 86_400]) {
    t.equal(outcome(head, { nowMs: nowMs + seconds * 1000 }), "RequestTimeTooSkewed", `${seconds}`);
  }
  t.match(verify(head, { nowMs: nowMs + 901_000 }), {
    error: {
      details: {
        RequestTime: "20261129T120000Z",
        ServerTime: "2026-11-29T12:15:01Z",
        MaxAllowedSkewMilliseconds: "900000",
      },
    },
  });
});

async function presigned(
  expiresIn: number,
  method = "GET",
  headers: HeaderList = [],
): Promise<string> {
  const request = {
    method,
    path: "/b/k",
    query: {},
    headers: { host: "s3.example.com", ...Object.fromEntries(headers) },
    epochMs: nowMs,
    region: "us-east-1",
    credentials,
  };
  return targetOf("/b/k", await smithyPresign(request, expiresIn));
}

t.test("a presigned request lives from its date to its expiry", async (t) => {
  // https://github.com/gaul/s3proxy/issues/648
  const week = headOf({ target: await presigned(604_800) });
  for (const seconds of [-900, 0, 5 * 3600, 604_800]) {
    t.equal(outcome(week, { nowMs: nowMs + seconds * 1000 }), "verified", `${seconds}`);
  }
  for (const seconds of [-901, 604_801]) {
    t.equal(outcome(week, { nowMs: nowMs + seconds * 1000 }), "AccessDenied", `${seconds}`);
  }
  const short = headOf({ target: await presigned(1) });
  t.match(verify(short, { nowMs: nowMs + 3000 }), { error: { message: "Request has expired" } });
});

t.test("a presigned URL is good for its method and takes no unsigned x-amz header", async (t) => {
  // https://github.com/moby/moby/issues/50065
  const target = await presigned(900);
  t.equal(outcome(headOf({ target, method: "HEAD" })), "SignatureDoesNotMatch");
  const put = await presigned(900, "PUT");
  t.equal(outcome(headOf({ target: put, method: "PUT" })), "verified");
  const copy = headOf({
    target: put,
    method: "PUT",
    headers: [["x-amz-copy-source", "/b/secret"]],
  });
  t.equal(outcome(copy), "AccessDenied");
  const typed = headOf({ target: put, method: "PUT", headers: [["content-type", "text/plain"]] });
  t.equal(outcome(typed), "verified", "content-type may be unsigned");
});

t.test("a presigned body hash verifies when signed, in either spelling", async (t) => {
  const pinned: HeaderField = ["x-amz-content-sha256", "a".repeat(64)];
  const target = await presigned(900, "PUT", [pinned]);
  t.equal(outcome(headOf({ target, method: "PUT", headers: [pinned] })), "verified");
  const other: HeaderField = ["x-amz-content-sha256", "b".repeat(64)];
  t.equal(outcome(headOf({ target, method: "PUT", headers: [other] })), "SignatureDoesNotMatch");
  const unsigned = headOf({
    target: await presigned(900, "PUT"),
    method: "PUT",
    headers: [pinned],
  });
  t.equal(outcome(unsigned), "AccessDenied", "an unsigned hash pins nothing");
});
