// GetObject, HeadObject, PutObject and DeleteObject of the demo cluster (S3 API Reference).

import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderField, type HeaderList } from "../s3/headers.ts";
import { type DemoAnswer, emptyAnswer } from "./answer.ts";
import { assertMayWrite, mayRead, rangeOf } from "./conditions.ts";
import { etagOf, type StoredObject } from "./object-store.ts";
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
  assertMayWrite(bucket.object(key), request.headers);
  const object: StoredObject = {
    key,
    bytes: request.body,
    etag: etagOf(request.body),
    modifiedMs: ports.nowMs(),
    headers: objectFields(request.headers),
  };
  bucket.put(object);
  return emptyAnswer(200, [["etag", object.etag]]);
}

/** GetObject and HeadObject: the same answer, the server leaves the body out for HEAD. */
export function readObject(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const object = ports.store.bucket(bucketOf(request)).object(keyOf(request));
  if (object === null) throw new S3Error("NoSuchKey");
  if (!mayRead(object, request.headers)) return emptyAnswer(304, [["etag", object.etag]]);
  const size = object.bytes.length;
  const range = rangeOf(fieldValue(request.headers, "range"), size);
  const bytes = range === null ? object.bytes : object.bytes.subarray(range.first, range.last + 1);
  const headers: HeaderField[] = [
    ...replaced(object.headers, request),
    ["accept-ranges", "bytes"],
    ["etag", object.etag],
    ["last-modified", new Date(object.modifiedMs).toUTCString()],
    ["content-length", String(bytes.length)],
  ];
  if (range !== null) headers.push(["content-range", `bytes ${range.first}-${range.last}/${size}`]);
  return { status: range === null ? 200 : 206, headers, body: bytes };
}

export function deleteObject(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  ports.store.bucket(bucketOf(request)).delete(keyOf(request));
  return emptyAnswer(204);
}

/** `response-content-type=…` in the query replaces a field of the answer. */
function replaced(headers: HeaderList, request: DemoRequest): HeaderList {
  const overrides: HeaderField[] = [];
  for (const [name, value] of request.query) {
    if (name.startsWith("response-") && value !== null) {
      overrides.push([
        name.slice("response-".length),
        Buffer.from(value, "utf8").toString("latin1"),
      ]);
    }
  }
  if (overrides.length === 0) return headers;
  return [
    ...headers.filter(([name]) => !overrides.some(([override]) => override === name)),
    ...overrides,
  ];
}
