// Uploads in every form that a client can give them, right ones and wrong ones, with what must come of
// each: who signs × how the body is protected × how long it is × what is wrong with it. Signed on
// node:crypto alone, since what the gateway verifies must not be made by its own code. Faults of POST
// forms are in test/wire/gateway-form-faults.test.ts.

import { createHmac } from "node:crypto";
import { clientKeys, sessionKeys } from "./headgate.ts";
import { type MatrixChecksum, matrixChecksum } from "./matrix-checksums.ts";
import {
  type ChunkFrame,
  chunkFrame,
  frameBytes,
  inHttpChunks,
  spoiled,
  withChunk,
} from "./s3-chunked.ts";
import { sha256 } from "./s3-uploads.ts";

export const auths = [
  "header",
  "presigned",
  "token",
  "v2-header",
  "v2-presigned",
  "anonymous",
] as const;
/** `session`: a key pair with its token; only where the gateway knows `sessionKeys`. */
export type Auth = (typeof auths)[number] | "session";

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

export const faults = [
  "none",
  "bad seed",
  "bad middle chunk",
  "bad last chunk",
  "bad trailer signature",
  "bad checksum",
  "short",
  "cut",
  "long",
  "extra bytes",
  "no final chunk",
] as const;
export type Fault = (typeof faults)[number];

export interface UploadCase {
  readonly auth: Auth;
  readonly payload: PayloadForm;
  readonly data: Buffer;
  readonly fault: Fault;
  readonly algorithm: MatrixChecksum;
  readonly path: string;
  readonly host: string;
}

interface Form {
  /** Of x-amz-content-sha256; `null`: not sent. */
  readonly value: (data: Buffer) => string | null;
  /** aws-chunked. */
  readonly framed: boolean;
  readonly trailer: boolean;
  /** Its chunks are signed. */
  readonly signed: boolean;
}

function form(value: string | null, rest: Partial<Form> = {}): Form {
  return { value: () => value, framed: false, trailer: false, signed: false, ...rest };
}

const emptyHash = sha256(Buffer.alloc(0));

