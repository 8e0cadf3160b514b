// An HTML form upload on its way in: the fields before the file are read and bounded, the form's own
// signature and policy are checked, and what remains is a file that is read once, later, when policy
// and placement said yes (S3 API Reference "POST Object"). `100 Continue` goes out early here, since
// what authenticates a form stands in its body. The file's length is not known before its end: fields
// may stand behind it, as in S3's own example form.

import { createHash } from "node:crypto";
import type { ClientBody, FormFile } from "../operations/context.ts";
import { refuseConditions } from "../operations/write-conditions.ts";
import type { AuthFailure, Timers } from "../placement/ports.ts";
import type { Address } from "../s3/address.ts";
import {
  type BeginChecksum,
  isExpected,
  readChecksums,
  type UnknownChecksums,
} from "../s3/checksum.ts";
import { S3Error } from "../s3/errors.ts";
import {
  FormFileReader,
  type FormHead,
  FormHeadReader,
  formBoundary,
  maxAroundBytes,
  shortestEndBytes,
} from "../s3/form-data.ts";
import { fieldValue, type HeaderList } from "../s3/headers.ts";
import type { ObjectKey } from "../s3/names.ts";
import { maxBodyBytes, type Payload } from "../s3/payload.ts";
import { formHeaders, formKey, formSuccess } from "../s3/post-form.ts";
import { policyRefusal, readPostPolicy } from "../s3/post-policy.ts";
import type { RequestHead } from "../s3/request-head.ts";
import type { AuthenticationSettings } from "./authenticate.ts";
import {
  authenticateForm,
  type FormCaller,
  type FormClaim,
  type FormFailure,
  readFormClaim,
} from "./authenticate-form.ts";
import type { Room } from "./room.ts";

/** A form whose head was read and found right. */
export interface FormUpload {
  readonly caller: FormCaller;
  readonly key: ObjectKey;
  /** The header fields of the PutObject that it becomes. */
  readonly headers: HeaderList;
  readonly file: FormFile;
}

export interface FormOptions {
  readonly head: RequestHead;
  readonly address: Address;
  readonly nowMs: number;
  readonly authentication: AuthenticationSettings;
  readonly beginChecksum: BeginChecksum;
  readonly unknownChecksums: UnknownChecksums;
  /** Opens the body of the request as it comes. */
  readonly open: (payload: Payload) => ClientBody;
  /** The body is not what it should be: nothing more can be read from this connection. */
  readonly refused: () => void;
  readonly authFailed: (reason: AuthFailure) => void;
  readonly timers: Timers;
  /** The fields must have come by then: until they have, nobody knows who sends them. */
  readonly headWithinMs: number;
  /** Forms whose sender is not known yet: a slot each, fewer than there are for requests. */
  readonly unknown: Room;
}

/**
 * The payload of the whole form.
 * @throws S3Error MissingContentLength, EntityTooLarge
 */
function formPayload({ headers }: RequestHead): Payload {
  const text = fieldValue(headers, "content-length") ?? "";
  if (!/^\d{1,15}$/.test(text)) throw new S3Error("MissingContentLength");
  const lengthBytes = Number(text);
  if (lengthBytes > maxBodyBytes + 2 * maxAroundBytes) throw new S3Error("EntityTooLarge");
  const whole = { lengthBytes, wireLengthBytes: lengthBytes } as const;
  return { mode: "unsigned", ...whole, sha256: null, checksum: null, md5: null, trailer: null };
}

