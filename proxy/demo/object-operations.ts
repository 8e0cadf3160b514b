// GetObject, HeadObject, PutObject and DeleteObject of the demo cluster (S3 API Reference).

import { readTags } from "../s3/copy-document.ts";
import {
  type DeleteResultRow,
  deleteResultDocument,
  readDeleteRequest,
} from "../s3/delete-document.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldTokens, fieldValue, type HeaderField, type HeaderList } from "../s3/headers.ts";
import type { ObjectKey } from "../s3/names.ts";
import { queryValue } from "../s3/query.ts";
import { overriddenField } from "../s3/response-overrides.ts";
import { element, group, s3Document } from "../s3/xml.ts";
import { type DemoAnswer, documentAnswer, emptyAnswer } from "./answer.ts";
import { sumElements, sumFields, sumOfHead, valueElements } from "./checksums.ts";
import {
  assertMayDelete,
  assertMayWrite,
  type ByteRange,
  deletionRefusal,
  mayRead,
  rangeField,
  rangeOf,
} from "./conditions.ts";
import { type DemoBucket, etagOf, type StoredObject } from "./object-store.ts";
import { bucketOf, type DemoPorts, type DemoRequest, keyOf } from "./request.ts";

const keptFields: ReadonlySet<string> = new Set([
  "cache-control",
  "content-disposition",
  "content-encoding",
  "content-language",
  "content-type",
  "expires",
  "x-amz-storage-class",
]);

/** The fields of a PUT that belong to the object. */
export function objectFields(headers: HeaderList): HeaderList {
  const fields = headers.filter(([name]) => keptFields.has(name) || name.startsWith("x-amz-meta-"));
  if (fields.some(([name]) => name === "content-type")) return fields;
  return [["content-type", "binary/octet-stream"], ...fields];
}

export function putObject(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const bucket = ports.store.bucket(bucketOf(request));
  const key = keyOf(request);
  if (ports.facts.honoursConditionalPut) {
    assertMayWrite(bucket.object(key), request.headers, ports.facts);
  }
  const object: StoredObject = {
    key,
    bytes: request.body,
    etag: etagOf(request.body),
    modifiedMs: ports.nowMs(),
    headers: objectFields(request.headers),
    sum: sumOfHead(request.headers),
  };
  bucket.put(object);
  setTags(bucket, key, request.headers);
  return emptyAnswer(200, [["etag", object.etag], ...sumFields(object.sum)]);
}

/** The tags of a header, `a=1&b=2`, as the document that `?tagging` answers. */
export function setTags(bucket: DemoBucket, key: ObjectKey, headers: HeaderList): void {
  const text = fieldValue(headers, "x-amz-tagging");
  if (text === null) return;
  const rows = [...new URLSearchParams(text)].map(([name, value]) =>
    group("Tag", [element("Key", name), element("Value", value)]),
  );
  const document = s3Document("Tagging", [group("TagSet", rows)]);
  bucket.settings(key).set("tagging", Buffer.from(document, "utf8"));
}

/** GetObject and HeadObject: the same answer, the server leaves the body out for HEAD. */
export function readObject(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const bucket = ports.store.bucket(bucketOf(request));
  const object = bucket.object(keyOf(request));
  if (object === null) throw new S3Error("NoSuchKey");
  if (!mayRead(object, request.headers, ports.facts))
    return emptyAnswer(304, [["etag", object.etag]]);
  const size = object.bytes.length;
  const part = ports.facts.answersPartNumber ? queryValue(request.query, "partNumber") : null;
  const range =
    part === null
      ? rangeOf(rangeField(object, request.headers, ports.facts), size)
      : partRange(Number(part), object);
  const bytes = range === null ? object.bytes : object.bytes.subarray(range.first, range.last + 1);
  const shown = fieldValue(request.headers, "x-amz-checksum-mode") === "ENABLED";
  const headers: HeaderField[] = [
    ...replaced(object.headers, request),
    // Of all its bytes, so of no others.
    ...(shown && range === null ? sumFields(object.sum) : []),
    ...tagCount(bucket, object.key),
    ["accept-ranges", "bytes"],
    ["etag", object.etag],
    ["last-modified", new Date(object.modifiedMs).toUTCString()],
    ["content-length", String(bytes.length)],
  ];
  if (range !== null) headers.push(["content-range", `bytes ${range.first}-${range.last}/${size}`]);
  return { status: range === null ? 200 : 206, headers, body: bytes };
}

