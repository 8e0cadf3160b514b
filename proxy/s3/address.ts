// Which bucket and key a request names. Decided on the path after exactly one decoding, because the
// upstream decides on that too: `/bucket%2Fkey` is a bucket and a key, and policy has to see the same
// (s3-protocol.md 2.4, 2.9). Keys are never normalised: dots, double and leading slashes belong to them.
// The bucket comes from Host only under a configured base domain, so a caller cannot choose a server.

import { Buffer } from "node:buffer";

import { S3Error, type S3ErrorCode } from "./errors.ts";
import {
  type BucketName,
  noTenant,
  type ObjectKey,
  parseBucketName,
  parseObjectKey,
  parseTenantName,
  type TenantName,
} from "./names.ts";
import { decodeOnce } from "./percent.ts";
import type { RequestHead } from "./request-head.ts";

type AddressStyle = "path" | "virtual-hosted";

export interface Address {
  readonly style: AddressStyle;
  /** `-`: expressly none, `:b`; `null`: not named, so it is the caller's. */
  readonly tenant: TenantName | null;
  /** `null`: the service itself (`/`). */
  readonly bucket: BucketName | null;
  /** `null`: the bucket itself (`/b` and `/b/`). */
  readonly key: ObjectKey | null;
}

export type AddressResult =
  | ({ readonly kind: "address" } & Address)
  | { readonly kind: "error"; readonly error: S3Error };

/** S3 API Reference "Creating object key names": bytes of UTF-8. */
const maxKeyBytes = 1024;

/**
 * First path segments that a Ceph RGW serves as other APIs (`rgw_admin_entry`, `rgw_swift_url_prefix`,
 * `rgw_swift_auth_entry`). Re-signed with a cluster's credentials, `/admin/user` would be its admin API.
 */
const otherApis = new Set(["admin", "auth", "swift"]);

/** Whether a bucket of this name cannot be addressed here. */
export function isReservedBucket(name: string): boolean {
  return otherApis.has(name);
}

/**
 * Reads the address of a request.
 * @param baseDomains names under which buckets are sub-domains, `s3.example.com`, without port, any
 * case; the longest that fits wins. Any other host is path-style.
 */
export function parseAddress(
  head: Pick<RequestHead, "rawPath" | "host">,
  baseDomains: readonly string[],
): AddressResult {
  const path = decodeOnce(head.rawPath);
  if (path === null)
    return refusal("InvalidURI", "The path has a malformed escape or is not UTF-8");
  if (path.includes("\0")) return refusal("InvalidURI", "The path holds a NUL character");
  const rest = path.slice(1);
  const label = bucketLabel(head.host, baseDomains);
  if (label !== null) return addressOf("virtual-hosted", label, rest);
  if (rest === "") return { kind: "address", style: "path", tenant: null, bucket: null, key: null };
  const slash = rest.indexOf("/");
  const segment = slash === -1 ? rest : rest.slice(0, slash);
  // As RGW answers `//bucket/key`.
  if (segment === "") return refusal("NoSuchBucket", "The path has an empty bucket name");
  return addressOf("path", segment, slash === -1 ? "" : rest.slice(slash + 1));
}

/**
 * The address that a bucket segment, `b`, `tenant:b` or `:b`, and a decoded key make; no key when
 * empty.
 */
export function addressOf(style: AddressStyle, segment: string, keyText: string): AddressResult {
  const colon = segment.indexOf(":");
  const tenantText = colon === -1 ? "" : segment.slice(0, colon);
  // `-` is how records write "no tenant"; a client that sends it means something else.
  const named = tenantText === noTenant ? null : parseTenantName(tenantText);
  const bucket = parseBucketName(segment.slice(colon + 1));
  if (named === null) {
    return refusal("InvalidBucketName", "The tenant before the bucket name is not valid");
  }
  if (bucket === null) {
    return refusal(
      "InvalidBucketName",
      "A bucket name holds nothing but letters, digits, dots, hyphens and underscores",
    );
  }
  if (named === noTenant && otherApis.has(bucket)) {
    const message = `No bucket can be named "${bucket}", the path of another API of an RGW`;
    return refusal("InvalidBucketName", message);
  }
  const tenant = colon === -1 ? null : named;
  if (keyText === "") return { kind: "address", style, tenant, bucket, key: null };
  const key = parseObjectKey(keyText);
  if (key === null) return refusal("InvalidURI", "The key is not valid UTF-8");
  // A UTF-16 unit is at most three bytes of UTF-8, so short keys need no counting.
  if (key.length * 3 > maxKeyBytes && Buffer.byteLength(key) > maxKeyBytes) {
    return { kind: "error", error: new S3Error("KeyTooLongError") };
  }
  return { kind: "address", style, tenant, bucket, key };
}

/** Whether a Host field names a bucket by standing under a base domain. */
export function isBucketHost(host: string, baseDomains: readonly string[]): boolean {
  return bucketLabel(host, baseDomains) !== null;
}

function bucketLabel(host: string, baseDomains: readonly string[]): string | null {
  const name = hostWithoutPort(host).toLowerCase();
  let found: string | null = null;
  let longest = -1;
  for (const domain of baseDomains) {
    if (domain.length <= longest) continue;
    const base = domain.toLowerCase();
    if (name === base) {
      found = null;
      longest = base.length;
    } else if (name.endsWith(`.${base}`)) {
      found = name.slice(0, -base.length - 1);
      longest = base.length;
    }
  }
  return found;
}

/** `s3.example.com:9000` → `s3.example.com`, `[::1]:9000` → `[::1]`; one trailing dot goes too. */
function hostWithoutPort(host: string): string {
  const colon = host.lastIndexOf(":");
  const name = colon > host.lastIndexOf("]") ? host.slice(0, colon) : host;
  return name.endsWith(".") ? name.slice(0, -1) : name;
}

function refusal(code: S3ErrorCode, message: string): { kind: "error"; error: S3Error } {
  return { kind: "error", error: new S3Error(code, { message }) };
}
