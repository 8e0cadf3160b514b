// The rows of upload-matrix.ts as bytes for a socket: PutObject and UploadPart, made on node:crypto
// alone, since what the gateway verifies must not be made by its own code.

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
import { chunkBytes, type Fault, forms, type UploadCase } from "./upload-matrix.ts";
import { type Seed, signedHead } from "./upload-signing.ts";

export interface WrittenUpload {
  readonly bytes: Buffer;
  /** How the client's side of the connection is closed behind them. */
  readonly closes: "no" | "end" | "reset";
  /** From here on they are sent when the gateway has said that it takes the body. */
  readonly bodyAt: number;
}

/** What every row's object must have besides its body. */
export const contentType = "text/x-matrix";

/** The request on the wire. */
export function writtenUpload(given: UploadCase): WrittenUpload {
  const { payload, fault, inChunks } = given;
  const { framed } = forms[payload];
  const signed = signedHead(given, fieldsOf(given));
  const { body, extra } = framed ? framedBody(given, signed.seed) : plainBody(given);
  const isCut = cutFaults.has(fault);
  const chunked = framed && inChunks && fault !== "no length";
  // Of a body that is cut, HTTP says that more would come.
  const kept = isCut ? body.subarray(0, body.length - cutBytes(given, body)) : body;
  const sent = chunked ? inHttpChunks(kept) : kept;
  const ended = chunked && isCut ? sent.subarray(0, sent.length - "0\r\n\r\n".length) : sent;
  const head = Buffer.from(
    `${signed.head}${framingOf(given, { chunked, length: body.length })}\r\n`,
  );
  const closes = fault === "reset" ? "reset" : isCut || isShortPlain(given) ? "end" : "no";
  return { bytes: Buffer.concat([head, ended, extra]), closes, bodyAt: head.length };
}

const cutFaults: ReadonlySet<Fault> = new Set(["cut", "reset", "cut before the end"]);

/** How many of the last bytes are not sent. */
function cutBytes({ payload, fault }: UploadCase, body: Buffer): number {
  if (fault !== "cut before the end") return Math.ceil(body.length / 2);
  if (!forms[payload].framed) return 1;
  const lastChunk = body.lastIndexOf("\r\n0", body.length);
  return lastChunk === -1 ? body.length : body.length - lastChunk - 2;
}

function isShortPlain({ payload, fault }: UploadCase): boolean {
  return fault === "short" && !forms[payload].framed;
}

/** Two of the ways in which Content-Encoding may tell of the framing. */
function framingOf(
  { payload, fault }: UploadCase,
  { chunked, length }: { readonly chunked: boolean; readonly length: number },
): string {
  const { framed } = forms[payload];
  const expect = fault === "reset" ? "expect: 100-continue\r\n" : "";
  if (chunked) {
    return `${expect}transfer-encoding: chunked\r\ncontent-encoding: gzip,aws-chunked\r\n`;
  }
  if (framed) return `${expect}content-length: ${length}\r\ncontent-encoding: aws-chunked\r\n`;
  if (fault === "no length") return "";
  const wrong = { short: length + 1, "length beyond all": 5 * 1024 ** 3 + 1 }[String(fault)];
  return `${expect}content-length: ${wrong ?? length}\r\n`;
}

// ---- fields ----

/** Faults that only a checksum shows where nothing else protects the body. */
const summedFaults: ReadonlySet<Fault> = new Set([
  "bad checksum",
  "flipped bit",
  "swapped chunks",
  "value of another checksum",
  "name of another checksum",
]);

/** Whether a checksum stands in the head. */
export function hasHeadChecksum({
  payload,
  fault,
}: Pick<UploadCase, "payload" | "fault">): boolean {
  const { trailer, signed, hashed } = forms[payload];
  if (trailer || (hashed && fault === "flipped bit")) return false;
  return signed || summedFaults.has(fault);
}

export function otherChecksum(algorithm: MatrixChecksum): MatrixChecksum {
  return algorithm === "sha256" ? "sha1" : "sha256";
}

const knownSums = new WeakMap<Buffer, Map<MatrixChecksum, string>>();

/** Remembered for each body. */
export function checksumOf(algorithm: MatrixChecksum, data: Buffer): string {
  const known = knownSums.get(data) ?? new Map<MatrixChecksum, string>();
  knownSums.set(data, known);
  const sum = known.get(algorithm) ?? matrixChecksum(algorithm, data);
  known.set(algorithm, sum);
  return sum;
}

/** The value that is sent, right or as the fault has it. */
export function sentChecksum({ data, fault, algorithm }: UploadCase): string {
  const other = fault === "value of another checksum";
  const right = checksumOf(other ? otherChecksum(algorithm) : algorithm, data);
  if (fault !== "bad checksum") return right;
  const bytes = Buffer.from(right, "base64");
  bytes.writeUInt8((bytes[0] ?? 0) ^ 1, 0);
  return bytes.toString("base64");
}

/** Content-MD5 of another body. */
export const wrongMd5 = "2B2M2Y8AsgTpgAmY7PhCfA==";

function fieldsOf(given: UploadCase): [string, string][] {
  const { operation, payload, data, fault, algorithm } = given;
  const name = `x-amz-checksum-${algorithm}`;
  const { value, framed, trailer } = forms[payload];
  const fields: [string, string][] = [];
  if (operation === "PutObject") {
    fields.push(["content-type", contentType], ["x-amz-meta-row", payload]);
  }
  if (fault === "bad md5") fields.push(["content-md5", wrongMd5]);
  const hash = value(data);
  if (hash !== null) fields.push(["x-amz-content-sha256", hash]);
  if (framed && fault !== "no length") {
    fields.push(["x-amz-decoded-content-length", decodedLength(given)]);
  }
  if (trailer) fields.push(["x-amz-trailer", name]);
  if (hasHeadChecksum(given)) fields.push([name, sentChecksum(given)]);
  if (fault === "name of another checksum") {
    fields.push(["x-amz-sdk-checksum-algorithm", otherChecksum(algorithm).toUpperCase()]);
  }
  return fields;
}