function tagCount(bucket: DemoBucket, key: ObjectKey): HeaderList {
  const document = bucket.settings(key).get("tagging");
  const tags = document === undefined ? null : readTags(document);
  return tags ? [["x-amz-tagging-count", String(tags.split("&").length)]] : [];
}

/** The bytes of one part; an object put in one piece is its own first part. @throws S3Error InvalidPartNumber */
function partRange(number: number, { bytes, parts }: StoredObject): ByteRange {
  const partSizes = parts?.map(({ sizeBytes }) => sizeBytes) ?? [bytes.length];
  const size = partSizes[number - 1];
  if (size === undefined) throw new S3Error("InvalidPartNumber");
  const first = partSizes.slice(0, number - 1).reduce((sum, one) => sum + one, 0);
  return { first, last: first + size - 1 };
}

/** GetObjectAttributes; a server that does not know it answers the object. */
export function objectAttributes(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  if (!ports.facts.answersObjectAttributes) return readObject(request, ports);
  const object = ports.store.bucket(bucketOf(request)).object(keyOf(request));
  if (object === null) throw new S3Error("NoSuchKey");
  const { sum, parts = [] } = object;
  const asked = fieldTokens(request.headers, "x-amz-object-attributes");
  const answer = documentAnswer(
    s3Document("GetObjectAttributesResponse", [
      element("ETag", object.etag.slice(1, -1)),
      element("ObjectSize", String(object.bytes.length)),
      ...(asked.includes("checksum") && sum !== null
        ? [group("Checksum", sumElements({ ...sum, value: sum.value.replace(/-\d+$/, "") }))]
        : []),
      ...(asked.includes("objectparts") && parts.length > 0
        ? [group("ObjectParts", [element("PartsCount", String(parts.length)), ...partRows(object)])]
        : []),
    ]),
  );
  const modified = new Date(object.modifiedMs).toUTCString();
  return { ...answer, headers: [...answer.headers, ["last-modified", modified]] };
}

/** Parts are told one by one where they have checksums. */
function partRows({ sum, parts = [] }: StoredObject): readonly string[] {
  if (sum === null) return [];
  return parts.map(({ number, checksum, sizeBytes }) =>
    group("Part", [
      element("PartNumber", String(number)),
      element("Size", String(sizeBytes)),
      ...valueElements(sum, checksum),
    ]),
  );
}

export function deleteObject(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const bucket = ports.store.bucket(bucketOf(request));
  if (ports.facts.honoursConditionalDelete) {
    assertMayDelete(bucket.object(keyOf(request)), request.headers, ports.facts);
  }
  bucket.delete(keyOf(request));
  return emptyAnswer(204);
}

/** DeleteObjects: each key by itself, in the order named; a digest is demanded as AWS does. */
export function deleteObjects(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const bucket = ports.store.bucket(bucketOf(request));
  const protectedBody = request.headers.some(
    ([name]) => name === "content-md5" || name.startsWith("x-amz-checksum-"),
  );
  if (ports.facts.verifiesChecksums && !protectedBody) {
    throw new S3Error("InvalidRequest", { message: "A digest of the body is missing" });
  }
  const reading = readDeleteRequest(request.body, request.headers);
  if (reading.kind === "error") throw reading.error;
  const { entries, quiet } = reading.deletion;
  const rows = entries.map(({ key, versionId, conditions }): DeleteResultRow => {
    const asked = conditions.map(({ name, text }) => ({ name, value: text.trim() }));
    const refusal = ports.facts.honoursConditionalDelete
      ? deletionRefusal(bucket.object(key), asked)
      : null;
    if (refusal !== null) {
      const { code, message } = refusal;
      return { key, versionId, outcome: { kind: "failed", code, message } };
    }
    bucket.delete(key);
    const outcome = { kind: "deleted", deleteMarker: null, deleteMarkerVersionId: null } as const;
    return { key, versionId, outcome };
  });
  return documentAnswer(deleteResultDocument(rows, quiet));
}

/** `response-content-type=…` in the query replaces a field of the answer. */
function replaced(headers: HeaderList, request: DemoRequest): HeaderList {
  const overrides: HeaderField[] = [];
  for (const [name, value] of request.query) {
    const field = overriddenField(name);
    if (field !== null && value !== null) {
      overrides.push([field, Buffer.from(value, "utf8").toString("latin1")]);
    }
  }
  if (overrides.length === 0) return headers;
  return [
    ...headers.filter(([name]) => !overrides.some(([override]) => override === name)),
    ...overrides,
  ];
}
