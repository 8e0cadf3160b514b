// Which kind of credentials a request brings, and its parsed Signature Version 4 fields. Nothing is
// verified here. Order (s3-protocol.md 2.1): SigV4 in the header or in the query, never both; SigV4A and
// SigV2 are named and refused, never taken for anonymous, unless the caller asks for SigV2 first; a
// foreign scheme beside a presigned URL is ignored, alone it is refused; nothing at all is anonymous.
// Query names in the AWS spelling only.

import { parseAmzDate, parseHttpDate } from "./amz-date.ts";
import { readV2Header, readV2Query, type V2Authorization } from "./authorization-v2.ts";
import { S3Error, type S3ErrorCode } from "./errors.ts";
import { fieldValue } from "./headers.ts";
import { type AccessKeyId, parseAccessKeyId } from "./names.ts";
import { queryValue } from "./query.ts";
import type { RequestHead } from "./request-head.ts";
import { algorithm, formatAmzDate } from "./sigv4.ts";

interface SignatureFields {
  readonly accessKeyId: AccessKeyId;
  /** Day of the credential scope, equal to the day of `amzDate`: `20261129`. */
  readonly date: string;
  /** Region of the credential scope, may be empty. */
  readonly region: string;
  /** `20261129T235959Z`, from x-amz-date, else Date, else X-Amz-Date in the query. */
  readonly amzDate: string;
  /** The same in milliseconds since the epoch. */
  readonly signedAtMs: number;
  /** Lower-case, in the order given, none twice. */
  readonly signedHeaders: readonly string[];
  /** 64 lower-case hex digits. */
  readonly signature: string;
  readonly sessionToken: string | null;
}

type HeaderAuthorization = { readonly kind: "header" } & SignatureFields;
type PresignedAuthorization = {
  readonly kind: "presigned";
  /** 1…604800, counted from `signedAtMs`. */
  readonly expiresSeconds: number;
} & SignatureFields;
/** A request that claims an identity by a Signature Version 4. */
export type SignedAuthorization = HeaderAuthorization | PresignedAuthorization;
export type Authorization = SignedAuthorization | { readonly kind: "anonymous" };

interface Refusal {
  readonly kind: "error";
  readonly error: S3Error;
}

export type AuthorizationResult = Authorization | Refusal;

