// What a refused signature tells its user: the thing that was changed on the way, from the gateway's
// error and from `headgate explain-signature`.

import t from "tap";

import { ExplanationBudget } from "../../proxy/gateway/explanation-budget.ts";
import { readAuthorization, readV2Authorization } from "../../proxy/s3/authorization.ts";
import type { HeaderField } from "../../proxy/s3/headers.ts";
import type { RequestHead } from "../../proxy/s3/request-head.ts";
import { signatureV2, stringToSignV2 } from "../../proxy/s3/sigv2.ts";
import { formatAmzDate, SigningKeys } from "../../proxy/s3/sigv4.ts";
import { verifySignature } from "../../proxy/s3/verify.ts";
import { verifySignatureV2 } from "../../proxy/s3/verify-v2.ts";
import { runHeadgate } from "../support/cli-run.ts";
import { credentials, type HandSigned, handSigned, headOf, nowMs } from "../support/s3-request.ts";

const amzDate = formatAmzDate(nowMs);
const standard: readonly HeaderField[] = [
  ["x-amz-content-sha256", "UNSIGNED-PAYLOAD"],
  ["x-amz-date", amzDate],
];

interface Changed {
  readonly note: string;
  /** As the client signed it. */
  readonly signed: Partial<HandSigned>;
  readonly host?: string;
  readonly extra?: readonly HeaderField[];
  /** As it arrived. */
  readonly method?: string;
  readonly target?: string;
  readonly sent?: readonly HeaderField[];
  readonly says: string;
}

const cases: readonly Changed[] = [
  {
    note: "Accept-Encoding rewritten by a cache",
    signed: {},
    extra: [["accept-encoding", "identity"]],
    sent: [["accept-encoding", "gzip"]],
    says: 'header "accept-encoding" was "identity"',
  },
  {
    note: "a charset added to Content-Type",
    signed: {},
    extra: [["content-type", "text/csv"]],
    sent: [["content-type", "text/csv; charset=utf-8"]],
    says: 'header "content-type" was "text/csv"',
  },
  {
    note: "Connection rewritten",
    signed: {},
    extra: [["connection", "keep-alive"]],
    sent: [["connection", "close"]],
    says: 'header "connection" was "keep-alive"',
  },
  {
    note: "Host replaced by a balancer that keeps the old one",
    signed: {},
    host: "s3.outside.example",
    sent: [["x-forwarded-host", "s3.outside.example"]],
    says: 'header "host" was "s3.outside.example"',
  },
  {
    note: "HEAD with a URL that was signed for GET",
    signed: { method: "GET" },
    method: "HEAD",
    says: 'the method was "GET"',
  },
  {
    note: "a trailing slash lost",
    signed: { path: "/b/dir/" },
    target: "/b/dir",
    says: 'the path was "/b/dir/"',
  },
  {
    note: "a path encoded twice by the signer",
    signed: { path: "/b/a%2520b" },
    target: "/b/a%20b",
    says: "the path was percent-encoded twice",
  },
  {
    note: "a tracking parameter added by a link shortener",
    signed: { path: "/b/k", query: "versionId=1" },
    target: "/b/k?versionId=1&utm_source=mail",
    says: 'query parameter "utm_source" was not there',
  },
  {
    note: "bucket moved from the host into the path",
    signed: { path: "/k" },
    target: "/b/k",
    says: "the bucket was in the host, not in the path",
  },
];

function received(change: Changed): RequestHead {
  const { host = "s3.example.com", extra = [], sent = [] } = change;
  const fields = [...extra, ["host", host] as const, ...standard].toSorted(([a], [b]) =>
    a < b ? -1 : 1,
  );
  const { method = "GET", target = "/b/k" } = change;
  const authorization = handSigned({ path: target, ...change.signed, fields });
  const headers = [...standard, ...sent, ["authorization", authorization] as const];
  return headOf({ method, target, headers });
}

function answer(head: RequestHead, explain: boolean) {
  const authorization = readAuthorization(head);
  if (authorization.kind !== "header") throw new Error("Cannot read the signed header");
  const keys = new SigningKeys(4);
  const all = {
    head,
    authorization,
    credentials,
    nowMs,
    regions: [],
    keys,
    mayExplain: () => explain,
  };
  const result = verifySignature(all);
  return result.kind === "error" ? result.error : null;
}

