// AWS Signature Version 2 on node:crypto: the string to sign and its signature (S3 "Signing and
// authenticating REST requests", 2006-03-01; what RGW and botocore agree on). The path is signed as it
// was sent. Of a query only sub-resources are signed, so every name that can turn a request into
// another one stands in the list here: one that is added to a signed URL breaks it.

import { Buffer } from "node:buffer";
import { createHmac } from "node:crypto";
import { fieldValue, type HeaderList, type QueryList } from "./headers.ts";
import { objectParameters, subresources } from "./subresource.ts";

/** Query names that are part of the resource, besides `response-*`. */
const signedParameters: ReadonlySet<string> = new Set([
  ...subresources.service.keys(),
  ...subresources.bucket.keys(),
  ...subresources.object.keys(),
  ...objectParameters,
  "defaultObjectAcl",
  "select-type",
  "storageClass",
]);

export interface V2Request {
  readonly method: string;
  /** The bucket that stands in Host; `null` with path-style addressing. */
  readonly hostBucket: string | null;
  /** As sent, `/b/a%20b`. */
  readonly rawPath: string;
  readonly query: QueryList;
  readonly headers: HeaderList;
  /** The `Expires` of a presigned request, else `null`. */
  readonly expires: string | null;
  /** Whether `acl=` in the query is signed as `acl=` or as `acl`. */
  readonly emptyValues: "keep" | "drop";
  /** Whether Date is signed beside an x-amz-date, as botocore does, or as empty, as S3 says. */
  readonly dateBeside: "keep" | "drop";
}

/** The string to sign, as latin1 text. */
export function stringToSignV2(request: V2Request): string {
  const { headers, expires } = request;
  const field = (name: string): string => fieldValue(headers, name)?.trim() ?? "";
  const besides = fieldValue(headers, "x-amz-date") !== null && request.dateBeside === "drop";
  const date = expires ?? (besides ? "" : field("date"));
  const start = `${request.method}\n${field("content-md5")}\n${field("content-type")}\n${date}\n`;
  return `${start}${amzFields(request)}${resource(request)}`;
}

/** `x-amz-acl:public-read\n…`, sorted; of a presigned request those that stand in its query, too. */
function amzFields({ headers, query, expires }: V2Request): string {
  const values = new Map<string, string>();
  const add = (name: string, value: string): void => {
    if (!name.startsWith("x-amz-")) return;
    const before = values.get(name);
    values.set(name, before === undefined ? value.trim() : `${before},${value.trim()}`);
  };
  for (const [name, value] of headers) add(name, value);
  if (expires !== null) {
    for (const [name, value] of query) add(name.toLowerCase(), latin1(value ?? ""));
  }
  const names = [...values.keys()].sort();
  return names.map((name) => `${name}:${values.get(name)}\n`).join("");
}

function resource({ hostBucket, rawPath, query, emptyValues }: V2Request): string {
  const path = hostBucket === null ? rawPath : `/${hostBucket}${rawPath}`;
  const signed = query.filter(
    ([name]) => signedParameters.has(name) || name.startsWith("response-"),
  );
  if (signed.length === 0) return path;
  const sorted = signed.toSorted(([left], [right]) => (left < right ? -1 : 1));
  const texts = sorted.map(([name, value]) =>
    value === null || (value === "" && emptyValues === "drop") ? name : `${name}=${latin1(value)}`,
  );
  return `${path}?${texts.join("&")}`;
}

/** Text from the query as the bytes of its UTF-8, one char a byte as header values are. */
function latin1(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}

/** Base64 of the HMAC-SHA1 over a string to sign. */
export function signatureV2(secretAccessKey: string, text: string): string {
  return createHmac("sha1", secretAccessKey).update(text, "latin1").digest("base64");
}
