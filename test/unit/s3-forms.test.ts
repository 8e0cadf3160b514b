// Form uploads, the pure parts: multipart/form-data split at every byte, policies, what becomes a header.

import t from "tap";
import { headAuthorization } from "../../proxy/s3/authorization.ts";
import {
  FormFileReader,
  type FormHead,
  FormHeadReader,
  formBoundary,
  shortestEndBytes,
} from "../../proxy/s3/form-data.ts";
import { formHeaders, formKey, formSuccess } from "../../proxy/s3/post-form.ts";
import { policyRefusal, readPostPolicy } from "../../proxy/s3/post-policy.ts";
import { formIllegality, readFormAuthorization } from "../../proxy/s3/post-signature.ts";
import { s3TimeLimits } from "../../proxy/s3/verify.ts";
import { formBody, formEdge } from "../support/s3-forms.ts";
import { headOf, nowMs } from "../support/s3-request.ts";

/** Reads a whole form that arrives in the given pieces. */
function readForm(pieces: readonly Uint8Array[]) {
  const heads = new FormHeadReader(formEdge);
  const files = new FormFileReader(formEdge);
  const out: Uint8Array[] = [];
  let head: FormHead | null = null;
  for (const piece of pieces) {
    let bytes = piece;
    if (head === null) {
      const result = heads.push(bytes);
      if (result.kind === "error") return result.error.code;
      if (result.kind === "more") continue;
      head = result.head;
      bytes = result.rest;
    }
    const result = files.push(bytes);
    if (result.kind === "error") return result.error.code;
    out.push(...result.pieces);
  }
  if (head === null) return "no file";
  const fault = files.end();
  if (fault !== null) return fault.code;
  const fields = [...head.fields].map(([name, { value }]) => [name, value]);
  return { fields, filename: head.filename, file: Buffer.concat(out).toString("latin1") };
}

const form = formBody([
  { name: "Key", value: "a/é" },
  { name: "empty", value: "" },
  { name: "typed", value: "x\r\ny", filename: "typed", lines: ["Content-Type: text/plain"] },
  { name: "file", value: `1\r\n--${formEdge.slice(0, -1)}\r\n-\r\r\n`, filename: 'q\\"é.txt' },
  { name: "behind", value: "z" },
]);
const read = {
  fields: [
    ["key", "a/é"],
    ["empty", ""],
    ["typed", "x\r\ny"],
  ],
  filename: 'q"é.txt',
  file: `1\r\n--${formEdge.slice(0, -1)}\r\n-\r\r\n`,
};

t.test("a form is the same wherever it is split", async (t) => {
  t.strictSame(readForm([form]), read);
  const bytes = [...form].map((byte) => Uint8Array.of(byte));
  t.strictSame(readForm(bytes), read, "byte by byte");
  for (let at = 1; at < form.length; at += 1) {
    const seen = readForm([form.subarray(0, at), form.subarray(at)]);
    if (JSON.stringify(seen) !== JSON.stringify(read)) t.strictSame(seen, read, `split at ${at}`);
  }
  for (let length = 0; length < form.length - 2; length += 1) {
    const seen = readForm([form.subarray(0, length)]);
    if (typeof seen !== "string") t.fail(`a form cut at ${length} is read`);
  }
});

t.test("spellings of a form", async (t) => {
  const part = (head: string, value = "v") => `--${formEdge}\r\n${head}\r\n\r\n${value}\r\n`;
  const file = part('Content-Disposition: form-data; name="file"');
  const end = `--${formEdge}--`;
  const rows: readonly (readonly [string, string | readonly (readonly string[])[]])[] = [
    [`preamble\r\n${file}${end}`, []],
    [`${part("content-disposition:form-data;name=a")}${file}${end}`, [["a", "v"]]],
    [
      `--${formEdge} \t\r\nContent-Disposition: form-data; name=a\r\n\r\nv\r\n${file}${end}`,
      [["a", "v"]],
    ],
    [`${part('CONTENT-DISPOSITION: FORM-DATA; NAME="a"; x=y')}${file}${end}`, [["a", "v"]]],
    [`${part('Content-Disposition: attachment; name="a"')}${file}${end}`, "MalformedPOSTRequest"],
    [
      `${part('Content-Disposition: form-data; name="a"; name="b"')}${file}${end}`,
      "MalformedPOSTRequest",
    ],
    [`${part("Content-Disposition: form-data")}${file}${end}`, "MalformedPOSTRequest"],
    [`${part("X: y")}${file}${end}`, "MalformedPOSTRequest"],
    [
      `${part('Content-Disposition: form-data; name="a"\r\n folded')}${file}${end}`,
      "MalformedPOSTRequest",
    ],
    [`--${formEdge}x\r\n${file}${end}`, "MalformedPOSTRequest"],
    [`${part('Content-Disposition: form-data; name="a"', "\xff")}${file}${end}`, "InvalidArgument"],
    [`${file}--${formEdge}x`, "MalformedPOSTRequest"],
  ];
  for (const [text, expected] of rows) {
    const seen = readForm([Buffer.from(text, "latin1")]);
    t.strictSame(typeof seen === "string" ? seen : seen.fields, expected, JSON.stringify(text));
  }
});

