// Writes aws-chunked bodies, right ones and wrong ones, on node:crypto alone: what the decoder is
// measured against must not share its code. A frame is kept in pieces so that a test can spoil one.

import { createHash, createHmac } from "node:crypto";

export interface ChunkSeed {
  readonly secretAccessKey: string;
  /** `20130524T000000Z`. */
  readonly amzDate: string;
  /** `20130524/us-east-1/s3/aws4_request`. */
  readonly scope: string;
  readonly seed: string;
}

export interface ChunkFrame {
  /** Of each data chunk: its size line, data and line end. */
  readonly chunks: readonly {
    readonly line: string;
    readonly data: Buffer;
    readonly end: string;
  }[];
  readonly last: string;
  readonly trailer: string;
  readonly blank: string;
}

export interface FrameOptions {
  readonly chunkBytes: number;
  /** Without it the unsigned form. */
  readonly seed?: ChunkSeed;
  /** `["x-amz-checksum-crc32", "AAAAAA=="]`; signed where there is a seed. */
  readonly trailer?: readonly [string, string];
  /** Hex SHA-256 of a chunk's data that begins at `at`, for those who know it already. */
  readonly hashOf?: (piece: Buffer, at: number) => string;
}

const emptyHash = createHash("sha256").digest("hex");

export function chunkFrame(data: Buffer, options: FrameOptions): ChunkFrame {
  const sign = options.seed === undefined ? null : chunkSigner(options.seed);
  const { hashOf = (piece: Buffer): string => createHash("sha256").update(piece).digest("hex") } =
    options;
  const line = (piece: Buffer, at: number): string => {
    const size = piece.length.toString(16);
    if (sign === null) return `${size}\r\n`;
    const hash = hashOf(piece, at);
    return `${size};chunk-signature=${sign("PAYLOAD", `${emptyHash}\n${hash}`)}\r\n`;
  };
  const chunks: ChunkFrame["chunks"][number][] = [];
  for (let at = 0; at < data.length; at += options.chunkBytes) {
    const piece = data.subarray(at, at + options.chunkBytes);
    chunks.push({ line: line(piece, at), data: piece, end: "\r\n" });
  }
  const last = line(Buffer.alloc(0), data.length);
  let trailer = "";
  if (options.trailer !== undefined) {
    const [name, value] = options.trailer;
    trailer = `${name}:${value}\r\n`;
    if (sign !== null) {
      const hash = createHash("sha256").update(`${name}:${value}\n`).digest("hex");
      trailer += `x-amz-trailer-signature:${sign("TRAILER", hash)}\r\n`;
    }
  }
  return { chunks, last, trailer, blank: "\r\n" };
}

function chunkSigner(seed: ChunkSeed): (kind: string, hashes: string) => string {
  let key: Buffer = Buffer.from(`AWS4${seed.secretAccessKey}`);
  for (const part of seed.scope.split("/")) key = createHmac("sha256", key).update(part).digest();
  let previous = seed.seed;
  return (kind, hashes) => {
    const head = `AWS4-HMAC-SHA256-${kind}\n${seed.amzDate}\n${seed.scope}`;
    previous = createHmac("sha256", key).update(`${head}\n${previous}\n${hashes}`).digest("hex");
    return previous;
  };
}

export function frameBytes({ chunks, last, trailer, blank }: ChunkFrame): Buffer {
  const pieces = chunks.flatMap(({ line, data, end }) => [
    Buffer.from(line),
    data,
    Buffer.from(end),
  ]);
  return Buffer.concat([...pieces, Buffer.from(`${last}${trailer}${blank}`)]);
}

/** Another digit at the end of the first signature in a text. */
export function spoiled(text: string): string {
  return text.replace(/[0-9a-f](?=\r\n)/, (digit) => (digit === "0" ? "1" : "0"));
}

/** The frame with one data chunk changed. */
export function withChunk(
  frame: ChunkFrame,
  at: number,
  change: (chunk: ChunkFrame["chunks"][number]) => Partial<ChunkFrame["chunks"][number]>,
): ChunkFrame {
  const chunks = frame.chunks.map((chunk, index) =>
    index === at ? { ...chunk, ...change(chunk) } : chunk,
  );
  return { ...frame, chunks };
}

/** The same bytes as an HTTP chunked body, in pieces of 10,000. */
export function inHttpChunks(bytes: Buffer): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += 10_000) {
    const piece = bytes.subarray(at, at + 10_000);
    pieces.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from("\r\n"));
  }
  return Buffer.concat([...pieces, Buffer.from("0\r\n\r\n")]);
}
