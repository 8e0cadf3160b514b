// GetObjectAttributes made from what HEAD tells (S3 API Reference GetObjectAttributes). Says only what
// the upstream said: no checksum it did not send, no part sizes, which it never tells afterwards.

import { isMultipart, partsOf } from "./entity-tags.ts";
import { S3Error } from "./errors.ts";
import { fieldValue, type HeaderList } from "./headers.ts";
import { element, group, optionalElement, readXml, s3Document } from "./xml.ts";

const attributeNames = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"] as const;

export type ObjectAttribute = (typeof attributeNames)[number];

export type AttributesReading =
  | { readonly kind: "attributes"; readonly names: ReadonlySet<ObjectAttribute> }
  | { readonly kind: "error"; readonly error: S3Error };

/** Reads the fields that only this operation has. */
export function readAttributesRequest(headers: HeaderList): AttributesReading {
  const value = fieldValue(headers, "x-amz-object-attributes");
  if (value === null || value.trim() === "") {
    return refuse("InvalidArgument", "The x-amz-object-attributes header is missing or empty");
  }
  const names = new Set<ObjectAttribute>();
  for (const text of value.split(",").map((part) => part.trim())) {
    const known = attributeNames.find((name) => name === text);
    if (known === undefined) return refuse("InvalidArgument", `Attribute "${text}" is not known`);
    names.add(known);
  }
  for (const name of ["x-amz-max-parts", "x-amz-part-number-marker"]) {
    const count = fieldValue(headers, name);
    if (count !== null && !/^\d{1,9}$/.test(count.trim())) {
      return refuse("InvalidArgument", `Header "${name}" must be a whole number`);
    }
  }
  return { kind: "attributes", names };
}

function refuse(code: "InvalidArgument", message: string): AttributesReading {
  return { kind: "error", error: new S3Error(code, { message }) };
}

/** Fields of this operation, and those that would make a HEAD tell of less than the object. */
const own: ReadonlySet<string> = new Set([
  "if-range",
  "range",
  "x-amz-checksum-mode",
  "x-amz-max-parts",
  "x-amz-object-attributes",
  "x-amz-part-number-marker",
]);

/** The fields to ask HEAD with; checksums only where wanted, since they need a right of their own. */
export function attributesHeadFields(
  headers: HeaderList,
  names: ReadonlySet<ObjectAttribute>,
): HeaderList {
  const fields = headers.filter(([name]) => !own.has(name));
  return names.has("Checksum") ? [...fields, ["x-amz-checksum-mode", "ENABLED"]] : fields;
}

/** Element names of the checksums, by the field that carries them. */
const checksumElements: Readonly<Record<string, string>> = {
  "x-amz-checksum-crc32": "ChecksumCRC32",
  "x-amz-checksum-crc32c": "ChecksumCRC32C",
  "x-amz-checksum-crc64nvme": "ChecksumCRC64NVME",
  "x-amz-checksum-sha1": "ChecksumSHA1",
  "x-amz-checksum-sha256": "ChecksumSHA256",
  "x-amz-checksum-type": "ChecksumType",
};

/** The answer's document, from the fields of a HEAD. */
export function attributesDocument(
  names: ReadonlySet<ObjectAttribute>,
  object: HeaderList,
): string {
  const etag = fieldValue(object, "etag");
  const elements: Readonly<Record<ObjectAttribute, string>> = {
    ETag: optionalElement("ETag", etag === null ? null : etag.replaceAll('"', "")),
    Checksum: checksum(object),
    ObjectParts:
      etag !== null && isMultipart(etag)
        ? group("ObjectParts", [element("PartsCount", String(partsOf(etag)))])
        : "",
    // S3 sends the field for every class but this one.
    StorageClass: element("StorageClass", fieldValue(object, "x-amz-storage-class") ?? "STANDARD"),
    ObjectSize: optionalElement("ObjectSize", fieldValue(object, "content-length")),
  };
  return s3Document(
    "GetObjectAttributesResponse",
    attributeNames.filter((name) => names.has(name)).map((name) => elements[name]),
  );
}

function checksum(object: HeaderList): string {
  const elements = object.flatMap(([name, value]) => {
    const known = checksumElements[name];
    return known === undefined ? [] : [element(known, value)];
  });
  return elements.length === 0 ? "" : group("Checksum", elements);
}

/** The fields of a HEAD that this operation's answer has too. */
export function attributesAnswerFields(object: HeaderList): HeaderList {
  const kept: ReadonlySet<string> = new Set([
    "last-modified",
    "x-amz-delete-marker",
    "x-amz-request-charged",
    "x-amz-request-id",
    "x-amz-version-id",
  ]);
  return object.filter(([name]) => kept.has(name));
}

/** The longest answer of an upstream: 10000 parts with a checksum each. */
export const maxAttributesBytes = 4 * 1024 * 1024;

/** Whether an upstream's body is the answer to this operation, and not an object. */
export function isAttributesDocument(body: Uint8Array): boolean {
  const reading = readXml(body, { maxBytes: maxAttributesBytes });
  return reading.kind === "document" && reading.root.name === "GetObjectAttributesResponse";
}
