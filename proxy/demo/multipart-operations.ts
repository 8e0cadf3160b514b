// Multipart uploads of the demo cluster: create, upload part, list parts, complete, abort (S3 API
// Reference). Parts live outside the bucket's keys until Complete puts the object in one step.

import { S3Error } from "../s3/errors.ts";
import { queryValue } from "../s3/query.ts";
import { childrenOf, childText, element, group, readXml, s3Document } from "../s3/xml.ts";
import { type DemoAnswer, documentAnswer, emptyAnswer } from "./answer.ts";
import {
  askedSum,
  assertNamed,
  assertPartSum,
  checksumOf,
  completedSum,
  sumElements,
  uploadSumElements,
  uploadSumFields,
  valueElements,
  valueOf,
} from "./checksums.ts";
import { assertMayWrite } from "./conditions.ts";
import { objectFields, setTags } from "./object-operations.ts";
import { etagOf, multipartEtag, type StoredPart, type StoredUpload } from "./object-store.ts";
import { bucketOf, type DemoPorts, type DemoRequest, keyOf } from "./request.ts";

const mostParts = 10_000;
const documentLimitBytes = 2 * 1024 * 1024;

export function createUpload(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const bucket = ports.store.bucket(bucketOf(request));
  const key = keyOf(request);
  const id = ports.newId();
  const sum = ports.facts.verifiesChecksums ? askedSum(request.headers) : null;
  bucket.uploads.set(id, {
    id,
    key,
    startedMs: ports.nowMs(),
    headers: objectFields(request.headers),
    sum,
    tagging: request.headers.filter(([name]) => name === "x-amz-tagging"),
    parts: new Map(),
  });
  const answer = documentAnswer(
    s3Document("InitiateMultipartUploadResult", [
      element("Bucket", bucket.name),
      element("Key", key),
      element("UploadId", id),
    ]),
  );
  return { ...answer, headers: [...answer.headers, ...uploadSumFields(sum)] };
}

export function uploadPart(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const upload = uploadOf(request, ports);
  const { sum } = upload;
  if (sum !== null) assertPartSum(request.headers, sum);
  const part = storePart(upload, { request, bytes: request.body, nowMs: ports.nowMs() });
  const told = request.headers.filter(([name]) => checksumOf(name) !== null);
  return emptyAnswer(200, [["etag", part.etag], ...told]);
}

/** Keeps the bytes as the part that the request names. @throws S3Error InvalidArgument */
export function storePart(
  upload: StoredUpload,
  given: { readonly request: DemoRequest; readonly bytes: Buffer; readonly nowMs: number },
): StoredPart {
  const { request, bytes, nowMs } = given;
  const text = queryValue(request.query, "partNumber") ?? "";
  const number = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > mostParts) {
    throw new S3Error("InvalidArgument", {
      message: `Part number must be an integer between 1 and ${mostParts}`,
    });
  }
  const part = {
    number,
    bytes,
    sizeBytes: bytes.length,
    etag: etagOf(bytes),
    checksum: upload.sum === null ? null : valueOf(bytes, upload.sum.algorithm),
    modifiedMs: nowMs,
  };
  upload.parts.set(number, part);
  return part;
}

export function listParts(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const upload = uploadOf(request, ports);
  const most = Math.min(1000, count(queryValue(request.query, "max-parts"), 1000));
  const marker = count(queryValue(request.query, "part-number-marker"), 0);
  const behind = sortedParts(upload).filter((part) => part.number > marker);
  const page = behind.slice(0, most);
  return documentAnswer(
    s3Document("ListPartsResult", [
      element("Bucket", bucketOf(request)),
      element("Key", upload.key),
      element("UploadId", upload.id),
      element("PartNumberMarker", String(marker)),
      element("NextPartNumberMarker", String(page.at(-1)?.number ?? marker)),
      element("MaxParts", String(most)),
      element("IsTruncated", String(page.length < behind.length)),
      ...uploadSumElements(upload.sum),
      ...page.map((part) =>
        group("Part", [
          element("PartNumber", String(part.number)),
          element("LastModified", new Date(part.modifiedMs).toISOString()),
          element("ETag", part.etag),
          element("Size", String(part.sizeBytes)),
          ...valueElements(upload.sum, part.checksum),
        ]),
      ),
    ]),
  );
}