/** Reads and checks all that stands before the file. @throws S3Error, with `refused` called */
export async function receiveForm(options: FormOptions): Promise<FormUpload> {
  const payload = formPayload(options.head);
  const boundary = formBoundary(fieldValue(options.head.headers, "content-type") ?? "");
  if (boundary === null) throw new S3Error("MalformedPOSTRequest");
  const { unknown, authentication } = options;
  unknown.take(1);
  const bytes = options.open(payload).chunks({ verifySha256: false })[Symbol.asyncIterator]();
  try {
    const { head, rest, readBytes } = await inTime(readHead(bytes, boundary), options);
    const leftBytes = payload.lengthBytes - readBytes + rest.length;
    const maxBytes = Math.max(0, leftBytes - shortestEndBytes(boundary));
    const minBytes = Math.max(0, leftBytes - maxAroundBytes);
    const { claim, limits, checks, ...form } = readForm(head, options);
    // What stands behind the file may be short or not: a form that can be read to its end in one step
    // is, so that its sender learns the size that was counted.
    if (minBytes > limits.maxBytes) throw tooLarge(maxBytes, limits);
    if (leftBytes > maxAroundBytes && maxBytes < limits.minBytes) throw tooSmall(maxBytes, limits);
    // Last, as it may ask a cluster: what is wrong whoever sends it has been refused by now.
    const result = await authenticateForm(claim, authentication);
    if (result.kind === "failed") throw counted(result, options);
    const { caller } = result;
    const chunks = (): AsyncIterable<Uint8Array> =>
      readFile(bytes, { rest, boundary, limits, checks, refused: options.refused });
    const success = formSuccess(head.fields);
    return { caller, ...form, file: { minBytes, maxBytes, success, chunks } };
  } catch (caught) {
    await bytes.return?.();
    options.refused();
    throw caught;
  } finally {
    unknown.give(1);
  }
}

interface ReadForm {
  readonly key: ObjectKey;
  readonly headers: HeaderList;
  readonly claim: Exclude<FormClaim, FormFailure>;
  readonly limits: Limits;
  readonly checks: readonly Check[];
}

/** All that can be told of the fields without knowing their sender. @throws S3Error */
function readForm(head: FormHead, options: FormOptions): ReadForm {
  const named = [...head.fields].map(([name, { value }]) => [name, value] as const);
  const asked = { headers: [...options.head.headers, ...named], query: options.head.query };
  refuseConditions(asked, "on PostObject");
  const key = formKey(head);
  if (key instanceof S3Error) throw key;
  const question = { head: options.head, fields: head.fields, nowMs: options.nowMs };
  const claim = readFormClaim(question, options.authentication);
  if (claim.kind === "failed") throw counted(claim, options);
  const limits =
    claim.kind === "anonymous"
      ? noLimits
      : checkedPolicy(claim.authorization.policy, { head, key, options });
  const headers = formHeaders(head.fields);
  if (headers instanceof S3Error) throw headers;
  return { key, headers, claim, limits, checks: fileChecks(headers, options) };
}

function counted({ error, reason }: FormFailure, { authFailed }: FormOptions): S3Error {
  authFailed(reason);
  return error;
}

/** Nobody without credentials holds a request open by sending a byte now and then. */
async function inTime<Result>(
  read: Promise<Result>,
  { timers, headWithinMs }: FormOptions,
): Promise<Result> {
  let cancel = (): void => {};
  const late = new Promise<never>((_, reject) => {
    cancel = timers.after(headWithinMs, () => {
      reject(
        new S3Error("RequestTimeout", {
          message: "The fields of the form took longer than the limit",
        }),
      );
    });
  });
  try {
    return await Promise.race([read, late]);
  } finally {
    cancel();
  }
}

interface ReadHead {
  readonly head: FormHead;
  readonly rest: Uint8Array;
  /** Of the whole form. */
  readonly readBytes: number;
}

async function readHead(bytes: AsyncIterator<Uint8Array>, boundary: string): Promise<ReadHead> {
  const reader = new FormHeadReader(boundary);
  let readBytes = 0;
  for (;;) {
    const step = await bytes.next();
    if (step.done === true) throw new S3Error("MalformedPOSTRequest");
    readBytes += step.value.length;
    const result = reader.push(step.value);
    if (result.kind === "error") throw result.error;
    if (result.kind === "head") return { head: result.head, rest: result.rest, readBytes };
  }
}

interface Limits {
  readonly minBytes: number;
  readonly maxBytes: number;
}

const noLimits: Limits = { minBytes: 0, maxBytes: maxBodyBytes };

