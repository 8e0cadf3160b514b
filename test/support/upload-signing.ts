// Signatures of the uploads in upload-writing.ts, version 4 and 2, in the head and in the query.

import { createHmac } from "node:crypto";
import { clientKeys, sessionKeys } from "./headgate.ts";
import { spoiled } from "./s3-chunked.ts";
import { sha256 } from "./s3-uploads.ts";
import { type Caller, callers, type UploadCase } from "./upload-matrix.ts";

export interface Seed {
  readonly secretAccessKey: string;
  readonly amzDate: string;
  readonly scope: string;
  readonly seed: string;
}

type Fields = readonly (readonly [string, string])[];

export interface Signed {
  /** Request line, Host, fields and authorization, every line with its end. */
  readonly head: string;
  readonly seed: Seed | null;
}

export function keysOf({ keys }: Caller): typeof clientKeys {
  return keys === "session" ? sessionKeys : clientKeys;
}

export function tokenOf({ keys, madeUpToken }: Caller): string | null {
  if (madeUpToken) return "made-up";
  return keys === "session" ? sessionKeys.sessionToken : null;
}

/** The head of an upload with these fields, which it signs. */
export function signedHead(given: UploadCase, fields: Fields): Signed {
  const { auth, bucket, key, query, host } = given;
  const caller: Caller = callers[auth];
  const path = `/${bucket}/${key}`;
  const head = (queryPart: string, more: Fields): string => {
    const whole = [query, queryPart].filter((text) => text !== "").join("&");
    const lines = [...fields, ...more].map(([name, text]) => `${name}: ${text}\r\n`).join("");
    return `PUT ${path}${whole === "" ? "" : "?"}${whole} HTTP/1.1\r\nhost: ${host}\r\n${lines}`;
  };
  const how = { caller, path, fields, head, broken: given.fault === "bad seed" };
  if (caller.version === "none") return { head: head("", []), seed: null };
  return caller.version === "v2" ? signedV2(given, how) : signedV4(given, how);
}

interface How {
  readonly caller: Caller;
  readonly path: string;
  readonly fields: Fields;
  readonly head: (query: string, more: Fields) => string;
  /** The signature is another one. */
  readonly broken: boolean;
}

function signedV4(
  { query, host }: UploadCase,
  { caller, path, fields, head, broken }: How,
): Signed {
  const amzDate = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const scope = `${amzDate.slice(0, 8)}/us-east-1/s3/aws4_request`;
  const { accessKeyId, secretAccessKey } = keysOf(caller);
  const token = tokenOf(caller);
  const presigned = caller.place === "query";
  const inHead: [string, string][] = presigned ? [] : [["x-amz-date", amzDate]];
  if (!presigned && token !== null) inHead.push(["x-amz-security-token", token]);
  const all = [["host", host] as const, ...fields, ...inHead].toSorted(([a], [b]) =>
    a < b ? -1 : 1,
  );
  const names = all.map(([name]) => name).join(";");
  const proof = [
    "X-Amz-Algorithm=AWS4-HMAC-SHA256",
    `X-Amz-Credential=${encodeURIComponent(`${accessKeyId}/${scope}`)}`,
    `X-Amz-Date=${amzDate}`,
    "X-Amz-Expires=600",
    ...(token === null ? [] : [`X-Amz-Security-Token=${encodeURIComponent(token)}`]),
    `X-Amz-SignedHeaders=${encodeURIComponent(names)}`,
  ].join("&");
  const canonical = [
    "PUT",
    path,
    [presigned ? proof : "", query].filter((text) => text !== "").join("&"),
    ...all.map(([name, text]) => `${name}:${text}`),
    "",
    names,
    fields.find(([name]) => name === "x-amz-content-sha256")?.[1] ?? "UNSIGNED-PAYLOAD",
  ].join("\n");
  const text = `AWS4-HMAC-SHA256\n${amzDate}\n${scope}\n${sha256(Buffer.from(canonical))}`;
  const seed = createHmac("sha256", signingKey(secretAccessKey, scope)).update(text).digest("hex");
  const signature = broken ? spoiled(`${seed}\r\n`).trim() : seed;
  const authorization = `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${names}, Signature=${signature}`;
  return {
    head: presigned
      ? head(`${proof}&X-Amz-Signature=${signature}`, [])
      : head("", [...inHead, ["authorization", authorization]]),
    seed: { secretAccessKey, amzDate, scope, seed },
  };
}

/** S3 "Signing and authenticating REST requests". */
function signedV2({ query }: UploadCase, { caller, path, fields, head, broken }: How): Signed {
  const { accessKeyId, secretAccessKey } = keysOf(caller);
  const token = tokenOf(caller);
  const inHead: [string, string][] = token === null ? [] : [["x-amz-security-token", token]];
  const amz = [...fields, ...inHead]
    .filter(([name]) => name.startsWith("x-amz-"))
    .map(([name, text]) => `${name}:${text}\n`)
    .toSorted()
    .join("");
  const field = (wanted: string): string => fields.find(([name]) => name === wanted)?.[1] ?? "";
  const resource = query === "" ? path : `${path}?${query}`;
  const sign = (when: string): string => {
    const text = `PUT\n${field("content-md5")}\n${field("content-type")}\n${when}\n${amz}${resource}`;
    const right = createHmac("sha1", secretAccessKey).update(text).digest("base64");
    return broken ? Buffer.from(right, "base64").reverse().toString("base64") : right;
  };
  if (caller.place === "head") {
    const date = new Date().toUTCString();
    const value = `AWS ${accessKeyId}:${sign(date)}`;
    return { head: head("", [...inHead, ["date", date], ["authorization", value]]), seed: null };
  }
  const expires = String(Math.floor(Date.now() / 1000) + 600);
  const signature = encodeURIComponent(sign(expires));
  const proof = [`AWSAccessKeyId=${accessKeyId}`, `Expires=${expires}`, `Signature=${signature}`];
  if (token !== null) proof.push(`x-amz-security-token=${encodeURIComponent(token)}`);
  return { head: head(proof.join("&"), []), seed: null };
}

const signingKeys = new Map<string, Buffer>();

function signingKey(secret: string, scope: string): Buffer {
  const known = signingKeys.get(`${secret} ${scope}`);
  if (known !== undefined) return known;
  let key = Buffer.from(`AWS4${secret}`);
  for (const part of scope.split("/")) key = createHmac("sha256", key).update(part).digest();
  signingKeys.set(`${secret} ${scope}`, key);
  return key;
}
