// Whether a request carries a right Signature Version 2. Times are checked first, then the signature
// over the few spellings in which honest clients write the same query. As with version 4 an unknown key
// costs as much as a wrong signature, comparison takes constant time, and no message holds a secret.

import { Buffer } from "node:buffer";
import { timingSafeEqual } from "node:crypto";
import type { V2Authorization } from "./authorization-v2.ts";
import { S3Error } from "./errors.ts";
import type { QueryList } from "./headers.ts";
import { parseQuery } from "./query.ts";
import type { RequestHead } from "./request-head.ts";
import { shownText } from "./shown-text.ts";
import { likelyChangesV2, seemsChanged } from "./signature-help.ts";
import { signatureV2, stringToSignV2 } from "./sigv2.ts";
import { formatAmzDate, type SigningCredentials } from "./sigv4.ts";
import { nobody, s3TimeLimits, skewError, type TimeLimits, tokenError } from "./verify.ts";

export interface VerifyV2Request {
  readonly head: RequestHead;
  readonly authorization: V2Authorization;
  /** Those of the named key id, `null` when the id is not known. */
  readonly credentials: SigningCredentials | null;
  /** The bucket that stands in Host; `null` with path-style addressing. */
  readonly hostBucket: string | null;
  readonly nowMs: number;
  readonly limits?: TimeLimits;
  /** Asked when a signature does not match: whether to look for what was changed on the way. */
  readonly mayExplain?: () => boolean;
}

export type VerifyV2Result =
  | { readonly kind: "verified"; readonly query: QueryList }
  | { readonly kind: "error"; readonly error: S3Error };

/** Verifies the version 2 signature of a request against the credentials of its key id. */
export function verifySignatureV2(request: VerifyV2Request): VerifyV2Result {
  const { authorization, credentials } = request;
  const illegal = illegalityV2(request);
  if (illegal !== null) return { kind: "error", error: illegal };
  const expected = Buffer.from(authorization.signature, "latin1");
  const { secretAccessKey } = credentials ?? nobody;
  let query: QueryList | null = null;
  const candidates = candidatesOf(request);
  for (const candidate of candidates) {
    const signature = Buffer.from(signatureV2(secretAccessKey, candidate.text), "latin1");
    if (query === null && timingSafeEqual(signature, expected)) query = candidate.query;
  }
  // Looked for in vain for an unknown key, which shall cost the same.
  const changed =
    query === null && request.mayExplain?.() === true ? likelyChange(request, expected) : null;
  if (credentials === null) return { kind: "error", error: new S3Error("InvalidAccessKeyId") };
  if (query === null) {
    const [first] = candidates;
    return { kind: "error", error: mismatch(first?.text ?? "", authorization.signature, changed) };
  }
  const token = tokenError(authorization.sessionToken, credentials.sessionToken);
  return token === null ? { kind: "verified", query } : { kind: "error", error: token };
}

/** What no credential would make right. */
export function illegalityV2(request: UnverifiedV2): S3Error | null {
  return timeError(request) ?? coverError(request);
}

type UnverifiedV2 = Omit<VerifyV2Request, "credentials" | "hostBucket">;

/** What the signature would be right for; `null` when no likely change explains it. */
function likelyChange(request: VerifyV2Request, expected: Buffer): string | null {
  const { secretAccessKey } = request.credentials ?? nobody;
  for (const { head, what } of likelyChangesV2(request.head)) {
    const [usual] = candidatesOf({ ...request, head });
    const signature = Buffer.from(signatureV2(secretAccessKey, usual?.text ?? ""), "latin1");
    if (timingSafeEqual(signature, expected)) return what;
  }
  return null;
}

function timeError({ authorization, nowMs, limits = s3TimeLimits }: UnverifiedV2): S3Error | null {
  if (authorization.kind === "header-v2") {
    const { signedAtMs } = authorization;
    return skewError(signedAtMs, formatAmzDate(signedAtMs), { nowMs, maxSkewMs: limits.maxSkewMs });
  }
  const { expiresAtMs } = authorization;
  if (nowMs >= expiresAtMs) {
    const details = { Expires: formatAmzDate(expiresAtMs), ServerTime: formatAmzDate(nowMs) };
    return new S3Error("AccessDenied", { message: "Request has expired", details });
  }
  // The time of signing is not told: what is left to live must be within the limit.
  if (expiresAtMs - nowMs <= limits.maxPresignSeconds * 1000) return null;
  const message = `Expires must be at most ${limits.maxPresignSeconds} seconds ahead`;
  return new S3Error("AccessDenied", { message });
}

/** A signature in the header covers no `x-amz-*` of the query, which would still be obeyed upstream. */
function coverError({ head, authorization }: UnverifiedV2): S3Error | null {
  if (authorization.kind !== "header-v2") return null;
  const bare = head.query.find(([name]) => name.toLowerCase().startsWith("x-amz-"));
  if (bare === undefined) return null;
  const message = `The signature does not cover query parameter "${bare[0]}"`;
  return new S3Error("AccessDenied", { message, details: { HeadersNotSigned: bare[0] } });
}

interface Candidate {
  readonly text: string;
  readonly query: QueryList;
}

/**
 * A raw `+` as a blank and as itself, an empty value without its `=` and with, Date left out and kept,
 * and a bucket's path as sent and with the slash behind it that botocore signs and does not send.
 */
function candidatesOf(request: VerifyV2Request): readonly Candidate[] {
  const { head, authorization, hostBucket } = request;
  const { method, headers } = head;
  const expires = authorization.kind === "presigned-v2" ? authorization.expires : null;
  const plus = head.rawQuery.includes("+") ? parseQuery(head.rawQuery, "plus") : null;
  const isBucket = hostBucket === null && /^\/[^/]+$/.test(head.rawPath);
  const candidates = new Map<string, Candidate>();
  for (const rawPath of isBucket ? [head.rawPath, `${head.rawPath}/`] : [head.rawPath]) {
    for (const query of plus === null ? [head.query] : [head.query, plus]) {
      for (const emptyValues of ["drop", "keep"] as const) {
        for (const dateBeside of ["drop", "keep"] as const) {
          const spelling = { hostBucket, expires, emptyValues, dateBeside };
          const text = stringToSignV2({ method, rawPath, query, headers, ...spelling });
          if (!candidates.has(text)) candidates.set(text, { text, query });
        }
      }
    }
  }
  return [...candidates.values()];
}

function mismatch(text: string, signature: string, changed: string | null): S3Error {
  const details = { StringToSign: shownText(text), SignatureProvided: signature };
  if (changed === null) return new S3Error("SignatureDoesNotMatch", { details });
  return new S3Error("SignatureDoesNotMatch", { message: seemsChanged(changed), details });
}