/** @throws S3Error InvalidPolicyDocument, AccessDenied */
function checkedPolicy(
  text: string,
  form: { readonly head: FormHead; readonly key: ObjectKey; readonly options: FormOptions },
): Limits {
  const { head, key, options } = form;
  const read = readPostPolicy(text);
  if (read.kind === "error") throw read.error;
  const { policy } = read;
  const refusal = policyRefusal(policy, {
    fields: head.fields,
    bucket: options.address.bucket ?? "",
    key,
    nowMs: options.nowMs,
  });
  if (refusal !== null) throw refusal;
  return { minBytes: policy.minBytes, maxBytes: Math.min(policy.maxBytes, maxBodyBytes) };
}

// ---- the file ----

/** Something that the file's bytes must sum up to. */
interface Check {
  update(bytes: Uint8Array): void;
  /** Why they do not. */
  fault(): S3Error | null;
}

/** @throws S3Error InvalidRequest, InvalidDigest */
function fileChecks(headers: HeaderList, options: FormOptions): readonly Check[] {
  const checks: Check[] = [];
  const read = readChecksums(headers, false, options.unknownChecksums);
  if (read.kind === "error") throw read.error;
  const expected = read.header;
  if (expected !== null) {
    const checksum = options.beginChecksum(expected.algorithm);
    checks.push({
      update: (bytes) => checksum.update(bytes),
      fault: () => (isExpected(checksum, expected.value) ? null : new S3Error("BadDigest")),
    });
  }
  const md5 = fieldValue(headers, "content-md5");
  if (md5 !== null) {
    const hash = createHash("md5");
    if (!/^[A-Za-z0-9+/]{22}==$/.test(md5)) throw new S3Error("InvalidDigest");
    checks.push({
      update: (bytes) => hash.update(bytes),
      fault: () => (hash.digest("base64") === md5 ? null : new S3Error("BadDigest")),
    });
  }
  return checks;
}

interface FileOptions {
  readonly rest: Uint8Array;
  readonly boundary: string;
  readonly limits: Limits;
  readonly checks: readonly Check[];
  readonly refused: () => void;
}

/** The bytes of the file; it ends by throwing unless the form was right to its end. */
async function* readFile(
  bytes: AsyncIterator<Uint8Array>,
  options: FileOptions,
): AsyncGenerator<Uint8Array> {
  const { limits, checks } = options;
  const reader = new FormFileReader(options.boundary);
  let seenBytes = 0;
  try {
    for (let step = options.rest; ; ) {
      const result = reader.push(step);
      if (result.kind === "error") throw result.error;
      for (const piece of result.pieces) {
        seenBytes += piece.length;
        // At most `maxAroundBytes` are left then: they are counted, and go nowhere.
        if (seenBytes > limits.maxBytes) continue;
        for (const check of checks) check.update(piece);
        yield piece;
      }
      const next = await bytes.next();
      if (next.done === true) break;
      step = next.value;
    }
    const fault =
      reader.end() ??
      (seenBytes > limits.maxBytes ? tooLarge(seenBytes, limits) : null) ??
      (seenBytes < limits.minBytes ? tooSmall(seenBytes, limits) : null) ??
      checks.reduce<S3Error | null>((found, check) => found ?? check.fault(), null);
    if (fault !== null) throw fault;
  } catch (caught) {
    options.refused();
    throw caught;
  } finally {
    await bytes.return?.();
  }
}

/** `proposedBytes`: of the file; of one that was not read, with what may stand behind it. */
function tooLarge(proposedBytes: number, { maxBytes }: Limits): S3Error {
  return new S3Error("EntityTooLarge", {
    message: `The file is larger than ${maxBytes} bytes, the most that ${whoLimits(maxBytes)} allows`,
    details: { ProposedSize: String(proposedBytes), MaxSizeAllowed: String(maxBytes) },
  });
}

function tooSmall(proposedBytes: number, { minBytes }: Limits): S3Error {
  return new S3Error("EntityTooSmall", {
    message: `The file is smaller than ${minBytes} bytes, the least that the policy allows`,
    details: { ProposedSize: String(proposedBytes), MinSizeAllowed: String(minBytes) },
  });
}

function whoLimits(maxBytes: number): string {
  return maxBytes < maxBodyBytes ? "the policy" : "S3";
}
