// The checksums that S3 clients send of a body, in a header or behind it as a trailer: names, lengths
// and values (S3 User Guide "Checking object integrity"). Computing them is another layer's: some need
// a library, and this folder has none.

import { Buffer } from "node:buffer";
import { S3Error } from "./errors.ts";
import { fieldValue, type HeaderList } from "./headers.ts";

/** Algorithm, as in `x-amz-checksum-crc32` → bytes of its value. */
const valueBytes = {
  crc32: 4,
  crc32c: 4,
  crc64nvme: 8,
  md5: 16,
  sha1: 20,
  sha256: 32,
  sha512: 64,
  xxhash3: 8,
  xxhash64: 8,
  xxhash128: 16,
} as const satisfies Record<string, number>;

export type ChecksumAlgorithm = keyof typeof valueBytes;

/** What becomes of a checksum that is not in the table: sent on unverified, or refused. */
export type UnknownChecksums = "pass" | "reject";

/** How the field of an algorithm that is not in the table may be named. */
const algorithmName = /^[a-z0-9]{1,32}$/;
/** The longest value that may stand under such a name: 1024 bits in base64. */
const maxUnknownValue = 172;

/** One running checksum. `digest` ends it. */
export interface Checksum {
  update(bytes: Uint8Array): void;
  /** The value, most significant byte first. */
  digest(): Uint8Array;
}

export type BeginChecksum = (algorithm: ChecksumAlgorithm) => Checksum;

/** What a body must sum up to. */
export interface ExpectedChecksum {
  readonly algorithm: ChecksumAlgorithm;
  readonly value: Uint8Array;
}

const prefix = "x-amz-checksum-";
/** Fields under the prefix that hold no value of a body. */
const noValues: ReadonlySet<string> = new Set([
  `${prefix}algorithm`,
  `${prefix}mode`,
  `${prefix}type`,
]);

/** The field or trailer of an algorithm: `x-amz-checksum-crc32`. */
export function checksumField(algorithm: string): string {
  return `${prefix}${algorithm}`;
}

/** The algorithm that a field or trailer names, known or not. @param name lower-case */
function algorithmOf(name: string): string | null {
  if (!name.startsWith(prefix) || noValues.has(name)) return null;
  const rest = name.slice(prefix.length);
  return algorithmName.test(rest) ? rest : null;
}

/** The algorithm that a field names, of those that can be computed. @param name lower-case */
export function readChecksumField(name: string): ChecksumAlgorithm | null {
  const algorithm = algorithmOf(name);
  return algorithm !== null && isAlgorithm(algorithm) ? algorithm : null;
}

/** Whether checksums of this name can be computed. */
export function isAlgorithm(text: string): text is ChecksumAlgorithm {
  return Object.hasOwn(valueBytes, text);
}

/** As documents and `x-amz-checksum-algorithm` name it, `CRC64NVME`. */
export function checksumName(algorithm: ChecksumAlgorithm): string {
  return algorithm.toUpperCase();
}

/** Reads such a name, in any case; `null` for one that is not in the table. */
export function readChecksumName(text: string): ChecksumAlgorithm | null {
  const name = text.trim().toLowerCase();
  return isAlgorithm(name) ? name : null;
}

/** Characters of a value in base64; of one that is not in the table, unknown. */
export function valueLength(algorithm: ChecksumAlgorithm): number {
  return Math.ceil(valueBytes[algorithm] / 3) * 4;
}

/** Whether a value may stand under a name that is not in the table. */
export function isUnknownValue(text: string): boolean {
  return text.length <= maxUnknownValue && /^[A-Za-z0-9+/]+={0,2}$/.test(text);
}

/** Reads a value, `NSRBwg==`; `null` unless it is the base64 of as many bytes as the algorithm gives. */
export function checksumValue(algorithm: ChecksumAlgorithm, text: string): Uint8Array | null {
  const bytes = Buffer.from(text, "base64");
  return bytes.length === valueBytes[algorithm] && bytes.toString("base64") === text ? bytes : null;
}

/** Whether a body has the checksum that was sent with it. Checksums are no secrets. */
export function isExpected(checksum: Checksum, value: Uint8Array): boolean {
  return Buffer.compare(checksum.digest(), value) === 0;
}

export type ChecksumsResult =
  | {
      readonly kind: "checksums";
      /** The one in the head, of the body as the object will have it; `null`: none that we know. */
      readonly header: ExpectedChecksum | null;
      /** The algorithm that x-amz-trailer announces, `crc32`, known or not. */
      readonly trailer: string | null;
    }
  | { readonly kind: "error"; readonly error: S3Error };

/** Reads what the head of an upload says of its checksum: at most one, in one place. */
export function readChecksums(
  headers: HeaderList,
  payloadHasTrailer: boolean,
  unknown: UnknownChecksums = "reject",
): ChecksumsResult {
  const [field, another] = valueFields(headers);
  if (another !== undefined) return refusal("Only one checksum may be sent with a body");
  const trailer = payloadHasTrailer ? announcedTrailer(headers, unknown) : null;
  if (trailer instanceof S3Error) return { kind: "error", error: trailer };
  if (field !== undefined && trailer !== null) {
    return refusal("A checksum must be in the header or in the trailer, not in both");
  }
  const header = field === undefined ? null : headerChecksum(headers, field, unknown);
  if (header instanceof S3Error) return { kind: "error", error: header };
  if (disagrees(headers, field === undefined ? trailer : algorithmOf(field))) {
    return refusal(
      'Header "x-amz-sdk-checksum-algorithm" names another checksum than the one sent',
    );
  }
  return { kind: "checksums", header, trailer };
}

function valueFields(headers: HeaderList): ReadonlySet<string> {
  const names = new Set<string>();
  for (const [name] of headers) {
    if (name.startsWith(prefix) && !noValues.has(name)) names.add(name);
  }
  return names;
}

function disagrees(headers: HeaderList, used: string | null): boolean {
  const named = fieldValue(headers, "x-amz-sdk-checksum-algorithm");
  return named !== null && used !== null && named.trim().toLowerCase() !== used;
}

function headerChecksum(
  headers: HeaderList,
  field: string,
  unknown: UnknownChecksums,
): ExpectedChecksum | S3Error | null {
  const algorithm = algorithmOf(field);
  const text = fieldValue(headers, field)?.trim() ?? "";
  if (algorithm !== null && isAlgorithm(algorithm)) {
    const value = checksumValue(algorithm, text);
    return value === null ? invalid(`Header "${field}" is not valid`) : { algorithm, value };
  }
  if (algorithm === null || unknown === "reject") {
    return invalid(`Checksum "${field}" is not supported`);
  }
  return isUnknownValue(text) ? null : invalid(`Header "${field}" is not valid`);
}

function announcedTrailer(headers: HeaderList, unknown: UnknownChecksums): string | null | S3Error {
  const text = fieldValue(headers, "x-amz-trailer");
  if (text === null) return null;
  const algorithm = algorithmOf(text.trim().toLowerCase());
  if (algorithm !== null && (unknown === "pass" || isAlgorithm(algorithm))) return algorithm;
  return invalid('Header "x-amz-trailer" must name one supported checksum');
}

function refusal(message: string): { readonly kind: "error"; readonly error: S3Error } {
  return { kind: "error", error: invalid(message) };
}

function invalid(message: string): S3Error {
  return new S3Error("InvalidRequest", { message });
}
