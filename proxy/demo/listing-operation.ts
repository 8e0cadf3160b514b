// ListObjects and ListObjectsV2 of the demo cluster: prefix, delimiter, paging, url encoding (S3 API
// Reference). Keys come in UTF-8 byte order. A continuation token is the last entry of the page, in
// base64url so that nobody takes it for a key.

import { S3Error } from "../s3/errors.ts";
import { encodePath } from "../s3/percent.ts";
import { queryValue } from "../s3/query.ts";
import { element, group, optionalElement, s3Document } from "../s3/xml.ts";
import { type DemoAnswer, documentAnswer } from "./answer.ts";
import type { DemoBucket, StoredObject } from "./object-store.ts";
import { bucketOf, type DemoPorts, type DemoRequest } from "./request.ts";

const pageLimit = 1000;

interface Page {
  readonly objects: readonly StoredObject[];
  readonly prefixes: readonly string[];
  /** The last key or prefix given when more follows. */
  readonly next: string | null;
}

interface Question {
  readonly prefix: string;
  readonly delimiter: string;
  /** Exclusive. */
  readonly after: string;
  readonly maxKeys: number;
}

export function listObjects(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const bucket = ports.store.bucket(bucketOf(request));
  const { query } = request;
  const second = request.operation === "ListObjectsV2";
  const token = second ? queryValue(query, "continuation-token") : null;
  const start = queryValue(query, second ? "start-after" : "marker") ?? "";
  const question: Question = {
    prefix: queryValue(query, "prefix") ?? "",
    delimiter: queryValue(query, "delimiter") ?? "",
    after: token === null ? start : decodeToken(token),
    maxKeys: maxKeysOf(queryValue(query, "max-keys")),
  };
  const encoding = encodingOf(queryValue(query, "encoding-type"));
  const encode = encoding === null ? (text: string) => text : encodePath;
  const page = pageOf(bucket, question);
  const paging = second
    ? [
        element("KeyCount", String(page.objects.length + page.prefixes.length)),
        optionalElement("StartAfter", start === "" ? null : encode(start)),
        optionalElement("ContinuationToken", token),
        optionalElement(
          "NextContinuationToken",
          page.next === null ? null : encodeToken(page.next),
        ),
      ]
    : [
        element("Marker", encode(start)),
        optionalElement("NextMarker", page.next === null ? null : encode(page.next)),
      ];
  return documentAnswer(
    s3Document("ListBucketResult", [
      element("Name", bucket.name),
      element("Prefix", encode(question.prefix)),
      optionalElement("Delimiter", question.delimiter === "" ? null : encode(question.delimiter)),
      element("MaxKeys", String(question.maxKeys)),
      optionalElement("EncodingType", encoding),
      element("IsTruncated", String(page.next !== null)),
      ...paging,
      ...page.objects.map((object) => contents(object, encode)),
      ...page.prefixes.map((prefix) =>
        group("CommonPrefixes", [element("Prefix", encode(prefix))]),
      ),
    ]),
  );
}

/** ListObjectVersions: nothing here is versioned, so each object is the only version of its key. */
export function listVersions(request: DemoRequest, ports: DemoPorts): DemoAnswer {
  const bucket = ports.store.bucket(bucketOf(request));
  const { query } = request;
  const after = queryValue(query, "key-marker") ?? "";
  const question: Question = {
    prefix: queryValue(query, "prefix") ?? "",
    delimiter: queryValue(query, "delimiter") ?? "",
    after,
    maxKeys: maxKeysOf(queryValue(query, "max-keys")),
  };
  const page = pageOf(bucket, question);
  const next = page.next === null ? [] : [element("NextKeyMarker", page.next)];
  return documentAnswer(
    s3Document("ListVersionsResult", [
      element("Name", bucket.name),
      element("Prefix", question.prefix),
      element("KeyMarker", after),
      element("VersionIdMarker", ""),
      ...next,
      element("MaxKeys", String(question.maxKeys)),
      element("IsTruncated", String(page.next !== null)),
      ...page.objects.map((object) =>
        group("Version", [
          element("Key", object.key),
          element("VersionId", "null"),
          element("IsLatest", "true"),
          element("ETag", object.etag),
          element("Size", String(object.bytes.length)),
        ]),
      ),
      ...page.prefixes.map((prefix) => group("CommonPrefixes", [element("Prefix", prefix)])),
    ]),
  );
}

function pageOf(bucket: DemoBucket, question: Question): Page {
  const objects: StoredObject[] = [];
  const prefixes: string[] = [];
  const after = Buffer.from(question.after, "utf8");
  let last: string | null = null;
  for (const key of bucket.keys()) {
    if (!key.startsWith(question.prefix)) continue;
    if (question.after !== "" && Buffer.compare(Buffer.from(key, "utf8"), after) <= 0) continue;
    const prefix = commonPrefix(key, question);
    // A page that ended with a common prefix is continued behind everything below it.
    if (prefix !== null && (prefix === prefixes.at(-1) || prefix === question.after)) continue;
    if (objects.length + prefixes.length >= question.maxKeys) {
      return { objects, prefixes, next: question.maxKeys === 0 ? null : last };
    }
    const object = bucket.object(key);
    if (prefix !== null) prefixes.push(prefix);
    else if (object !== null) objects.push(object);
    last = prefix ?? key;
  }
  return { objects, prefixes, next: null };
}

function commonPrefix(key: string, question: Question): string | null {
  if (question.delimiter === "") return null;
  const at = key.indexOf(question.delimiter, question.prefix.length);
  return at === -1 ? null : key.slice(0, at + question.delimiter.length);
}

function contents(object: StoredObject, encode: (text: string) => string): string {
  return group("Contents", [
    element("Key", encode(object.key)),
    element("LastModified", new Date(object.modifiedMs).toISOString()),
    element("ETag", object.etag),
    element("Size", String(object.bytes.length)),
    element("StorageClass", "STANDARD"),
  ]);
}

function maxKeysOf(text: string | null): number {
  if (text === null || text === "") return pageLimit;
  if (!/^\d{1,9}$/.test(text)) {
    throw new S3Error("InvalidArgument", { message: 'Query parameter "max-keys" is not a number' });
  }
  return Math.min(pageLimit, Number(text));
}

function encodingOf(text: string | null): "url" | null {
  if (text === null || text === "") return null;
  if (text === "url") return text;
  throw new S3Error("InvalidArgument", {
    message: 'Query parameter "encoding-type" must be "url"',
  });
}

function encodeToken(text: string): string {
  return Buffer.from(text, "utf8").toString("base64url");
}

function decodeToken(token: string): string {
  const text = Buffer.from(token, "base64url").toString("utf8");
  if (token === "" || encodeToken(text) !== token) {
    throw new S3Error("InvalidArgument", { message: "The continuation token is not valid" });
  }
  return text;
}
