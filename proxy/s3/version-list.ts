// ListObjectVersions (S3 API Reference): the request, an upstream's page, the answer; version-merge.ts makes
// the one of the others. Upstreams are asked without encoding-type and our answer is encoded
// here: RGW 16.2 encodes keys but neither its markers nor prefix and delimiter, so that clients that
// decode them go astray. Versions are kept as the upstream wrote them.

import { S3Error } from "./errors.ts";
import type { QueryList, QueryParameter } from "./headers.ts";
import { commonPrefixOf, compareKeys } from "./listing.ts";
import { readListRequest } from "./listing-request.ts";
import { encodePath } from "./percent.ts";
import { queryValue } from "./query.ts";
import { lastKeyUnder } from "./rgw-list-habits.ts";
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
  if (keyMarker === "" && versionIdMarker !== "") {
    const message = "A version-id marker cannot be specified without a key marker.";
    const details = { ArgumentName: "version-id-marker", ArgumentValue: versionIdMarker };
    return { kind: "error", error: new S3Error("InvalidArgument", { message, details }) };
  }
  const request = { prefix, delimiter, maxKeys, encodingType, keyMarker, versionIdMarker };
  return { kind: "request", request };
}

/** Where a list of versions goes on: behind that version of the key, `""` behind all of them. */
export interface VersionPosition {
  readonly keyMarker: string;
  readonly versionIdMarker: string;
}

/** What one cluster is asked for. */
export interface VersionQuestion extends VersionPosition {
  readonly prefix: string;
  /** As the upstream can take it. */
  readonly delimiter: string;
  readonly maxKeys: number;
}

export function versionListQuery(question: VersionQuestion): QueryList {
  const query: QueryParameter[] = [
    ["versions", null],
    ["max-keys", String(question.maxKeys)],
  ];
  const given = [
    ["prefix", question.prefix],
    ["delimiter", question.delimiter],
    ["key-marker", question.keyMarker],
    ["version-id-marker", question.versionIdMarker],
  ] as const;
  query.push(...given.filter(([, text]) => text !== ""));
  return query;
}

export type VersionItem =
  | { readonly kind: "version"; readonly text: string; readonly node: XmlElement }
  | { readonly kind: "prefix"; readonly text: string };

export interface VersionPage {
  /** In ascending order; the versions of one key, newest first, as the upstream had them. */
  readonly items: readonly VersionItem[];
  readonly truncated: boolean;
  /** Where the upstream says that it goes on; `null` where it does not say. */
  readonly next: VersionPosition | null;
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
  const keyMarker = childText(root, "NextKeyMarker") ?? "";
  const versionIdMarker = childText(root, "NextVersionIdMarker") ?? "";
  return {
    kind: "page",
    page: {
      // A stable sort: versions of one key keep their order.
      items: [...versions, ...prefixes].toSorted((a, b) => compareKeys(a.text, b.text)),
      truncated: truncated === "true",
      next: keyMarker === "" ? null : { keyMarker, versionIdMarker },
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

/** `""` for a prefix. */
export function versionIdOf(item: VersionItem): string {
  return item.kind === "version" ? (childText(item.node, "VersionId") ?? "") : "";
}

/** Whether the page begins with versions of exactly this key. */
export function holdsKey(page: VersionPage, key: string): boolean {
  const [first] = page.items;
  return first?.kind === "version" && first.text === key;
}

/** The answer to ListObjectVersions. */
export function versionListDocument(
  request: VersionListRequest,
  answer: {
    readonly bucket: string;
    readonly items: readonly VersionItem[];
    readonly truncated: boolean;
  },
): string {
  const { items, truncated } = answer;
  const write = request.encodingType === "url" ? encodePath : (text: string): string => text;
  const next = truncated ? items.at(-1) : undefined;
  const nextVersion = next?.kind === "version" ? versionIdOf(next) : null;
  return s3Document("ListVersionsResult", [
    element("Name", answer.bucket),
    element("Prefix", write(request.prefix)),
    element("KeyMarker", write(request.keyMarker)),
    element("VersionIdMarker", request.versionIdMarker),
    optionalElement("NextKeyMarker", next === undefined ? null : write(next.text)),
    optionalElement("NextVersionIdMarker", nextVersion),
    element("MaxKeys", String(request.maxKeys)),
    request.delimiter === "" ? "" : element("Delimiter", write(request.delimiter)),
    optionalElement("EncodingType", request.encodingType),
    element("IsTruncated", String(truncated)),
    ...items.map((item) =>
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
