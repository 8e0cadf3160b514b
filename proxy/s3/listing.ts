// What a page of a bucket list is, and the rules that all of its users share: keys stand in the byte
// order of their UTF-8 form (not in JavaScript's UTF-16 order), a key that holds the delimiter behind
// the prefix is rolled up, and a rolled-up prefix continues after its last possible key.
// S3 API Reference "ListObjectsV2" and "ListObjects".

import { lastKeyUnder } from "./rgw-list-habits.ts";
import type { XmlElement } from "./xml.ts";

export interface ListOwner {
  readonly id: string;
  readonly displayName: string | null;
}

/** One object of a list. Everything but the key is the upstream's text, unparsed. */
export interface ListEntry {
  /** Decoded. */
  readonly key: string;
  readonly lastModified: string | null;
  /** With its quotes: `"d41d8cd98f00b204e9800998ecf8427e"`. */
  readonly etag: string | null;
  /** Decimal bytes. */
  readonly size: string | null;
  readonly storageClass: string | null;
  readonly owner: ListOwner | null;
  /** What else the upstream said, as it stood: ChecksumAlgorithm, RestoreStatus, RGW's Type. */
  readonly extra: readonly XmlElement[];
}

/** One answer of one upstream. Entries and prefixes are each in ascending order. */
export interface ListPage {
  readonly entries: readonly ListEntry[];
  /** Decoded. */
  readonly commonPrefixes: readonly string[];
  readonly truncated: boolean;
  readonly nextContinuationToken: string | null;
}

/** Where a list stands: behind a key, or behind everything under a common prefix. */
export interface ListPosition {
  readonly kind: "key" | "prefix";
  readonly text: string;
}

/** Compares two texts by their UTF-8 bytes; negative when `left` stands first. */
export function compareKeys(left: string, right: string): number {
  if (left === right) return 0;
  const length = Math.min(left.length, right.length);
  for (let at = 0; at < length; at += 1) {
    const a = left.charCodeAt(at);
    const b = right.charCodeAt(at);
    if (a !== b) return byteRank(a) - byteRank(b);
  }
  return left.length - right.length;
}

/** UTF-16 units so moved that surrogates (U+10000 and up) stand behind U+E000–U+FFFF. */
function byteRank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

/** The common prefix a key is rolled into, `a/b/` for `a/b/c`; `null` when it is listed itself. */
export function commonPrefixOf(key: string, prefix: string, delimiter: string): string | null {
  if (delimiter === "" || !key.startsWith(prefix)) return null;
  const at = key.indexOf(delimiter, prefix.length);
  return at === -1 ? null : key.slice(0, at + delimiter.length);
}

/**
 * The text after which a list goes on, exclusive. A position inside a rolled-up prefix stands behind
 * all of it: S3 gives no prefix that is not greater than the marker.
 */
export function resumeText(position: ListPosition, prefix: string, delimiter: string): string {
  if (position.kind === "prefix") return lastKeyUnder(position.text);
  const group = commonPrefixOf(position.text, prefix, delimiter);
  return group === null ? position.text : lastKeyUnder(group);
}