for (const change of cases) {
  t.test(`SignatureDoesNotMatch names ${change.note}`, async (t) => {
    const head = received(change);
    const error = answer(head, true);
    t.equal(error?.code, "SignatureDoesNotMatch");
    t.match(error?.message, change.says);
    t.match(error?.message, "changed on the way");
    t.equal(answer(head, false)?.message, "The signature does not match the request");
  });
}

t.test("a signature that no likely change explains is given no reason", async (t) => {
  const head = received({ note: "", says: "", signed: { path: "/other/thing" } });
  const error = answer(head, true);
  t.equal(error?.message, "The signature does not match the request");
  t.match(error?.details["CanonicalRequest"], "GET\n/b/k\n");
  t.match(error?.details["StringToSign"], `AWS4-HMAC-SHA256\n${amzDate}\n`);
});

t.test("explanations are bounded in each second", async (t) => {
  const budget = new ExplanationBudget(2);
  const taken = [5000, 5100, 5999, 6000, 6000, 6001].map((at) => budget.take(at));
  t.strictSame(taken, [true, true, false, true, true, false]);
});

// ---- the command ----

function pasted(head: RequestHead, prefix = ""): string {
  const fields = head.headers.map(([name, value]) => `${prefix}${name}: ${value}\n`).join("");
  return `${prefix}${head.method} ${head.rawTarget} HTTP/1.1\n${fields}\n`;
}

const env = { AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey };

t.test("explain-signature says that a right request is right, and how old it is", async (t) => {
  const right = received({ note: "", says: "", signed: {} });
  const around = `* Connected to s3.example.com\n${pasted(right, "> ")}>\n* done\n< HTTP/1.1 403\n`;
  const files = { "request.txt": around, secret: `${credentials.secretAccessKey}\n` };
  const result = await runHeadgate("explain-signature request.txt --secret-key-file secret", {
    files,
  });
  t.equal(result.exit, 0);
  t.match(result.out, 'The signature is right for access key "AKIDEXAMPLE"');
  t.match(result.out, "RequestTimeTooSkewed", "the clock of the test stands at 1970");
  t.notMatch(result.out + result.err, credentials.secretAccessKey);
});

t.test("explain-signature names the change and compares with what was signed", async (t) => {
  const [change] = cases;
  if (change === undefined) throw new Error("No case");
  const signed = [
    "GET",
    "/b/k",
    "",
    "accept-encoding:identity",
    "host:s3.example.com",
    "x-amz-content-sha256:UNSIGNED-PAYLOAD",
    `x-amz-date:${amzDate}`,
    "",
    "accept-encoding;host;x-amz-content-sha256;x-amz-date",
    "UNSIGNED-PAYLOAD",
  ].join("\n");
  const files = { "request.txt": pasted(received(change)), signed };
  const told = await runHeadgate("explain-signature request.txt --signed signed", { files, env });
  t.equal(told.exit, 1);
  t.match(told.out, /^SignatureDoesNotMatch: .*header "accept-encoding" was "identity"/);
  t.match(
    told.out,
    "line 4\n    signed   accept-encoding:identity\n    received accept-encoding:gzip\n",
  );
  t.equal(told.out.match(/line \d/g)?.length, 1);
});

/** The log line of botocore 1.43 that says what is sent. */
function botocoreLine(head: RequestHead, url: string): string {
  const fields = head.headers.filter(([name]) => name !== "host");
  const dict = fields.map(([name, value]) => `'${name}': b'${value}'`).join(", ");
  return `2026-11-29 12:00:00,1 - MainThread - botocore.endpoint - DEBUG - Sending http request: <AWSPreparedRequest stream_output=True, method=${head.method}, url=${url}, headers={'X-Note': 'it\\'s', 'X-Other': "it's", ${dict}}>`;
}

t.test("explain-signature reads the debug logs of Python's clients", async (t) => {
  const right = received({ note: "", says: "", signed: {} });
  const url = "https://s3.example.com/b/k";
  const head = pasted(right).replaceAll("\n", "\\r\\n");
  const canonical = (path: string) =>
    `x - botocore.auth - DEBUG - CanonicalRequest:\nGET\n${path}\n\nx - botocore.auth - DEBUG - StringToSign:\nA\n`;
  const files = {
    botocore: `start\n${botocoreLine(right, "https://h/other")}\n${canonical("/b/k")}${botocoreLine(right, url)}\nend\n`,
    changed: `${canonical("/first")}${canonical("/b/k")}${botocoreLine(right, `${url}k`)}\n`,
    http: `send: b'x'\nsend: b'${head}'\nreply: 'HTTP/1.1 403 Forbidden\\r\\n'\nsend: b'body'\n`,
  };
  for (const file of ["botocore", "http"]) {
    const told = await runHeadgate(`explain-signature ${file}`, { files, env });
    t.match(told, { exit: 0, out: /The signature is right/ }, file);
  }
  const changed = await runHeadgate("explain-signature changed", { files, env });
  t.equal(changed.exit, 1);
  t.match(changed.out, "line 2\n    signed   /b/k\n    received /b/kk\n", "as the log has it");
});

