// Reads an upstream's ListBucketResult, V1 or V2, of AWS, Ceph RGW, MinIO or versitygw, into a page
// of decoded keys. Strict where a wrong reading would lose keys: an answer that does not say whether
// it is whole, or holds a key that cannot be decoded, is no page at all.

import type { ListEntry, ListOwner, ListPage } from "./listing.ts";
import { decodeOnce } from "./percent.ts";
import { childOf, childText, readXml, type XmlElement, type XmlFault } from "./xml.ts";

export type ListPageReading =
  | { readonly kind: "page"; readonly page: ListPage }
  | { readonly kind: "error"; readonly fault: ListPageFault };

/** `not_a_list`: another document, or an element missing. `bad_key`: a key that does not decode. */
type ListPageFault = XmlFault | "not_a_list" | "bad_key";

/** 1000 keys of 1024 bytes, each percent-encoded, with owners and checksums, need less than 5 MiB. */
export const maxListPageBytes = 8 * 1024 * 1024;

const noExtra: readonly XmlElement[] = [];

/** Reads a page. `EncodingType` in the answer, not in the request, says whether keys are encoded. */
export function readListPage(body: string | Uint8Array): ListPageReading {
  const reading = readXml(body, { maxBytes: maxListPageBytes });
  if (reading.kind === "error") return { kind: "error", fault: reading.fault };
  const { root } = reading;
  const truncated = readBoolean(childText(root, "IsTruncated"));
  if (root.name !== "ListBucketResult" || truncated === null) return fault("not_a_list");
  const decode = childText(root, "EncodingType") === "url" ? decodeListText : plain;
  const entries: ListEntry[] = [];
  const commonPrefixes: string[] = [];
  for (const child of root.children) {
    if (child.name === "Contents") {
      const entry = readEntry(child, decode);
      if (entry === null) return fault("bad_key");
      entries.push(entry);
    } else if (child.name === "CommonPrefixes") {
      // S3 puts one prefix in each; its schema allows several.
      for (const { name, text } of child.children) {
        const prefix = name === "Prefix" ? decode(text) : null;
        if (prefix === null || prefix === "") return fault("bad_key");
        commonPrefixes.push(prefix);
      }
    }
  }
  return {
    kind: "page",
    page: {
      entries,
      commonPrefixes,
      truncated,
      // A token is never encoded (seen on RGW 16.2).
      nextContinuationToken: childText(root, "NextContinuationToken"),
    },
  };
}

function fault(kind: ListPageFault): ListPageReading {
  return { kind: "error", fault: kind };
}

function readBoolean(text: string | null): boolean | null {
  const trimmed = text?.trim();
  if (trimmed === "true") return true;
  return trimmed === "false" ? false : null;
}

function plain(text: string): string {
  return text;
}

/** AWS and MinIO write a blank as `+`, RGW as `%20`; a plus is `%2B` with all of them. */
function decodeListText(text: string): string | null {
  return decodeOnce(text.includes("+") ? text.replaceAll("+", " ") : text);
}

function readEntry(node: XmlElement, decode: (text: string) => string | null): ListEntry | null {
  let key: string | null = null;
  let lastModified: string | null = null;
  let etag: string | null = null;
  let size: string | null = null;
  let storageClass: string | null = null;
  let owner: ListOwner | null = null;
  let extra: XmlElement[] | null = null;
  for (const child of node.children) {
    switch (child.name) {
      case "Key":
        key = decode(child.text);
        break;
      case "LastModified":
        lastModified = child.text;
        break;
      case "ETag":
        etag = child.text;
        break;
      case "Size":
        size = child.text;
        break;
      case "StorageClass":
        storageClass = child.text;
        break;
      case "Owner":
        owner = readOwner(child);
        break;
      default:
        extra ??= [];
        extra.push(child);
    }
  }
  if (key === null || key === "") return null;
  return { key, lastModified, etag, size, storageClass, owner, extra: extra ?? noExtra };
}

/** An `Owner` element; `null` where it names no one, as versitygw has it. */
export function readOwner(node: XmlElement): ListOwner | null {
  const id = childText(node, "ID");
  return id === null || id === ""
    ? null
    : { id, displayName: childOf(node, "DisplayName")?.text ?? null };
}
