// The names S3 requests are made of, as branded strings, and the one parser of each.
// Nothing else in the tree casts to these brands. Rules: S3 API Reference "Bucket naming rules"
// (strict, for CreateBucket) and what Ceph RGW accepts (lax, for everything that already exists).

declare const brand: unique symbol;

type Branded<Name extends string> = string & { readonly [brand]: Name };

/** A bucket's name without tenant, `logs-2026`. 1–255 of `[A-Za-z0-9._-]`. */
export type BucketName = Branded<"BucketName">;
/** An object key, once-decoded, well-formed UTF-8, 1–1024 bytes, no NUL: `a/b c+d`. */
export type ObjectKey = Branded<"ObjectKey">;
/** The tenant of a bucket; `-` when it has none. */
export type TenantName = Branded<"TenantName">;
/** A cluster's id, `rgw-a`: `[a-z0-9][a-z0-9-]{0,62}`. */
export type ClusterId = Branded<"ClusterId">;
/** The public half of a key pair, 1–128 printable ASCII characters without `,` or blank. May hold `/`. */
export type AccessKeyId = Branded<"AccessKeyId">;

/** The tenant of buckets that have none. */
export const noTenant = "-" as TenantName;

const laxBucket = /^[A-Za-z0-9._-]{1,255}$/;
const ipv4 = /^\d{1,3}(?:\.\d{1,3}){3}$/;
const clusterId = /^[a-z0-9][a-z0-9-]{0,62}$/;
const tenant = /^[A-Za-z0-9_]{1,64}$/;
const accessKeyId = /^[\x21-\x7e]{1,128}$/;

/** Reads the name of a bucket that may exist already. Dot segments are refused: they vanish in URLs. */
export function parseBucketName(text: string): BucketName | null {
  if (text === "." || text === "..") return null;
  return laxBucket.test(text) ? (text as BucketName) : null;
}

/** The rule that forbids a name for a new bucket (S3 general purpose bucket rules); null: none does. */
export function newBucketNameFault(name: BucketName): string | null {
  if (name.length < 3 || name.length > 63) return "A bucket name has 3 to 63 characters";
  if (/[^a-z0-9.-]/.test(name)) {
    return "A bucket name holds nothing but lower-case letters, digits, dots and hyphens";
  }
  if (!/^[a-z0-9].*[a-z0-9]$/.test(name)) {
    return "A bucket name begins and ends with a letter or a digit";
  }
  if (name.includes("..")) return "A bucket name has no two dots side by side";
  return ipv4.test(name) ? "A bucket name does not look like an IP address" : null;
}

/** Reads an already percent-decoded key. Length is checked by the caller, who owns the error code. */
export function parseObjectKey(text: string): ObjectKey | null {
  if (text.length === 0 || text.includes("\0") || !text.isWellFormed()) return null;
  return text as ObjectKey;
}

/** Reads a tenant; `-` and the empty string mean none. */
export function parseTenantName(text: string): TenantName | null {
  if (text === "" || text === noTenant) return noTenant;
  return tenant.test(text) ? (text as TenantName) : null;
}

export function parseClusterId(text: string): ClusterId | null {
  return clusterId.test(text) ? (text as ClusterId) : null;
}

export function parseAccessKeyId(text: string): AccessKeyId | null {
  return accessKeyId.test(text) && !text.includes(",") ? (text as AccessKeyId) : null;
}
