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

/** One condition of a DELETE: a field's name, or that of an element of DeleteObjects. */
interface DeleteCondition {
  readonly name: string;
  readonly value: string;
}

const deleteFields = ["x-amz-if-match-size", "x-amz-if-match-last-modified-time"];

/** @throws S3Error PreconditionFailed, NoSuchKey */
export function assertMayDelete(
  existing: StoredObject | null,
  headers: HeaderList,
  facts: Pick<ProfileFacts, "conditionalEtagQuotes">,
): void {
  assertMayWrite(existing, headers, facts);
  const conditions = deleteFields.flatMap((name) => {
    const value = fieldValue(headers, name);
    return value === null ? [] : [{ name, value }];
  });
  const refusal = deletionRefusal(existing, conditions);
  if (refusal !== null) throw refusal;
}

/** `null` where all conditions hold; one that cannot be read does not. */
export function deletionRefusal(
  existing: StoredObject | null,
  conditions: readonly DeleteCondition[],
): S3Error | null {
  if (conditions.length === 0) return null;
  if (existing === null) return new S3Error("NoSuchKey");
  const all = conditions.every((condition) => holds(condition, existing));
  return all ? null : new S3Error("PreconditionFailed");
}

function holds({ name, value }: DeleteCondition, object: StoredObject): boolean {
  switch (name) {
    case "ETag":
      return names(value, object.etag);
    case "Size":
    case "x-amz-if-match-size":
      return value === String(object.bytes.length);
    case "LastModifiedTime":
    case "x-amz-if-match-last-modified-time":
      return Date.parse(value) === wholeSecondsMs(object);
    default:
      return false;
  }
}

/** Range, or `null` where If-Range names another state of the object; RGW does not read If-Range. */
export function rangeField(
  object: StoredObject,
  headers: HeaderList,
  facts: Pick<ProfileFacts, "readsConditionsFully">,
): string | null {
  const wanted = facts.readsConditionsFully ? fieldValue(headers, "if-range") : null;
  const isSame =
    wanted === null ||
    wanted === object.etag ||
    `"${wanted}"` === object.etag ||
    (!wanted.includes('"') && Date.parse(wanted) === wholeSecondsMs(object));
  return isSame ? fieldValue(headers, "range") : null;
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
  return Number.isFinite(dateMs) && wholeSecondsMs(object) > dateMs;
}

/** The last change as Last-Modified shows it. */
function wholeSecondsMs(object: StoredObject): number {
  return Math.floor(object.modifiedMs / 1000) * 1000;
}
