// ListObjectVersions (S3 API Reference): the request, an upstream's page, the merge of the pages of
// several clusters, the answer. Upstreams are asked without encoding-type and our answer is encoded
// here: RGW 16.2 encodes keys but neither its markers nor prefix and delimiter, so that clients that
// decode them go astray. Versions are kept as the upstream wrote them.

import type { S3Error } from "./errors.ts";
import type { QueryList, QueryParameter } from "./headers.ts";
import { commonPrefixOf, compareKeys, lastKeyUnder, upstreamDelimiter } from "./listing.ts";
import { readListRequest } from "./listing-request.ts";
import { encodePath } from "./percent.ts";
import { queryValue } from "./query.ts";
import {
  childrenOf,
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

export interface VersionListRequest {
  readonly prefix: string;
  readonly delimiter: string;
  /** 0–1000. */
  readonly maxKeys: number;
  /** `""`: from the beginning. */
  readonly keyMarker: string;
  readonly versionIdMarker: string;
  readonly encodingType: "url" | null;
}

export type VersionListReading =
  | { readonly kind: "request"; readonly request: VersionListRequest }
  | { readonly kind: "error"; readonly error: S3Error };

export function readVersionListRequest(query: QueryList): VersionListReading {
  const reading = readListRequest(query, 1);
  if (reading.kind === "error") return reading;
  const { prefix, delimiter, maxKeys, encodingType } = reading.request;
  const keyMarker = queryValue(query, "key-marker") ?? "";
  const versionIdMarker = queryValue(query, "version-id-marker") ?? "";
  const request = { prefix, delimiter, maxKeys, encodingType, keyMarker, versionIdMarker };
  return { kind: "request", request };
}

/** Where a list of versions goes on: behind that version of the key, `""` behind all of them. */
export interface VersionPosition {
  readonly keyMarker: string;
  readonly versionIdMarker: string;
}

/** The query that asks one cluster for what follows `position`. */
export function versionListQuery(given: VersionListRequest, position: VersionPosition): QueryList {
  const delimiter = upstreamDelimiter(given.prefix, given.delimiter);
  const request = { ...given, ...position, delimiter };
  const query: QueryParameter[] = [
    ["versions", null],
    ["max-keys", String(request.maxKeys)],
  ];
  if (request.prefix !== "") query.push(["prefix", request.prefix]);
  if (request.delimiter !== "") query.push(["delimiter", request.delimiter]);
  if (request.keyMarker !== "") query.push(["key-marker", request.keyMarker]);
  if (request.versionIdMarker !== "") query.push(["version-id-marker", request.versionIdMarker]);
  return query;
}

type VersionItem =
  | { readonly kind: "version"; readonly text: string; readonly node: XmlElement }
  | { readonly kind: "prefix"; readonly text: string };

interface VersionMarker {
  readonly key: string;
  readonly versionId: string | null;
}

export interface VersionPage {
  /** In ascending order; the versions of one key, newest first, as the upstream had them. */
  readonly items: readonly VersionItem[];
  readonly truncated: boolean;
  /** Where the upstream says that it goes on. */
  readonly next: VersionMarker | null;
}

export type VersionPageReading =
  | { readonly kind: "page"; readonly page: VersionPage }
  | { readonly kind: "error"; readonly fault: XmlFault | "not_a_list" | "disordered" };

/** 1000 versions of keys of 1024 bytes with owners need less than 5 MiB. */
const maxPageBytes = 8 * 1024 * 1024;

export function readVersionPage(document: Uint8Array): VersionPageReading {
  const reading = readXml(document, { maxBytes: maxPageBytes });
  if (reading.kind === "error") return reading;
  const { root } = reading;
  const truncated = childText(root, "IsTruncated")?.trim();
  // AWS says ListVersionsResult, the schema of S3 ListObjectVersionsOutput.
  if (!/^List.*Version/.test(root.name) || (truncated !== "true" && truncated !== "false")) {
    return { kind: "error", fault: "not_a_list" };
  }
  const versions = versionsOf(root);
  if (versions === null) return { kind: "error", fault: "not_a_list" };
  const prefixes = childrenOf(root, "CommonPrefixes").flatMap((node) =>
    childrenOf(node, "Prefix").map(({ text }): VersionItem => ({ kind: "prefix", text })),
  );
  if (!ascends(versions)) return { kind: "error", fault: "disordered" };
  const key = childText(root, "NextKeyMarker") ?? "";
  const versionId = childText(root, "NextVersionIdMarker") || null;
  return {
    kind: "page",
    page: {
      // A stable sort: versions of one key keep their order.
      items: [...versions, ...prefixes].toSorted((a, b) => compareKeys(a.text, b.text)),
      truncated: truncated === "true",
      next: key === "" ? null : { key, versionId },
    },
  };
}

/** Versions and delete markers, as they stand; `null` when one has no key. */
function versionsOf(root: XmlElement): readonly VersionItem[] | null {
  const versions: VersionItem[] = [];
  for (const node of root.children) {
    if (node.name !== "Version" && node.name !== "DeleteMarker") continue;
    const text = childText(node, "Key");
    if (text === null || text === "") return null;
    versions.push({ kind: "version", text, node });
  }
  return versions;
}

function ascends(items: readonly VersionItem[]): boolean {
  let last = "";
  for (const { text } of items) {
    if (compareKeys(text, last) < 0) return false;
    last = text;
  }
  return true;
}

/**
 * A position inside a rolled-up prefix stands behind all of it: S3 gives no prefix that is not greater
 * than the marker, and upstreams differ in whether they do.
 */
export function resumePosition(request: VersionListRequest): VersionPosition {
  const { keyMarker, versionIdMarker, prefix, delimiter } = request;
  const prefixOf = commonPrefixOf(keyMarker, prefix, delimiter);
  if (prefixOf === null) return { keyMarker, versionIdMarker };
  return { keyMarker: lastKeyUnder(prefixOf), versionIdMarker: "" };
}

/**
 * What one cluster holds behind a position, page by page, until it is as much as the answer may have:
 * an upstream may give less than it was asked for, and versions that it should have rolled up.
 */
export class VersionStream {
  readonly #request: VersionListRequest;
  readonly #items: VersionItem[] = [];
  #position: VersionPosition | null;
  #next: VersionMarker | null = null;

  constructor(request: VersionListRequest, position: VersionPosition) {
    this.#request = request;
    this.#position = position;
  }

  /** Where the cluster must be asked to go on; `null` when the page is ready. */
  get need(): VersionPosition | null {
    return this.#position;
  }

  /** Takes the answer to `need`; `stalled`: it goes on where it began. */
  feed(page: VersionPage): "taken" | "stalled" {
    const from = this.#position;
    this.#position = null;
    for (const item of page.items) this.#take(item);
    const goesOn = page.truncated && this.#request.maxKeys > 0;
    this.#next = goesOn ? this.#nextOf(page) : null;
    if (!goesOn) return "taken";
    if (this.#next === null) return "stalled";
    if (this.#isEnough(page)) return "taken";
    const next = this.#behind(this.#next);
    this.#position = next;
    const stalls =
      next.keyMarker === from?.keyMarker && next.versionIdMarker === from.versionIdMarker;
    return stalls ? "stalled" : "taken";
  }

  /** All that was taken, which may be more than a page. */
  page(): VersionPage {
    return { items: this.#items, truncated: this.#next !== null, next: this.#next };
  }

  #take(item: VersionItem): void {
    const { prefix, delimiter } = this.#request;
    const text = commonPrefixOf(item.text, prefix, delimiter);
    const last = this.#items.at(-1);
    if (text === null) this.#items.push(item);
    else if (last?.kind !== "prefix" || last.text !== text) {
      this.#items.push({ kind: "prefix", text });
    }
  }

  /** Not where only keys of a prefix that was rolled up here may follow: then nothing does. */
  #isEnough(page: VersionPage): boolean {
    const isOpen = page.items.at(-1)?.kind === "version" && this.#items.at(-1)?.kind === "prefix";
    return this.#items.length > this.#request.maxKeys - (isOpen ? 0 : 1);
  }

  #behind(next: VersionMarker): VersionPosition {
    const last = this.#items.at(-1);
    return last?.kind === "prefix" && next.key.startsWith(last.text)
      ? { keyMarker: lastKeyUnder(last.text), versionIdMarker: "" }
      : { keyMarker: next.key, versionIdMarker: next.versionId ?? "" };
  }

  #nextOf(page: VersionPage): VersionMarker | null {
    const last = this.#items.at(-1);
    const { next } = page;
    if (last === undefined || page.items.length === 0) return next;
    return next !== null && compareKeys(next.key, last.text) >= 0 ? next : markerOf(last);
  }
}

