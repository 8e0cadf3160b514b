// From an UpstreamRequest to the exact bytes of a request head for one endpoint: path, query, Host and
// a new signature. Decides which fields never leave (RFC 9110 §7.6.1 and the client's own signature);
// must never put a key through anything that normalises paths (s3-protocol.md 2.4).

import type { RequestBody, UpstreamIdentity, UpstreamRequest } from "../placement/ports.ts";
import type { HeaderField } from "../s3/headers.ts";
import { isHopByHop } from "../s3/hop-by-hop.ts";
import { type BucketName, noTenant, type TenantName } from "../s3/names.ts";
import { encodePath } from "../s3/percent.ts";
import { encodeQuery } from "../s3/query.ts";
import {
  emptyPayloadHash,
  type SigningCredentials,
  type SigningKeys,
  signRequest,
  unsignedPayload,
} from "../s3/sigv4.ts";

/** How one cluster is spoken to, whichever endpoint takes the request. */
export interface Dialect {
  readonly region: string;
  readonly addressing: "path" | "virtual";
  /** The Host field in place of the endpoint's own, `s3.example:7480`, or `null`. */
  readonly host: string | null;
  /** Whether it is told in X-Forwarded-For where callers' requests came from. */
  readonly forwardedFor?: "off" | "append";
}

/** A request head ready for undici: no name or value is changed behind this point. */
export interface OutgoingHead {
  /** Raw target, `/b/a%20b?versionId=x`. */
  readonly target: string;
  /** `[name, value, name, value, …]` without host and content-length. */
  readonly fields: readonly string[];
  /** The Host field where it differs from the endpoint's own, else `null`. */
  readonly host: string | null;
}

/** Fields that the adapter itself writes, besides the hop-by-hop ones. */
const ownFields: ReadonlySet<string> = new Set([
  "authorization",
  "content-length",
  "expect",
  "host",
  "x-amz-content-sha256",
  "x-amz-date",
  "x-amz-security-token",
]);

/** Names that may stand in front of a host; others are addressed by path whatever the setting. */
const dnsLabels = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/;
/** Over TLS one label only: a wildcard in a certificate covers no more (RFC 9525 §6.3). */
const dnsLabel = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;

export interface ResignOptions {
  /** The endpoint speaks TLS. */
  readonly secure: boolean;
  /** The endpoint's `host` or `host:port` when the port is not the scheme's default. */
  readonly authority: string;
  /** `20261129T235343Z`. */
  readonly amzDate: string;
  readonly keys: SigningKeys;
  /** `null`: sent without a signature. */
  readonly credentials: SigningCredentials | null;
  /** Whose buckets a plain name means to the cluster; `-` but for keys of a tenant's user. */
  readonly ownTenant: TenantName;
}

/** Addresses and signs a request for one endpoint of a cluster. */
export function resign(
  request: UpstreamRequest,
  dialect: Dialect,
  options: ResignOptions,
): OutgoingHead {
  const tenant = tenantPrefix(request.tenant, options.ownTenant);
  const bucketHost = tenant === "" ? virtualBucket(request, dialect, options.secure) : null;
  const path = targetPath(request, bucketHost !== null, tenant);
  const query = encodeQuery(request.query);
  const authority = dialect.host ?? options.authority;
  const host = bucketHost === null ? dialect.host : `${bucketHost}.${authority}`;
  const headers = sendableFields(request);
  headers.push(...framingFields(request.body));
  const fields: string[] = [];
  for (const [name, value] of headers) fields.push(name, value);
  if (options.credentials !== null) {
    const added = signRequest(
      {
        method: request.method,
        path,
        query,
        host: host ?? authority,
        headers: headers.filter(isSignedAlike),
        payloadHash: payloadHash(request),
        region: dialect.region,
        credentials: options.credentials,
        amzDate: options.amzDate,
      },
      options.keys,
    );
    for (const [name, value] of added) fields.push(name, value);
  }
  const forwardedFor = dialect.forwardedFor === "append" ? originOf(request.identity) : "";
  // Not signed: RGW has it rewritten by whatever stands in front of it.
  if (forwardedFor !== "") fields.push("x-forwarded-for", forwardedFor);
  return { target: query === "" ? path : `${path}?${query}`, fields, host };
}

/** A tab is signed as a blank, and RGW signs it as it is; fields of S3 itself must be signed. */
function isSignedAlike([name, value]: HeaderField): boolean {
  return name.startsWith("x-amz-") || !value.includes("\t");
}

/** Nobody's for requests of our own. */
function originOf(identity: UpstreamIdentity): string {
  return identity.kind === "service" ? "" : (identity.forwardedFor ?? "");
}

/** What tells of a trailer behind the body and of the framing that it needs. */
function framingFields(body: RequestBody | null): readonly HeaderField[] {
  if (body?.kind !== "stream" || body.trailer === undefined) return [];
  return [
    ["x-amz-decoded-content-length", String(body.lengthBytes)],
    ["x-amz-trailer", body.trailer.field],
  ];
}

function payloadHash(request: UpstreamRequest): string {
  if (request.body?.kind === "stream" && request.body.trailer !== undefined) {
    return "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
  }
  if (request.payloadSha256 !== null) return request.payloadSha256;
  return request.body === null ? emptyPayloadHash : unsignedPayload;
}

function virtualBucket(
  request: UpstreamRequest,
  dialect: Dialect,
  secure: boolean,
): BucketName | null {
  if (dialect.addressing === "path" || request.bucket === null) return null;
  return (secure ? dnsLabel : dnsLabels).test(request.bucket) ? request.bucket : null;
}

/** The colon between tenant and bucket is percent-encoded: canonical and sent form are one. */
function tenantPrefix(tenant: TenantName, ownTenant: TenantName): string {
  if (tenant !== noTenant) return `${tenant}%3A`;
  return ownTenant === noTenant ? "" : "%3A";
}

function targetPath(request: UpstreamRequest, bucketInHost: boolean, tenant: string): string {
  const key = request.key === null ? "" : `/${encodePath(request.key)}`;
  if (request.bucket === null) return "/";
  if (bucketInHost) return key === "" ? "/" : key;
  return `/${tenant}${request.bucket}${key}`;
}

/**
 * End-to-end fields in their order. A repeated field that is signed becomes one line joined with a
 * comma: RGW verifies only that form (s3-protocol.md 2.9).
 */
function sendableFields(request: UpstreamRequest): HeaderField[] {
  const fields: HeaderField[] = [];
  for (const field of request.headers) {
    const name = field[0];
    if (ownFields.has(name) || isHopByHop(name)) continue;
    const at = isSigned(name) ? fields.findIndex(([seen]) => seen === name) : -1;
    const earlier = fields[at];
    if (earlier === undefined) fields.push(field);
    else fields[at] = [name, `${earlier[1]},${field[1]}`];
  }
  return fields;
}

function isSigned(name: string): boolean {
  return name.startsWith("x-amz-") || name === "content-type" || name === "content-md5";
}