/** ListMultipartUploads, as Ceph RGW has it: in the order of `key.id`, a delimiter not understood. */
export function listUploads(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const bucket = ports.store.bucket(bucketOf(request));
  const prefix = queryValue(request.query, "prefix") ?? "";
  const marker = queryValue(request.query, "key-marker") ?? "";
  const after = `${marker}.${queryValue(request.query, "upload-id-marker") ?? ""}`;
  const most = Math.min(1000, count(queryValue(request.query, "max-uploads"), 1000));
  const behind = [...bucket.uploads.values()]
    .map((upload) => ({ upload, name: `${upload.key}.${upload.id}` }))
    .filter(({ upload, name }) => upload.key.startsWith(prefix) && (marker === "" || name > after))
    .sort((left, right) => (left.name < right.name ? -1 : 1));
  const page = behind.slice(0, most).map(({ upload }) => upload);
  const last = page.at(-1);
  return documentAnswer(
    s3Document("ListMultipartUploadsResult", [
      element("Bucket", bucket.name),
      element("NextKeyMarker", last?.key ?? ""),
      element("NextUploadIdMarker", last?.id ?? ""),
      element("MaxUploads", String(most)),
      element("IsTruncated", String(page.length < behind.length)),
      ...page.map((upload) =>
        group("Upload", [
          element("Key", upload.key),
          element("UploadId", upload.id),
          element("StorageClass", "STANDARD"),
          element("Initiated", new Date(upload.startedMs).toISOString()),
        ]),
      ),
    ]),
  );
}

export function completeUpload(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const bucket = ports.store.bucket(bucketOf(request));
  const upload = uploadOf(request, ports);
  if (ports.facts.honoursConditionalComplete) {
    assertMayWrite(bucket.object(upload.key), request.headers, ports.facts);
  }
  const parts = chosenParts(request.body, upload, ports.minPartBytes);
  const etag = multipartEtag(parts);
  const sum = upload.sum && completedSum(upload.sum, parts, request.headers);
  bucket.put({
    key: upload.key,
    bytes: Buffer.concat(parts.map((part) => part.bytes)),
    etag,
    modifiedMs: ports.nowMs(),
    headers: upload.headers,
    sum,
    parts: parts.map(({ number, checksum, sizeBytes }) => ({ number, checksum, sizeBytes })),
  });
  setTags(bucket, upload.key, upload.tagging);
  bucket.uploads.delete(upload.id);
  return documentAnswer(
    s3Document("CompleteMultipartUploadResult", [
      element("Location", `/${bucket.name}/${upload.key}`),
      element("Bucket", bucket.name),
      element("Key", upload.key),
      element("ETag", etag),
      ...sumElements(sum),
    ]),
  );
}

export function abortUpload(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const upload = uploadOf(request, ports);
  ports.store.bucket(bucketOf(request)).uploads.delete(upload.id);
  return emptyAnswer(204);
}

/** The upload that a request names. @throws S3Error NoSuchUpload */
export function uploadOf(request: DemoRequest, ports: DemoPorts): StoredUpload {
  const id = queryValue(request.query, "uploadId") ?? "";
  const upload = ports.store.bucket(bucketOf(request)).uploads.get(id);
  if (upload === undefined || upload.key !== keyOf(request)) throw new S3Error("NoSuchUpload");
  return upload;
}

/** The parts that Complete names, in ascending order, each as it was uploaded. */
function chosenParts(body: Buffer, upload: StoredUpload, minPartBytes: number): StoredPart[] {
  const reading = readXml(body, { maxBytes: documentLimitBytes });
  if (reading.kind === "error" || reading.root.name !== "CompleteMultipartUpload") {
    throw new S3Error("MalformedXML");
  }
  const parts: StoredPart[] = [];
  for (const item of childrenOf(reading.root, "Part")) {
    const number = Number(childText(item, "PartNumber") ?? "0");
    const etag = (childText(item, "ETag") ?? "").replaceAll('"', "");
    const previous = parts.at(-1);
    if (previous !== undefined && previous.number >= number) throw new S3Error("InvalidPartOrder");
    const part = upload.parts.get(number);
    if (part === undefined || part.etag !== `"${etag}"`) throw new S3Error("InvalidPart");
    if (upload.sum !== null) assertNamed(item, upload.sum, part.checksum);
    parts.push(part);
  }
  if (parts.length === 0) throw new S3Error("MalformedXML");
  if (parts.slice(0, -1).some((part) => part.sizeBytes < minPartBytes)) {
    throw new S3Error("EntityTooSmall");
  }
  return parts;
}

export function sortedParts(upload: StoredUpload): readonly StoredPart[] {
  return [...upload.parts.values()].sort((left, right) => left.number - right.number);
}

function count(text: string | null, fallback: number): number {
  if (text === null || text === "") return fallback;
  if (!/^\d{1,10}$/.test(text)) throw new S3Error("InvalidArgument");
  return Number(text);
}
