// Reads a demo request's body whole and checks it: announced length, SHA-256 of the signature,
// Content-MD5. Nothing is stored of a body that is short, long or different.

import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { S3Error } from "../s3/errors.ts";
import type { Admitted } from "./admission.ts";

/** A demo cluster keeps everything in memory. */
const bodyLimitBytes = 1024 * 1024 * 1024;

/** @throws S3Error EntityTooLarge, IncompleteBody, XAmzContentSHA256Mismatch, BadDigest */
export async function readBody(message: IncomingMessage, admitted: Admitted): Promise<Buffer> {
  const { lengthBytes, sha256 } = admitted.payload;
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
  const body = Buffer.concat(chunks, size);
  if (size !== lengthBytes || !message.complete) throw new S3Error("IncompleteBody");
  if (sha256 !== null && createHash("sha256").update(body).digest("hex") !== sha256) {
    throw new S3Error("XAmzContentSHA256Mismatch");
  }
  if (admitted.md5 !== null && !createHash("md5").update(body).digest().equals(admitted.md5)) {
    throw new S3Error("BadDigest");
  }
  return body;
}
