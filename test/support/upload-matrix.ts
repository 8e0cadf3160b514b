// Uploads in every form that a client can give them, right ones and wrong ones, with what must come of
// each: who signs × how the body is protected × how long it is × what is wrong with it. Generated, so
// that no combination is left out by hand. How they are written is in upload-writing.ts and, for HTML
// forms, in upload-form-writing.ts.

import type { MatrixChecksum } from "./matrix-checksums.ts";
import { sha256 } from "./s3-uploads.ts";

// ---- who signs ----

export interface Caller {
  readonly version: "v4" | "v2" | "none";
  readonly place: "head" | "query" | "form";
  /** The `session` pair is right with its own token only. */
  readonly keys: "client" | "session";
  /** One that the pair does not have. */
  readonly madeUpToken: boolean;
  /** Whether policy and cluster let anybody write into the bucket. */
  readonly open: boolean;
}

function caller(
  version: Caller["version"],
  place: Caller["place"],
  rest: Partial<Caller> = {},
): Caller {
  return { version, place, keys: "client", madeUpToken: false, open: false, ...rest };
}

const session = { keys: "session" } as const;
const madeUp = { madeUpToken: true } as const;

export const callers = {
  header: caller("v4", "head"),
  presigned: caller("v4", "query"),
  session: caller("v4", "head", session),
  "session-presigned": caller("v4", "query", session),
  token: caller("v4", "head", madeUp),
  "token-presigned": caller("v4", "query", madeUp),
  "v2-header": caller("v2", "head"),
  "v2-presigned": caller("v2", "query"),
  anonymous: caller("none", "head", { open: true }),
  "anonymous-refused": caller("none", "head"),
  form: caller("v4", "form"),
  "form-session": caller("v4", "form", session),
  "form-token": caller("v4", "form", madeUp),
  "form-v2": caller("v2", "form"),
  "form-anonymous": caller("none", "form", { open: true }),
  "form-anonymous-refused": caller("none", "form"),
} as const satisfies Record<string, Caller>;

export type Auth = keyof typeof callers;

export const auths: readonly Auth[] = Object.keys(callers).filter(isAuth);

function isAuth(text: string): text is Auth {
  return Object.hasOwn(callers, text);
}

// ---- how the body is protected ----

export const payloads = [
  "hash",
  "empty-hash",
  "unsigned",
  "unsigned-trailer",
  "unsigned-chunks",
  "signed-chunks",
  "signed-trailer",
  "missing",
  "garbage",
  "ecdsa",
] as const;
export type PayloadForm = (typeof payloads)[number];

export interface Form {
  /** Of x-amz-content-sha256; `null`: not sent. */
  readonly value: (data: Buffer) => string | null;
  /** The value is that of the very body. */
  readonly hashed: boolean;
  /** aws-chunked. */
  readonly framed: boolean;
  readonly trailer: boolean;
  /** Its chunks are signed. */
  readonly signed: boolean;
}

function form(value: string | null, rest: Partial<Form> = {}): Form {
  const plain = { hashed: false, framed: false, trailer: false, signed: false };
  return { value: () => value, ...plain, ...rest };
}

export const forms: Readonly<Record<PayloadForm, Form>> = {
  hash: form(null, { value: sha256, hashed: true }),
  "empty-hash": form(sha256(Buffer.alloc(0))),
  unsigned: form("UNSIGNED-PAYLOAD"),
  "unsigned-trailer": form("STREAMING-UNSIGNED-PAYLOAD-TRAILER", { framed: true, trailer: true }),
  "unsigned-chunks": form("STREAMING-UNSIGNED-PAYLOAD-TRAILER", { framed: true }),
  "signed-chunks": form("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", { framed: true, signed: true }),
  "signed-trailer": form("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", {
    framed: true,
    trailer: true,
    signed: true,
  }),
  missing: form(null),
  garbage: form("sha256-of-nothing"),
  ecdsa: form("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"),
};

export const chunkBytes = 8192;

// ---- what is wrong with it, and what must come of that ----

/**
 * `200`, or status and code of the refusal. `cut`: no answer is owed, but nothing may be stored. `whole`:
 * a success with the whole body stored and no more, or any refusal with nothing stored. `refused`: any
 * refusal, with nothing stored.
 */
export type Outcome = string;

interface Sent extends Form {
  readonly bytes: number;
  readonly caller: Caller;
}

/** In aws-chunked framing, without it, and in an HTML form; `null`: it has no meaning there. */
type Outcomes = readonly [framed: Rule, plain: Rule, posted: Rule];
type Rule = Outcome | null | ((sent: Sent) => Outcome | null);

