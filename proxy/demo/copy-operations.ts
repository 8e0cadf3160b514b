// CopyObject and UploadPartCopy of the demo cluster (S3 API Reference). The source is
// of this cluster, as on any: a bucket that another one has is no bucket here.

import { hasSourceConditions, sourceConditionsHold } from "../s3/copy-conditions.ts";
import { copySourceField, parseCopySource, readCopyRange } from "../s3/copy-source.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderList } from "../s3/headers.ts";
import { element, s3Document } from "../s3/xml.ts";
import { type DemoAnswer, documentAnswer } from "./answer.ts";
import { askedAlgorithm, type Sum, sumElements, valueElements, valueOf } from "./checksums.ts";
import { assertMayWrite } from "./conditions.ts";
import { storePart, uploadOf } from "./multipart-operations.ts";
import { objectFields, setTags } from "./object-operations.ts";
import { etagOf, type StoredObject } from "./object-store.ts";
import { bucketOf, type DemoPorts, type DemoRequest, keyOf } from "./request.ts";

export function copyObject(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const bucket = ports.store.bucket(bucketOf(request));
  const key = keyOf(request);
  const { object: source, tags } = sourceOf(request, ports);
  const replaces = fieldValue(request.headers, "x-amz-metadata-directive") === "REPLACE";
  if (source === bucket.object(key) && !replaces) {
    throw new S3Error("InvalidRequest", { message: "The copy changes nothing of the object" });
  }
  if (ports.facts.honoursConditionalCopy) {
    assertMayWrite(bucket.object(key), request.headers, ports.facts);
  }
  const etag = etagOf(source.bytes);
  const modifiedMs = ports.nowMs();
  const headers = fieldsOf(request.headers, source, replaces);
  const sum = ports.facts.verifiesChecksums ? copiedSum(request.headers, source) : null;
  bucket.put({ key, bytes: source.bytes, etag, modifiedMs, headers, sum });
  if (fieldValue(request.headers, "x-amz-tagging-directive") === "REPLACE") {
    setTags(bucket, key, request.headers);
  } else if (tags !== null) {
    bucket.settings(key).set("tagging", tags);
  }
  return result("CopyObjectResult", { etag, modifiedMs }, sumElements(sum));
}

/** Always of the bytes, since the copy is in one piece. */
function copiedSum(headers: HeaderList, { sum, bytes }: StoredObject): Sum | null {
  const algorithm = askedAlgorithm(headers) ?? sum?.algorithm ?? null;
  if (algorithm === null) return null;
  if (algorithm === sum?.algorithm && sum.type === "FULL_OBJECT") return sum;
  return { algorithm, type: "FULL_OBJECT", value: valueOf(bytes, algorithm) };
}

export function uploadPartCopy(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const upload = uploadOf(request, ports);
  const { object: source } = sourceOf(request, ports);
  const reading = readCopyRange(request.headers);
  if (reading.kind === "error") throw reading.error;
  const { range } = reading;
  if (range !== null && range.last >= source.bytes.length) throw new S3Error("InvalidRange");
  const bytes = range === null ? source.bytes : source.bytes.subarray(range.first, range.last + 1);
  const part = storePart(upload, { request, bytes, nowMs: ports.nowMs() });
  return result("CopyPartResult", part, valueElements(upload.sum, part.checksum));
}

interface Source {
  readonly object: StoredObject;
  readonly tags: Buffer | null;
}

function sourceOf(request: DemoRequest, ports: DemoPorts): Source {
  const result = parseCopySource(fieldValue(request.headers, copySourceField) ?? "");
  if (result.kind === "error") throw result.error;
  const { key } = result.source;
  const bucket = ports.store.bucket(result.source.bucket);
  const object = bucket.object(key);
  if (object === null) throw new S3Error("NoSuchKey");
  const { etag, modifiedMs } = object;
  const state = { etag, modifiedMs: Math.floor(modifiedMs / 1000) * 1000 };
  const asked = ports.facts.honoursCopySourceConditions && hasSourceConditions(request.headers);
  if (asked && !sourceConditionsHold(request.headers, state)) {
    throw new S3Error("PreconditionFailed");
  }
  return { object, tags: bucket.settings(key).get("tagging") ?? null };
}

function fieldsOf(headers: HeaderList, source: StoredObject, replaces: boolean): HeaderList {
  const own = objectFields(headers);
  const storageClass = own.filter(([name]) => name === "x-amz-storage-class");
  const kept = (replaces ? own : source.headers).filter(([name]) => name !== "x-amz-storage-class");
  return [...kept, ...storageClass];
}

function result(
  name: string,
  { etag, modifiedMs }: Pick<StoredObject, "etag" | "modifiedMs">,
  checksums: readonly string[],
): DemoAnswer {
  return documentAnswer(
    s3Document(name, [
      element("LastModified", new Date(modifiedMs).toISOString()),
      element("ETag", etag),
      ...checksums,
    ]),
  );
}
