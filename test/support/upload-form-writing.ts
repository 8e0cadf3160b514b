// The rows of upload-matrix.ts that are HTML forms, as bytes for a socket.

import {
  type Condition,
  type FormPart,
  formBody,
  formEdge,
  formField,
  formFile,
  signedFields,
  signedFieldsV2,
} from "./s3-forms.ts";
import { type Caller, callers, type Fault, forms, type UploadCase } from "./upload-matrix.ts";
import { keysOf, tokenOf } from "./upload-signing.ts";
import {
  contentType,
  flipped,
  hasHeadChecksum,
  otherChecksum,
  sentChecksum,
  type WrittenUpload,
  wrongMd5,
} from "./upload-writing.ts";

/** Whole forms; the delimiter and what closes it. */
const end = `\r\n--${formEdge}--\r\n`;
const ends: Readonly<Partial<Record<Fault, string>>> = {
  "no end": "",
  "half an end": `\r\n--${formEdge}`,
};

export function writtenForm(given: UploadCase): WrittenUpload {
  const { bucket, payload, data, fault, host } = given;
  const body = formBody(partsOf(given), ends[fault] ?? end);
  const hash = forms[payload].value(data);
  const edge = fault === "another boundary" ? `${formEdge}2` : formEdge;
  const length = fault === "length beyond all" ? 6 * 1024 ** 3 : body.length;
  const head = Buffer.from(
    [
      `POST /${bucket} HTTP/1.1`,
      `host: ${host}`,
      `content-type: multipart/form-data; boundary=${edge}`,
      ...(hash === null ? [] : [`x-amz-content-sha256: ${hash}`]),
      ...(fault === "no length" ? [] : [`content-length: ${length}`]),
      ...(fault === "reset" ? ["expect: 100-continue"] : []),
      "\r\n",
    ].join("\r\n"),
  );
  const extra = Buffer.from(fault === "extra bytes" ? "GARBAGE" : "");
  return {
    bytes: Buffer.concat([head, body.subarray(0, keptBytes(given, body)), extra]),
    closes: fault === "reset" ? "reset" : fault.startsWith("cut") ? "end" : "no",
    bodyAt: head.length,
  };
}

/** Of what the length announces. */
function keptBytes({ fault, data }: UploadCase, body: Buffer): number {
  if (fault === "cut before the end") return body.length - end.length;
  const inFile = end.length + Math.ceil(data.length / 2);
  return fault === "cut" || fault === "reset" ? body.length - inFile : body.length;
}

function partsOf(given: UploadCase): readonly FormPart[] {
  const { key, data, fault } = given;
  const file = formFile(fault === "flipped bit" && data.length > 0 ? flipped(data) : data);
  const fields = fieldsOf(given);
  const named = fault === "no key" ? [] : [formField("key", key)];
  const files = { "no file": [], "two files": [file, file] }[String(fault)] ?? [file];
  const parts = [...named, ...fields, ...proofOf(given, fields), ...files];
  const before: Partial<Record<Fault, FormPart>> = {
    "field twice": formField("key", `${key}-2`),
    "fields too long": formField("ignored", "x".repeat(20_480)),
    "field beyond the policy": formField("x-amz-meta-beyond", "x"),
  };
  const first = before[fault];
  return first === undefined ? parts : [first, ...parts];
}

function fieldsOf(given: UploadCase): readonly FormPart[] {
  const { payload, fault, algorithm, auth } = given;
  const fields = [formField("Content-Type", contentType), formField("x-amz-meta-row", payload)];
  const token = tokenOf(callers[auth]);
  if (token !== null) fields.push(formField("x-amz-security-token", token));
  if (hasHeadChecksum({ payload: "missing", fault })) {
    fields.push(formField(`x-amz-checksum-${algorithm}`, sentChecksum(given)));
  }
  if (fault === "name of another checksum") {
    const other = otherChecksum(algorithm).toUpperCase();
    fields.push(formField("x-amz-sdk-checksum-algorithm", other));
  }
  if (fault === "bad md5") fields.push(formField("Content-MD5", wrongMd5));
  return fields;
}

/** The policy over the fields, and its signature. */
function proofOf(given: UploadCase, fields: readonly FormPart[]): readonly FormPart[] {
  const { auth, bucket, data, fault } = given;
  const caller: Caller = callers[auth];
  if (caller.version === "none") return [];
  const conditions: Condition[] = [
    { bucket },
    ["starts-with", "$key", ""],
    ...fields.map(({ name }): Condition => ["starts-with", `$${name}`, ""]),
  ];
  if (fault === "short") conditions.push(["content-length-range", data.length + 1, 2 ** 32]);
  if (fault === "long") conditions.push(["content-length-range", 0, data.length - 1]);
  const keys = keysOf(caller);
  const seconds = fault === "expired policy" ? -10 : 600;
  const proof =
    caller.version === "v4"
      ? signedFields(conditions, { keys, seconds })
      : signedFieldsV2(conditions, keys, seconds);
  if (fault !== "bad seed") return proof;
  return proof.map((part) =>
    part.name.endsWith("signature") ? { ...part, value: spoiledProof(String(part.value)) } : part,
  );
}

/** Another signature of the same length, in hex as in base64. */
function spoiledProof(text: string): string {
  return `${text.startsWith("0") ? "1" : "0"}${text.slice(1)}`;
}
