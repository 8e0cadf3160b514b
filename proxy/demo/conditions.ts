// Preconditions and ranges as S3 evaluates them (RFC 9110 §13.2.2, §14.2). Pure: compares what is
// stored with what was asked, and says 412, 304, 416 or the bytes to send.

import type { ProfileFacts } from "../placement/profiles.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderList } from "../s3/headers.ts";
import type { StoredObject } from "./object-store.ts";

/** @throws S3Error PreconditionFailed. Returns `false` for 304. */
export function mayRead(
  object: StoredObject,
  headers: HeaderList,
  facts: Pick<ProfileFacts, "readsConditionsFully">,
): boolean {
  // RGW knows no list: the whole field is one ETag.
  const isNamed = facts.readsConditionsFully
    ? names
    : (field: string, etag: string) => field === "*" || field === etag || `"${field}"` === etag;
  const match = fieldValue(headers, "if-match");
  if (match !== null) {
    if (!isNamed(match, object.etag)) throw new S3Error("PreconditionFailed");
  } else if (isBefore(fieldValue(headers, "if-unmodified-since"), object)) {
    throw new S3Error("PreconditionFailed");
  }
  const noneMatch = fieldValue(headers, "if-none-match");
  if (noneMatch !== null) return !isNamed(noneMatch, object.etag);
  const since = fieldValue(headers, "if-modified-since");
  return since === null || Number.isNaN(Date.parse(since)) || isBefore(since, object);
}

/** @throws S3Error PreconditionFailed, NoSuchKey (If-Match on nothing, as AWS answers it) */
export function assertMayWrite(
  existing: StoredObject | null,
  headers: HeaderList,
  facts: Pick<ProfileFacts, "conditionalEtagQuotes">,
): void {
  // RGW compares with the bare ETag, so one in quotes is never equal.
  const isNamed =
    facts.conditionalEtagQuotes === "keep"
      ? names
      : (field: string, etag: string) => field === "*" || `"${field}"` === etag;
  const match = fieldValue(headers, "if-match");
  if (match !== null) {
    if (existing === null) throw new S3Error("NoSuchKey");
    if (!isNamed(match, existing.etag)) throw new S3Error("PreconditionFailed");
  }
  const noneMatch = fieldValue(headers, "if-none-match");
  if (noneMatch !== null && existing !== null && isNamed(noneMatch, existing.etag)) {
    throw new S3Error("PreconditionFailed");
  }
}

/** First and last byte, both inclusive. */
export interface ByteRange {
  readonly first: number;
  readonly last: number;
}

/**
 * The bytes a Range field asks for; `null` for all of them: no field, several ranges, or a field that
 * cannot be read. @throws S3Error InvalidRange
 */
export function rangeOf(field: string | null, sizeBytes: number): ByteRange | null {
  const parsed = field === null ? null : /^bytes=(\d*)-(\d*)$/.exec(field.trim());
  const [from = "", to = ""] = parsed?.slice(1) ?? [];
  if (parsed === null || (from === "" && to === "")) return null;
  if (from === "") {
    const count = Math.min(Number(to), sizeBytes);
    if (count === 0) throw invalidRange(sizeBytes);
    return { first: sizeBytes - count, last: sizeBytes - 1 };
  }
  const first = Number(from);
  if (to !== "" && Number(to) < first) return null;
  if (first >= sizeBytes) throw invalidRange(sizeBytes);
  return { first, last: to === "" ? sizeBytes - 1 : Math.min(Number(to), sizeBytes - 1) };
}

function invalidRange(sizeBytes: number): S3Error {
  return new S3Error("InvalidRange", { details: { ActualObjectSize: String(sizeBytes) } });
}

function names(field: string, etag: string): boolean {
  return field
    .split(",")
    .map((item) => item.trim().replace(/^W\//, ""))
    .some((item) => item === "*" || item === etag || `"${item}"` === etag);
}

/** Whether a date lies before the object's last change, both in whole seconds. */
function isBefore(date: string | null, object: StoredObject): boolean {
  if (date === null) return false;
  const dateMs = Date.parse(date);
  return Number.isFinite(dateMs) && Math.floor(object.modifiedMs / 1000) * 1000 > dateMs;
}