/**
 * The page of several clusters, front first: a key is shown by the first of them that has it. Ends
 * where one of the pages ends that is truncated, since what follows there is not known; such a page may
 * have fewer than `maxKeys` where keys are on several clusters, and says where it goes on.
 */
export function mergeVersionPages(pages: readonly VersionPage[], maxKeys: number): VersionPage {
  const [only] = pages;
  if (pages.length === 1 && only !== undefined && only.items.length <= maxKeys) {
    return maxKeys === 0 ? { ...only, truncated: false, next: null } : only;
  }
  const items: VersionItem[] = [];
  const at = pages.map(() => 0);
  let truncated = false;
  for (;;) {
    const front = frontOf(pages, at);
    if (front === null) break;
    if (front === "unknown" || items.length === maxKeys) {
      truncated = maxKeys > 0;
      break;
    }
    items.push(front.item);
    at[front.index] = (at[front.index] ?? 0) + 1;
    // Elsewhere the key is shadowed, and a prefix needs no second time.
    for (const [index, page] of pages.entries()) {
      if (index !== front.index) skip(page, at, { index, text: front.item.text });
    }
  }
  const last = items.at(-1);
  const next = truncated && last !== undefined ? markerOf(last) : null;
  return { items, truncated: truncated && next !== null, next };
}

