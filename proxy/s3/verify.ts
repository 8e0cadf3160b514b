// Whether a request carries a right Signature Version 4. What is legal is checked first (scope, time,
// signed headers), then the signature over each way in which honest clients and hops write the same
// request; all of those mean the same request but for `+` in a query, whose reading is reported.
// Comparison takes constant time and an unknown key costs as much as a wrong signature
// (s3-protocol.md 2.3). Messages and details never hold a secret, a token or a customer key.

import { Buffer } from "node:buffer";
import { type KeyObject, timingSafeEqual } from "node:crypto";

import type { SignedAuthorization } from "./authorization.ts";
import { S3Error } from "./errors.ts";
import type { HeaderList, QueryList } from "./headers.ts";
import { contentSha256 } from "./payload.ts";
import type { RequestHead } from "./request-head.ts";
import { shownText } from "./shown-text.ts";
import { type Candidate, otherCandidates, usualCandidate } from "./signature-candidates.ts";
import { likelyChanges, seemsChanged } from "./signature-help.ts";
import {
  canonicalRequest,
  formatAmzDate,
  type SigningCredentials,
  type SigningKeys,
  signatureOf,
  stringToSign,
} from "./sigv4.ts";

export interface VerifyRequest {
  readonly head: RequestHead;
  readonly authorization: SignedAuthorization;
  /** Those of the named key id, `null` when the id is not known. */
  readonly credentials: SigningCredentials | null;
  readonly nowMs: number;
  /** Regions a scope may name, the first being ours; empty: any. */
  readonly regions: readonly string[];
  readonly keys: SigningKeys;
  /** Those of S3 unless given. */
  readonly limits?: TimeLimits;
  /** Header authorization comes with x-amz-content-sha256, as S3 has it; not asked for unless true. */
  readonly requireContentSha256?: boolean;
  /** Asked when a signature does not match: whether to look for what was changed on the way. */
  readonly mayExplain?: () => boolean;
}

export type VerifyResult =
  | {
      readonly kind: "verified";
      /** The query under the reading of `+` that was signed. Use it in place of `head.query`. */
      readonly query: QueryList;
      /** Which spelling of the path was signed; `raw` is worth a log line. */
      readonly path: "canonical" | "raw";
    }
  | { readonly kind: "error"; readonly error: S3Error };

/** How far a request's time may be from ours, and how old a presigned URL may become. */
export interface TimeLimits {
  readonly maxSkewMs: number;
  readonly maxPresignSeconds: number;
}

/** What S3 allows. */
export const s3TimeLimits: TimeLimits = { maxSkewMs: 900_000, maxPresignSeconds: 604_800 };
/** Each candidate costs a hash and an HMAC, which a caller without a right key can make us spend. */
const maxCandidates = 12;

/** Stands in for an unknown key, so that the answer takes as long. It opens nothing. */
export const nobody: SigningCredentials = {
  accessKeyId: "-",
  secretAccessKey: "0000000000000000000000000000000000000000",
  sessionToken: null,
};

/** Verifies the signature of a request against the credentials that its key id stands for. */
export function verifySignature(request: VerifyRequest): VerifyResult {
  const { authorization, credentials, head } = request;
  const illegal = illegality(request);
  if (illegal !== null) return { kind: "error", error: illegal };
  const missing = absentHeader(authorization.signedHeaders, head);
  const { date, region } = authorization;
  const trial = request.keys.trial(credentials ?? nobody, date, region, "s3");
  const tried = tryKey(request, trial.key, missing === undefined);
  const isRight = credentials !== null && missing === undefined && tried.kind === "match";
  if (isRight) trial.keep();
  else trial.refuse();
  if (credentials === null) return { kind: "error", error: new S3Error("InvalidAccessKeyId") };
  if (missing !== undefined) {
    const message = `The signature names header "${missing}", which is not in the request`;
    return { kind: "error", error: new S3Error("SignatureDoesNotMatch", { message }) };
  }
  if (tried.kind === "error") return tried;
  const token = tokenError(authorization.sessionToken, credentials.sessionToken);
  if (token !== null) return { kind: "error", error: token };
  return { kind: "verified", query: tried.query, path: tried.path };
}

