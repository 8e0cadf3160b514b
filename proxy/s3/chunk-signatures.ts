// The chain of signatures of an aws-chunked body: each covers its chunk and the signature before it,
// the first one that of the request, and the trailer's covers the last chunk's (SigV4 "Signature
// calculations for the Authorization header: transferring payload in multiple chunks").

import { Buffer } from "node:buffer";
import { type KeyObject, timingSafeEqual } from "node:crypto";
import { emptyPayloadHash, signatureOf } from "./sigv4.ts";

/** What the chain begins with: the verified signature of the request and what it was made from. */
export interface ChunkSigning {
  readonly key: KeyObject;
  /** `20261129T235959Z`. */
  readonly amzDate: string;
  /** `20261129/us-east-1/s3/aws4_request`. */
  readonly scope: string;
  /** 64 lower-case hex digits. */
  readonly seed: string;
}

export class SignatureChain {
  readonly #signing: ChunkSigning;
  #previous: string;
  /** What the last signature that was looked at has to be made of, for the client to compare. */
  stringToSign = "";

  constructor(signing: ChunkSigning) {
    this.#signing = signing;
    this.#previous = signing.seed;
  }

  /** Whether a chunk, or the last one without data, is signed as it must. @param sha256 hex of its data */
  isChunkSigned(sha256: string, signature: string): boolean {
    return this.#isNext("AWS4-HMAC-SHA256-PAYLOAD", `${emptyPayloadHash}\n${sha256}`, signature);
  }

  /** Whether the trailer is signed as it must. @param sha256 hex of its `name:value\n` lines */
  isTrailerSigned(sha256: string, signature: string): boolean {
    return this.#isNext("AWS4-HMAC-SHA256-TRAILER", sha256, signature);
  }

  #isNext(kind: string, hashes: string, signature: string): boolean {
    const { key, amzDate, scope } = this.#signing;
    this.stringToSign = `${kind}\n${amzDate}\n${scope}\n${this.#previous}\n${hashes}`;
    const expected = signatureOf(key, this.stringToSign);
    this.#previous = expected;
    return (
      signature.length === expected.length &&
      timingSafeEqual(Buffer.from(signature, "latin1"), Buffer.from(expected, "latin1"))
    );
  }
}
