// The five checksums that S3 clients send, for the matrix of uploads: the two that Node does not compute
// bit by bit as their specifications define them, since the gateway's own code must not judge itself.

import { createHash } from "node:crypto";
import { crc32Of } from "./s3-uploads.ts";

export const matrixChecksums = ["crc32", "crc32c", "crc64nvme", "sha1", "sha256"] as const;
export type MatrixChecksum = (typeof matrixChecksums)[number];

/** The value in base64, as it stands in the field. */
export function matrixChecksum(algorithm: MatrixChecksum, data: Uint8Array): string {
  switch (algorithm) {
    case "crc32":
      return crc32Of(data);
    case "crc32c":
      return crc32c(data);
    case "crc64nvme":
      return crc64nvme(data);
    case "sha1":
    case "sha256":
      return createHash(algorithm).update(data).digest("base64");
  }
}

/** RFC 3720 appendix B.4: Castagnoli's polynomial, reflected. */
const crc32cTable = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = (value >>> 1) ^ (value & 1 ? 0x82f63b78 : 0);
  return value;
});

function crc32c(data: Uint8Array): string {
  let value = 0xffffffff;
  for (const byte of data) value = (value >>> 8) ^ (crc32cTable[(value ^ byte) & 0xff] ?? 0);
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(~value >>> 0);
  return bytes.toString("base64");
}

/** NVM Express NVM Command Set, "64b CRC Polynomial", reflected. */
const crc64Table = BigUint64Array.from({ length: 256 }, (_, byte) => {
  let value = BigInt(byte);
  for (let bit = 0; bit < 8; bit += 1) {
    value = (value >> 1n) ^ (value & 1n ? 0x9a6c9329ac4bc9b5n : 0n);
  }
  return value;
});

function crc64nvme(data: Uint8Array): string {
  let value = 0xffffffffffffffffn;
  for (const byte of data) {
    value = (value >> 8n) ^ (crc64Table[Number(value & 0xffn) ^ byte] ?? 0n);
  }
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(value ^ 0xffffffffffffffffn);
  return bytes.toString("base64");
}