/** The least item, of the first page that has it; `unknown` where a truncated page is at its end. */
function frontOf(
  pages: readonly VersionPage[],
  at: readonly number[],
): { readonly item: VersionItem; readonly index: number } | "unknown" | null {
  let front: { readonly item: VersionItem; readonly index: number } | null = null;
  for (const [index, page] of pages.entries()) {
    const item = page.items[at[index] ?? 0];
    if (item === undefined) {
      if (page.truncated) return "unknown";
    } else if (front === null || compareKeys(item.text, front.item.text) < 0) {
      front = { item, index };
    }
  }
  return front;
}

function skip(
  page: VersionPage,
  at: number[],
  past: { readonly index: number; readonly text: string },
): void {
  let next = at[past.index] ?? 0;
  while (page.items[next]?.text === past.text) next += 1;
  at[past.index] = next;
}

function markerOf(item: VersionItem): VersionMarker {
  const versionId = item.kind === "version" ? childText(item.node, "VersionId") : null;
  return { key: item.text, versionId };
}

/** Whether the page begins with versions of exactly this key. */
export function holdsKey(page: VersionPage, key: string): boolean {
  const [first] = page.items;
  return first?.kind === "version" && first.text === key;
}

/** The answer to ListObjectVersions. */
export function versionListDocument(
  request: VersionListRequest,
  answer: { readonly bucket: string; readonly page: VersionPage },
): string {
  const { page } = answer;
  const write = request.encodingType === "url" ? encodePath : (text: string): string => text;
  const next = page.truncated ? page.next : null;
  return s3Document("ListVersionsResult", [
    element("Name", answer.bucket),
    element("Prefix", write(request.prefix)),
    element("KeyMarker", write(request.keyMarker)),
    element("VersionIdMarker", request.versionIdMarker),
    optionalElement("NextKeyMarker", next === null ? null : write(next.key)),
    optionalElement("NextVersionIdMarker", next?.versionId ?? null),
    element("MaxKeys", String(request.maxKeys)),
    request.delimiter === "" ? "" : element("Delimiter", write(request.delimiter)),
    optionalElement("EncodingType", request.encodingType),
    element("IsTruncated", String(page.truncated)),
    ...page.items.map((item) =>
      item.kind === "prefix"
        ? group("CommonPrefixes", [element("Prefix", write(item.text))])
        : group(
            item.node.name,
            item.node.children.map((child) => keyEncoded(child, write)),
          ),
    ),
  ]);
}

function keyEncoded(child: XmlElement, write: (text: string) => string): string {
  return child.name === "Key" ? element("Key", write(child.text)) : writeElement(child);
}