t.test("filenames lose their path, however it is written", async (t) => {
  const rows = [
    ['filename="a.txt"', "a.txt"],
    ['filename="C:\\dir\\a.txt"', "a.txt"],
    ['filename="dir/a.txt"', "a.txt"],
    ["filename=a.txt", "a.txt"],
    ["filename*=utf-8''%C3%A9.txt", "é.txt"],
    ['filename=""', ""],
    ["x=y", ""],
  ] as const;
  for (const [parameter, expected] of rows) {
    const text = `--${formEdge}\r\nContent-Disposition: form-data; name="file"; ${parameter}\r\n\r\n`;
    const result = new FormHeadReader(formEdge).push(Buffer.from(text, "utf8"));
    t.equal(result.kind === "head" ? result.head.filename : result.kind, expected, parameter);
  }
});

t.test("the boundary of a form", async (t) => {
  const rows = [
    ["multipart/form-data; boundary=abc", "abc"],
    ['Multipart/Form-Data; charset=utf-8; Boundary="a b"', "a b"],
    ["multipart/form-data;boundary=abc; x=y", "abc"],
    ["multipart/form-data", null],
    ["multipart/form-data; boundary=", null],
    [`multipart/form-data; boundary=${"x".repeat(71)}`, null],
    ["multipart/form-data-x; boundary=a", null],
    ["multipart/mixed; boundary=a", null],
  ] as const;
  for (const [text, expected] of rows) t.equal(formBoundary(text), expected, text);
  t.equal(shortestEndBytes("abc"), "\r\n--abc--".length);
});

// ---- policies ----

const encode = (document: unknown): string => {
  const text = typeof document === "string" ? document : JSON.stringify(document);
  return Buffer.from(text, "utf8").toString("base64");
};
const good = { expiration: "2026-11-29T12:30:00.000Z", conditions: [{ bucket: "b" }] };

