// ListMultipartUploads (S3 API Reference): the request, an upstream's page, the choice of the uploads
// of a page, the answer. RGW lists uploads in the order of `key.id`, not of keys, leaves encoded keys
// unmarked and, with a delimiter, the rolled-up prefixes out (16.2 seen); so upstreams are asked for
// all uploads under the prefix, in their own order, and the page is chosen here.

import { S3Error } from "./errors.ts";
import type { QueryList, QueryParameter } from "./headers.ts";
import { commonPrefixOf, compareKeys, resumeText } from "./listing.ts";
import { encodePath } from "./percent.ts";
import { queryValue } from "./query.ts";
import {
  childText,
  element,
  group,
  optionalElement,
  readXml,
  s3Document,
  writeElement,
  type XmlElement,
  type XmlFault,
} from "./xml.ts";

export interface UploadListRequest {
  readonly prefix: string;
  readonly delimiter: string;
  /** 0–1000. */
  readonly maxUploads: number;
  readonly keyMarker: string;
  /** As the client sent it: one of our handles. Ignored by S3 without a key marker. */
  readonly uploadIdMarker: string;
  readonly encodingType: "url" | null;
}

export type UploadListReading =
  | { readonly kind: "request"; readonly request: UploadListRequest }
  | { readonly kind: "error"; readonly error: S3Error };

/** Of a page, a client's or an upstream's (S3). */
const mostUploads = 1000;

export function readUploadListRequest(query: QueryList): UploadListReading {
  const most = queryValue(query, "max-uploads") || String(mostUploads);
  const encodingType = queryValue(query, "encoding-type") || null;
  if (!/^\d{1,10}$/.test(most) || Number(most) > 2_147_483_647) {
    return invalid("Argument max-uploads must be an integer between 0 and 2147483647");
  }
  if (encodingType !== null && encodingType !== "url") {
    return invalid("Invalid Encoding Method specified in Request");
  }
  const keyMarker = queryValue(query, "key-marker") ?? "";
  return {
    kind: "request",
    request: {
      prefix: queryValue(query, "prefix") ?? "",
      delimiter: queryValue(query, "delimiter") ?? "",
      maxUploads: Math.min(Number(most), mostUploads),
      keyMarker,
      uploadIdMarker: keyMarker === "" ? "" : (queryValue(query, "upload-id-marker") ?? ""),
      encodingType,
    },
  };
}

function invalid(message: string): UploadListReading {
  return { kind: "error", error: new S3Error("InvalidArgument", { message }) };
}

/** Where an upstream's own list goes on. */
export interface UploadMarker {
  readonly key: string;
  readonly uploadId: string;
}

/** The query for the next page of one cluster. */
export function uploadListQuery(prefix: string, marker: UploadMarker | null): QueryList {
  const query: QueryParameter[] = [
    ["uploads", null],
    ["max-uploads", String(mostUploads)],
  ];
  if (prefix !== "") query.push(["prefix", prefix]);
  if (marker !== null) {
    query.push(["key-marker", marker.key], ["upload-id-marker", marker.uploadId]);
  }
  return query;
}

export interface ListedUpload {
  readonly key: string;
  /** The upstream's own id. */
  readonly uploadId: string;
  readonly node: XmlElement;
}

export type UploadPageReading =
  | {
      readonly kind: "page";
      readonly uploads: readonly ListedUpload[];
      /** `null`: nothing follows. */
      readonly next: UploadMarker | null;
    }
  | { readonly kind: "error"; readonly fault: XmlFault | "not_a_list" };

const maxPageBytes = 8 * 1024 * 1024;

export function readUploadPage(document: Uint8Array): UploadPageReading {
  const reading = readXml(document, { maxBytes: maxPageBytes });
  if (reading.kind === "error") return reading;
  const { root } = reading;
  const truncated = childText(root, "IsTruncated")?.trim();
  if (root.name !== "ListMultipartUploadsResult" || !/^(?:true|false)$/.test(truncated ?? "")) {
    return { kind: "error", fault: "not_a_list" };
  }
  const uploads: ListedUpload[] = [];
  for (const node of root.children) {
    if (node.name !== "Upload") continue;
    const key = childText(node, "Key");
    const uploadId = childText(node, "UploadId");
    if (!key || !uploadId) return { kind: "error", fault: "not_a_list" };
    uploads.push({ key, uploadId, node });
  }
  const key = childText(root, "NextKeyMarker") ?? "";
  const uploadId = childText(root, "NextUploadIdMarker") ?? "";
  return { kind: "page", uploads, next: truncated === "true" ? { key, uploadId } : null };
}

