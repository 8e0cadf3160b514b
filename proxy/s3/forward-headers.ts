// Which header fields and query parameters go on to the next hop, in both directions
// (s3-protocol.md 2.6; RFC 9110 §7.6.1). What authenticates a client ends here; what belongs to the
// object travels to the byte. Of other fields than `x-amz-*` an upstream sees those that are listed here,
// and none under a spelling that it would read as one that our checks cover.

import { fieldTokens, type HeaderField, type HeaderList, type QueryList } from "./headers.ts";
import { isHopByHop } from "./hop-by-hop.ts";
import type { OperationFacts, S3Operation } from "./operation.ts";
import { operationFacts } from "./operation.ts";
import { metadataPrefix, type RequestHead } from "./request-head.ts";
import {
  bucketReadParameters,
  objectParameters,
  objectReadParameters,
  subresourceParameters,
} from "./subresource.ts";

/**
 * What a client's request may say to an upstream beside `x-amz-*`, which its signature covers. A list of
 * what goes, not of what does not: RGW reads `x-goog-`, `x-rgw-`, `x-dho-`, `x-object-`, `x-container-`
 * and `x-account-` as `x-amz-`, answers as `accept` has it, and MinIO obeys `x-minio-force-delete`.
 */
const plainFields: ReadonlySet<string> = new Set([
  "accept-encoding",
  "access-control-request-headers",
  "access-control-request-method",
  "cache-control",
  "content-disposition",
  "content-encoding",
  "content-language",
  "content-md5",
  "content-type",
  "expires",
  "if-match",
  "if-modified-since",
  "if-none-match",
  "if-range",
  "if-unmodified-since",
  "origin",
  "range",
  // A bucket policy may have a condition on it, as on user-agent.
  "referer",
  "traceparent",
  "tracestate",
  "user-agent",
  "x-amzn-trace-id",
]);

/** Of `x-amz-*`, consumed here or set anew by the signer. */
const endsHere: ReadonlySet<string> = new Set([
  "x-amz-content-sha256",
  "x-amz-date",
  "x-amz-decoded-content-length",
  "x-amz-security-token",
  "x-amz-te",
  "x-amz-trailer",
]);

/** Says which checksum stands behind an aws-chunked body: wrong once the body is decoded. */
const aboutFraming = "x-amz-sdk-checksum-algorithm";

/**
 * Fields of an upstream's answer that are about the upstream: its name, its zone (RGW writes that into
 * request ids and into where an object was replicated from), its hops, its own kind of TLS.
 */
const aboutUpstream: ReadonlySet<string> = new Set([
  "alt-svc",
  "date",
  "location",
  "nel",
  "report-to",
  "server",
  "server-timing",
  "set-cookie",
  "strict-transport-security",
  "via",
  "x-amz-cf-id",
  "x-amz-cf-pop",
  "x-amz-id-2",
  "x-amz-request-id",
  "x-cache",
  "x-minio-deployment-id",
  "x-openstack-request-id",
  "x-powered-by",
  "x-request-id",
  "x-rgw-replicated-at",
  "x-rgw-replicated-from",
  "x-served-by",
  "x-trans-id",
]);

const upstreamParameters: ReadonlySet<string> = new Set([
  ...bucketReadParameters,
  ...objectParameters,
  ...objectReadParameters,
  "x-id",
]);

/**
 * The client's fields that travel upstream, one line a name in order of first arrival, repeated ones
 * joined (RGW hashes only one line of a repeated field). Content-Encoding loses its `aws-chunked`; of a
 * `decoded` body nothing goes on that told of its framing.
 */
export function requestHeadersUpstream(
  head: Pick<RequestHead, "headers">,
  decoded = false,
): HeaderList {
  const nominated = fieldTokens(head.headers, "connection");
  const joined = new Map<string, string>();
  for (const [name, value] of head.headers) {
    if (!travelsUpstream(name) || nominated.includes(name)) continue;
    if (decoded && name === aboutFraming) continue;
    const before = joined.get(name);
    joined.set(name, before === undefined ? value : `${before},${value}`);
  }
  const fields: HeaderField[] = [];
  for (const [name, value] of joined) {
    const text = name === "content-encoding" ? withoutAwsChunked(value) : value;
    if (text !== null) fields.push([name, text]);
  }
  return fields;
}

function travelsUpstream(name: string): boolean {
  if (plainFields.has(name)) return true;
  if (!name.startsWith("x-amz-") || endsHere.has(name)) return false;
  // Elsewhere RGW would read a `_` as a `-`, and another name (request-head.ts).
  return !name.includes("_") || name.startsWith(metadataPrefix);
}

function withoutAwsChunked(value: string): string | null {
  const tokens = value.split(",");
  const kept = tokens.filter((token) => token.trim().toLowerCase() !== "aws-chunked");
  if (kept.length === tokens.length) return value;
  const text = kept.join(",").trim();
  return text === "" ? null : text;
}

const consumedParameter =
  /^x-amz-(?:algorithm|credential|date|expires|signedheaders|signature|security-token|content-sha256|checksum-.*|sdk-checksum-algorithm|decoded-content-length|te|trailer)$/;

/**
 * Presign names, which end here, and what SDKs presign about a body they do not have yet.
 * @param name lower-case
 */
export function isConsumedParameter(name: string): boolean {
  return consumedParameter.test(name);
}

/**
 * The parameters that travel upstream: those with a meaning we know for the operation, and `x-amz-*`,
 * which a presigned request has none of by now (hoisted-fields.ts). Everything about authorization goes,
 * and so do unknown names, which could steer an upstream (`rgwx-uid` does with a system user's
 * credentials).
 */
export function upstreamQuery(query: QueryList, operation: S3Operation): QueryList {
  const { subresource }: OperationFacts = operationFacts[operation];
  return query.filter(([name]) => {
    if (upstreamParameters.has(name) || name === subresource) return true;
    if (subresource !== null && subresourceParameters.has(name)) return true;
    const lower = name.toLowerCase();
    return lower.startsWith("x-amz-") && !isConsumedParameter(lower);
  });
}

/**
 * The fields of an upstream's answer that a client gets, in order. Lengths and ETag quotes as sent;
 * Content-Encoding loses the `aws-chunked` that RGW keeps with objects of SDKs that wrote to it directly.
 */
export function responseHeadersToClient(headers: HeaderList): HeaderList {
  const nominated = fieldTokens(headers, "connection");
  const fields: HeaderField[] = [];
  for (const field of headers) {
    const [name, value] = field;
    if (isHopByHop(name) || aboutUpstream.has(name) || nominated.includes(name)) continue;
    if (name.startsWith("rgwx-")) continue;
    const text = name === "content-encoding" ? withoutAwsChunked(value) : value;
    if (text !== null) fields.push(text === value ? field : [name, text]);
  }
  return fields;
}