t.test("policy documents that are read, and those that are not", async (t) => {
  const rows: readonly (readonly [unknown, string])[] = [
    [good, "policy"],
    [{ ...good, expiration: "2026-11-29T12:30:00Z" }, "policy"],
    [{ ...good, conditions: [] }, "policy"],
    [{ ...good, conditions: [["content-length-range", "1", "2"]] }, "policy"],
    [{ ...good, conditions: [["CONTENT-LENGTH-RANGE", 1, 2]] }, "policy"],
    [{ ...good, conditions: [["content-length-range", -1, 2]] }, "InvalidPolicyDocument"],
    [{ ...good, conditions: [["content-length-range", 1.5, 2]] }, "InvalidPolicyDocument"],
    [{ ...good, conditions: [["content-length-range", 1, 2, 3]] }, "InvalidPolicyDocument"],
    [{ ...good, conditions: [["content-length-range"]] }, "InvalidPolicyDocument"],
    [{ ...good, conditions: [{ acl: 1 }] }, "InvalidPolicyDocument"],
    [{ ...good, conditions: [{}] }, "InvalidPolicyDocument"],
    [{ ...good, conditions: ["acl"] }, "InvalidPolicyDocument"],
    [{ ...good, conditions: [null] }, "InvalidPolicyDocument"],
    [{ ...good, conditions: [["eq", "acl", "x"]] }, "InvalidPolicyDocument"],
    [{ ...good, conditions: [["eq", "$acl"]] }, "InvalidPolicyDocument"],
    [{ ...good, conditions: [["eq", "$acl", "x", "y"]] }, "InvalidPolicyDocument"],
    [{ ...good, conditions: { acl: "x" } }, "InvalidPolicyDocument"],
    [{ CONDITIONS: [], expiration: good.expiration }, "InvalidPolicyDocument"],
    [{ EXPIRATION: good.expiration, conditions: [] }, "InvalidPolicyDocument"],
    [{ ...good, expiration: "2026-11-29 12:30:00+00:00" }, "InvalidPolicyDocument"],
    [{ ...good, expiration: "2026-02-30T12:30:00Z" }, "InvalidPolicyDocument"],
    [{ ...good, expiration: "2026-13-01T12:30:00Z" }, "InvalidPolicyDocument"],
    [{ ...good, expiration: 1 }, "InvalidPolicyDocument"],
    ["[]", "InvalidPolicyDocument"],
    ["{", "InvalidPolicyDocument"],
    ["null", "InvalidPolicyDocument"],
  ];
  for (const [document, expected] of rows) {
    const result = readPostPolicy(encode(document));
    const seen = result.kind === "error" ? result.error.code : result.kind;
    t.equal(seen, expected, JSON.stringify(document));
  }
  for (const text of ["", "not base64!", "e"]) t.equal(readPostPolicy(text).kind, "error", text);
  const folded = encode(good).replace(/^.{20}/, "$&\r\n");
  t.equal(readPostPolicy(folded).kind, "policy", "base64 in lines");
  const twice = [
    ["content-length-range", 1, 9],
    ["content-length-range", 2, 8],
  ];
  for (const conditions of [twice, twice.toReversed()]) {
    t.match(readPostPolicy(encode({ ...good, conditions })), {
      policy: { minBytes: 2, maxBytes: 8 },
    });
  }
});

t.test("what a policy refuses, and until when it holds", async (t) => {
  const check = (
    conditions: readonly unknown[],
    fields: Readonly<Record<string, string>>,
    laterMs = 0,
  ): string => {
    const result = readPostPolicy(encode({ ...good, conditions }));
    if (result.kind === "error") return result.error.code;
    const entries = Object.entries(fields).map(([name, value]) => [name, { name, value }] as const);
    const error = policyRefusal(result.policy, {
      fields: new Map(entries),
      bucket: "b",
      key: "user/f.txt",
      nowMs: nowMs + laterMs,
    });
    return error?.message ?? "allowed";
  };
  const base = [{ bucket: "b" }, ["starts-with", "$key", "user/"]];
  const key = { key: "user/${filename}" };
  t.equal(check(base, key), "allowed", "the key counts with the file's name in it");
  t.equal(check(base, key, 30 * 60_000), "allowed");
  t.match(check(base, key, 30 * 60_000 + 1), /Policy expired/);
  t.match(check([{ bucket: "b" }, { key: "user/F.txt" }], key), /Policy Condition failed/);
  t.match(check([base[1]], key), /Extra input fields: bucket/);
  t.match(check(base, { ...key, acl: "x", tagging: "" }), /Extra input fields: acl, tagging/);
  const exempt = { policy: "p", signature: "s", awsaccesskeyid: "a", "x-amz-signature": "s" };
  t.equal(check(base, { ...key, ...exempt, "x-ignore-a": "1" }), "allowed");
  t.match(check(base, { ...key, "x-amz-credential": "c" }), /Extra input fields/);
  const images = [...base, ["starts-with", "$Content-Type", "image/"]];
  t.equal(check(images, { ...key, "content-type": "image/png, image/gif" }), "allowed");
  t.match(check(images, { ...key, "content-type": "image/png, text/html" }), /Condition failed/);
  const secret = "x-amz-server-side-encryption-customer-key";
  const shown = check([...base, { [secret]: "key-text" }], { ...key, [secret]: "other" });
  t.match(shown, /customer-key/);
  t.notMatch(shown, "key-text");
});

// ---- what it asks for ----

const fieldsOf = (fields: Readonly<Record<string, string>>) =>
  new Map(Object.entries(fields).map(([name, value]) => [name, { name, value }]));