t.test("explain-signature reads a presigned URL", async (t) => {
  const url =
    "https://s3.example.com/b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256" +
    `&X-Amz-Credential=AKIDEXAMPLE%2F20261129%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=${amzDate}` +
    `&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=${"0".repeat(64)}`;
  const told = await runHeadgate("explain-signature url", { files: { url }, env });
  t.equal(told.exit, 1);
  t.match(told.out, "SignatureDoesNotMatch");
  t.match(told.out, "host:s3.example.com");
  t.notMatch(told.out, credentials.secretAccessKey);
});

t.test("explain-signature asks for the hash as the server does", async (t) => {
  const right = received({ note: "", says: "", signed: {} });
  const headers = right.headers.filter(([name]) => name !== "x-amz-content-sha256");
  const files = { "request.txt": pasted({ ...right, headers }) };
  const told = await runHeadgate("explain-signature request.txt", { files, env });
  t.equal(told.exit, 1);
  t.match(told.out, 'MissingSecurityHeader: Header "x-amz-content-sha256" is missing');
});

// ---- version 2 ----

interface ChangedV2 {
  readonly note: string;
  readonly signed: Partial<V2Signed>;
  /** As it arrived. */
  readonly sent?: Partial<V2Signed>;
  readonly says: string | null;
}

interface V2Signed {
  readonly method: string;
  readonly target: string;
  readonly fields: readonly HeaderField[];
}

const casesV2: readonly ChangedV2[] = [
  {
    note: "a charset added to Content-Type",
    signed: { fields: [["content-type", "text/csv"]] },
    sent: { fields: [["content-type", "text/csv; charset=utf-8"]] },
    says: 'header "content-type" was "text/csv"',
  },
  {
    note: "a Content-Type added",
    signed: {},
    sent: { fields: [["content-type", "application/x-www-form-urlencoded"]] },
    says: 'header "content-type" was empty',
  },
  {
    note: "a Content-Type dropped",
    signed: { fields: [["content-type", "application/octet-stream"]] },
    sent: { fields: [] },
    says: 'header "content-type" was "application/octet-stream"',
  },
  {
    note: "x-amz-cf-id added by a CDN",
    signed: {},
    sent: { fields: [["x-amz-cf-id", "abc"]] },
    says: 'header "x-amz-cf-id" was not there',
  },
  {
    note: "a path that was encoded by the client and not by the hop",
    signed: { target: "/b/a%20b%2Bc" },
    sent: { target: "/b/a%20b+c" },
    says: 'the path was "/b/a%20b%2Bc"',
  },
  {
    note: "HEAD with a URL for GET",
    signed: {},
    sent: { method: "HEAD" },
    says: 'the method was "GET"',
  },
  {
    note: "a sub-resource added",
    signed: {},
    sent: { target: "/b/k?acl" },
    says: 'query parameter "acl" was not there',
  },
  {
    note: "nothing that is likely",
    signed: { target: "/x" },
    sent: { target: "/b/k" },
    says: null,
  },
];

const v2Date = new Date(nowMs).toUTCString();

/** A request signed with version 2 in its head, or its query, and changed on its way. */
function receivedV2(change: ChangedV2, form: "header" | "query"): RequestHead {
  const own = { method: "GET", target: "/b/k", fields: [] };
  const signed: V2Signed = { ...own, ...change.signed };
  const sent: V2Signed = { ...signed, ...change.sent };
  const [rawPath = ""] = signed.target.split("?");
  const expires = form === "query" ? String(nowMs / 1000 + 60) : null;
  const date: readonly HeaderField[] = form === "query" ? [] : [["date", v2Date]];
  const text = stringToSignV2({
    method: signed.method,
    hostBucket: null,
    rawPath,
    query: [],
    headers: [...signed.fields, ...date],
    expires,
    emptyValues: "drop",
    dateBeside: "drop",
  });
  const signature = signatureV2(credentials.secretAccessKey, text);
  const id = credentials.accessKeyId;
  if (form === "header") {
    const headers: HeaderField[] = [...sent.fields, ...date];
    return headOf({
      ...sent,
      headers: [...headers, ["authorization", `AWS ${id}:${signature}`]],
    });
  }
  const join = sent.target.includes("?") ? "&" : "?";
  const query = `AWSAccessKeyId=${id}&Expires=${expires}&Signature=${encodeURIComponent(signature)}`;
  return headOf({ ...sent, target: `${sent.target}${join}${query}`, headers: sent.fields });
}

