// Decodes an aws-chunked body as it arrives: size lines, data, the last chunk, trailer (SigV4 "Transferring
// payload in multiple chunks"; s3-protocol.md 2.2). Data is given out before its chunk is verified, so
// whoever takes it must hold something back until `end` said that all was right. No chunk is kept.

import { Buffer } from "node:buffer";
import { createHash, type Hash } from "node:crypto";
import { type BeginChecksum, type Checksum, isAlgorithm, isExpected } from "./checksum.ts";
import { type ChunkSigning, SignatureChain } from "./chunk-signatures.ts";
import { ChunkTrailer } from "./chunk-trailer.ts";
import { S3Error } from "./errors.ts";
import { emptyPayloadHash } from "./sigv4.ts";

export interface ChunkedOptions {
  /** From x-amz-decoded-content-length: the data of all chunks together. */
  readonly decodedLengthBytes: number;
  /** `null` in the unsigned form. */
  readonly signing: ChunkSigning | null;
  /** Whether the form has a signature behind its trailer. */
  readonly signedTrailer: boolean;
  /** The algorithm that x-amz-trailer announces. */
  readonly trailer: string | null;
  /** Fewest bytes of a chunk that another one follows; 0 or absent: any. */
  readonly minChunkBytes?: number;
  readonly beginChecksum: BeginChecksum;
}

export type Decoded =
  | { readonly kind: "data"; readonly pieces: readonly Uint8Array[] }
  | { readonly kind: "error"; readonly error: S3Error };

/** A size line has 16 digits and 82 bytes of signature at most; the rest is what unknown clients may add. */
const maxSizeLineBytes = 256;
/** The longest trailer line we know has 88 bytes. */
const maxTrailerLineBytes = 1024;
/** Below this many bytes a piece, copying pieces together costs less than handing each on. */
const smallPieceBytes = 4096;

const signedSizeLine = /^([0-9A-Fa-f]{1,16});chunk-signature=([0-9A-Fa-f]{64})\r$/;
const unsignedSizeLine = /^([0-9A-Fa-f]{1,16})\r$/;
const sizeOnly = /^[0-9A-Fa-f]{1,16}(?:;|\r?$)/;

type State = "size" | "data" | "data-end" | "trailer" | "blank-or-end" | "end";

/** Longest line of a state, its LF not counted. */
const lineLimits = {
  size: maxSizeLineBytes - 1,
  "data-end": 1,
  trailer: maxTrailerLineBytes - 1,
  "blank-or-end": 1,
} as const satisfies Partial<Record<State, number>>;

/** One body. After an error it must not be used again. */
export class ChunkedDecoder {
  readonly #options: ChunkedOptions;
  readonly #chain: SignatureChain | null;
  readonly #trailer: ChunkTrailer;
  readonly #checksum: Checksum | null;
  #state: State = "size";
  /** The present line as far as it has arrived. */
  #line = "";
  #givenBytes = 0;
  /** A chunk was shorter than all but the last may be. */
  #shortSeen = false;
  /** Of the present chunk: bytes to come, hash so far, signature it must have. */
  #chunkRestBytes = 0;
  #chunkHash: Hash | null = null;
  #chunkSignature = "";

