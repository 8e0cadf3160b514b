// Computes the checksums of uploads: CRC32, SHA-1 and SHA-256 with Node's own code, CRC32C and CRC64NVME
// with hash-wasm. A WASM instance is made once and serves all bodies: each body's state is put into it,
// taken further by one piece and taken out again, in one turn of the event loop.

import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { createCRC32, createCRC64, type IHasher } from "hash-wasm";
import type { BeginChecksum, Checksum } from "../s3/checksum.ts";

/** Castagnoli's polynomial, reflected (RFC 3720 appendix B.4). */
const crc32cPolynomial = 0x82f63b78;
/** Reflected (NVM Express NVM Command Set, "64b CRC Polynomial"). */
const crc64nvmePolynomial = "9a6c9329ac4bc9b5";

/** Loads the WASM modules. */
export async function openChecksums(): Promise<BeginChecksum> {
  const beginCrc32c = shared(await createCRC32(crc32cPolynomial));
  const beginCrc64nvme = shared(await createCRC64(crc64nvmePolynomial));
  return (algorithm) => {
    switch (algorithm) {
      case "crc32":
        return beginCrc32();
      case "crc32c":
        return beginCrc32c();
      case "crc64nvme":
        return beginCrc64nvme();
      case "sha1":
      case "sha256":
        return beginHash(algorithm);
    }
  };
}

function shared(hasher: IHasher): () => Checksum {
  const empty = hasher.init().save();
  return () => {
    let state = empty;
    return {
      update(bytes) {
        state = hasher.load(state).update(bytes).save();
      },
      digest: () => hasher.load(state).digest("binary"),
    };
  };
}

function beginCrc32(): Checksum {
  let value = 0;
  return {
    update(bytes) {
      value = crc32(bytes, value);
    },
    digest() {
      const digest = Buffer.alloc(4);
      digest.writeUInt32BE(value);
      return digest;
    },
  };
}

function beginHash(algorithm: "sha1" | "sha256"): Checksum {
  const hash = createHash(algorithm);
  return {
    update(bytes) {
      hash.update(bytes);
    },
    digest: () => hash.digest(),
  };
}