t.test("fields become headers, or are refused, or mean nothing upstream", async (t) => {
  const tagging =
    "<Tagging><TagSet><Tag><Key>a b</Key><Value>1&amp;2</Value></Tag><Tag><Key>c</Key><Value></Value></Tag></TagSet></Tagging>";
  const headers = formHeaders(
    fieldsOf({
      key: "k",
      acl: "private",
      tagging,
      submit: "Upload",
      "content-type": " text/plain ",
      "x-amz-meta-a": "é",
      "x-amz-server-side-encryption": "AES256",
      "x-amz-storage-class": "COLD",
      "x-amz-object-lock-mode": "GOVERNANCE",
      "x-amz-date": "20261129T120000Z",
      "x-amz-security-token": "t",
      success_action_status: "201",
    }),
  );
  t.strictSame(headers, [
    ["x-amz-acl", "private"],
    ["x-amz-tagging", "a%20b=1%262&c="],
    ["content-type", "text/plain"],
    ["x-amz-meta-a", "\u00c3\u00a9"],
    ["x-amz-server-side-encryption", "AES256"],
    ["x-amz-storage-class", "COLD"],
    ["x-amz-object-lock-mode", "GOVERNANCE"],
  ]);
  const wrong = [
    { "x-amz-copy-source": "/b/k" },
    { "x-amz-acl": "public-read" },
    { "x-amz-grant-read": "x" },
    { "x-amz-meta-a b": "1" },
    { "x-amz-meta-a_b": "1", "x-amz-meta-a-b": "2" },
    { "x-amz-object-lock-legal_hold": "ON" },
    { "x-amz-server-side-encryption-customer_key": "a" },
    { "x-amz-meta-a": "1\n2" },
    { acl: "a\0b" },
    { tagging: "<Tagging/>" },
    { tagging: "<Tagging><TagSet><Tag><Key></Key><Value/></Tag></TagSet></Tagging>" },
  ];
  for (const fields of wrong) {
    const result = formHeaders(fieldsOf(fields as Record<string, string>));
    t.ok(result instanceof Error, JSON.stringify(fields));
  }
});

t.test("the key takes the file's name as it is", async (t) => {
  const key = (value: string, filename: string) => {
    const result = formKey({ fields: fieldsOf({ key: value }), filename });
    return result instanceof Error ? result.code : result;
  };
  t.equal(key("a/${filename}/${filename}", "$&.txt"), "a/$&.txt/$&.txt");
  t.equal(key("${filename}", ""), "InvalidArgument");
  t.equal(key("a\0", "x"), "InvalidArgument");
  t.equal(key("../a", ""), "../a", "keys are not normalised");
});

t.test("only a URL of the web is a redirect", async (t) => {
  for (const url of ["javascript:alert(1)", "//x", "/x", "http://", "http://x\r\ny", "ftp://x"]) {
    t.match(formSuccess(fieldsOf({ success_action_redirect: url })), { kind: "status" }, url);
  }
});

t.test("a signature in the head is seen, wherever it stands", async (t) => {
  const rows = [
    ["/b", "none", []],
    ["/b", "foreign", [["authorization", "Basic eDp5"]]],
    ["/b", "signed", [["authorization", "AWS x:y"]]],
    ["/b?X-Amz-Signature=x", "signed", []],
    ["/b?AWSAccessKeyId=x", "signed", [["authorization", "Basic eDp5"]]],
  ] as const;
  for (const [target, seen, headers] of rows) {
    t.equal(headAuthorization(headOf({ method: "POST", target, headers })), seen, target);
  }
});

t.test("a form is of its scope's day, and good for as long as signing keys are", async (t) => {
  const day = (date: string, scope = "20261129") =>
    readFormAuthorization(
      fieldsOf({
        policy: "p",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": `AK/${scope}/us-east-1/s3/aws4_request`,
        "x-amz-date": date,
        "x-amz-signature": "0".repeat(64),
      }),
      false,
    );
  t.match(day("20261129T120000Z", "20261128"), { error: { code: "InvalidArgument" } });
  const form = day("20261129T120000Z");
  if (form.kind !== "form") throw new Error("The form is not read");
  for (const [ageSeconds, isGood] of [
    [-901, false],
    [-900, true],
    [604_800, true],
    [604_801, false],
  ] as const) {
    const laws = { nowMs: form.signedAtMs + ageSeconds * 1000, regions: [], limits: s3TimeLimits };
    t.equal(formIllegality(form, laws) === null, isGood, `${ageSeconds}`);
  }
});
