// Checksums as a demo cluster verifies, computes and keeps them (S3 User Guide "Checking object
// integrity"): of an object's bytes, or of an upload in parts over the parts' own. Written apart from the
// proxy's code, which it is there to judge.

import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderField, type HeaderList } from "../s3/headers.ts";
import { childText, element, type XmlElement } from "../s3/xml.ts";

const prefix = "x-amz-checksum-";
const algorithmField = `${prefix}algorithm`;
const typeField = `${prefix}type`;
/** About checksums, and none. */
const noChecksum: ReadonlySet<string> = new Set(["algorithm", "mode", "type"]);
const ofNode: ReadonlySet<string> = new Set(["md5", "sha1", "sha256", "sha512"]);

type ChecksumType = "FULL_OBJECT" | "COMPOSITE";

/** What an upload in parts was begun with. */
export interface UploadSum {
  /** `crc32`. */
  readonly algorithm: string;
  readonly type: ChecksumType;
}

export interface Sum extends UploadSum {
  /** `NSRBwg==`, or `NSRBwg==-2` of two parts. */
  readonly value: string;
}

/** Algorithm → the types that an upload in parts may have, the usual one first; all that is computed here. */
const types: ReadonlyMap<string, readonly ChecksumType[]> = new Map<string, ChecksumType[]>([
  ["crc32", ["COMPOSITE", "FULL_OBJECT"]],
  ["crc32c", ["COMPOSITE", "FULL_OBJECT"]],
  ["crc64nvme", ["FULL_OBJECT"]],
  ["md5", ["COMPOSITE"]],
  ["sha1", ["COMPOSITE"]],
  ["sha256", ["COMPOSITE"]],
  ["sha512", ["COMPOSITE"]],
]);

/** `crc32` of `x-amz-checksum-crc32`. */
export function checksumOf(name: string): string | null {
  const algorithm = name.startsWith(prefix) ? name.slice(prefix.length) : "";
  return algorithm === "" || noChecksum.has(algorithm) ? null : algorithm;
}

/** `null` for an algorithm that is not computed here. */
export function digest(bytes: Uint8Array, algorithm: string): Buffer | null {
  if (ofNode.has(algorithm)) return createHash(algorithm).update(bytes).digest();
  const made = Buffer.alloc(algorithm === "crc64nvme" ? 8 : 4);
  switch (algorithm) {
    case "crc32":
      made.writeUInt32BE(crc32(bytes));
      return made;
    case "crc32c":
      made.writeUInt32BE(crc32c(bytes));
      return made;
    case "crc64nvme": {
      const { high, low } = crc64nvme(bytes);
      made.writeUInt32BE(high);
      made.writeUInt32BE(low, 4);
      return made;
    }
    default:
      return null;
  }
}

/** The checksum in a head, of bytes that were verified by it. */
export function sumOfHead(headers: HeaderList): Sum | null {
  for (const [name, value] of headers) {
    const algorithm = checksumOf(name);
    if (algorithm !== null) return { algorithm, type: "FULL_OBJECT", value };
  }
  return null;
}

/** The algorithm that a head asks for. @throws S3Error InvalidRequest */
export function askedAlgorithm(headers: HeaderList): string | null {
  const algorithm = fieldValue(headers, algorithmField)?.toLowerCase() ?? null;
  if (algorithm !== null && !types.has(algorithm)) throw wrong("The algorithm is not supported");
  return algorithm;
}

/** What CreateMultipartUpload asks for. @throws S3Error InvalidRequest */
export function askedSum(headers: HeaderList): UploadSum | null {
  const algorithm = askedAlgorithm(headers);
  const asked = fieldValue(headers, typeField)?.toUpperCase() ?? null;
  if (algorithm === null) {
    if (asked !== null) throw wrong("A checksum type needs an algorithm");
    return null;
  }
  const type = types.get(algorithm)?.find((one) => asked === null || one === asked);
  if (type === undefined) throw wrong(`${asked} cannot be had with ${algorithm}`);
  return { algorithm, type };
}

/** The value of bytes. @throws S3Error InvalidRequest */
export function valueOf(bytes: Uint8Array, algorithm: string): string {
  const value = digest(bytes, algorithm)?.toString("base64");
  if (value === undefined) throw wrong("The algorithm is not supported");
  return value;
}

/** The checksum that a part must come with. @throws S3Error InvalidRequest */
export function assertPartSum(headers: HeaderList, sum: UploadSum): void {
  const actual = sumOfHead(headers)?.algorithm ?? null;
  if (actual === sum.algorithm || (actual === null && sum.type === "FULL_OBJECT")) return;
  const types = `expected checksum Type: ${sum.algorithm}, actual checksum Type: ${actual}`;
  throw wrong(`Checksum Type mismatch occurred, ${types}`);
}