const forms: Readonly<Record<PayloadForm, Form>> = {
  hash: form(null, { value: sha256 }),
  "empty-hash": form(emptyHash),
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

const chunkBytes = 8192;

// ---- what must come of it ----

/**
 * `200`, or status and code of the refusal. `cut`: no answer is owed, but nothing may be stored. `whole`:
 * 200 with the whole body stored and no more, or any refusal with nothing stored.
 */
export type Outcome = string;

interface FaultFacts {
  /** What comes of it in aws-chunked framing and without; `null`: it has no meaning there. */
  readonly framed: Outcome | null;
  readonly plain: Outcome | null;
  readonly needs?: (form: Form, data: Buffer) => boolean;
}

const badSignature = "403 SignatureDoesNotMatch";

const faultFacts: Readonly<Record<Fault, FaultFacts>> = {
  none: { framed: "200", plain: "200" },
  "bad seed": { framed: badSignature, plain: badSignature },
  "bad middle chunk": {
    framed: badSignature,
    plain: null,
    needs: ({ signed }, { length }) => signed && length > chunkBytes,
  },
  "bad last chunk": { framed: badSignature, plain: null, needs: ({ signed }) => signed },
  "bad trailer signature": {
    framed: badSignature,
    plain: null,
    needs: ({ signed, trailer }) => signed && trailer,
  },
  "bad checksum": { framed: "400 BadDigest", plain: "400 BadDigest" },
  short: { framed: "400 IncompleteBody", plain: null, needs: (_form, { length }) => length > 0 },
  cut: { framed: "cut", plain: "cut", needs: ({ framed }, { length }) => framed || length > 0 },
  long: {
    framed: "400 InvalidRequest",
    plain: "400 XAmzContentSHA256Mismatch",
    needs: (of, data) => data.length > 0 && (of.framed || of.value === sha256),
  },
  "extra bytes": { framed: "400 InvalidRequest", plain: "whole" },
  "no final chunk": { framed: "400 IncompleteBody", plain: null },
};

/** The right outcome, or `null` where a fault has no meaning for a form. */
export function outcomeOf({ auth, payload, data, fault }: UploadCase): Outcome | null {
  const of = forms[payload];
  const head = headOutcome(auth, payload, data);
  if (fault === "bad seed") return seedOutcome(auth, payload);
  // One fault at a time: where the head is refused already, the body's faults are not reached.
  if (head !== null) return fault === "none" ? head : null;
  const facts = faultFacts[fault];
  if (facts.needs?.(of, data) === false) return null;
  return of.framed ? facts.framed : facts.plain;
}

function seedOutcome(auth: Auth, payload: PayloadForm): Outcome | null {
  if (auth === "anonymous") return null;
  return needsValue(auth) && payload === "missing" ? "400 MissingSecurityHeader" : badSignature;
}

function needsValue(auth: Auth): boolean {
  return auth === "header" || auth === "token" || auth === "session";
}

/** Refusals that need no byte of the body. */
function headOutcome(auth: Auth, payload: PayloadForm, data: Buffer): Outcome | null {
  if (payload === "missing" && needsValue(auth)) return "400 MissingSecurityHeader";
  // This pair has no token, and one with a token that is not its own is refused.
  if (auth === "token") return "400 InvalidToken";
  if (payload === "garbage") return "400 InvalidArgument";
  const isV4 = auth === "header" || auth === "presigned" || auth === "session";
  if ((forms[payload].framed || payload === "ecdsa") && !isV4) return "400 InvalidRequest";
  if (payload === "ecdsa") return "501 NotImplemented";
  if (payload === "empty-hash" && data.length > 0) return "400 XAmzContentSHA256Mismatch";
  return auth === "anonymous" ? "403 AccessDenied" : null;
}

// ---- how it is written ----

export interface WrittenUpload {
  readonly bytes: Buffer;
  /** The client's side is closed behind them. */
  readonly closes: boolean;
}

/** The request on the wire. @param inChunks a framed body in HTTP chunks, without a Content-Length */
export function writtenUpload(given: UploadCase, inChunks: boolean): WrittenUpload {
  const { payload, data, fault } = given;
  const { framed } = forms[payload];
  const summed = fault === "bad checksum" ? Buffer.concat([data, Buffer.of(1)]) : data;
  const checksum = matrixChecksum(given.algorithm, summed);
  const signed = signedHead(given, fieldsOf(given, checksum));
  const extra = Buffer.from(fault === "extra bytes" ? "GARBAGE" : "");
  const body = framed
    ? Buffer.concat([frameOf(given, checksum, signed.seed), extra])
    : plainBody(given);
  const sent = framed && inChunks ? inHttpChunks(body) : body;
  const kept = fault === "cut" ? sent.subarray(0, Math.floor(sent.length / 2)) : sent;
  const head = `${signed.head}${framingOf(framed, inChunks, body.length)}\r\n`;
  const behind = framed ? Buffer.alloc(0) : extra;
  return { bytes: Buffer.concat([Buffer.from(head), kept, behind]), closes: fault === "cut" };
}

/** Two of the ways in which Content-Encoding may tell of the framing. */
function framingOf(framed: boolean, inChunks: boolean, length: number): string {
  if (!framed) return `content-length: ${length}\r\n`;
  return inChunks
    ? "transfer-encoding: chunked\r\ncontent-encoding: gzip,aws-chunked\r\n"
    : `content-length: ${length}\r\ncontent-encoding: aws-chunked\r\n`;
}

function fieldsOf(
  { payload, data, fault, algorithm }: UploadCase,
  checksum: string,
): [string, string][] {
  const name = `x-amz-checksum-${algorithm}`;
  const { value, framed, trailer, signed } = forms[payload];
  const fields: [string, string][] = [];
  const hash = value(data);
  if (hash !== null) fields.push(["x-amz-content-sha256", hash]);
  if (framed) {
    const wrong = { short: 1, long: -1 }[String(fault)] ?? 0;
    fields.push(["x-amz-decoded-content-length", String(data.length + wrong)]);
  }
  if (trailer) fields.push(["x-amz-trailer", name]);
  else if (signed || fault === "bad checksum") fields.push([name, checksum]);
  return fields;
}

function plainBody({ data, fault }: UploadCase): Buffer {
  return fault === "long" ? Buffer.concat([data, Buffer.of(0)]) : data;
}

function frameOf(
  { payload, data, fault, algorithm }: UploadCase,
  checksum: string,
  seed: Seed | null,
): Buffer {
  const { trailer, signed } = forms[payload];
  const frame = chunkFrame(data, {
    chunkBytes: data.length > 1_000_000 ? 65_536 : chunkBytes,
    ...(trailer ? { trailer: [`x-amz-checksum-${algorithm}`, checksum] as const } : {}),
    ...(signed && seed !== null ? { seed } : {}),
  });
  return frameBytes(spoils[fault]?.(frame) ?? frame);
}

const spoils: Readonly<Partial<Record<Fault, (frame: ChunkFrame) => ChunkFrame>>> = {
  "bad middle chunk": (frame) =>
    withChunk(frame, Math.floor((frame.chunks.length - 1) / 2), ({ line }) => ({
      line: spoiled(line),
    })),
  "bad last chunk": (frame) => ({ ...frame, last: spoiled(frame.last) }),
  "bad trailer signature": (frame) => ({
    ...frame,
    trailer: frame.trailer.replace(/(?<=trailer-signature:[0-9a-f]{63})./, (digit) =>
      digit === "0" ? "1" : "0",
    ),
  }),
  "no final chunk": (frame) => ({ ...frame, last: "", trailer: "", blank: "" }),
};

interface Seed {
  readonly secretAccessKey: string;
  readonly amzDate: string;
  readonly scope: string;
  readonly seed: string;
}

/** Request line, Host, fields and authorization; a signature's last digit is another for `bad seed`. */
function signedHead(
  { auth, path, host, fault }: UploadCase,
  headers: readonly [string, string][],
): { readonly head: string; readonly seed: Seed | null } {
  const lines = headers.map(([name, text]) => `${name}: ${text}\r\n`).join("");
  const head = (target: string, more: string): string =>
    `PUT ${target} HTTP/1.1\r\nhost: ${host}\r\n${lines}${more}`;
  if (auth === "anonymous") return { head: head(path, ""), seed: null };
  const broken = fault === "bad seed";
  if (auth === "v2-header" || auth === "v2-presigned") {
    return { head: signedV2(auth, path, { headers, head, broken }), seed: null };
  }
  const amzDate = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const scope = `${amzDate.slice(0, 8)}/us-east-1/s3/aws4_request`;
  const { accessKeyId, secretAccessKey } = auth === "session" ? sessionKeys : clientKeys;
  const token: [string, string][] = [];
  if (auth === "token") token.push(["x-amz-security-token", "made-up"]);
  if (auth === "session") token.push(["x-amz-security-token", sessionKeys.sessionToken]);
  const inHead: [string, string][] =
    auth === "presigned" ? [] : [["x-amz-date", amzDate], ...token];
  const fields = [["host", host], ...headers, ...inHead].toSorted((a, b) =>
    (a[0] ?? "") < (b[0] ?? "") ? -1 : 1,
  );
  const names = fields.map(([name]) => name).join(";");
  const query =
    auth === "presigned"
      ? [
          "X-Amz-Algorithm=AWS4-HMAC-SHA256",
          `X-Amz-Credential=${encodeURIComponent(`${accessKeyId}/${scope}`)}`,
          `X-Amz-Date=${amzDate}`,
          "X-Amz-Expires=600",
          `X-Amz-SignedHeaders=${encodeURIComponent(names)}`,
        ].join("&")
      : "";
  const canonical = [
    "PUT",
    path,
    query,
    ...fields.map(([name, text]) => `${name}:${text}`),
    "",
    names,
    headers.find(([name]) => name === "x-amz-content-sha256")?.[1] ?? "UNSIGNED-PAYLOAD",
  ].join("\n");
  const text = `AWS4-HMAC-SHA256\n${amzDate}\n${scope}\n${sha256(Buffer.from(canonical))}`;
  const seed = createHmac("sha256", signingKey(secretAccessKey, scope)).update(text).digest("hex");
  const signature = broken ? spoiled(`${seed}\r\n`).trim() : seed;
  const credential = `Credential=${accessKeyId}/${scope}`;
  const written =
    auth === "presigned"
      ? head(`${path}?${query}&X-Amz-Signature=${signature}`, "")
      : head(
          path,
          `${inHead.map(([name, at]) => `${name}: ${at}\r\n`).join("")}authorization: AWS4-HMAC-SHA256 ${credential}, SignedHeaders=${names}, Signature=${signature}\r\n`,
        );
  return {
    head: written,
    seed: { secretAccessKey, amzDate, scope, seed },
  };
}

function signedV2(
  auth: "v2-header" | "v2-presigned",
  path: string,
  how: {
    readonly headers: readonly [string, string][];
    readonly head: (target: string, more: string) => string;
    readonly broken: boolean;
  },
): string {
  const amz = how.headers
    .map(([name, text]) => `${name}:${text}\n`)
    .toSorted()
    .join("");
  const sign = (when: string): string => {
    const text = `PUT\n\n\n${when}\n${amz}${path}`;
    const right = createHmac("sha1", clientKeys.secretAccessKey).update(text).digest("base64");
    return how.broken ? Buffer.from(right, "base64").reverse().toString("base64") : right;
  };
  if (auth === "v2-header") {
    const date = new Date().toUTCString();
    const value = `AWS ${clientKeys.accessKeyId}:${sign(date)}`;
    return how.head(path, `date: ${date}\r\nauthorization: ${value}\r\n`);
  }
  const expires = String(Math.floor(Date.now() / 1000) + 600);
  const signature = encodeURIComponent(sign(expires));
  return how.head(
    `${path}?AWSAccessKeyId=${clientKeys.accessKeyId}&Expires=${expires}&Signature=${signature}`,
    "",
  );
}

const signingKeys = new Map<string, Buffer>();

function signingKey(secret: string, scope: string): Buffer {
  const known = signingKeys.get(`${secret} ${scope}`);
  if (known !== undefined) return known;
  let key = Buffer.from(`AWS4${secret}`);
  for (const part of scope.split("/")) key = createHmac("sha256", key).update(part).digest();
  signingKeys.set(`${secret} ${scope}`, key);
  return key;
}
