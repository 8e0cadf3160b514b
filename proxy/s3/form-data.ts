// Reads `multipart/form-data` as a stream: the fields before the file whole and bounded, the file piece
// by piece, what stands behind it to the end and ignored (RFC 7578, RFC 2046 §5.1; S3 "POST Object":
// fields behind the file are ignored). Strict where two readers could differ: a name given twice, a
// second file, a delimiter that is followed by anything else, a missing end are all refused. The bytes
// of the file are those that were sent.

import { Buffer, isUtf8 } from "node:buffer";
import { S3Error } from "./errors.ts";

/** S3 API Reference "POST Object": form data before the file, names and values. */
const maxFieldsBytes = 20 * 1024;
/** The same with the headers and delimiters around it; also all that may stand behind the file. */
export const maxAroundBytes = 64 * 1024;
const maxFields = 256;
const maxPartHeaderBytes = 8 * 1024;

export interface FormField {
  /** As sent, `Content-Type`. */
  readonly name: string;
  readonly value: string;
}

export interface FormHead {
  /** By lower-case name; S3 does not tell `Key` from `key`. */
  readonly fields: ReadonlyMap<string, FormField>;
  /** What the client calls the file, without its path; `""` when it does not say. */
  readonly filename: string;
}

export type FormHeadResult =
  | { readonly kind: "more" }
  /** `rest`: bytes behind the head that were pushed already. */
  | { readonly kind: "head"; readonly head: FormHead; readonly rest: Uint8Array }
  | { readonly kind: "error"; readonly error: S3Error };

/** The boundary that a Content-Type names; `null` when it is not of a form or names none. */
export function formBoundary(contentType: string): string | null {
  if (!/^\s*multipart\/form-data\s*(?:;|$)/i.test(contentType)) return null;
  const match = /;\s*boundary=(?:"([^"\\]+)"|([^\s;"]+))\s*(?:;|$)/i.exec(contentType);
  const boundary = match?.[1] ?? match?.[2] ?? "";
  // RFC 2046 §5.1.1; the characters that it lists, and those that clients use besides.
  return /^[\x21-\x7e](?:[\x20-\x7e]{0,68}[\x21-\x7e])?$/.test(boundary) ? boundary : null;
}

/** Bytes of the shortest end of a form: what surely stands behind the file. */
export function shortestEndBytes(boundary: string): number {
  return delimiterOf(boundary).length + 2;
}

function delimiterOf(boundary: string): Buffer {
  return Buffer.from(`\r\n--${boundary}`, "latin1");
}

// ---- parts that are read whole ----

interface Part {
  readonly name: string;
  readonly filename: string;
}

type Step =
  | { readonly kind: "more" }
  | { readonly kind: "part"; readonly part: Part; readonly at: number }
  | { readonly kind: "end" }
  | { readonly kind: "error"; readonly error: S3Error };

/** What follows a delimiter: the next part's headers, or the end of the form. */
function stepAfterDelimiter(bytes: Buffer, at: number): Step {
  if (bytes.length < at + 2) return { kind: "more" };
  if (bytes[at] === 0x2d && bytes[at + 1] === 0x2d) return { kind: "end" };
  let line = at;
  // Transport padding, which composers must not write and readers must take (RFC 2046 §5.1.1).
  while (bytes[line] === 0x20 || bytes[line] === 0x09) line += 1;
  if (bytes.length < line + 2) return { kind: "more" };
  if (bytes[line] !== 0x0d || bytes[line + 1] !== 0x0a) return malformed();
  // The blank line may follow the delimiter at once.
  const end = bytes.indexOf("\r\n\r\n", line);
  if (end === -1) {
    return bytes.length - line > maxPartHeaderBytes ? tooLong() : { kind: "more" };
  }
  if (end - line > maxPartHeaderBytes) return tooLong();
  const part = readPart(bytes.toString("latin1", line + 2, Math.max(end, line + 2)));
  return part instanceof S3Error
    ? { kind: "error", error: part }
    : { kind: "part", part, at: end + 4 };
}

function readPart(headers: string): Part | S3Error {
  let disposition: string | null = null;
  for (const line of headers.split("\r\n")) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    if (colon < 1 || !/^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(name)) return formError();
    const value = line.slice(colon + 1).trim();
    if (name === "content-disposition") {
      if (disposition !== null) return formError();
      disposition = value;
    }
    const plain = /^(?:7bit|8bit|binary)$/i;
    if (name === "content-transfer-encoding" && !plain.test(value)) {
      return new S3Error("InvalidArgument", {
        message: "A part of the form has an encoding that is not supported",
      });
    }
  }
  return readDisposition(disposition ?? "");
}

