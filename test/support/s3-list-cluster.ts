// A bucket list in memory, as an oracle for the merge: the plain definition of S3's list over a set of
// keys, and the ways in which real upstreams differ when a list goes on inside a common prefix.

import {
  commonPrefixOf,
  compareKeys,
  type ListEntry,
  type ListPage,
} from "../../proxy/s3/listing.ts";

export interface ListQuestion {
  readonly prefix: string;
  readonly delimiter: string;
  readonly maxKeys: number;
  readonly after: string | null;
}

/**
 * `plain`: rolls up the keys behind `after`, so a prefix comes again if `after` lies inside of it.
 * `skipping`: leaves out such a prefix, as RGW 16.2 does. `flat`: knows no delimiter.
 */
export type ListHabit = "plain" | "skipping" | "flat";

export function entryOf(key: string, etag: string): ListEntry {
  return { key, lastModified: null, etag, size: "1", storageClass: null, owner: null, extra: [] };
}

/** Keys in the order of their UTF-8 bytes, decided by Buffer and not by the code under test. */
export function sortedKeys(keys: Iterable<string>): readonly string[] {
  return [...new Set(keys)].toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

/** Answers one page over `keys`, which are sorted. */
export function listPage(
  keys: readonly string[],
  question: ListQuestion,
  options: { readonly habit: ListHabit; readonly etag: string },
): ListPage {
  const { prefix, maxKeys, after } = question;
  const delimiter = options.habit === "flat" ? "" : question.delimiter;
  const skipped = after === null ? null : commonPrefixOf(after, prefix, delimiter);
  const entries: ListEntry[] = [];
  const commonPrefixes: string[] = [];
  let truncated = false;
  for (const key of keys) {
    if (!key.startsWith(prefix) || (after !== null && compareKeys(key, after) <= 0)) continue;
    const group = commonPrefixOf(key, prefix, delimiter);
    if (group !== null && group === commonPrefixes.at(-1)) continue;
    if (options.habit === "skipping" && group !== null && group === skipped) continue;
    if (entries.length + commonPrefixes.length === maxKeys) {
      truncated = maxKeys > 0;
      break;
    }
    if (group === null) entries.push(entryOf(key, options.etag));
    else commonPrefixes.push(group);
  }
  return { entries, commonPrefixes, truncated, nextContinuationToken: null, nextMarker: null };
}
