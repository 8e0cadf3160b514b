// The fields of a Signature Version 2, in the header or in the query. Nothing is verified here and
// whether this version is taken at all is a setting (s3-protocol.md 2.1; S3 "Signing and authenticating
// REST requests", 2006-03-01). It signs no expiry of its own in the header and no query but the names
// in sigv2.ts, so what it covers is narrower than what version 4 does.

import { parseHttpDate } from "./amz-date.ts";
import { S3Error } from "./errors.ts";
import { fieldValue, trimBlanks } from "./headers.ts";
import { type AccessKeyId, parseAccessKeyId } from "./names.ts";
import { queryValue } from "./query.ts";
import type { RequestHead } from "./request-head.ts";

interface V2Fields {
  readonly accessKeyId: AccessKeyId;
  /** Base64 of 20 bytes: `frJIUN8DYpKDtOLCwo//yllqDzg=`. */
  readonly signature: string;
  readonly sessionToken: string | null;
}

export type HeaderV2Authorization = {
  readonly kind: "header-v2";
  readonly signedAtMs: number;
} & V2Fields;
export type PresignedV2Authorization = {
  readonly kind: "presigned-v2";
  /** As sent, because it is part of what is signed: `1175139620`. */
  readonly expires: string;
  readonly expiresAtMs: number;
} & V2Fields;
/** A request that claims an identity by a Signature Version 2. */
export type V2Authorization = HeaderV2Authorization | PresignedV2Authorization;

/** What stands in a query for a version 2 signature: its own names, and headers as botocore presigns them. */
export const v2Parameters: ReadonlySet<string> = new Set([
  "AWSAccessKeyId",
  "Expires",
  "Signature",
  "content-md5",
  "content-type",
]);

/** Base64 of an HMAC-SHA1, as the header, the query and a form carry it. */
export const v2Signature = /^[A-Za-z0-9+/]{27}=$/;

/** Reads `AWS <key id>:<signature>`. */
export function readV2Header(head: RequestHead, value: string): HeaderV2Authorization | S3Error {
  // A key id may hold a colon, a signature does not.
  const colon = value.lastIndexOf(":");
  const named = /^AWS[ \t]/.test(value) && colon !== -1;
  const accessKeyId = named ? parseAccessKeyId(trimBlanks(value.slice(3, colon))) : null;
  const signature = value.slice(colon + 1).trim();
  if (accessKeyId === null || !v2Signature.test(signature)) {
    const message = "The authorization header must be AWS <key id>:<signature>";
    return new S3Error("AuthorizationHeaderMalformed", { message });
  }
  const signedAtMs = v2Date(
    fieldValue(head.headers, "x-amz-date") ?? fieldValue(head.headers, "date") ?? "",
  );
  if (signedAtMs === null) {
    const message = "The request needs a valid x-amz-date or Date header";
    return new S3Error("AccessDenied", { message });
  }
  const sessionToken = fieldValue(head.headers, "x-amz-security-token");
  return { kind: "header-v2", accessKeyId, signature, signedAtMs, sessionToken };
}

/** Reads `AWSAccessKeyId`, `Expires` and `Signature`. */
export function readV2Query(head: RequestHead): PresignedV2Authorization | S3Error {
  const accessKeyId = parseAccessKeyId(queryValue(head.query, "AWSAccessKeyId") ?? "");
  // Base64 never holds a blank: one that was read from a raw `+` is a plus.
  const signature = (queryValue(head.query, "Signature") ?? "").replaceAll(" ", "+");
  const expires = queryValue(head.query, "Expires");
  if (accessKeyId === null || !v2Signature.test(signature) || expires === null) {
    const message = "Query string authentication needs AWSAccessKeyId, Expires and Signature";
    return new S3Error("AccessDenied", { message });
  }
  if (!/^\d{1,11}$/.test(expires)) {
    const message = "Expires must be a number of seconds since 1970";
    return new S3Error("AccessDenied", { message });
  }
  const token = queryValue(head.query, "x-amz-security-token");
  return {
    kind: "presigned-v2",
    accessKeyId,
    signature,
    expires,
    expiresAtMs: Number(expires) * 1000,
    sessionToken: token?.replaceAll(" ", "+") ?? fieldValue(head.headers, "x-amz-security-token"),
  };
}

/** Old clients write the zone as a number; a time before 1970 is a mistake, no skew. */
function v2Date(text: string): number | null {
  const ms = parseHttpDate(text.trim().replace(/ (?:[+-]0000|UTC|UT)$/, " GMT"));
  return ms === null || ms < 0 ? null : ms;
}