/** `form-data; name="file"; filename="a.txt"`. */
function readDisposition(text: string): Part | S3Error {
  if (!/^form-data\s*(?:;|$)/i.test(text)) return formError();
  const found = new Map<string, string>();
  const parameter = /\s*;\s*([a-z*]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))/giy;
  parameter.lastIndex = "form-data".length;
  let end = parameter.lastIndex;
  for (let match = parameter.exec(text); match !== null; match = parameter.exec(text)) {
    const name = (match[1] ?? "").toLowerCase();
    if (found.has(name)) return formError();
    // Only the quote is escaped by those who escape: Windows paths hold bare backslashes.
    found.set(name, match[2]?.replaceAll('\\"', '"') ?? match[3] ?? "");
    end = parameter.lastIndex;
  }
  if (!/^\s*(?:;\s*)?$/.test(text.slice(end))) return formError();
  const name = utf8Text(Buffer.from(found.get("name") ?? "", "latin1"));
  const filename = utf8Text(filenameBytes(found));
  if (name === null || name === "" || filename === null) return formError();
  return {
    name,
    filename: filename.slice(Math.max(...["/", "\\"].map((c) => filename.lastIndexOf(c))) + 1),
  };
}

/** `filename*` is what urllib3 wrote for names beyond ASCII, although RFC 7578 §4.2 forbids it. */
function filenameBytes(found: ReadonlyMap<string, string>): Buffer {
  const extended = /^utf-8''(.*)$/i.exec(found.get("filename*") ?? "")?.[1];
  if (found.has("filename") || extended === undefined) {
    return Buffer.from(found.get("filename") ?? "", "latin1");
  }
  const bytes = extended.replace(/%([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(bytes, "latin1");
}

function utf8Text(bytes: Uint8Array): string | null {
  return isUtf8(bytes) ? Buffer.from(bytes).toString("utf8") : null;
}

// ---- before the file ----

/** Reads all that stands before the bytes of the file. One for one form; `push` until it is over. */
export class FormHeadReader {
  readonly #delimiter: Buffer;
  readonly #fields = new Map<string, FormField>();
  #bytes: Buffer = Buffer.from("\r\n");
  /** Parsed up to here. */
  #at = 0;
  /** The next delimiter is not before here. */
  #from = 0;
  #part: Part | null = null;
  #pushedBytes = 0;
  #fieldsBytes = 0;

  constructor(boundary: string) {
    this.#delimiter = delimiterOf(boundary);
  }

  push(bytes: Uint8Array): FormHeadResult {
    this.#bytes = Buffer.concat([this.#bytes.subarray(this.#at), bytes]);
    this.#from = Math.max(0, this.#from - this.#at);
    this.#at = 0;
    this.#pushedBytes += bytes.length;
    for (;;) {
      const result = this.#step();
      if (result !== null) return result;
    }
  }

  /** `null`: go on. */
  #step(): FormHeadResult | null {
    const found = this.#bytes.indexOf(this.#delimiter, this.#from);
    if (found === -1) {
      this.#from = Math.max(0, this.#bytes.length - this.#delimiter.length + 1);
      return this.#more();
    }
    this.#from = found;
    const next = stepAfterDelimiter(this.#bytes, found + this.#delimiter.length);
    if (next.kind === "more") return this.#more();
    if (next.kind === "error") return next;
    const fault = this.#keepField(found);
    if (fault !== null) return { kind: "error", error: fault };
    if (next.kind === "end") return refuse(fileCount());
    if (next.part.name.toLowerCase() === "file") {
      const head = { fields: this.#fields, filename: next.part.filename };
      return { kind: "head", head, rest: this.#bytes.subarray(next.at) };
    }
    this.#part = next.part;
    this.#at = next.at;
    // The value may be empty, so that its delimiter begins with the blank line's own end.
    this.#from = next.at - 2;
    return null;
  }

  #more(): FormHeadResult {
    return this.#pushedBytes > maxAroundBytes ? tooLong() : { kind: "more" };
  }

  /** Ends the part before a delimiter. */
  #keepField(end: number): S3Error | null {
    const part = this.#part;
    if (part === null) return null;
    const value = utf8Text(this.#bytes.subarray(this.#at, Math.max(this.#at, end)));
    const name = part.name.toLowerCase();
    if (value === null) {
      return invalid(`Field "${part.name}" of the form is not UTF-8`);
    }
    if (this.#fields.has(name)) return invalid(`Field "${part.name}" must be given once`);
    this.#fieldsBytes += Buffer.byteLength(part.name) + Buffer.byteLength(value);
    if (this.#fieldsBytes > maxFieldsBytes || this.#fields.size >= maxFields) {
      return new S3Error("MaxPostPreDataLengthExceededError");
    }
    this.#fields.set(name, { name: part.name, value });
    return null;
  }
}

// ---- the file and what stands behind it ----

export type FileResult =
  | { readonly kind: "pieces"; readonly pieces: readonly Uint8Array[] }
  | { readonly kind: "error"; readonly error: S3Error };

/** Takes the bytes of the file out of the rest of a form. One for one form; `end` says if all was well. */
export class FormFileReader {
  readonly #delimiter: Buffer;
  /** What may be the beginning of a delimiter; behind the file, the part that is not whole yet. */
  #held: Buffer = Buffer.alloc(0);
  #behind = false;
  #behindBytes = 0;
  #ended = false;

  constructor(boundary: string) {
    this.#delimiter = delimiterOf(boundary);
  }

  push(bytes: Uint8Array): FileResult {
    if (this.#behind) return this.#readBehind(bytes);
    const all =
      this.#held.length === 0
        ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
        : Buffer.concat([this.#held, bytes]);
    const found = all.indexOf(this.#delimiter);
    if (found !== -1) {
      this.#behind = true;
      this.#held = Buffer.alloc(0);
      const result = this.#readBehind(all.subarray(found));
      if (result.kind === "error") return result;
      return { kind: "pieces", pieces: found === 0 ? [] : [all.subarray(0, found)] };
    }
    const keep = this.#beginning(all);
    // A copy: what is held must not pin the socket's buffer.
    this.#held = Buffer.from(all.subarray(all.length - keep));
    const out = all.subarray(0, all.length - keep);
    return { kind: "pieces", pieces: out.length === 0 ? [] : [out] };
  }

  /** @returns what was missing, or `null`. */
  end(): S3Error | null {
    return this.#ended ? null : formError();
  }

  /** How many of the last bytes begin a delimiter. */
  #beginning(bytes: Buffer): number {
    const most = Math.min(bytes.length, this.#delimiter.length - 1);
    for (let length = most; length > 0; length -= 1) {
      const tail = bytes.subarray(bytes.length - length);
      if (tail.equals(this.#delimiter.subarray(0, length))) return length;
    }
    return 0;
  }

  /** Reads over the fields behind the file, beginning with the delimiter that ends it. */
  #readBehind(bytes: Uint8Array): FileResult {
    this.#behindBytes += bytes.length;
    if (this.#behindBytes > maxAroundBytes) return tooLong();
    if (this.#ended) return nothing;
    const all = Buffer.concat([this.#held, bytes]);
    let at = 0;
    for (;;) {
      const next = stepAfterDelimiter(all, at + this.#delimiter.length);
      if (next.kind === "error") return next;
      if (next.kind === "more") break;
      if (next.kind === "end") {
        this.#ended = true;
        return nothing;
      }
      if (next.part.name.toLowerCase() === "file") return refuse(fileCount());
      const following = all.indexOf(this.#delimiter, next.at - 2);
      if (following === -1) break;
      at = following;
    }
    this.#held = all.subarray(at);
    return nothing;
  }
}

const nothing: FileResult = { kind: "pieces", pieces: [] };

// ---- errors ----

function refuse(error: S3Error): { readonly kind: "error"; readonly error: S3Error } {
  return { kind: "error", error };
}

function invalid(message: string): S3Error {
  return new S3Error("InvalidArgument", { message });
}

function fileCount(): S3Error {
  return invalid("POST requires exactly one file upload per request");
}

function formError(): S3Error {
  return new S3Error("MalformedPOSTRequest");
}

function malformed(): { readonly kind: "error"; readonly error: S3Error } {
  return refuse(formError());
}

function tooLong(): { readonly kind: "error"; readonly error: S3Error } {
  return refuse(new S3Error("MaxPostPreDataLengthExceededError"));
}
