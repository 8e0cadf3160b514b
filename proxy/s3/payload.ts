// How the body of a request is sent and protected: every value of x-amz-content-sha256 by the form of
// authorization, the declared lengths and the checksum (s3-protocol.md 2.2). The header never says who
// the caller is. Decided from the head alone, before a byte of the body is read.

import type { Authorization } from "./authorization.ts";
import type { V2Authorization } from "./authorization-v2.ts";
import { type ExpectedChecksum, readChecksums, type UnknownChecksums } from "./checksum.ts";
import { expectedMd5 } from "./content-md5.ts";
import { S3Error, type S3ErrorCode } from "./errors.ts";
import { fieldTokens, fieldValue, type HeaderList } from "./headers.ts";
import { operationFacts, type S3Operation } from "./operation.ts";
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
  /** Bytes of the body itself, without chunk framing; 0 when there is no body. */
  readonly lengthBytes: number;
  /** Bytes on the wire, from Content-Length; `null` in HTTP chunks, which only a streaming mode may use. */
  readonly wireLengthBytes: number | null;
  /** Lower-case hex the body must hash to, in single-chunk mode. */
  readonly sha256: string | null;
  /** What the body of an upload must sum up to, from the head. */
  readonly checksum: ExpectedChecksum | null;
  /** The Content-MD5 of an upload. */
  readonly md5: Uint8Array | null;
  /** The algorithm of the checksum that is announced to stand behind the body. */
  readonly trailer: string | null;
}