  constructor(options: ChunkedOptions) {
    this.#options = options;
    this.#chain = options.signing === null ? null : new SignatureChain(options.signing);
    this.#trailer = new ChunkTrailer({
      announced: options.trailer,
      chain: options.signedTrailer ? this.#chain : null,
    });
    const { trailer } = options;
    this.#checksum =
      trailer !== null && isAlgorithm(trailer) ? options.beginChecksum(trailer) : null;
  }

  /** The announced checksum as it was sent, `NSRBwg==`, once it was seen. */
  get trailerText(): string | null {
    return this.#trailer.text;
  }

  /** Takes bytes from the wire, split anywhere, and gives the data in them, as views where it can. */
  push(bytes: Uint8Array): Decoded {
    const pieces: Uint8Array[] = [];
    const input = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    const before = this.#givenBytes;
    for (let at = 0; at < input.length; ) {
      if (this.#state === "data") {
        const piece = input.subarray(at, at + this.#chunkRestBytes);
        at += piece.length;
        pieces.push(piece);
        const error = this.#data(piece);
        if (error !== null) return { kind: "error", error };
        continue;
      }
      const lineFeed = input.indexOf(0x0a, at);
      const end = lineFeed === -1 ? input.length : lineFeed;
      const error = this.#gather(input, at, end) ?? (lineFeed === -1 ? null : this.#lineEnded());
      if (error !== null) return { kind: "error", error };
      at = end + 1;
    }
    const small =
      pieces.length > 1 && (this.#givenBytes - before) / pieces.length < smallPieceBytes;
    return { kind: "data", pieces: small ? [Buffer.concat(pieces)] : pieces };
  }

  /** Says that nothing more comes. Without an error all signatures, lengths and checksums were right. */
  end(): S3Error | null {
    const ended = this.#state === "end" || (this.#state === "blank-or-end" && this.#line === "");
    return ended ? null : new S3Error("IncompleteBody");
  }

  #data(piece: Uint8Array): S3Error | null {
    this.#chunkHash?.update(piece);
    this.#checksum?.update(piece);
    this.#givenBytes += piece.length;
    this.#chunkRestBytes -= piece.length;
    if (this.#chunkRestBytes > 0) return null;
    this.#state = "data-end";
    if (this.#chain === null || this.#chunkHash === null) return null;
    const signed = this.#chain.isChunkSigned(this.#chunkHash.digest("hex"), this.#chunkSignature);
    return signed ? null : wrongSignature(this.#chain.stringToSign, this.#chunkSignature);
  }

  #gather(input: Buffer, from: number, to: number): S3Error | null {
    if (this.#state === "end" || this.#state === "data") return extraBytes();
    if (this.#line.length + to - from > lineLimits[this.#state]) return this.#tooLong();
    this.#line += input.toString("latin1", from, to);
    return null;
  }

  #tooLong(): S3Error {
    switch (this.#state) {
      case "size":
        return new S3Error("InvalidChunkSizeError", { message: "A chunk size line is too long" });
      case "trailer":
        return new S3Error("MalformedTrailerError", { message: "A trailer line is too long" });
      case "data-end":
        return noLineEnd();
      case "blank-or-end":
      case "data":
      case "end":
        return extraBytes();
    }
  }

  #lineEnded(): S3Error | null {
    const line = this.#line;
    this.#line = "";
    switch (this.#state) {
      case "size":
        return this.#sizeLine(line);
      case "data-end":
        if (line !== "\r") return noLineEnd();
        this.#state = "size";
        return null;
      case "trailer":
        return this.#trailerLine(line);
      case "blank-or-end":
        if (line !== "\r") return extraBytes();
        this.#state = "end";
        return null;
      case "data":
      case "end":
        return extraBytes();
    }
  }

  #sizeLine(line: string): S3Error | null {
    const match = (this.#chain === null ? unsignedSizeLine : signedSizeLine).exec(line);
    if (match === null) return this.#badSizeLine(line);
    const [, digits = "", signature = ""] = match;
    const size = Number.parseInt(digits, 16);
    if (this.#givenBytes + size > this.#options.decodedLengthBytes) {
      return invalid("The body is longer than x-amz-decoded-content-length");
    }
    if (size === 0) return this.#lastChunk(signature);
    if (this.#shortSeen) {
      return new S3Error("InvalidChunkSizeError", {
        message: "Only the last chunk may be that short",
      });
    }
    this.#shortSeen = size < (this.#options.minChunkBytes ?? 0);
    this.#chunkRestBytes = size;
    this.#chunkSignature = signature;
    this.#chunkHash = this.#chain === null ? null : createHash("sha256");
    this.#state = "data";
    return null;
  }

  #badSizeLine(line: string): S3Error {
    if (!sizeOnly.test(line)) return new S3Error("InvalidChunkSizeError");
    if (!line.endsWith("\r")) return noLineEnd();
    return this.#chain === null
      ? invalid("A chunk of an unsigned body must have no extension")
      : invalid("A chunk has no well-formed signature");
  }

  #lastChunk(signature: string): S3Error | null {
    if (this.#chain !== null && !this.#chain.isChunkSigned(emptyPayloadHash, signature)) {
      return wrongSignature(this.#chain.stringToSign, signature);
    }
    if (this.#givenBytes !== this.#options.decodedLengthBytes) return new S3Error("IncompleteBody");
    this.#state = "trailer";
    return null;
  }

  #trailerLine(line: string): S3Error | null {
    const step = this.#trailer.line(line);
    if (step.kind === "error") return step.error;
    if (step.kind === "more") return null;
    const { value } = this.#trailer;
    if (this.#checksum !== null && value !== null && !isExpected(this.#checksum, value)) {
      return new S3Error("BadDigest");
    }
    this.#state = step.blankMayFollow ? "blank-or-end" : "end";
    return null;
  }
}

function wrongSignature(text: string, signature: string): S3Error {
  return new S3Error("SignatureDoesNotMatch", {
    message: "The signature of a chunk does not match its data",
    details: { StringToSign: text, SignatureProvided: signature },
  });
}

function extraBytes(): S3Error {
  return invalid("The body goes on behind its last chunk");
}

function noLineEnd(): S3Error {
  return invalid("A line of the chunk framing does not end with CRLF");
}

function invalid(message: string): S3Error {
  return new S3Error("InvalidRequest", { message });
}