const badSignature = "403 SignatureDoesNotMatch";
const hashMismatch = "400 XAmzContentSHA256Mismatch";
const badDigest = "400 BadDigest";
const invalid = "400 InvalidRequest";
const badTrailer = "400 MalformedTrailerError";
const badForm = "400 MalformedPOSTRequest";
const badField = "400 InvalidArgument";

const some =
  (outcome: Outcome): Rule =>
  ({ bytes }) =>
    bytes > 0 ? outcome : null;
const ifSigned: Rule = ({ signed }) => (signed ? badSignature : null);
const ifTrailer: Rule = ({ trailer }) => (trailer ? badTrailer : null);
const byPolicy =
  (outcome: Outcome): Rule =>
  (sent) =>
    sent.caller.version === "none" ? null : outcome;

const faultTable = {
  none: ["200", "200", "204"],
  "bad seed": [badSignature, badSignature, badSignature],
  // What the body is.
  "flipped bit": [
    ({ signed, bytes }) => (bytes === 0 ? null : signed ? badSignature : badDigest),
    ({ hashed, bytes }) => (bytes === 0 ? null : hashed ? hashMismatch : badDigest),
    some(badDigest),
  ],
  "swapped chunks": [
    ({ signed, bytes }) => (bytes <= chunkBytes ? null : signed ? badSignature : badDigest),
    null,
    null,
  ],
  // What proves it.
  "bad first chunk": [
    ({ signed, bytes }) => (signed && bytes > 0 ? badSignature : null),
    null,
    null,
  ],
  "bad middle chunk": [
    ({ signed, bytes }) => (signed && bytes > chunkBytes ? badSignature : null),
    null,
    null,
  ],
  "bad last chunk": [ifSigned, null, null],
  "bad trailer signature": [
    ({ signed, trailer }) => (signed && trailer ? badSignature : null),
    null,
    null,
  ],
  "no trailer signature": [
    ({ signed, trailer }) => (signed && trailer ? badTrailer : null),
    null,
    null,
  ],
  "bad checksum": [badDigest, badDigest, badDigest],
  "value of another checksum": [invalid, invalid, invalid],
  "name of another checksum": [invalid, invalid, invalid],
  "bad md5": [badDigest, badDigest, badDigest],
  // How long it is said to be.
  short: ["400 IncompleteBody", "cut", byPolicy("400 EntityTooSmall")],
  long: [
    some(invalid),
    ({ hashed }) => (hashed ? hashMismatch : null),
    (sent) => (sent.bytes > 0 && sent.caller.version !== "none" ? "400 EntityTooLarge" : null),
  ],
  "no length": ["411 MissingContentLength", "411 MissingContentLength", "411 MissingContentLength"],
  "length that is none": [badField, null, null],
  "length beyond all": ["400 EntityTooLarge", "400 EntityTooLarge", "400 EntityTooLarge"],
  // Where it ends.
  cut: ["cut", some("cut"), "cut"],
  reset: ["cut", some("cut"), "cut"],
  "cut before the end": ["cut", some("cut"), "cut"],
  "no end": ["400 IncompleteBody", null, badForm],
  "half an end": ["400 IncompleteBody", null, badForm],
  "extra bytes": [invalid, "whole", "whole"],
  // How it is framed.
  "bad size": ["400 InvalidChunkSizeError", null, null],
  "size line too long": ["400 InvalidChunkSizeError", null, null],
  "size beyond all": [invalid, null, null],
  "wrong extension": [invalid, null, null],
  "bare line feed": [invalid, null, null],
  "no line end": [some(invalid), null, null],
  "no trailer": [ifTrailer, null, null],
  "undeclared trailer": [badTrailer, null, null],
  "trailer twice": [ifTrailer, null, null],
  // What the form says.
  "no file": [null, null, badField],
  "two files": [null, null, badField],
  "no key": [null, null, badField],
  "field twice": [null, null, badField],
  "fields too long": [null, null, "400 MaxPostPreDataLengthExceededError"],
  "another boundary": [
    null,
    null,
    ({ bytes }) => (bytes < 60_000 ? badForm : "400 MaxPostPreDataLengthExceededError"),
  ],
  "expired policy": [null, null, byPolicy("403 AccessDenied")],
  "field beyond the policy": [null, null, byPolicy("403 AccessDenied")],
} as const satisfies Record<string, Outcomes>;

export type Fault = keyof typeof faultTable;

export const faults: readonly Fault[] = Object.keys(faultTable).filter(isFault);

