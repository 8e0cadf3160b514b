// Tags and lock of an object as the fields of a request ask for them, as far as they are wrong whatever the
// bucket: for uploads that must be refused before their first byte. Codes and rules are AWS S3's (User Guide
// "Categorizing your storage using tags", API Reference PutObject); a Ceph RGW (16.2.15, 18.2.7) counts
// the bytes of a tag where S3 counts characters, and takes no time zone but Z.

import { S3Error } from "./errors.ts";
import { fieldValue, type HeaderList } from "./headers.ts";

const maxTags = 10;
/** UTF-8. */
const maxNameBytes = 128;
const maxValueBytes = 256;

/** The tags that `x-amz-tagging` asks for, `a=1&b=2`. */
export function tagsOf(headers: HeaderList): readonly (readonly [name: string, value: string])[] {
  return [...new URLSearchParams(fieldValue(headers, "x-amz-tagging") ?? "")];
}

interface LockFields {
  readonly mode: string | null;
  readonly until: string | null;
  readonly hold: string | null;
}

/** `null`: it asks for none. */
export function lockOf(headers: HeaderList): LockFields | null {
  const mode = fieldValue(headers, "x-amz-object-lock-mode");
  const until = fieldValue(headers, "x-amz-object-lock-retain-until-date");
  const hold = fieldValue(headers, "x-amz-object-lock-legal-hold");
  return mode === null && until === null && hold === null ? null : { mode, until, hold };
}

/** What refuses them on an RGW; `null`: nothing. @param nowMs since the Unix epoch */
export function settingFieldsError(headers: HeaderList, nowMs: number): S3Error | null {
  const lock = lockOf(headers);
  return tagsError(tagsOf(headers)) ?? (lock === null ? null : lockError(lock, nowMs));
}

function tagsError(tags: readonly (readonly [string, string])[]): S3Error | null {
  if (tags.length > maxTags) return new S3Error("BadRequest", { message: tooMany });
  const names = new Set<string>();
  for (const [name, value] of tags) {
    const nameBytes = Buffer.byteLength(name);
    if (nameBytes === 0 || nameBytes > maxNameBytes) return invalidTag("The name of a tag");
    if (Buffer.byteLength(value) > maxValueBytes) return invalidTag("The value of a tag");
    if (name.startsWith("aws:")) {
      return new S3Error("InvalidTag", { message: "System tags cannot be added by a request" });
    }
    if (names.has(name)) {
      return new S3Error("InvalidTag", { message: "Two tags must not have the same name" });
    }
    names.add(name);
  }
  return null;
}

const tooMany = "Object tags cannot be greater than 10";

function invalidTag(what: string): S3Error {
  return new S3Error("InvalidTag", { message: `${what} is empty or too long` });
}

function lockError({ mode, until, hold }: LockFields, nowMs: number): S3Error | null {
  if ((mode === null) !== (until === null)) {
    return invalid("A retention needs both its mode and its date");
  }
  if (mode !== null && mode !== "GOVERNANCE" && mode !== "COMPLIANCE") {
    return invalid('The mode of a retention must be "GOVERNANCE" or "COMPLIANCE"');
  }
  if (until !== null) {
    const untilMs = timeOf(until);
    if (untilMs === null) return invalid("The date of a retention is not valid");
    if (untilMs <= nowMs) return invalid("The date of a retention must be in the future");
  }
  if (hold !== null && hold !== "ON" && hold !== "OFF") {
    return invalid('A legal hold must be "ON" or "OFF"');
  }
  return null;
}

const iso8601 = /^(\d{4}-\d\d-\d\d)(?:T\d\d:\d\d:\d\d(?:\.\d{1,9})?Z)?$/;

/** Milliseconds since the Unix epoch. */
function timeOf(text: string): number | null {
  const day = iso8601.exec(text)?.[1] ?? "";
  const ms = Date.parse(text);
  // The 30th of February is read as a day of March.
  return day !== "" && Number.isFinite(ms) && new Date(ms).toISOString().startsWith(day)
    ? ms
    : null;
}

function invalid(message: string): S3Error {
  return new S3Error("InvalidArgument", { message });
}
