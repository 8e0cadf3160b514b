// How the body of a request is sent and protected: every value of x-amz-content-sha256 by the form of
// authorization, and the declared length (s3-protocol.md 2.2). The two are independent: the header
// never says who the caller is. Decided from the head alone, before a byte of the body is read.

import type { Authorization } from "./authorization.ts";
import { S3Error, type S3ErrorCode } from "./errors.ts";
import { fieldValue } from "./headers.ts";
import type { S3Operation } from "./operation.ts";
import { queryValue } from "./query.ts";
import type { RequestHead } from "./request-head.ts";
import { emptyPayloadHash, unsignedPayload } from "./sigv4.ts";

type PayloadMode =
  | "unsigned"
  | "single-chunk"
  | "streaming-signed"
  | "streaming-signed-trailer"
  | "streaming-unsigned-trailer";

export interface Payload {
  readonly mode: PayloadMode;
  /** Bytes of body on the wire, from Content-Length; 0 when there is no body. */
  readonly lengthBytes: number;
  /** Lower-case hex the body must hash to, in single-chunk mode. */
  readonly sha256: string | null;
}

export type PayloadResult =
  | ({ readonly kind: "payload" } & Payload)
  | { readonly kind: "error"; readonly error: S3Error };

/** S3 API Reference: largest object of one PutObject, and largest part. */
export const maxBodyBytes = 5 * 1024 ** 3;

const streamingModes: ReadonlyMap<string, PayloadMode> = new Map<string, PayloadMode>([
  ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "streaming-signed"],
  ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "streaming-signed-trailer"],
  ["STREAMING-UNSIGNED-PAYLOAD-TRAILER", "streaming-unsigned-trailer"],
]);

export interface PayloadOptions {
  /** Which operation the body is for; without it a PUT is taken for an upload. */
  readonly operation?: S3Operation;
  /** Whether header authorization must come with x-amz-content-sha256, as on AWS. Default true. */
  readonly requireContentSha256?: boolean;
}

/**
 * What the request says of its payload hash: x-amz-content-sha256, or for a presigned one without it
 * the parameter of that name, which the JavaScript SDK writes.
 */
export function contentSha256(head: RequestHead, kind: Authorization["kind"]): string | null {
  const sent = fieldValue(head.headers, "x-amz-content-sha256");
  if (sent !== null || kind !== "presigned") return sent;
  return queryValue(head.query, "X-Amz-Content-Sha256");
}

/** Reads the payload mode and length of a request. */
export function readPayload(
  head: RequestHead,
  authorization: Authorization,
  options: PayloadOptions = {},
): PayloadResult {
  const length = bodyLength(head, options.operation ?? null);
  if (typeof length !== "number") return { kind: "error", error: length };
  const value = contentSha256(head, authorization.kind);
  if (value === null) {
    if (authorization.kind === "header" && options.requireContentSha256 !== false) {
      return refusal("MissingSecurityHeader", 'Header "x-amz-content-sha256" is missing');
    }
    return { kind: "payload", mode: "unsigned", lengthBytes: length, sha256: null };
  }
  if (value === unsignedPayload) {
    return { kind: "payload", mode: "unsigned", lengthBytes: length, sha256: null };
  }
  if (!/^[0-9a-f]{64}$/.test(value)) return streamingPayload(value, authorization, options);
  const uploads = head.method === "PUT" || head.method === "POST";
  if (uploads && (value === emptyPayloadHash) !== (length === 0)) {
    return refusal(
      "XAmzContentSHA256Mismatch",
      "The body length does not fit x-amz-content-sha256",
    );
  }
  return { kind: "payload", mode: "single-chunk", lengthBytes: length, sha256: value };
}

function streamingPayload(
  value: string,
  authorization: Authorization,
  options: PayloadOptions,
): PayloadResult {
  const ecdsa = /^STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD(?:-TRAILER)?$/.test(value);
  if (!ecdsa && !streamingModes.has(value)) {
    const message = `Header "x-amz-content-sha256" must be "${unsignedPayload}", a streaming value or a lower-case SHA-256`;
    return refusal("InvalidArgument", message);
  }
  if (authorization.kind === "anonymous") {
    return refusal("InvalidRequest", "A streaming payload needs a signed request");
  }
  const { operation } = options;
  if (operation !== undefined && operation !== "PutObject" && operation !== "UploadPart") {
    return refusal(
      "InvalidRequest",
      "A streaming payload is valid for PutObject and UploadPart only",
    );
  }
  return refusal("NotImplemented", `Payload form "${value}" is not implemented`);
}

/** Declared bytes of body, or why they cannot be told. The head has never both framing fields. */
function bodyLength(head: RequestHead, operation: S3Operation | null): number | S3Error {
  if (fieldValue(head.headers, "transfer-encoding") !== null) {
    return new S3Error("MissingContentLength");
  }
  const text = fieldValue(head.headers, "content-length");
  if (text === null) {
    const needed =
      operation === "PutObject" ||
      operation === "UploadPart" ||
      (operation === null && head.method === "PUT");
    return needed ? new S3Error("MissingContentLength") : 0;
  }
  if (!/^\d{1,15}$/.test(text)) {
    return new S3Error("InvalidRequest", { message: 'Header "content-length" is not valid' });
  }
  const length = Number(text);
  if (length > maxBodyBytes) return new S3Error("EntityTooLarge");
  if (length > 0 && head.method !== "PUT" && head.method !== "POST") {
    return new S3Error("InvalidRequest", { message: `A ${head.method} request must have no body` });
  }
  return length;
}

function refusal(code: S3ErrorCode, message: string): { kind: "error"; error: S3Error } {
  return { kind: "error", error: new S3Error(code, { message }) };
}
