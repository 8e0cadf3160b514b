// Checksums of uploads: their values, and what a request's head may say of them.

import { createHash } from "node:crypto";
import t from "tap";
import { openChecksums } from "../../proxy/gateway/checksums.ts";
import {
  type ChecksumAlgorithm,
  checksumValue,
  isAlgorithm,
  readChecksums,
  valueLength,
} from "../../proxy/s3/checksum.ts";
import type { HeaderField, HeaderList } from "../../proxy/s3/headers.ts";

const beginChecksum = await openChecksums();
const crc32 = "x-amz-checksum-crc32";

t.test("checksums have their published values, however the bytes come", async (t) => {
  // Check values of "123456789": RFC 3720, NVM Command Set, reveng's catalogue, the xxHash test suite.
  const check = Buffer.from("123456789");
  const wanted: Readonly<Record<ChecksumAlgorithm, string>> = {
    crc32: "cbf43926",
    crc32c: "e3069283",
    crc64nvme: "ae8b14860a799888",
    md5: createHash("md5").update(check).digest("hex"),
    sha1: createHash("sha1").update(check).digest("hex"),
    sha256: createHash("sha256").update(check).digest("hex"),
    sha512: createHash("sha512").update(check).digest("hex"),
    xxhash3: "72dcb18b67a17dff",
    xxhash64: "8cb841db40e6ae83",
    xxhash128: "33119477ede5dcd5e9716427681d5860",
  };
  const ofNothing: Readonly<Record<string, string>> = {
    xxhash3: "2d06800538d394c2",
    xxhash64: "ef46db3751d8e999",
    xxhash128: "99aa06d3014798d86001c324468d497f",
  };
  for (const algorithm of Object.keys(wanted).filter(isAlgorithm)) {
    const running = [0, 1].map(() => beginChecksum(algorithm));
    const empty = beginChecksum(algorithm);
    // A piece of nothing, as node:zlib and undici make them, changes nothing.
    const pieces = [...check].flatMap((byte) => [Buffer.of(byte), Buffer.from(new ArrayBuffer(0))]);
    for (const piece of pieces) for (const checksum of running) checksum.update(piece);
    for (const checksum of running) {
      t.equal(Buffer.from(checksum.digest()).toString("hex"), wanted[algorithm], algorithm);
    }
    const value: string = Buffer.from(empty.digest()).toString("base64");
    t.strictSame(checksumValue(algorithm, value), Buffer.from(value, "base64"), value);
    t.equal(value.length, valueLength(algorithm));
    const known = ofNothing[algorithm];
    if (known !== undefined) t.equal(Buffer.from(value, "base64").toString("hex"), known);
    if (algorithm.startsWith("crc")) t.match(value, /^A+=+$/, "of nothing");
  }
});

t.test("the head names one checksum in one place", async (t) => {
  const read = (withTrailer: boolean, ...fields: readonly HeaderField[]): string => {
    const headers: HeaderList = fields;
    const result = readChecksums(headers, withTrailer);
    if (result.kind === "error") return result.error.code;
    return `${result.header?.algorithm ?? "-"} ${result.trailer ?? "-"}`;
  };
  const header: HeaderField = [crc32, "NSRBwg=="];
  const announced: HeaderField = ["x-amz-trailer", crc32];
  const sdk = (name: string): HeaderField => ["x-amz-sdk-checksum-algorithm", name];
  t.equal(read(true), "- -");
  t.equal(read(true, header), "crc32 -");
  t.equal(read(true, announced), "- crc32");
  t.equal(read(true, ["x-amz-trailer", " X-Amz-Checksum-CRC64NVME "]), "- crc64nvme");
  t.equal(read(false, announced), "- -", "of no meaning where no trailer follows");
  t.equal(read(true, header, announced), "InvalidRequest");
  t.equal(read(true, header, ["x-amz-checksum-sha1", "x"]), "InvalidRequest");
  t.equal(read(true, header, header), "InvalidRequest", "repeated");
  t.equal(read(true, ["x-amz-trailer", `${crc32},x-amz-checksum-sha1`]), "InvalidRequest");
  t.equal(read(true, ["x-amz-trailer", "x-amz-meta-a"]), "InvalidRequest");
  t.equal(read(true, ["x-amz-trailer", ""]), "InvalidRequest");
  t.equal(read(true, ["x-amz-trailer", "x-amz-checksum-toString"]), "InvalidRequest");
  for (const value of ["", "AAAA", "AAAAAA", "AAAAAA=", "AAAAAB==", "=AAAAA==", "AAAAAAAA"]) {
    t.equal(read(false, [crc32, value]), "InvalidRequest", JSON.stringify(value));
  }
  t.equal(read(false, ["x-amz-checksum-xxhash64", "x"]), "InvalidRequest");
  t.equal(read(false, ["x-amz-checksum-blake3", "AAAA"]), "InvalidRequest");
  t.equal(read(false, ["x-amz-checksum-mode", "ENABLED"], ["x-amz-checksum-type", "x"]), "- -");
  t.equal(read(false, header, sdk("CRC32")), "crc32 -");
  t.equal(read(false, header, sdk("SHA1")), "InvalidRequest");
  t.equal(read(true, announced, sdk("crc32")), "- crc32");
  t.equal(read(true, announced, sdk("CRC32C")), "InvalidRequest");
  t.equal(read(false, sdk("CRC32")), "- -");
});

t.test(
  "a checksum that cannot be computed is let through where that is set, well formed",
  async (t) => {
    const read = (withTrailer: boolean, ...fields: readonly HeaderField[]): string => {
      const result = readChecksums(fields, withTrailer, "pass");
      return result.kind === "error"
        ? result.error.code
        : `${result.header?.algorithm ?? "-"} ${result.trailer ?? "-"}`;
    };
    const sdk: HeaderField = ["x-amz-sdk-checksum-algorithm", "BLAKE3"];
    t.equal(read(false, ["x-amz-checksum-blake3", "AAAA"]), "- -");
    t.equal(read(true, ["x-amz-trailer", "x-amz-checksum-blake3"], sdk), "- blake3");
    t.equal(read(true, ["x-amz-trailer", "x-amz-checksum-blake2"], sdk), "InvalidRequest");
    t.equal(read(true, ["x-amz-trailer", "x-amz-meta-a"]), "InvalidRequest");
    t.equal(read(true, ["x-amz-trailer", "x-amz-checksum-"]), "InvalidRequest");
    t.equal(read(true, ["x-amz-trailer", "x-amz-checksum-mode"]), "InvalidRequest");
    for (const value of ["", "a b", "AAAA====", "é", "A".repeat(200)]) {
      t.equal(read(false, ["x-amz-checksum-blake3", value]), "InvalidRequest", value);
    }
    t.equal(read(false, ["x-amz-checksum-blake3", "AAAA"], [crc32, "NSRBwg=="]), "InvalidRequest");
  },
);