/** One upload, or a prefix that stands for several. */
export type UploadItem =
  | {
      readonly kind: "upload";
      readonly key: string;
      /** Orders the uploads of one key: cluster, then the upstream's id. */
      readonly place: string;
      readonly node: XmlElement;
    }
  | { readonly kind: "prefix"; readonly key: string };

/** Keeps the first `maxUploads` uploads and prefixes behind the markers, whatever order they come in. */
export class UploadChoice {
  readonly #request: UploadListRequest;
  /** Behind which place of the marker's key the page begins; `null`: behind all of the key. */
  readonly #afterPlace: string | null;
  #items: UploadItem[] = [];
  #more = false;

  constructor(request: UploadListRequest, afterPlace: string | null) {
    this.#request = request;
    this.#afterPlace = afterPlace;
  }

  add(uploads: readonly (ListedUpload & { readonly place: string })[]): void {
    const { prefix, delimiter, maxUploads } = this.#request;
    for (const { key, place, node } of uploads) {
      if (!key.startsWith(prefix)) continue;
      const group = commonPrefixOf(key, prefix, delimiter);
      const item: UploadItem =
        group === null ? { kind: "upload", key, place, node } : { kind: "prefix", key: group };
      if (this.#isBehind(item)) this.#items.push(item);
    }
    this.#items.sort(compareItems);
    this.#items = this.#items.filter(
      (item, index) => index === 0 || compareItems(item, this.#items[index - 1] ?? item) !== 0,
    );
    if (this.#items.length <= maxUploads) return;
    this.#items.length = maxUploads;
    this.#more = true;
  }

  result(): { readonly items: readonly UploadItem[]; readonly truncated: boolean } {
    return { items: this.#items, truncated: this.#more && this.#items.length > 0 };
  }

  #isBehind(item: UploadItem): boolean {
    const { keyMarker, prefix, delimiter } = this.#request;
    if (keyMarker === "") return true;
    if (item.kind === "upload" && item.key === keyMarker && this.#afterPlace !== null) {
      return item.place > this.#afterPlace;
    }
    const after = resumeText({ kind: "key", text: keyMarker }, prefix, delimiter);
    return compareKeys(item.key, after) > 0;
  }
}

function compareItems(a: UploadItem, b: UploadItem): number {
  const byKey = compareKeys(a.key, b.key);
  if (byKey !== 0 || a.kind !== "upload" || b.kind !== "upload") return byKey;
  if (a.place === b.place) return 0;
  return a.place < b.place ? -1 : 1;
}

/** The answer to ListMultipartUploads. @param handleOf the id that clients know an upload by. */
export function uploadListDocument(
  request: UploadListRequest,
  answer: {
    readonly bucket: string;
    readonly items: readonly UploadItem[];
    readonly truncated: boolean;
    readonly handleOf: (upload: Extract<UploadItem, { kind: "upload" }>) => string;
  },
): string {
  const { items, truncated, handleOf } = answer;
  const write = request.encodingType === "url" ? encodePath : (text: string): string => text;
  const last = truncated ? (items.at(-1) ?? null) : null;
  const nextId = last?.kind === "upload" ? handleOf(last) : null;
  return s3Document("ListMultipartUploadsResult", [
    element("Bucket", answer.bucket),
    element("KeyMarker", write(request.keyMarker)),
    element("UploadIdMarker", request.uploadIdMarker),
    optionalElement("NextKeyMarker", last === null ? null : write(last.key)),
    optionalElement("NextUploadIdMarker", nextId),
    request.prefix === "" ? "" : element("Prefix", write(request.prefix)),
    request.delimiter === "" ? "" : element("Delimiter", write(request.delimiter)),
    element("MaxUploads", String(request.maxUploads)),
    optionalElement("EncodingType", request.encodingType),
    element("IsTruncated", String(truncated)),
    ...items.map((item) =>
      item.kind === "prefix"
        ? group("CommonPrefixes", [element("Prefix", write(item.key))])
        : group("Upload", [
            element("Key", write(item.key)),
            element("UploadId", handleOf(item)),
            ...item.node.children
              .filter(({ name }) => name !== "Key" && name !== "UploadId")
              .map(writeElement),
          ]),
    ),
  ]);
}