function isFault(text: string): text is Fault {
  return Object.hasOwn(faultTable, text);
}

/** What one row of the matrix is. */
export interface UploadRow {
  readonly operation: "PutObject" | "UploadPart";
  readonly auth: Auth;
  readonly payload: PayloadForm;
  readonly data: Buffer;
  readonly fault: Fault;
}

/** A row as it is sent. */
export interface UploadCase extends UploadRow {
  readonly algorithm: MatrixChecksum;
  readonly bucket: string;
  readonly key: string;
  /** `partNumber=1&uploadId=x`, or `""`. */
  readonly query: string;
  readonly host: string;
  /** A framed body in HTTP chunks, without a Content-Length. */
  readonly inChunks: boolean;
}

/** The right outcome, or `null` where a fault has no meaning for a form. */
export function outcomeOf({
  auth,
  payload,
  data,
  fault,
}: Omit<UploadRow, "operation">): Outcome | null {
  const caller: Caller = callers[auth];
  const isForm = caller.place === "form";
  // A form is protected by its own fields, whatever x-amz-content-sha256 says beside them.
  if (isForm && payload !== "missing" && fault !== "none") return null;
  const head = headOutcome(caller, payload, data);
  if (fault === "bad seed") return seedOutcome(caller, payload);
  // One fault at a time: where the head is refused already, the body's faults are not reached.
  if (head !== null) return fault === "none" ? head : null;
  const of = forms[payload];
  const rule: Rule = faultTable[fault][isForm ? 2 : of.framed ? 0 : 1];
  return typeof rule === "function" ? rule({ ...of, bytes: data.length, caller }) : rule;
}

function seedOutcome({ version, place }: Caller, payload: PayloadForm): Outcome | null {
  if (version === "none") return null;
  const isMissing = payload === "missing" && version === "v4" && place === "head";
  return isMissing ? "400 MissingSecurityHeader" : badSignature;
}

/** Refusals that need no byte of the body. */
function headOutcome(caller: Caller, payload: PayloadForm, data: Buffer): Outcome | null {
  const { version, place, madeUpToken, open } = caller;
  const isForm = place === "form";
  if (!isForm && payload === "missing" && version === "v4" && place === "head") {
    return "400 MissingSecurityHeader";
  }
  // The pair has no token, and one with a token that is not its own is refused.
  if (madeUpToken) return "400 InvalidToken";
  const refusal = isForm ? null : payloadRefusal(caller, payload, data);
  return refusal ?? (version === "none" && !open ? "403 AccessDenied" : null);
}

function payloadRefusal({ version }: Caller, payload: PayloadForm, data: Buffer): Outcome | null {
  if (payload === "garbage") return badField;
  if ((forms[payload].framed || payload === "ecdsa") && version !== "v4") return invalid;
  if (payload === "ecdsa") return "501 NotImplemented";
  return payload === "empty-hash" && data.length > 0 ? hashMismatch : null;
}

// ---- the table ----

export interface Columns {
  readonly operation?: UploadRow["operation"];
  readonly auths: readonly Auth[];
  readonly payloads?: readonly PayloadForm[];
  readonly bodies: readonly Buffer[];
  readonly faults?: readonly Fault[];
}

/** Every row that has a meaning: the product of the columns, less what no client could send. */
export function uploadRows(columns: Columns): readonly UploadRow[] {
  const { operation = "PutObject" } = columns;
  const rows: UploadRow[] = [];
  for (const auth of columns.auths) {
    for (const payload of columns.payloads ?? payloads) {
      for (const data of columns.bodies) {
        for (const fault of columns.faults ?? faults) {
          const row = { operation, auth, payload, data, fault };
          if (outcomeOf(row) !== null) rows.push(row);
        }
      }
    }
  }
  return rows;
}

/** `header, hash, 8192 bytes, bad seed`. */
export function rowName({ operation, auth, payload, data, fault }: UploadRow): string {
  const part = operation === "UploadPart" ? "part, " : "";
  return `${part}${auth}, ${payload}, ${data.length} bytes, ${fault}`;
}

/** How many rows have each value of a column. */
export function countBy<Row>(
  rows: readonly Row[],
  column: (row: Row) => string | number,
): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const row of rows) counts[column(row)] = (counts[column(row)] ?? 0) + 1;
  return counts;
}

export function bodyOf(size: number): Buffer {
  const bytes = Buffer.alloc(size);
  for (let at = 0; at < size; at += 1) bytes[at] = (at * 7 + (at >> 8) + (at >> 16)) & 0xff;
  return bytes;
}