/** What no credential would make right: scope, time, headers that are missing or not signed. Cheap. */
export function illegality(request: Omit<VerifyRequest, "credentials" | "keys">): S3Error | null {
  return (
    hashError(request) ??
    scopeError(request) ??
    timeError(request.authorization, request.nowMs, request.limits ?? s3TimeLimits) ??
    coverError(request)
  );
}

/** What is wrong is worked out for an unknown key as well: it shall cost the same. */
function tryKey(
  request: VerifyRequest,
  key: KeyObject,
  isWhole: boolean,
): Extract<Match, { kind: "match" }> | { readonly kind: "error"; readonly error: S3Error } {
  // With a header missing no spelling can match: one is tried, for the time it takes.
  const match = matchingCandidate(request, key, isWhole ? maxCandidates : 1);
  if (match.kind === "match") return match;
  const changed = isWhole && request.mayExplain?.() === true ? likelyChange(request, key) : null;
  return { kind: "error", error: mismatch(match.first, request.authorization, changed) };
}

/** Said first: it is the commonest omission of requests that are made by hand. */
function hashError({
  head,
  authorization,
  requireContentSha256 = false,
}: Pick<VerifyRequest, "head" | "authorization" | "requireContentSha256">): S3Error | null {
  if (!requireContentSha256 || authorization.kind !== "header") return null;
  if (contentSha256(head, "header") !== null) return null;
  const message = 'Header "x-amz-content-sha256" is missing';
  return new S3Error("MissingSecurityHeader", { message });
}

function scopeError(request: Pick<VerifyRequest, "regions" | "authorization">): S3Error | null {
  const { regions, authorization } = request;
  const [ours] = regions;
  if (ours === undefined || regions.includes(authorization.region)) return null;
  // SDKs read Region from the document and repeat the request with it.
  const message = `The region "${authorization.region}" is wrong, needs "${ours}"`;
  const code =
    authorization.kind === "header"
      ? "AuthorizationHeaderMalformed"
      : "AuthorizationQueryParametersError";
  return new S3Error(code, { message, details: { Region: ours } });
}

function timeError(
  authorization: SignedAuthorization,
  nowMs: number,
  { maxSkewMs, maxPresignSeconds }: TimeLimits,
): S3Error | null {
  const { signedAtMs } = authorization;
  if (authorization.kind === "header") {
    return skewError(signedAtMs, authorization.amzDate, { nowMs, maxSkewMs });
  }
  if (signedAtMs - nowMs > maxSkewMs) {
    return new S3Error("AccessDenied", { message: "The request is not valid yet" });
  }
  if (authorization.expiresSeconds > maxPresignSeconds) {
    const message = `X-Amz-Expires must be at most ${maxPresignSeconds}`;
    return new S3Error("AccessDenied", { message });
  }
  const endsAtMs = signedAtMs + authorization.expiresSeconds * 1000;
  if (nowMs <= endsAtMs) return null;
  const details = { Expires: formatAmzDate(endsAtMs), ServerTime: formatAmzDate(nowMs) };
  return new S3Error("AccessDenied", { message: "Request has expired", details });
}

/** Why a time of signing is too far from ours; clients read ServerTime and correct themselves. */
export function skewError(
  signedAtMs: number,
  requestTime: string,
  { nowMs, maxSkewMs }: { readonly nowMs: number; readonly maxSkewMs: number },
): S3Error | null {
  if (Math.abs(nowMs - signedAtMs) <= maxSkewMs) return null;
  return new S3Error("RequestTimeTooSkewed", {
    details: {
      RequestTime: requestTime,
      ServerTime: `${new Date(nowMs).toISOString().slice(0, 19)}Z`,
      MaxAllowedSkewMilliseconds: String(maxSkewMs),
    },
  });
}

