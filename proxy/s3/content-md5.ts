// Content-MD5 (RFC 1864), of the body itself where it comes in aws-chunked framing (RGW 18.2 reads it so):
// a digest that is none, and a body that is not the one it was made of, as S3 names them.

import { createHash } from "node:crypto";
import { S3Error } from "./errors.ts";
import { fieldValue, type HeaderList } from "./headers.ts";

/** What a body must hash to; `null`: the request does not say. */
export function expectedMd5(headers: HeaderList): Uint8Array | S3Error | null {
  const sent = fieldValue(headers, "content-md5")?.trim();
  if (sent === undefined) return null;
  const digest = /^[A-Za-z0-9+/]{22}==$/.test(sent) ? Buffer.from(sent, "base64") : null;
  return digest ?? new S3Error("InvalidDigest");
}

/** What is wrong with the Content-MD5 of a request, if it has one; `null` when nothing is. */
export function contentMd5Error(headers: HeaderList, body: Uint8Array): S3Error | null {
  const expected = expectedMd5(headers);
  if (expected === null || expected instanceof S3Error) return expected;
  const isRight = createHash("md5").update(body).digest().equals(expected);
  return isRight ? null : new S3Error("BadDigest");
}

/** The Content-MD5 of a body, which S3 wants with some settings of buckets. */
export function contentMd5(body: Uint8Array): string {
  return createHash("md5").update(body).digest("base64");
}