function decodedLength({ data, fault }: UploadCase): string {
  const wrong: Partial<Record<Fault, string>> = {
    short: String(data.length + 1),
    long: String(data.length - 1),
    "length that is none": "1e1",
    "length beyond all": String(5 * 1024 ** 3 + 1),
  };
  return wrong[fault] ?? String(data.length);
}

// ---- bodies ----

interface Body {
  readonly body: Buffer;
  /** Behind what the head announces. */
  readonly extra: Buffer;
}

const garbage = Buffer.from("GARBAGE");
const nothing = Buffer.alloc(0);

/** One bit in the middle is another. */
export function flipped(data: Buffer): Buffer {
  const bytes = Buffer.from(data);
  const at = Math.floor(bytes.length / 2);
  bytes.writeUInt8((bytes[at] ?? 0) ^ 0x10, at);
  return bytes;
}

function plainBody({ data, fault }: UploadCase): Body {
  const extra = fault === "extra bytes" ? garbage : nothing;
  if (fault === "long") return { body: Buffer.concat([data, Buffer.of(0)]), extra };
  return { body: fault === "flipped bit" ? flipped(data) : data, extra };
}

function framedBody(given: UploadCase, seed: Seed | null): Body {
  const { payload, data, fault, algorithm } = given;
  const { trailer, signed } = forms[payload];
  const checksum = [`x-amz-checksum-${algorithm}`, sentChecksum(given)] as const;
  const frame = chunkFrame(data, {
    chunkBytes: data.length > 1_000_000 ? 65_536 : chunkBytes,
    ...(trailer ? { trailer: checksum } : {}),
    ...(signed && seed !== null ? { seed } : {}),
    hashOf: (piece, at) => pieceHash(data, piece, at),
  });
  const spoilt = spoils[fault]?.(frame, given) ?? frame;
  const bytes = frameBytes(spoilt);
  return {
    body: fault === "extra bytes" ? Buffer.concat([bytes, garbage]) : bytes,
    extra: nothing,
  };
}

const pieceHashes = new WeakMap<Buffer, Map<number, string>>();

function pieceHash(data: Buffer, piece: Buffer, at: number): string {
  const known = pieceHashes.get(data) ?? new Map<number, string>();
  pieceHashes.set(data, known);
  const hash = known.get(at) ?? sha256(piece);
  known.set(at, hash);
  return hash;
}

type Spoil = (frame: ChunkFrame, given: UploadCase) => ChunkFrame;

/** The first size line of a frame is another; with no data that is the last chunk's. */
const firstLine =
  (change: (line: string) => string): Spoil =>
  (frame) =>
    frame.chunks.length === 0
      ? { ...frame, last: change(frame.last) }
      : withChunk(frame, 0, ({ line }) => ({ line: change(line) }));

const chunkAt =
  (at: (count: number) => number): Spoil =>
  (frame) =>
    withChunk(frame, at(frame.chunks.length), ({ line }) => ({ line: spoiled(line) }));

const spoils: Readonly<Partial<Record<Fault, Spoil>>> = {
  "flipped bit": (frame) =>
    withChunk(frame, Math.floor(frame.chunks.length / 2), ({ data }) => ({ data: flipped(data) })),
  "swapped chunks": (frame) => {
    const [first, second, ...rest] = frame.chunks;
    return first === undefined || second === undefined
      ? frame
      : { ...frame, chunks: [second, first, ...rest] };
  },
  "bad first chunk": chunkAt(() => 0),
  "bad middle chunk": chunkAt((count) => Math.floor((count - 1) / 2)),
  "bad last chunk": (frame) => ({ ...frame, last: spoiled(frame.last) }),
  "bad trailer signature": (frame) => ({
    ...frame,
    trailer: frame.trailer.replace(/(?<=trailer-signature:[0-9a-f]{63})./, (digit) =>
      digit === "0" ? "1" : "0",
    ),
  }),
  "no trailer signature": (frame) => ({
    ...frame,
    trailer: frame.trailer.replace(/x-amz-trailer-signature.*\r\n/, ""),
  }),
  "no end": (frame) => ({ ...frame, last: "", trailer: "", blank: "" }),
  "half an end": (frame) => ({ ...frame, trailer: "", blank: "" }),
  "bad size": firstLine((line) => `0x${line}`),
  "size line too long": firstLine((line) => line.replace("\r", `;${"x".repeat(300)}\r`)),
  "size beyond all": firstLine((line) => line.replace(/^[0-9a-f]+/, "f".repeat(16))),
  "wrong extension": firstLine((line) =>
    line.includes(";")
      ? line.replace(/;.*\r/, "\r")
      : line.replace("\r", `;chunk-signature=${"0".repeat(64)}\r`),
  ),
  "bare line feed": firstLine((line) => line.replace("\r", "")),
  "no line end": (frame) => withChunk(frame, 0, () => ({ end: "xx" })),
  "no trailer": (frame) => ({ ...frame, trailer: "" }),
  "undeclared trailer": (frame, { data, algorithm }) => {
    const other = otherChecksum(algorithm);
    const line = `x-amz-checksum-${other}:${checksumOf(other, data)}\r\n`;
    return { ...frame, trailer: `${line}${frame.trailer}` };
  },
  "trailer twice": (frame) => {
    const [line = ""] = frame.trailer.split("\n");
    return { ...frame, trailer: `${line}\n${frame.trailer}` };
  },
};
