// The checksum of a whole object: which algorithm, whether over its bytes (FULL_OBJECT) or over the
// checksums of its parts (COMPOSITE), and which of them a copy is to have (S3 User Guide "Checking object
// integrity"; S3 API Reference CopyObject, CreateMultipartUpload, CompleteMultipartUpload, ListParts).

import {
  type ChecksumAlgorithm,
  checksumField,
  checksumName,
  checksumValue,
  readChecksumField,
  readChecksumName,
} from "./checksum.ts";
import { isMultipart } from "./entity-tags.ts";
import { S3Error } from "./errors.ts";
import { fieldValue, type HeaderList } from "./headers.ts";
import { childText, readXml, type XmlElement } from "./xml.ts";

type ChecksumType = "FULL_OBJECT" | "COMPOSITE";

export interface ObjectChecksum {
  readonly algorithm: ChecksumAlgorithm;
  /** `null`: not told. */
  readonly type: ChecksumType | null;
  /** Of all its bytes, `NSRBwg==`; `null` for a COMPOSITE one and where that is not sure. */
  readonly whole: string | null;
}

/** What a copy is to have. */
export interface CopyChecksum {
  readonly algorithm: ChecksumAlgorithm;
  /** The source's, where it is of this algorithm. */
  readonly source: ObjectChecksum | null;
}

/** What an upload in parts has, as its cluster says. */
export type UploadChecksum = Pick<ObjectChecksum, "algorithm" | "type">;

export type CopyChecksumResult =
  /** `null`: none. */
  | { readonly kind: "checksum"; readonly checksum: CopyChecksum | null }
  | { readonly kind: "error"; readonly error: S3Error };

const algorithmField = "x-amz-checksum-algorithm";
const typeField = "x-amz-checksum-type";
/** Those whose value over all bytes can be made of the parts' values; CRC64NVME knows no other. */
const combinable: ReadonlySet<ChecksumAlgorithm> = new Set(["crc32", "crc32c", "crc64nvme"]);
const maxAnswerBytes = 4 * 1024 * 1024;

/** The checksum that HEAD tells of an object when it is asked for it; the first that we can compute. */
export function objectChecksum(headers: HeaderList): ObjectChecksum | null {
  const told = readType(fieldValue(headers, typeField));
  const ofParts = isMultipart(fieldValue(headers, "etag") ?? "");
  for (const [name, text] of headers) {
    const algorithm = readChecksumField(name);
    if (algorithm === null) continue;
    const bare = text.replace(/-\d{1,5}$/, "");
    if (checksumValue(algorithm, bare) === null) continue;
    const type = bare === text ? told : "COMPOSITE";
    const isWhole = type === "FULL_OBJECT" || (type === null && !ofParts);
    return { algorithm, type, whole: isWhole ? text : null };
  }
  return null;
}

/** The checksum of a copy: of the algorithm that the request names, else of the source's. */
export function copyChecksum(request: HeaderList, source: HeaderList): CopyChecksumResult {
  const name = fieldValue(request, algorithmField);
  const asked = name === null ? null : readChecksumName(name);
  if (name !== null && asked === null) {
    const message = `Header "${algorithmField}" names no checksum algorithm that is supported`;
    return { kind: "error", error: new S3Error("InvalidRequest", { message }) };
  }
  const present = objectChecksum(source);
  const algorithm = asked ?? present?.algorithm ?? null;
  if (algorithm === null) return { kind: "checksum", checksum: null };
  const same = present?.algorithm === algorithm ? present : null;
  return { kind: "checksum", checksum: { algorithm, source: same } };
}

/** What CreateMultipartUpload is asked for: the source's type, where an upload in parts can have it. */
export function uploadChecksumFields({ algorithm, source }: CopyChecksum): HeaderList {
  const isCombinable = combinable.has(algorithm);
  const kept = source?.type === "COMPOSITE" && algorithm !== "crc64nvme";
  const type: ChecksumType = isCombinable && !kept ? "FULL_OBJECT" : "COMPOSITE";
  return [
    [algorithmField, checksumName(algorithm)],
    [typeField, type],
  ];
}

/** What the answer to CreateMultipartUpload says of the upload; `null` where it will keep none. */
export function begunChecksum(headers: HeaderList): UploadChecksum | null {
  const algorithm = readChecksumName(fieldValue(headers, algorithmField) ?? "");
  return algorithm === null ? null : { algorithm, type: readType(fieldValue(headers, typeField)) };
}

/** The algorithm of an upload out of its ListParts answer. */
export function listedAlgorithm(body: Uint8Array): ChecksumAlgorithm | null {
  const reading = readXml(body, { maxBytes: maxAnswerBytes });
  if (reading.kind === "error" || reading.root.name !== "ListPartsResult") return null;
  return readChecksumName(childText(reading.root, "ChecksumAlgorithm") ?? "");
}

/**
 * By what CompleteMultipartUpload proves that the object is the source: its value over all bytes, where the
 * upload has one.
 */
export function completeChecksumFields(
  { source }: CopyChecksum,
  upload: UploadChecksum,
): HeaderList {
  const whole = source?.algorithm === upload.algorithm ? source.whole : null;
  if (upload.type !== "FULL_OBJECT" || whole === null) return [];
  return [
    [checksumField(upload.algorithm), whole],
    [typeField, upload.type],
  ];
}

/** `ChecksumSHA256`, as the documents of copies and uploads tell a value. */
export function checksumElement(algorithm: ChecksumAlgorithm, value: string): XmlElement {
  return { name: `Checksum${checksumName(algorithm)}`, text: value, children: [] };
}

/** Whether a write is refused because its bytes do not sum up to what was sent with them; RGW has its own. */
export function isChecksumRefusal(code: string): boolean {
  return code === "BadDigest" || code === "XAmzContentChecksumMismatch";
}

function readType(text: string | null): ChecksumType | null {
  const type = text?.trim().toUpperCase();
  return type === "FULL_OBJECT" || type === "COMPOSITE" ? type : null;
}