const maxExpiresSeconds = 604_800;
const headerCode = "AuthorizationHeaderMalformed";
const queryCode = "AuthorizationQueryParametersError";
const signedHeaderNames = /^[!#$%&'*+\-.^_`|~0-9a-z]+(?:;[!#$%&'*+\-.^_`|~0-9a-z]+)*$/;
const useV4 = `Use signature version 4 (${algorithm})`;

/**
 * What is the same in all requests of a client in one second: the header but for its signature, and
 * the date. Bounded, since clients choose both.
 */
export class AuthorizationCache {
  readonly #prefixes = new Map<string, ScopeFields>();
  #dateText = "";
  #dateMs: number | null = null;

  scopeFields(prefix: string): ScopeFields | undefined {
    return this.#prefixes.get(prefix);
  }

  keep(prefix: string, fields: ScopeFields): void {
    if (this.#prefixes.size >= maxCachedPrefixes) this.#prefixes.clear();
    this.#prefixes.set(prefix, fields);
  }

  amzDateMs(text: string): number | null {
    if (text !== this.#dateText) {
      this.#dateMs = parseAmzDate(text);
      this.#dateText = text;
    }
    return this.#dateMs;
  }
}

/** Clients with a few sets of signed headers each. Nothing is verified yet: 4 MiB at the most. */
const maxCachedPrefixes = 1024;
const maxCachedPrefixLength = 1024;
/** More than any client signs; each costs a search of the header. */
const maxSignedHeaders = 128;

type ScopeFields = Pick<SignatureFields, "accessKeyId" | "date" | "region" | "signedHeaders">;

/** Reads what a request brings to prove who sends it; Signature Version 2 is refused by name. */
export function readAuthorization(
  head: RequestHead,
  cache = new AuthorizationCache(),
): AuthorizationResult {
  const value = fieldValue(head.headers, "authorization");
  const inHeader = value === null ? "none" : schemeOf(value);
  const inQuery = queryScheme(head);
  if (inQuery === "both" || (inQuery !== "none" && inHeader !== "none" && inHeader !== "foreign")) {
    return refusal("InvalidArgument", "Only one authentication mechanism is allowed");
  }
  if (inQuery === "v4") return readPresigned(head);
  if (inQuery === "v2") return refusal("InvalidRequest", useV4);
  switch (inHeader) {
    case "v4":
      return readHeader(head, value ?? "", cache);
    case "v4a":
      return refusal("NotImplemented", "Signature version 4A is not implemented");
    case "v2":
      return refusal("InvalidRequest", useV4);
    case "foreign":
      return refusal("AccessDenied", `The authorization scheme is not supported. ${useV4}`);
    case "none":
      return { kind: "anonymous" };
  }
}

/** Reads a Signature Version 2 where a request brings that and nothing else; `null` where it does not. */
export function readV2Authorization(head: RequestHead): V2Authorization | Refusal | null {
  const value = fieldValue(head.headers, "authorization");
  const inHeader = value === null ? "none" : schemeOf(value);
  const inQuery = queryScheme(head);
  const headerOnly = inHeader === "v2" && inQuery === "none";
  const queryOnly = inQuery === "v2" && (inHeader === "none" || inHeader === "foreign");
  if (!headerOnly && !queryOnly) return null;
  const result = headerOnly ? readV2Header(head, value ?? "") : readV2Query(head);
  return result instanceof S3Error ? { kind: "error", error: result } : result;
}

/** What the head alone brings: a signature of any version, a scheme that is not S3's, or nothing. */
export function headAuthorization(head: RequestHead): "signed" | "foreign" | "none" {
  const value = fieldValue(head.headers, "authorization");
  const inHeader = value === null ? "none" : schemeOf(value);
  if (queryScheme(head) !== "none") return "signed";
  return inHeader === "none" || inHeader === "foreign" ? inHeader : "signed";
}

function queryScheme(head: RequestHead): "v4" | "v2" | "both" | "none" {
  let v4 = false;
  let v2 = false;
  for (const [name] of head.query) {
    if (name === "X-Amz-Algorithm" || name === "X-Amz-Signature") v4 = true;
    else if (name === "AWSAccessKeyId" || name === "Signature") v2 = true;
  }
  if (v4 && v2) return "both";
  if (v4) return "v4";
  return v2 ? "v2" : "none";
}

type Scheme = "v4" | "v4a" | "v2" | "foreign" | "none";

function schemeOf(value: string): Scheme {
  if (/^AWS4-HMAC-SHA256(?=[ \t,])/.test(value)) return "v4";
  if (value.startsWith("AWS4-ECDSA-P256-SHA256")) return "v4a";
  return /^AWS(?=[ \t]|$)/.test(value) ? "v2" : "foreign";
}

function readHeader(
  head: RequestHead,
  value: string,
  cache: AuthorizationCache,
): HeaderAuthorization | Refusal {
  const date = requestDate(head, cache);
  const sessionToken = fieldValue(head.headers, "x-amz-security-token");
  // SDKs write the signature last; all before it repeats, and was found right once.
  const end = signatureLast.test(value) ? value.length - signatureLength : -1;
  const known = end === -1 ? undefined : cache.scopeFields(value.slice(0, end));
  if (known !== undefined && date !== null && date.amzDate.startsWith(known.date)) {
    return {
      kind: "header",
      accessKeyId: known.accessKeyId,
      date: known.date,
      region: known.region,
      amzDate: date.amzDate,
      signedAtMs: date.signedAtMs,
      signedHeaders: known.signedHeaders,
      signature: value.slice(end),
      sessionToken,
    };
  }
  const parts = authorizationParts(value.slice(algorithm.length));
  if (parts === null) {
    const message =
      "The authorization header needs Credential, SignedHeaders and Signature, each once";
    return refusal(headerCode, message);
  }
  if (date === null) {
    return refusal("AccessDenied", "The request needs a valid x-amz-date or Date header");
  }
  const fields = signatureFields({ ...parts, ...date }, sessionToken);
  if (typeof fields === "string") return refusal(headerCode, fields);
  if (end !== -1 && end <= maxCachedPrefixLength) cache.keep(value.slice(0, end), fields);
  return { ...fields, kind: "header" };
}

/** When the request says it was signed: x-amz-date, else Date. */
function requestDate(
  head: RequestHead,
  cache: AuthorizationCache,
): Pick<SignatureFields, "amzDate" | "signedAtMs"> | null {
  const sent = fieldValue(head.headers, "x-amz-date")?.trim();
  const signedAtMs =
    sent === undefined
      ? parseHttpDate(fieldValue(head.headers, "date") ?? "")
      : cache.amzDateMs(sent);
  return signedAtMs === null ? null : { amzDate: sent ?? formatAmzDate(signedAtMs), signedAtMs };
}

const signatureLength = 64;
const signatureLast = /[ ,\t]Signature=[0-9a-f]{64}$/;

const presignedNames = ["Credential", "Date", "Expires", "SignedHeaders", "Signature"];

function readPresigned(head: RequestHead): PresignedAuthorization | Refusal {
  const parameter = (name: string): string => queryValue(head.query, `X-Amz-${name}`) ?? "";
  const named = parameter("Algorithm");
  if (named.startsWith("AWS4-ECDSA-P256-SHA256")) {
    return refusal("NotImplemented", "Signature version 4A is not implemented");
  }
  if (named !== algorithm) return refusal(queryCode, `X-Amz-Algorithm must be "${algorithm}"`);
  const amzDate = parameter("Date");
  const signedAtMs = parseAmzDate(amzDate);
  const missing = presignedNames.filter((name) => parameter(name) === "");
  if (missing.length > 0) {
    const names = missing.map((name) => `X-Amz-${name}`).join(", ");
    return refusal(queryCode, `The presigned URL is not whole, it lacks ${names}`);
  }
  if (signedAtMs === null) return refusal(queryCode, "X-Amz-Date must look like 20261129T235959Z");
  const token = queryValue(head.query, "X-Amz-Security-Token");
  const fields = signatureFields(
    {
      credential: parameter("Credential"),
      signedHeaders: parameter("SignedHeaders"),
      signature: parameter("Signature"),
      amzDate,
      signedAtMs,
    },
    // A token never holds a blank: one that was read from a raw `+` is a plus.
    token?.replaceAll(" ", "+") ?? fieldValue(head.headers, "x-amz-security-token"),
  );
  if (typeof fields === "string") return refusal(queryCode, fields);
  const expires = parameter("Expires");
  if (!/^-?\d{1,15}$/.test(expires)) {
    return refusal(queryCode, "X-Amz-Expires must be a number of seconds");
  }
  const expiresSeconds = Number(expires);
  if (expiresSeconds < 1 || expiresSeconds > maxExpiresSeconds) {
    return refusal("AccessDenied", `X-Amz-Expires must be between 1 and ${maxExpiresSeconds}`);
  }
  return { ...fields, kind: "presigned", expiresSeconds };
}

interface RawFields {
  readonly credential: string;
  readonly signedHeaders: string;
  readonly signature: string;
}

/** The three parts in any order, with or without a blank after the commas; `null` unless each is once. */
function authorizationParts(text: string): RawFields | null {
  let credential: string | null = null;
  let signedHeaders: string | null = null;
  let signature: string | null = null;
  for (const piece of text.split(",")) {
    const part = piece.trim();
    const at = part.indexOf("=");
    const value = part.slice(at + 1);
    const name = part.slice(0, at);
    if (name === "Credential" && credential === null) credential = value;
    else if (name === "SignedHeaders" && signedHeaders === null) signedHeaders = value;
    else if (name === "Signature" && signature === null) signature = value;
    else return null;
  }
  if (credential === null || signedHeaders === null || signature === null) return null;
  return { credential, signedHeaders, signature };
}

/** The parsed fields, or what is wrong with them. */
function signatureFields(
  raw: RawFields & { readonly amzDate: string; readonly signedAtMs: number },
  sessionToken: string | null,
): SignatureFields | string {
  const scope = credentialScope(raw.credential);
  if (scope === null) return "The credential must be <key id>/<yyyymmdd>/<region>/s3/aws4_request";
  if (scope.service !== "s3") return 'The service in the credential must be "s3"';
  if (scope.date !== raw.amzDate.slice(0, 8)) {
    return "The date in the credential is not the date of the request";
  }
  const signedHeaders = raw.signedHeaders.split(";", maxSignedHeaders + 1);
  if (
    signedHeaders.length > maxSignedHeaders ||
    !signedHeaderNames.test(raw.signedHeaders) ||
    new Set(signedHeaders).size !== signedHeaders.length
  ) {
    return "SignedHeaders must be lower-case header names with semicolons between them, each once";
  }
  if (!/^[0-9a-f]{64}$/.test(raw.signature))
    return "The signature must be 64 lower-case hex digits";
  return {
    accessKeyId: scope.accessKeyId,
    date: scope.date,
    region: scope.region,
    amzDate: raw.amzDate,
    signedAtMs: raw.signedAtMs,
    signedHeaders,
    signature: raw.signature,
    sessionToken,
  };
}

export interface CredentialScope {
  readonly accessKeyId: AccessKeyId;
  readonly date: string;
  readonly region: string;
  readonly service: string;
}

/** Reads from the right, because a key id may hold a slash. */
export function credentialScope(text: string): CredentialScope | null {
  const match = /^(.+)\/(\d{8})\/([A-Za-z0-9._-]{0,64})\/([A-Za-z0-9._-]+)\/aws4_request$/.exec(
    text,
  );
  const [, keyText = "", date = "", region = "", service = ""] = match ?? [];
  const accessKeyId = match === null ? null : parseAccessKeyId(keyText);
  return accessKeyId === null ? null : { accessKeyId, date, region, service };
}

function refusal(code: S3ErrorCode, message: string): Refusal {
  return { kind: "error", error: new S3Error(code, { message }) };
}
