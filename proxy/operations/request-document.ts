// A request body that is a document: read whole within a limit, and what the client said of it
// (SHA-256, checksum, Content-MD5) is verified before anything is sent anywhere.

import { contentMd5Error } from "../s3/content-md5.ts";
import type { OperationRequest } from "./context.ts";
import { readShortBody } from "./gate.ts";

/** As long as RGW takes one (`rgw_max_put_param_size`); no document of S3's settings is longer. */
const documentLimitBytes = 1024 * 1024;

const nothing = new Uint8Array();

/** @throws S3Error EntityTooLarge, BadDigest, InvalidDigest, XAmzContentSHA256Mismatch, IncompleteBody */
export async function readRequestDocument(
  request: Pick<OperationRequest, "body" | "headers">,
): Promise<Uint8Array> {
  const { body, headers } = request;
  const bytes = body === null ? nothing : await readShortBody(body, documentLimitBytes);
  const error = contentMd5Error(headers, bytes);
  if (error !== null) throw error;
  return bytes;
}
