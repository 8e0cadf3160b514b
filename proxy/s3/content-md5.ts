// Content-MD5 of a body that is held whole (RFC 1864): a digest that is none, and a body that is not
// the one it was made of, as S3 names them.

import { createHash } from "node:crypto";
import { S3Error } from "./errors.ts";
import { fieldValue, type HeaderList } from "./headers.ts";

/** What is wrong with the Content-MD5 of a request, if it has one; `null` when nothing is. */
export function contentMd5Error(headers: HeaderList, body: Uint8Array): S3Error | null {
  const sent = fieldValue(headers, "content-md5")?.trim();
  if (sent === undefined) return null;
  if (!/^[A-Za-z0-9+/]{22}==$/.test(sent)) return new S3Error("InvalidDigest");
  const made = createHash("md5").update(body).digest("base64");
  return sent === made ? null : new S3Error("BadDigest");
}

/** The Content-MD5 of a body, which S3 wants with some settings of buckets. */
export function contentMd5(body: Uint8Array): string {
  return createHash("md5").update(body).digest("base64");
}
