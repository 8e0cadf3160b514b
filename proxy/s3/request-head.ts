// Reads the head of a request as node:http delivers it and refuses what two readers could read
// differently: ambiguous targets, repeated single fields, ambiguous framing (s3-protocol.md 2.1 step 1,
// RFC 9112 §3.2, §6.3). The target's bytes are kept as they came; nothing is normalised.

import { S3Error, type S3ErrorCode } from "./errors.ts";
import type { QueryList } from "./headers.ts";
import { fieldTokens, fieldValue, type HeaderField, type HeaderList } from "./headers.ts";
import { decodeOnce } from "./percent.ts";
import { parseQuery } from "./query.ts";

export { fieldValue } from "./headers.ts";

export interface RequestHead {
  /** As sent, methods are case-sensitive: `GET`. */
  readonly method: string;
  /** The request target byte for byte: `/b/a%20b?versionId=1`. Begins with `/`. */
  readonly rawTarget: string;
  /** Target up to the first `?`. Every escape in it is well formed. */
  readonly rawPath: string;
  /** Target after the first `?`, `""` when there is none. */
  readonly rawQuery: string;
  /** Decoded once, no name twice; a raw `+` reads as a blank until verification says otherwise. */
  readonly query: QueryList;
  readonly headers: HeaderList;
  /** The Host field as sent, `s3.example.com:9000` or `[::1]:9000`. */
  readonly host: string;
  /** Other Host fields that the client may have signed, where a trusted proxy rewrote it. */
  readonly alternativeHosts?: readonly string[];
  /** Other fields that it may have signed, where a hop rewrote or dropped them; of `rewritableFields`. */
  readonly alternativeFields?: HeaderList;
}

/** Fields that hops rewrite and that say nothing of what is asked for: any value may have been signed. */
export const rewritableFields = [
  "accept-encoding",
  "connection",
  "expect",
  "te",
  "user-agent",
] as const;

export interface RequestHeadInput {
  readonly method: string;
  readonly target: string;
  /** As node:http says it, `1.1`, which it is when this is left out. */
  readonly version?: string;
  /** Names and values in turn, as `IncomingMessage.rawHeaders`. */
  readonly rawHeaders: readonly string[];
}

export type RequestHeadResult =
  | { readonly kind: "head"; readonly head: RequestHead }
  | { readonly kind: "error"; readonly error: S3Error };

/** Fields whose repetition would let two readers pick different ones. */
const singleFields = new Set([
  "authorization",
  "content-length",
  "content-md5",
  "date",
  "expect",
  "host",
  "transfer-encoding",
  "x-amz-content-sha256",
  "x-amz-copy-source",
  "x-amz-date",
  "x-amz-decoded-content-length",
  "x-amz-security-token",
]);
/** S3 allows 2 KiB of metadata and 50 tags; lines beyond this only cost time. */
const maxFields = 256;
/** No operation takes more than thirty; each costs time in every reading of the query. */
const maxParameters = 256;
const fieldName = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const badValue = /[^\t\x20-\x7e\x80-\xff]/;
const badTarget = /[^\x21-\x7e]|#/;
/** Whether a text may stand in Host. */
export function isHostText(text: string): boolean {
  return hostName.test(text);
}

const hostName = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?$/;

/** Reads a request head; an error is meant to be answered and the connection closed. */
export function readRequestHead(input: RequestHeadInput): RequestHeadResult {
  const { method, target } = input;
  if (!target.startsWith("/")) {
    return refusal("InvalidURI", "The request target must begin with a slash");
  }
  if (badTarget.test(target)) {
    return refusal(
      "InvalidURI",
      "The request target holds a character that must be percent-encoded",
    );
  }
  const mark = target.indexOf("?");
  const rawPath = mark === -1 ? target : target.slice(0, mark);
  const rawQuery = mark === -1 ? "" : target.slice(mark + 1);
  if (rawQuery.split("&", maxParameters + 1).length > maxParameters) {
    return refusal("InvalidURI", `A request has at most ${maxParameters} query parameters`);
  }
  const query = parseQuery(rawQuery);
  if (query === null || decodeOnce(rawPath) === null) {
    return refusal(
      "InvalidURI",
      "The request target has a malformed percent escape or is not UTF-8",
    );
  }
  const repeated = firstRepeated(query);
  if (repeated !== null) {
    return refusal("InvalidArgument", `Query parameter "${repeated}" must be given once`);
  }
  const fields = readFields(input.rawHeaders);
  if (fields.kind === "error") return fields;
  const { headers } = fields;
  const host = fieldValue(headers, "host");
  if (host === null) return refusal("InvalidRequest", 'Header "host" is missing');
  if (!hostName.test(host)) return refusal("InvalidRequest", 'Header "host" is not valid');
  const framing = ambiguousFraming(headers, input.version ?? "1.1");
  if (framing !== null) return refusal("InvalidRequest", framing);
  return {
    kind: "head",
    head: { method, rawTarget: target, rawPath, rawQuery, query, headers, host },
  };
}