/** Whether a part of Complete names the value that it was uploaded with. @throws S3Error */
export function assertNamed(item: XmlElement, sum: UploadSum, value: string | null): void {
  const named = childText(item, elementName(sum));
  if (named === value || (named === null && sum.type === "FULL_OBJECT")) return;
  if (named !== null) throw new S3Error("InvalidPart");
  throw wrong(`The complete request must include the ${sum.algorithm} checksum of each part`);
}

/** The checksum of an object made of parts. @throws S3Error where Complete says another one */
export function completedSum(
  sum: UploadSum,
  parts: readonly { readonly bytes: Buffer; readonly checksum: string | null }[],
  headers: HeaderList,
): Sum {
  const { algorithm, type } = sum;
  const isWhole = type === "FULL_OBJECT";
  const summed = isWhole
    ? parts.map(({ bytes }) => bytes)
    : parts.map(({ checksum }) => Buffer.from(checksum ?? "", "base64"));
  const digested = valueOf(Buffer.concat(summed), algorithm);
  const value = isWhole ? digested : `${digested}-${parts.length}`;
  const told = fieldValue(headers, typeField);
  if (told !== null && told !== type) throw wrong(`The checksum type is ${type}`);
  const expected = sumOfHead(headers);
  const isRight =
    expected === null || (expected.algorithm === algorithm && expected.value === value);
  if (!isRight) throw new S3Error("BadDigest");
  return { algorithm, type, value };
}

/** As a head tells it; the type where there is one. */
export function sumFields(sum: Sum | null): readonly HeaderField[] {
  if (sum === null) return [];
  return [
    [`${prefix}${sum.algorithm}`, sum.value],
    [typeField, sum.type],
  ];
}

/** As the head of CreateMultipartUpload's answer tells it. */
export function uploadSumFields(sum: UploadSum | null): readonly HeaderField[] {
  if (sum === null) return [];
  return [
    [algorithmField, sum.algorithm.toUpperCase()],
    [typeField, sum.type],
  ];
}

/** As a document tells what an upload was begun with. */
export function uploadSumElements(sum: UploadSum | null): readonly string[] {
  if (sum === null) return [];
  return [
    element("ChecksumAlgorithm", sum.algorithm.toUpperCase()),
    element("ChecksumType", sum.type),
  ];
}

/** As a document tells a value, of a part. */
export function valueElements(sum: UploadSum | null, value: string | null): readonly string[] {
  return sum === null || value === null ? [] : [element(elementName(sum), value)];
}

/** As a document tells that of an object. */
export function sumElements(sum: Sum | null): readonly string[] {
  return sum === null ? [] : [...valueElements(sum, sum.value), element("ChecksumType", sum.type)];
}

function elementName({ algorithm }: UploadSum): string {
  return `Checksum${algorithm.toUpperCase()}`;
}

function wrong(message: string): S3Error {
  return new S3Error("InvalidRequest", { message });
}

/** RFC 3720 appendix B.4: Castagnoli's polynomial, reflected. */
const crc32cTable = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = (value >>> 1) ^ (value & 1 ? 0x82f63b78 : 0);
  return value;
});

function crc32c(bytes: Uint8Array): number {
  let value = 0xffffffff;
  for (const byte of bytes) value = (value >>> 8) ^ (crc32cTable[(value ^ byte) & 0xff] ?? 0);
  return ~value >>> 0;
}

/** NVM Express NVM Command Set, "64b CRC Polynomial", reflected, in two halves. */
const crc64Table = Array.from({ length: 256 }, (_, byte) => {
  let [high, low] = [0, byte];
  for (let bit = 0; bit < 8; bit += 1) {
    const odd = (low & 1) === 1;
    low = ((low >>> 1) | (high << 31)) ^ (odd ? 0xac4bc9b5 : 0);
    high = (high >>> 1) ^ (odd ? 0x9a6c9329 : 0);
  }
  return { high, low };
});
const crc64High = Int32Array.from(crc64Table, ({ high }) => high);
const crc64Low = Int32Array.from(crc64Table, ({ low }) => low);

function crc64nvme(bytes: Uint8Array): { readonly high: number; readonly low: number } {
  let [high, low] = [-1, -1];
  for (const byte of bytes) {
    const index = (low ^ byte) & 0xff;
    low = ((low >>> 8) | (high << 24)) ^ (crc64Low[index] ?? 0);
    high = (high >>> 8) ^ (crc64High[index] ?? 0);
  }
  return { high: ~high >>> 0, low: ~low >>> 0 };
}