/** A holder of a presigned PUT must not be able to add x-amz-copy-source, x-amz-acl or the like. */
function coverError(request: Pick<VerifyRequest, "head" | "authorization">): S3Error | null {
  const { signedHeaders } = request.authorization;
  const bare: string[] = [];
  for (const [name] of request.head.headers) {
    if (name !== "host" && !name.startsWith("x-amz-")) continue;
    if (!signedHeaders.includes(name) && !bare.includes(name)) bare.push(name);
  }
  if (bare.length === 0) return null;
  return new S3Error("AccessDenied", {
    message: `The signature does not cover header "${bare.join('", "')}"`,
    details: { HeadersNotSigned: bare.join(", ") },
  });
}

function absentHeader(
  names: readonly string[],
  { headers, alternativeFields = [] }: RequestHead,
): string | undefined {
  const has = (fields: HeaderList, name: string): boolean =>
    fields.some(([candidate]) => candidate === name);
  return names.find((name) => !has(headers, name) && !has(alternativeFields, name));
}

/** A key that was issued with a session token is good with that token only, any other with none. */
export function tokenError(sent: string | null, issued: string | null): S3Error | null {
  if (sent === issued) return null;
  if (issued === null) {
    return new S3Error("InvalidToken", { message: "The access key has no session token" });
  }
  const same =
    sent !== null &&
    Buffer.byteLength(sent) === Buffer.byteLength(issued) &&
    timingSafeEqual(Buffer.from(sent), Buffer.from(issued));
  return same ? null : new S3Error("InvalidToken");
}

// ---- candidates ----

type Match =
  | { readonly kind: "match"; readonly query: QueryList; readonly path: "canonical" | "raw" }
  | { readonly kind: "none"; readonly first: string };

function matchingCandidate(request: VerifyRequest, key: KeyObject, most: number): Match {
  const { authorization, head } = request;
  const { amzDate, date, region } = authorization;
  const scope = `${date}/${region}/s3/aws4_request`;
  const expected = Buffer.from(authorization.signature, "latin1");
  const signedHeaders = authorization.signedHeaders.join(";");
  const matches = (candidate: Candidate, canonical: string): Match | null => {
    const signature = signatureOf(key, stringToSign(amzDate, scope, canonical));
    if (!timingSafeEqual(Buffer.from(signature, "latin1"), expected)) return null;
    return { kind: "match", query: candidate.query, path: candidate.path };
  };
  const canonicalOf = ({ parts }: Candidate): string =>
    canonicalRequest({
      method: head.method,
      path: parts.path,
      query: parts.query,
      fields: parts.fields,
      signedHeaders,
      payloadHash: parts.payloadHash,
    });
  // The usual spelling first, on its own, so that the usual request pays for no other.
  const usual = usualCandidate(request);
  const first = canonicalOf(usual);
  const match = matches(usual, first);
  if (match !== null) return match;
  let tried = 1;
  if (tried === most) return { kind: "none", first };
  for (const candidate of otherCandidates(request, usual)) {
    if (tried === most) break;
    tried += 1;
    const other = matches(candidate, canonicalOf(candidate));
    if (other !== null) return other;
  }
  return { kind: "none", first };
}

/** What the signature would be right for; `null` when no likely change explains it. */
function likelyChange(request: VerifyRequest, key: KeyObject): string | null {
  const { head, authorization } = request;
  for (const { head: before, what } of likelyChanges(head, authorization.signedHeaders)) {
    const match = matchingCandidate({ ...request, head: before }, key, 1);
    if (match.kind === "match") return what;
  }
  return null;
}

function mismatch(
  canonical: string,
  authorization: SignedAuthorization,
  changed: string | null,
): S3Error {
  const { amzDate, date, region } = authorization;
  const text = stringToSign(amzDate, `${date}/${region}/s3/aws4_request`, canonical);
  const details = {
    StringToSign: text,
    SignatureProvided: authorization.signature,
    // The client compares this with its own.
    CanonicalRequest: shownText(canonical),
  };
  if (changed === null) return new S3Error("SignatureDoesNotMatch", { details });
  return new S3Error("SignatureDoesNotMatch", { message: seemsChanged(changed), details });
}