/** Reads names and values in turn, `["Host", "h", …]`; refuses what is not valid or too much. */
export function readFields(
  rawHeaders: readonly string[],
):
  | { readonly kind: "fields"; readonly headers: HeaderList }
  | { readonly kind: "error"; readonly error: S3Error } {
  if (rawHeaders.length > 2 * maxFields) {
    return refusal(
      "RequestHeaderSectionTooLarge",
      `A request has at most ${maxFields} header lines`,
    );
  }
  const headers: HeaderField[] = [];
  const seen = new Set<string>();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const sent = rawHeaders[at] ?? "";
    const value = rawHeaders[at + 1] ?? "";
    if (!fieldName.test(sent)) return refusal("InvalidRequest", "A header name is not valid");
    const name = sent.toLowerCase();
    if (badValue.test(value)) {
      return refusal("InvalidRequest", `Header "${name}" holds a control character`);
    }
    if (singleFields.has(name)) {
      if (seen.has(name)) return refusal("InvalidRequest", `Header "${name}" must be given once`);
      seen.add(name);
    }
    headers.push([name, value]);
  }
  const misspelled = ambiguousName(headers);
  return misspelled === null
    ? { kind: "fields", headers }
    : refusal("InvalidRequest", `Header "${misspelled}" could be read as another`);
}

/** What stands before the name of a piece of metadata, which may be of any characters. */
export const metadataPrefix = "x-amz-meta-";

/**
 * The first name that RGW, to which `_` is `-`, would read as another `x-amz-*`: `x_amz_acl`, which no
 * signature need cover, or metadata `a_b` beside `a-b`. Metadata `a_b` alone is no other.
 */
export function ambiguousName(headers: HeaderList): string | null {
  if (!headers.some(([name]) => name.includes("_"))) return null;
  const metadata = new Map<string, string>();
  for (const [name] of headers) {
    const read = folded(name);
    if (name.startsWith(metadataPrefix)) {
      if ((metadata.get(read) ?? name) !== name) return name;
      metadata.set(read, name);
    } else if (name !== read && read.startsWith("x-amz-")) return name;
  }
  return null;
}

function folded(name: string): string {
  return name.replaceAll("_", "-");
}

function ambiguousFraming(headers: HeaderList, version: string): string | null {
  if (version !== "1.1" && version !== "1.0") return "The request line needs HTTP/1.1";
  const coding = fieldValue(headers, "transfer-encoding");
  if (coding !== null) {
    // HTTP/1.0 has no codings: what stands before us may have read another end (RFC 9112 §6.1).
    if (version === "1.0") return 'Header "transfer-encoding" needs HTTP/1.1';
    if (fieldValue(headers, "content-length") !== null) {
      return 'Headers "content-length" and "transfer-encoding" exclude each other';
    }
    if (coding.toLowerCase() !== "chunked") return 'Header "transfer-encoding" must be "chunked"';
  }
  // A field named in Connection is removed by the next hop, so a signed or framing field must not be, nor
  // one without which the request would do more.
  for (const name of fieldTokens(headers, "connection")) {
    const kept =
      name === "host" ||
      name === "authorization" ||
      name.startsWith("x-amz-") ||
      name.startsWith("content-") ||
      name.startsWith("if-") ||
      name === "range";
    if (kept) return `Header "connection" must not name "${name}"`;
  }
  return null;
}

function firstRepeated(query: QueryList): string | null {
  if (query.length < 2) return null;
  const seen = new Set<string>();
  for (const [name] of query) {
    if (seen.has(name)) return name;
    seen.add(name);
  }
  return null;
}

function refusal(code: S3ErrorCode, message: string): { kind: "error"; error: S3Error } {
  return { kind: "error", error: new S3Error(code, { message }) };
}
