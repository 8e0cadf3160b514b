// Computes the checksums of uploads: CRC32, MD5 and SHA with Node's own code, CRC32C, CRC64NVME and
// xxHash with hash-wasm. A WASM instance is made once and serves all bodies: each body's state is put into it,
// taken further by one piece and taken out again, in one turn of the event loop.

import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import {
  createCRC32,
  createCRC64,
  createXXHash3,
  createXXHash64,
  createXXHash128,
  type IHasher,
} from "hash-wasm";
import type { BeginChecksum, Checksum } from "../s3/checksum.ts";

/** Castagnoli's polynomial, reflected (RFC 3720 appendix B.4). */
const crc32cPolynomial = 0x82f63b78;
/** Reflected (NVM Express NVM Command Set, "64b CRC Polynomial"). */
const crc64nvmePolynomial = "9a6c9329ac4bc9b5";

/** Loads the WASM modules. */
export async function openChecksums(): Promise<BeginChecksum> {
  const beginCrc32c = shared(await createCRC32(crc32cPolynomial));
  const beginCrc64nvme = shared(await createCRC64(crc64nvmePolynomial));
  const beginXxhash3 = shared(await createXXHash3());
  const beginXxhash64 = shared(await createXXHash64());
  const beginXxhash128 = shared(await createXXHash128());
  return (algorithm) => {
    switch (algorithm) {
      case "crc32":
        return beginCrc32();
      case "crc32c":
        return beginCrc32c();
      case "crc64nvme":
        return beginCrc64nvme();
      case "xxhash3":
        return beginXxhash3();
      case "xxhash64":
        return beginXxhash64();
      case "xxhash128":
        return beginXxhash128();
      case "md5":
      case "sha1":
      case "sha256":
      case "sha512":
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
      // Of nothing it starts anew where an empty buffer has no address.
      if (bytes.length > 0) value = crc32(bytes, value);
    },
    digest() {
      const digest = Buffer.alloc(4);
      digest.writeUInt32BE(value);
      return digest;
    },
  };
}

function beginHash(algorithm: "md5" | "sha1" | "sha256" | "sha512"): Checksum {
  const hash = createHash(algorithm);
  return {
    update(bytes) {
      hash.update(bytes);
    },
    digest: () => hash.digest(),
  };
}
