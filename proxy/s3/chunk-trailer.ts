// What stands behind the last chunk of an aws-chunked body: the announced checksum, in signed forms
// its signature, and the blank line that ends the body. Nothing that was not announced is taken.
// A line may end with LF alone, also with a CRLF behind that LF, as minio-go writes it; the body's other
// lines may not (s3-protocol.md 2.2).

import { hash } from "node:crypto";
import { checksumField, checksumValue, isAlgorithm, isUnknownValue } from "./checksum.ts";
import type { SignatureChain } from "./chunk-signatures.ts";
import { S3Error } from "./errors.ts";
import { trimBlanks } from "./headers.ts";

const signatureField = "x-amz-trailer-signature";

export interface TrailerOptions {
  /** The algorithm that x-amz-trailer names. */
  readonly announced: string | null;
  /** Where the trailer itself is signed, the chain at its last chunk. */
  readonly chain: SignatureChain | null;
}

/** After each line: read on, the body has ended, or what is wrong. */
export type TrailerStep =
  | { readonly kind: "more" }
  /** `blankMayFollow`: a further CRLF belongs to the end that was seen. */
  | { readonly kind: "end"; readonly blankMayFollow: boolean }
  | { readonly kind: "error"; readonly error: S3Error };

const more: TrailerStep = { kind: "more" };

export class ChunkTrailer {
  readonly #options: TrailerOptions;
  /** The line that is signed, `x-amz-checksum-crc32:NSRBwg==\n`. */
  #signed = "";
  #value: Uint8Array | null = null;
  #text: string | null = null;
  #signature: string | null = null;
  #endedWithLf = false;
  #blankTaken = false;

  constructor(options: TrailerOptions) {
    this.#options = options;
  }

  /** The announced checksum's value, once the end was seen; `null` for an algorithm we do not know. */
  get value(): Uint8Array | null {
    return this.#value;
  }

  /** The same as it was sent, `NSRBwg==`. */
  get text(): string | null {
    return this.#text;
  }

  /** @param text one line without its LF */
  line(text: string): TrailerStep {
    if (text === "\r") return this.#blank();
    const content = text.endsWith("\r") ? text.slice(0, -1) : text;
    this.#endedWithLf = content === text;
    const colon = content.indexOf(":");
    if (colon < 1) return malformed();
    const name = content.slice(0, colon).toLowerCase();
    const value = trimBlanks(content.slice(colon + 1));
    if (this.#signature !== null) return malformed();
    if (name === signatureField && this.#options.chain !== null) {
      this.#signature = value;
      return more;
    }
    return this.#checksum(name, value);
  }

  #checksum(name: string, text: string): TrailerStep {
    const { announced } = this.#options;
    if (announced === null || name !== checksumField(announced) || this.#text !== null) {
      return malformed("A trailer was not announced or is repeated");
    }
    if (isAlgorithm(announced)) this.#value = checksumValue(announced, text);
    if (isAlgorithm(announced) ? this.#value === null : !isUnknownValue(text)) {
      return failed(new S3Error("InvalidRequest", { message: `Trailer "${name}" is not valid` }));
    }
    this.#text = text;
    this.#signed = `${name}:${text}\n`;
    return more;
  }

  #blank(): TrailerStep {
    const { chain, announced } = this.#options;
    if (chain !== null && this.#signature === null && this.#endedWithLf && !this.#blankTaken) {
      this.#blankTaken = true;
      return more;
    }
    if (announced !== null && this.#text === null) {
      return malformed(`Trailer "${checksumField(announced)}" was announced and is missing`);
    }
    if (chain !== null) {
      if (this.#signature === null) return malformed(`Trailer "${signatureField}" is missing`);
      if (!chain.isTrailerSigned(hash("sha256", this.#signed), this.#signature)) {
        const message = "The signature of the trailer does not match it";
        const details = { StringToSign: chain.stringToSign, SignatureProvided: this.#signature };
        return failed(new S3Error("SignatureDoesNotMatch", { message, details }));
      }
    }
    return { kind: "end", blankMayFollow: this.#endedWithLf };
  }
}

function malformed(message?: string): TrailerStep {
  return failed(new S3Error("MalformedTrailerError", message === undefined ? {} : { message }));
}

function failed(error: S3Error): TrailerStep {
  return { kind: "error", error };
}
