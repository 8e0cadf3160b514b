// What Ceph RGW's lists do that S3's do not, and how an upstream is asked so that it does not matter. All
// of it is right for every other server too, so that nothing here hangs on a profile. Seen on 16.2 and
// 18.2; test/support/list-habits.ts is a cluster with the same habits, compared with real ones in CI.
// Two are where they are met: a key-marker alone leaves out no versions of its key (version-merge.ts), and
// uploads come in the order of `key.id` (upload-list.ts).

import { Buffer } from "node:buffer";
import { childOf, type XmlElement } from "./xml.ts";

/** The longest key S3 takes, in bytes of UTF-8. */
const maxKeyBytes = 1024;

// The greatest UTF-8 sequences of four, three, two and one bytes.
const greatest = ["\u{10ffff}", "\uffff", "\u07ff", "\u007f"] as const;

/**
 * The greatest key of at most 1024 bytes that begins with `prefix`: a list goes on behind a common prefix
 * behind this, since RGW goes on behind a marker `a/` as if it were the prefix, and AWS as if it were a key.
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
 * The delimiter to ask an upstream with; `""`: none, and we roll up alone. RGW loses keys with two kinds:
 * - one that begins inside the prefix (`//` and `/`): it counts a marker that ends in it as a prefix;
 * - one that begins with `_`, without a prefix: it keeps `_x` as `__x`, and seeks the delimiter in that.
 */
export function upstreamDelimiter(prefix: string, delimiter: string): string {
  if (prefix === "" && delimiter.startsWith("_")) return "";
  for (let length = 1; length < delimiter.length; length += 1) {
    if (prefix.endsWith(delimiter.slice(0, length))) return "";
  }
  return delimiter;
}

/**
 * Whether a list of versions goes on rightly behind this one of a key. RGW does not find `null` where it is
 * a delete marker or as old as the bucket, takes it for the last one, and steps over the key `K\u0001` too.
 */
export function isFoundAsMarker(versionId: string): boolean {
  return versionId !== "null";
}

/** A row of a list of versions, as far as it tells who wrote it. */
interface Row {
  readonly kind: string;
  readonly node?: XmlElement;
}

/**
 * Whether the page says that an RGW wrote it, which behind a key alone lists the key's versions too: where
 * none come, none are there. Only an RGW gives a version a type. AWS would step over them.
 */
export function keepsVersions({ items }: { readonly items: readonly Row[] }): boolean {
  return items.some(
    ({ kind, node }) => kind === "version" && node !== undefined && childOf(node, "Type") !== null,
  );
}
