// Uploads in aws-chunked framing as bytes for a socket, signed over what is sent, in every mode and with
// whatever a test spoils in them.

import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { clientKeys } from "./headgate.ts";
import { rawHead } from "./raw-http.ts";
import { type ChunkFrame, chunkFrame, frameBytes, inHttpChunks } from "./s3-chunked.ts";

export const bucket = "streams";

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

export function crc32Of(bytes: Uint8Array): string {
  const value = Buffer.alloc(4);
  value.writeUInt32BE(crc32(bytes));
  return value.toString("base64");
}

export interface Mode {
  readonly name: string;
  readonly payloadHash: string;
  readonly signed: boolean;
  readonly trailer: boolean;
}

export const modes: readonly Mode[] = [
  {
    name: "signed",
    payloadHash: "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    signed: true,
    trailer: false,
  },
  {
    name: "signed with trailer",
    payloadHash: "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
    signed: true,
    trailer: true,
  },
  {
    name: "unsigned with trailer",
    payloadHash: "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    signed: false,
    trailer: true,
  },
  {
    name: "unsigned without trailer",
    payloadHash: "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    signed: false,
    trailer: false,
  },
];

export interface Upload {
  readonly key: string;
  /** Canonical, `append=&position=0`. */
  readonly query?: string;
  readonly data: Buffer;
  readonly decodedLength?: number;
  /** In the trailer where the mode has one, else in the head. */
  readonly checksum?: string;
  readonly spoil?: (frame: ChunkFrame) => ChunkFrame;
  readonly head?: (head: string) => string;
  /** HTTP chunks around it, or Content-Length. */
  readonly inHttpChunks: boolean;
}

/** Head and body as they go onto the wire. */
export function written(url: string, mode: Mode, upload: Upload): readonly [string, Buffer] {
  const { key, query = "", data, decodedLength = data.length, checksum = crc32Of(data) } = upload;
  const named = mode.trailer
    ? (["x-amz-trailer", "x-amz-checksum-crc32"] as const)
    : (["x-amz-checksum-crc32", checksum] as const);
  const request = {
    method: "PUT",
    path: `/${bucket}/${key}`,
    query,
    payloadHash: mode.payloadHash,
    headers: [
      ["content-encoding", "aws-chunked"],
      ["x-amz-decoded-content-length", String(decodedLength)],
      ["x-amz-sdk-checksum-algorithm", "CRC32"],
      named,
      ...(upload.inHttpChunks ? ([["transfer-encoding", "chunked"]] as const) : []),
    ],
  } as const;
  const frameOf = (head: string): Buffer => {
    const amzDate = /x-amz-date: (\S+)/.exec(head)?.[1] ?? "";
    const frame = chunkFrame(data, {
      chunkBytes: 8192,
      ...(mode.trailer ? { trailer: ["x-amz-checksum-crc32", checksum] as const } : {}),
      ...(mode.signed
        ? {
            seed: {
              secretAccessKey: clientKeys.secretAccessKey,
              amzDate,
              scope: `${amzDate.slice(0, 8)}/us-east-1/s3/aws4_request`,
              seed: /Signature=([0-9a-f]{64})/.exec(head)?.[1] ?? "",
            },
          }
        : {}),
    });
    return frameBytes(upload.spoil?.(frame) ?? frame);
  };
  let head = rawHead(url, request);
  const body = frameOf(head);
  // Content-Length is not signed, so it may be put in once the body's length is known.
  if (!upload.inHttpChunks) head = head.replace("\r\n", `\r\ncontent-length: ${body.length}\r\n`);
  return [upload.head?.(head) ?? head, upload.inHttpChunks ? inHttpChunks(body) : body];
}
