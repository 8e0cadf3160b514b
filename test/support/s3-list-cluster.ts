// A bucket list in memory, as an oracle for the merge: the plain definition of S3's list over a set of
// keys, or a cluster's with its habits.

import type { ListEntry, ListPage } from "../../proxy/s3/listing.ts";
import { type ListHabits, listedRows } from "./list-habits.ts";

export interface ListQuestion {
  readonly prefix: string;
  readonly delimiter: string;
  readonly maxKeys: number;
  readonly after: string | null;
}

export function entryOf(key: string, etag: string): ListEntry {
  return { key, lastModified: null, etag, size: "1", storageClass: null, owner: null, extra: [] };
}

/** Keys in the order of their UTF-8 bytes, decided by Buffer and not by the code under test. */
export function sortedKeys(keys: Iterable<string>): readonly string[] {
  return [...new Set(keys)].toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

/** Answers one page over `keys`. */
export function listPage(
  keys: readonly string[],
  question: ListQuestion,
  options: { readonly habits: ListHabits; readonly etag: string },
): ListPage {
  const { maxKeys, after } = question;
  const rows = listedRows(
    new Map(keys.map((key) => [key, ["null"]])),
    { ...question, marker: after ?? "", versionMarker: "" },
    options.habits,
  );
  const page = rows.slice(0, maxKeys);
  const named = (wanted: "row" | "prefix"): readonly string[] =>
    page.flatMap(({ kind, key }) => (kind === wanted ? [key] : []));
  return {
    entries: named("row").map((key) => entryOf(key, options.etag)),
    commonPrefixes: named("prefix"),
    truncated: maxKeys > 0 && page.length < rows.length,
    nextContinuationToken: null,
  };
}