/** Whether the body is aws-chunked and must be decoded. */
export function isStreaming({ mode }: Pick<Payload, "mode">): boolean {
  return mode !== "unsigned" && mode !== "single-chunk";
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

type AnyAuthorization = Authorization | V2Authorization;

export interface PayloadOptions {
  /** Which operation the body is for; without it a PUT is taken for an upload. */
  readonly operation?: S3Operation;
  /** Default `reject`. */
  readonly unknownChecksums?: UnknownChecksums;
  /**
   * What checksums in a presigned query mean. Current SDKs presign an upload without its body and bake
   * in the checksum of nothing, so by default they mean nothing (s3-protocol.md 2.2).
   */
  readonly presignedQueryChecksums?: "ignore" | "verify";
}

/**
 * What the request says of its payload hash: x-amz-content-sha256, or for a presigned one without it
 * the parameter of that name, which the JavaScript SDK writes.
 */
export function contentSha256(head: RequestHead, kind: AnyAuthorization["kind"]): string | null {
  const sent = fieldValue(head.headers, "x-amz-content-sha256");
  if (sent !== null || kind !== "presigned") return sent;
  return queryValue(head.query, "X-Amz-Content-Sha256");
}

interface PayloadRequest {
  readonly head: RequestHead;
  readonly authorization: AnyAuthorization;
  readonly options: PayloadOptions;
}

/** Reads the payload mode, lengths and checksum of a request. */
export function readPayload(
  head: RequestHead,
  authorization: AnyAuthorization,
  options: PayloadOptions = {},
): PayloadResult {
  const value = contentSha256(head, authorization.kind);
  const request = { head, authorization, options };
  if (value === unsignedPayload && isUpload(options.operation) && isFramed(head.headers)) {
    return streamingPayload("STREAMING-UNSIGNED-PAYLOAD-TRAILER", request);
  }
  const plain = value === null || value === unsignedPayload || /^[0-9a-f]{64}$/.test(value);
  return plain ? plainPayload(value, request) : streamingPayload(value, request);
}

/**
 * Whether a body whose hash says nothing of it is aws-chunked all the same, as older Java clients send it:
 * its head names the framing and a length that is not the one on the wire.
 */
function isFramed(headers: HeaderList): boolean {
  const decoded = fieldValue(headers, "x-amz-decoded-content-length");
  return (
    decoded !== null &&
    decoded !== fieldValue(headers, "content-length") &&
    fieldTokens(headers, "content-encoding").includes("aws-chunked")
  );
}

function plainPayload(
  value: string | null,
  { head, authorization, options }: PayloadRequest,
): PayloadResult {
  const length = bodyLength(head, options.operation ?? null);
  if (typeof length !== "number") return { kind: "error", error: length };
  const sha256 = value === unsignedPayload ? null : value;
  const uploads = head.method === "PUT" || head.method === "POST";
  if (sha256 !== null && uploads && (sha256 === emptyPayloadHash) !== (length === 0)) {
    return refusal(
      "XAmzContentSHA256Mismatch",
      "The body length does not fit x-amz-content-sha256",
    );
  }
  const checksums = isSummedUp(options.operation)
    ? readChecksums(
        checksumHeaders({ head, authorization, options }),
        false,
        options.unknownChecksums,
      )
    : noChecksums;
  if (checksums.kind === "error") return checksums;
  const md5 = isUpload(options.operation) ? expectedMd5(head.headers) : null;
  if (md5 instanceof S3Error) return { kind: "error", error: md5 };
  return {
    kind: "payload",
    mode: sha256 === null ? "unsigned" : "single-chunk",
    lengthBytes: length,
    wireLengthBytes: length,
    sha256,
    checksum: checksums.header,
    md5,
    trailer: null,
  };
}

const noChecksums = { kind: "checksums", header: null, trailer: null } as const;

/** The head's fields and, where a presigned query is taken at its word, its checksums as fields. */
function checksumHeaders({ head, authorization, options }: PayloadRequest): HeaderList {
  const isPresigned = authorization.kind === "presigned" || authorization.kind === "presigned-v2";
  if (!isPresigned || options.presignedQueryChecksums !== "verify") return head.headers;
  const hoisted = head.query.flatMap(([name, value]) => {
    const lower = name.toLowerCase();
    return /^x-amz-(?:checksum-|sdk-checksum-algorithm$)/.test(lower)
      ? [[lower, value ?? ""] as const]
      : [];
  });
  return [...head.headers, ...hoisted];
}

/** Whether a checksum in the head is that of the body. */
function isSummedUp(operation: S3Operation | undefined): boolean {
  return isUpload(operation) || isDocument(operation);
}

function isUpload(operation: S3Operation | undefined): boolean {
  return operation === "PutObject" || operation === "UploadPart" || operation === "AppendObject";
}

/** Bodies that are read here. Complete is none: its checksum is that of the object, not of its body. */
function isDocument(operation: S3Operation | undefined): boolean {
  return operation !== undefined && operationFacts[operation].document;
}

function streamingPayload(value: string, request: PayloadRequest): PayloadResult {
  const mode = streamingMode(value, request);
  if (mode instanceof S3Error) return { kind: "error", error: mode };
  const { headers } = request.head;
  const lengthBytes = decodedLength(headers);
  if (lengthBytes instanceof S3Error) return { kind: "error", error: lengthBytes };
  const wireLengthBytes = wireLength(headers);
  if (wireLengthBytes instanceof S3Error) return { kind: "error", error: wireLengthBytes };
  const withTrailer = mode !== "streaming-signed";
  const announces = fieldValue(headers, "x-amz-trailer") !== null;
  if (announces && !withTrailer) {
    return refusal("InvalidRequest", `Payload form "${value}" has no trailer`);
  }
  if (!announces && mode === "streaming-signed-trailer") {
    return refusal("InvalidRequest", 'Header "x-amz-trailer" is missing');
  }
  const checksums = readChecksums(
    checksumHeaders(request),
    withTrailer,
    request.options.unknownChecksums,
  );
  if (checksums.kind === "error") return checksums;
  const { header: checksum, trailer } = checksums;
  const md5 = expectedMd5(headers);
  if (md5 instanceof S3Error) return { kind: "error", error: md5 };
  const lengths = { lengthBytes, wireLengthBytes };
  return { kind: "payload", mode, ...lengths, sha256: null, checksum, md5, trailer };
}

function streamingMode(
  value: string,
  { authorization, options }: PayloadRequest,
): PayloadMode | S3Error {
  const mode = streamingModes.get(value);
  const ecdsa = /^STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD(?:-TRAILER)?$/.test(value);
  if (!ecdsa && mode === undefined) {
    const message = `Header "x-amz-content-sha256" must be "${unsignedPayload}", a streaming value or a lower-case SHA-256`;
    return new S3Error("InvalidArgument", { message });
  }
  if (authorization.kind !== "header" && authorization.kind !== "presigned") {
    return new S3Error("InvalidRequest", {
      message: "A streaming payload needs a request signed with signature version 4",
    });
  }
  if (options.operation !== undefined && !isUpload(options.operation)) {
    return new S3Error("InvalidRequest", {
      message: "A streaming payload is valid for PutObject and UploadPart only",
    });
  }
  const message = `Payload form "${value}" is not implemented`;
  return mode ?? new S3Error("NotImplemented", { message });
}

function decodedLength(headers: HeaderList): number | S3Error {
  const text = fieldValue(headers, "x-amz-decoded-content-length");
  if (text === null) {
    return new S3Error("MissingContentLength", {
      message: "A streaming payload needs x-amz-decoded-content-length",
    });
  }
  if (!/^\d{1,15}$/.test(text)) {
    return new S3Error("InvalidArgument", {
      message: 'Header "x-amz-decoded-content-length" is not valid',
    });
  }
  const length = Number(text);
  return length > maxBodyBytes ? new S3Error("EntityTooLarge") : length;
}

/** Content-Length around the chunks, or `null` where HTTP chunks are around them. */
function wireLength(headers: HeaderList): number | null | S3Error {
  if (fieldValue(headers, "transfer-encoding") !== null) return null;
  const text = fieldValue(headers, "content-length");
  return text === null ? new S3Error("MissingContentLength") : contentLength(text);
}

function contentLength(text: string): number | S3Error {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  return new S3Error("InvalidRequest", { message: 'Header "content-length" is not valid' });
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
  const length = contentLength(text);
  if (typeof length !== "number") return length;
  if (length > maxBodyBytes) return new S3Error("EntityTooLarge");
  if (length > 0 && head.method !== "PUT" && head.method !== "POST") {
    return new S3Error("InvalidRequest", { message: `A ${head.method} request must have no body` });
  }
  return length;
}

function refusal(code: S3ErrorCode, message: string): { kind: "error"; error: S3Error } {
  return { kind: "error", error: new S3Error(code, { message }) };
}