function answerV2(head: RequestHead, explain: boolean) {
  const authorization = readV2Authorization(head);
  if (authorization === null || authorization.kind === "error") throw new Error("Not version 2");
  const all = { head, authorization, credentials, nowMs, hostBucket: null };
  const result = verifySignatureV2({ ...all, mayExplain: () => explain });
  return result.kind === "error" ? result.error : null;
}

t.test("version 2: SignatureDoesNotMatch names what was changed", async (t) => {
  for (const change of casesV2) {
    for (const form of ["header", "query"] as const) {
      const head = receivedV2(change, form);
      const error = answerV2(head, true);
      t.equal(error?.code, "SignatureDoesNotMatch", `${form}: ${change.note}`);
      t.match(Object.keys(error?.details ?? {}), ["StringToSign", "SignatureProvided"]);
      if (change.says === null) t.notMatch(error?.message, "changed on the way");
      else t.match(error?.message, change.says);
      t.notMatch(answerV2(head, false)?.message, "changed on the way");
    }
  }
  const same = { note: "", signed: {}, says: null };
  for (const form of ["header", "query"] as const)
    t.equal(answerV2(receivedV2(same, form), true), null);
});

t.test("explain-signature reads version 2", async (t) => {
  const [change] = casesV2;
  if (change === undefined) throw new Error("No case");
  const right = { ...change, sent: {} };
  for (const form of ["header", "query"] as const) {
    const files = {
      wrong: pasted(receivedV2(change, form)),
      right: pasted(receivedV2(right, form)),
    };
    const wrong = await runHeadgate("explain-signature wrong", { files, env });
    t.equal(wrong.exit, 1);
    t.match(wrong.out, /^SignatureDoesNotMatch: .*header "content-type" was "text\/csv"/);
    t.match(wrong.out, "String to sign, as the request came:\n  GET\n");
    const told = await runHeadgate("explain-signature right", { files, env });
    t.equal(told.exit, 0);
    t.match(told.out, 'The version 2 signature is right for access key "AKIDEXAMPLE"');
    t.match(told.out, form === "header" ? "RequestTimeTooSkewed" : "expires at 20261129T120100Z");
    t.notMatch(wrong.out + told.out + wrong.err + told.err, credentials.secretAccessKey);
  }
  const text = stringToSignV2({
    method: "GET",
    hostBucket: "pictures",
    rawPath: "/k",
    query: [],
    headers: [["date", v2Date]],
    expires: null,
    emptyValues: "drop",
    dateBeside: "drop",
  });
  const signature = signatureV2(credentials.secretAccessKey, text);
  const fields = `Host: pictures.s3.example.com\nDate: ${v2Date}\nAuthorization: AWS AKIDEXAMPLE:${signature}`;
  const files = { inHost: `GET /k HTTP/1.1\n${fields}\n` };
  const told = await runHeadgate("explain-signature inHost", { files, env });
  t.equal(told.exit, 0);
  t.match(told.out, 'names the bucket "pictures" in Host');
});

t.test("explain-signature says what it cannot read", async (t) => {
  const bare = "GET /b/k HTTP/1.1\nHost: s3.example.com\n";
  const files = { bare, poem: "roses are red\n", odd: "GET /b/k\nno colon here\n" };
  const table: readonly (readonly [string, string])[] = [
    ["bare", "carries no signature"],
    ["poem", "must begin like"],
    ["odd", 'Cannot read the line "no colon here"'],
    ["nothing", 'Cannot read file "nothing": it does not exist'],
  ];
  for (const [file, says] of table) {
    const told = await runHeadgate(`explain-signature ${file}`, { files, env });
    t.equal(told.exit, 2, file);
    t.match(told.err, says);
  }
  const signed = pasted(received({ note: "", says: "", signed: {} }));
  const told = await runHeadgate("explain-signature signed", { files: { signed } });
  t.equal(told.exit, 2);
  t.match(told.err, "AWS_SECRET_ACCESS_KEY");
});
