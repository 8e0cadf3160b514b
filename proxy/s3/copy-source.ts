// What a copy reads: x-amz-copy-source in all the forms that clients send it, and the range of
// UploadPartCopy (S3 API Reference CopyObject, UploadPartCopy). The value is decoded exactly once and
// written anew for an upstream, so that policy, placement and the upstream see one and the same object:
// RGW decodes the value of UploadPartCopy twice, and drops whatever it cannot read.
// `+` is a plus, as RGW takes it: what clients encode is `%2B`, and only a raw one could mean a blank.

import { Buffer, isUtf8 } from "node:buffer";
import { addressOf } from "./address.ts";
import { S3Error, type S3ErrorCode } from "./errors.ts";
import { fieldValue, type HeaderList } from "./headers.ts";
import type { BucketName, ObjectKey, TenantName } from "./names.ts";
import { noTenant } from "./names.ts";
import type { S3Operation } from "./operation.ts";
import { decodeOnce, encodeComponent, encodePath } from "./percent.ts";

export interface CopySource {
  /** `-`: expressly none; `null`: not named, so it is the caller's. */
  readonly tenant: TenantName | null;
  readonly bucket: BucketName;
  readonly key: ObjectKey;
  readonly versionId: string | null;
}

export type CopySourceResult =
  | { readonly kind: "source"; readonly source: CopySource }
  | { readonly kind: "error"; readonly error: S3Error };

export const copySourceField = "x-amz-copy-source";

/** Access points are not buckets of this service: `arn:aws:s3:region:account:accesspoint/name/…`. */
const arn = /^arn:[^:/]*:s3/;
/** S3 says opaque; what any server makes is of these. A control character never is. */
const versionText = /^[\x20-\x7e]{1,1024}$/;

/** Whether an operation has a copy source. */
export function isCopy(operation: S3Operation): boolean {
  return operation === "CopyObject" || operation === "UploadPartCopy";
}

/**
 * Reads x-amz-copy-source, latin1 text as it came: `/b/k`, `b/k`, `b%2Fk`, `tenant:b/k`, each with
 * `?versionId=v` or without.
 */
export function parseCopySource(field: string): CopySourceResult {
  const text = utf8Of(field);
  if (text === null) return refuse("InvalidArgument", "is not UTF-8");
  const mark = text.indexOf("?");
  const path = decodeOnce(mark === -1 ? text : text.slice(0, mark));
  if (path === null) return refuse("InvalidArgument", "has a malformed escape or is not UTF-8");
  const name = path.startsWith("/") ? path.slice(1) : path;
  if (arn.test(name)) return refuse("NotImplemented", "names an access point");
  const slash = name.indexOf("/");
  if (slash < 1 || slash === name.length - 1) {
    return refuse("InvalidArgument", "must name a bucket and a key");
  }
  const versionId = mark === -1 ? null : versionOf(text.slice(mark + 1));
  if (versionId === undefined) {
    return refuse("InvalidArgument", 'may hold one parameter, "versionId", behind its key');
  }
  if (name.includes("\0")) return refuse("InvalidArgument", "holds a NUL character");
  const address = addressOf("path", name.slice(0, slash), name.slice(slash + 1));
  if (address.kind === "error") return address;
  const { tenant, bucket, key } = address;
  if (bucket === null || key === null) return refuse("InvalidArgument", "must name a key");
  return { kind: "source", source: { tenant, bucket, key, versionId } };
}

/**
 * The value for an upstream, encoded once: `/tenant:b/a%20b?versionId=v`.
 * @param ownTenant that of names without one; a bucket in no tenant is `:b` where it is not `-`.
 */
export function copySourceValue(source: CopySource, ownTenant: TenantName): string {
  const { tenant: named } = source;
  const isPlain = named === null || (named === noTenant && ownTenant === noTenant);
  const tenant = isPlain ? "" : `${named === noTenant ? "" : named}:`;
  const version =
    source.versionId === null ? "" : `?versionId=${encodeComponent(source.versionId)}`;
  return `/${tenant}${source.bucket}/${encodePath(source.key)}${version}`;
}

/**
 * Whether a source means the same object to a server that decodes it once more than it should, and looks
 * for `?versionId=` only after that: what RGW does with UploadPartCopy. One that does not aborts a
 * radosgw (the second decoding fails and leaves an empty key) or is another object than policy saw.
 */
export function survivesSecondDecoding(source: CopySource): boolean {
  return !/[%?]/.test(source.key) && !/[%?]/.test(source.versionId ?? "");
}

/** Both ends inclusive. */
export interface CopyRange {
  readonly first: number;
  readonly last: number;
}

export type CopyRangeResult =
  | { readonly kind: "range"; readonly range: CopyRange | null }
  | { readonly kind: "error"; readonly error: S3Error };

/** Reads x-amz-copy-source-range: `bytes=first-last` and no other form; `null` range without the field. */
export function readCopyRange(headers: HeaderList): CopyRangeResult {
  const field = fieldValue(headers, "x-amz-copy-source-range");
  if (field === null) return { kind: "range", range: null };
  const [, from, to] = /^bytes=(\d{1,15})-(\d{1,15})$/.exec(field.trim()) ?? [];
  const range = { first: Number(from), last: Number(to) };
  if (from === undefined || to === undefined || range.first > range.last) {
    const message =
      'Header "x-amz-copy-source-range" must be "bytes=first-last" with zero-based offsets';
    return { kind: "error", error: new S3Error("InvalidArgument", { message }) };
  }
  return { kind: "range", range };
}

/** The fields without those of a copy: an RGW reads x-amz-copy-source on requests of any kind. */
export function withoutCopyFields(headers: HeaderList): HeaderList {
  return headers.filter(([name]) => !name.startsWith(copySourceField));
}

function utf8Of(latin1: string): string | null {
  const bytes = Buffer.from(latin1, "latin1");
  return isUtf8(bytes) ? bytes.toString("utf8") : null;
}

/** `undefined`: not a single `versionId` with a value. */
function versionOf(query: string): string | undefined {
  const text = /^versionId=([^&]+)$/.exec(query)?.[1];
  const version = text === undefined ? null : decodeOnce(text);
  return version === null || !versionText.test(version) ? undefined : version;
}

function refuse(code: S3ErrorCode, what: string): CopySourceResult {
  const message = `Header "${copySourceField}" ${what}`;
  return { kind: "error", error: new S3Error(code, { message }) };
}
