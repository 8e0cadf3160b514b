// Reads a demo request's body whole and checks it: announced length, SHA-256 of the signature,
// Content-MD5, and what taken-body.ts says of its framing and checksums. Nothing is stored of a body that
// is short, long or different.

import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { S3Error } from "../s3/errors.ts";
import type { Admitted } from "./admission.ts";
import type { DemoFacts } from "./request.ts";
import { type TakenBody, takeBody } from "./taken-body.ts";

/** A demo cluster keeps everything in memory. */
const bodyLimitBytes = 1024 * 1024 * 1024;

/** @throws S3Error EntityTooLarge, IncompleteBody, XAmzContentSHA256Mismatch, BadDigest */
export async function readBody(
  message: IncomingMessage,
  admitted: Admitted,
  facts: DemoFacts,
): Promise<TakenBody> {
  const { wireLengthBytes: lengthBytes, sha256 } = admitted.payload;
  if (lengthBytes === null) throw new S3Error("MissingContentLength");
  if (lengthBytes > bodyLimitBytes) throw new S3Error("EntityTooLarge");
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of message) {
      if (!(chunk instanceof Uint8Array)) throw new TypeError("Body chunks must be bytes");
      chunks.push(chunk);
      size += chunk.length;
    }
  } catch (cause) {
    throw new S3Error("IncompleteBody", { cause });
  }
  const bytes = Buffer.concat(chunks, size);
  if (size !== lengthBytes || !message.complete) throw new S3Error("IncompleteBody");
  if (sha256 !== null && facts.believesHashes !== true) {
    const isRight = createHash("sha256").update(bytes).digest("hex") === sha256;
    if (!isRight) throw new S3Error("XAmzContentSHA256Mismatch");
  }
  const { operation, headers } = admitted.request;
  // The checksum of a Complete is that of the object, not of its document.
  const isDocument = operation === "CompleteMultipartUpload";
  const taken = isDocument ? { body: bytes, headers } : takeBody(bytes, headers, facts);
  const { md5 } = admitted;
  if (md5 !== null && !createHash("md5").update(taken.body).digest().equals(md5)) {
    throw new S3Error("BadDigest");
  }
  return taken;
}
