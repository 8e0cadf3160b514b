// What a page of a bucket list is, and the rules that all of its users share: keys stand in the byte
// order of their UTF-8 form (not in JavaScript's UTF-16 order), a key that holds the delimiter behind
// the prefix is rolled up, and a rolled-up prefix continues after its last possible key.
// S3 API Reference "ListObjectsV2" and "ListObjects".

import { Buffer } from "node:buffer";
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
  /** Decoded where the upstream encodes it. RGW 16.2 does not: do not build on it. */
  readonly nextMarker: string | null;
}

/** Where a list stands: behind a key, or behind everything under a common prefix. */
export interface ListPosition {
  readonly kind: "key" | "prefix";
  readonly text: string;
}

/** The longest key S3 takes, in bytes of UTF-8. */
const maxKeyBytes = 1024;

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

// The greatest UTF-8 sequences of four, three, two and one bytes.
const greatest = ["\u{10ffff}", "\uffff", "\u07ff", "\u007f"] as const;

/**
 * The greatest key of at most 1024 bytes that begins with `prefix`; listing after it leaves out all of
 * the prefix and nothing else. AWS would list the prefix again after the prefix alone; RGW 16.2 not.
 */
export function lastKeyUnder(prefix: string): string {
  let left = maxKeyBytes - Buffer.byteLength(prefix);
  let key = prefix;
  for (const [index, text] of greatest.entries()) {
    const bytes = 4 - index;
    const count = Math.max(0, Math.floor(left / bytes));
    key += text.repeat(count);
    left -= count * bytes;
  }
  return key;
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

/**
 * The delimiter to ask an upstream with; `""`: none, and we roll up alone. RGW 16.2 finds a delimiter
 * of several characters also where it begins inside the prefix (`/` and `//`), and then goes on too far
 * behind a key such as `//`: its own pages lose the keys that follow.
 */
export function upstreamDelimiter(prefix: string, delimiter: string): string {
  for (let length = 1; length < delimiter.length; length += 1) {
    if (prefix.endsWith(delimiter.slice(0, length))) return "";
  }
  return delimiter;
}
