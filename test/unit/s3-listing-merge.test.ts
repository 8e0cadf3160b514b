// The merge over clusters against the list of one cluster that holds the union (invariant I5).

import fc from "fast-check";
import t from "tap";
import {
  commonPrefixOf,
  compareKeys,
  type ListPage,
  type ListPosition,
  resumeText,
} from "../../proxy/s3/listing.ts";
import { ListMerge, type MergedPage } from "../../proxy/s3/listing-merge.ts";
import { lastKeyUnder, upstreamDelimiter } from "../../proxy/s3/rgw-list-habits.ts";
import { type ListHabits, listHabitNames, noHabits, rgwHabits } from "../support/list-habits.ts";
import { entryOf, listPage, sortedKeys } from "../support/s3-list-cluster.ts";

interface Cluster {
  readonly keys: readonly string[];
  readonly habits: ListHabits;
}

interface Asked {
  readonly prefix: string;
  readonly delimiter: string;
  readonly maxKeys: number;
}

/** `upstreamLimit`: an upstream may give less than it was asked for. */
function mergedPage(
  clusters: readonly Cluster[],
  asked: Asked,
  options: { readonly after: ListPosition | null; readonly upstreamLimit: number },
): MergedPage {
  const merge = new ListMerge({ ...asked, cursors: clusters.length, after: options.after });
  for (let rounds = 0; rounds < 1000; rounds += 1) {
    const needs = merge.needs();
    if (needs.length === 0) break;
    for (const need of needs) {
      const cluster = clusters[need.cursor];
      if (cluster === undefined) throw new Error("no such cluster");
      const page = listPage(
        cluster.keys,
        {
          prefix: asked.prefix,
          delimiter: upstreamDelimiter(asked.prefix, asked.delimiter),
          after: need.after,
          maxKeys: Math.min(need.maxKeys, options.upstreamLimit),
        },
        { habits: cluster.habits, etag: String(need.cursor) },
      );
      const result = merge.feed(need.cursor, page);
      if (result.kind === "fault") throw new Error(result.fault);
    }
  }
  const page = merge.result();
  if (page === null) throw new Error("no result after 1000 rounds");
  return page;
}

function allPages(
  clusters: readonly Cluster[],
  asked: Asked,
  upstreamLimit: number,
): readonly MergedPage[] {
  const pages: MergedPage[] = [];
  let after: ListPosition | null = null;
  for (let count = 0; count < 1000; count += 1) {
    const page = mergedPage(clusters, asked, { after, upstreamLimit });
    pages.push(page);
    if (!page.truncated) return pages;
    after = page.last;
  }
  throw new Error("the list does not end");
}

function texts(pages: readonly MergedPage[]): { keys: string[]; prefixes: string[] } {
  return {
    keys: pages.flatMap((page) => page.entries.map(({ key }) => key)),
    prefixes: pages.flatMap((page) => page.commonPrefixes),
  };
}

const whole = { maxKeys: 1_000_000, after: null };
const oracle = { habits: noHabits, etag: "" } as const;

// Few letters, so that prefixes and delimiters collide; U+E000–U+FFFF against U+10000 and up, where
// UTF-16 order differs from byte order; the greatest characters of each length.
const letter = fc.constantFrom(
  "a",
  "b",
  "/",
  "/",
  "//",
  "-",
  "_",
  "_",
  "\u007f",
  "\u07ff",
  "\ue000",
  "\uffff",
  "😀",
  "\u{10ffff}",
);
const word = fc.array(letter, { minLength: 1, maxLength: 5 }).map((letters) => letters.join(""));
const delimiters = fc.constantFrom("", ..."/ / // a 😀 ab \uffff /-/ _ _ __ _/".split(" "));
const prefixes = fc.oneof(fc.constant(""), word, fc.constantFrom("a/", "a", "/", "😀"));
const habits = fc.oneof(
  fc.constantFrom(noHabits, rgwHabits, rgwHabits),
  fc.subarray([...listHabitNames]).map((names): ListHabits => new Set(names)),
);

void t.test("pages over several clusters are the list of their union", async (t) => {
  const layout = fc.record({
    holdings: fc.array(fc.record({ keys: fc.array(word, { maxLength: 25 }), habits }), {
      minLength: 1,
      maxLength: 4,
    }),
    shared: fc.array(word, { maxLength: 5 }),
    prefix: prefixes,
    delimiter: delimiters,
    maxKeys: fc.constantFrom(1, 2, 3, 5, 8, 1000),
    upstreamLimit: fc.constantFrom(1, 2, 3, 1000),
  });
  fc.assert(
    fc.property(layout, ({ holdings, shared, prefix, delimiter, maxKeys, upstreamLimit }) => {
      const clusters = holdings.map(({ keys, habits }) => ({
        keys: sortedKeys([...keys, ...shared]),
        habits,
      }));
      const union = sortedKeys(clusters.flatMap(({ keys }) => keys));
      const wanted = listPage(union, { ...whole, prefix, delimiter }, oracle);
      const pages = allPages(clusters, { prefix, delimiter, maxKeys }, upstreamLimit);
      const found = texts(pages);
      for (const page of pages) {
        const count = page.entries.length + page.commonPrefixes.length;
        if (count > maxKeys || (page.truncated && count !== maxKeys)) return false;
        for (const entry of page.entries) {
          const front = clusters.findIndex(({ keys }) => keys.includes(entry.key));
          if (entry.etag !== String(front)) return false;
        }
      }
      return (
        JSON.stringify(found.keys) === JSON.stringify(wanted.entries.map(({ key }) => key)) &&
        JSON.stringify(found.prefixes) === JSON.stringify(wanted.commonPrefixes)
      );
    }),
    { numRuns: 600 },
  );
  t.pass("nothing missing, nothing twice, the front-most copy wins");
});

void t.test("a list goes on behind any marker as if the rest alone were there", async (t) => {
  fc.assert(
    fc.property(
      fc.array(word, { maxLength: 30 }),
      fc.record({ prefix: prefixes, delimiter: delimiters, marker: word, habits }),
      (keys, { prefix, delimiter, marker, habits }) => {
        const clusters = [0, 1].map((part) => ({
          keys: sortedKeys(keys.filter((_, index) => index % 2 === part)),
          habits,
        }));
        const asked = { prefix, delimiter, maxKeys: 1000 };
        const page = mergedPage(clusters, asked, {
          after: { kind: "key", text: marker },
          upstreamLimit: 1000,
        });
        const all = listPage(sortedKeys(keys), { ...whole, prefix, delimiter }, oracle);
        const behind = (text: string): boolean =>
          Buffer.compare(Buffer.from(text), Buffer.from(marker)) > 0;
        const wanted = [
          ...all.entries.map(({ key }) => key).filter(behind),
          ...all.commonPrefixes.filter(behind),
        ];
        const found = texts([page]);
        return JSON.stringify([...found.keys, ...found.prefixes]) === JSON.stringify(wanted);
      },
    ),
    { numRuns: 400 },
  );
  t.pass("keys and prefixes greater than the marker, and only those");
});

void t.test("compares as UTF-8 bytes compare", async (t) => {
  fc.assert(
    fc.property(word, word, (a, b) => {
      return Math.sign(compareKeys(a, b)) === Buffer.compare(Buffer.from(a), Buffer.from(b));
    }),
  );
  t.ok(compareKeys("\uffff", "\u{10000}") < 0, "UTF-16 order would say otherwise");
  t.strictSame(["\u{10000}", "\uffff"].toSorted(), ["\u{10000}", "\uffff"]);
});

void t.test("the last key under a prefix is the greatest of 1024 bytes", async (t) => {
  for (const prefix of ["", "a", "ab/", "é/", "abcd", "x".repeat(1021), "x".repeat(1024)]) {
    const key = lastKeyUnder(prefix);
    t.equal(Buffer.byteLength(key), 1024);
    t.ok(key.startsWith(prefix));
    t.ok(key.isWellFormed());
  }
  t.equal(lastKeyUnder("x".repeat(1021)), `${"x".repeat(1021)}\uffff`);
  t.equal(lastKeyUnder("x".repeat(2000)), "x".repeat(2000));
  fc.assert(
    fc.property(word, fc.string({ unit: "binary", maxLength: 80 }), (prefix, rest) => {
      return compareKeys(prefix + rest, lastKeyUnder(prefix)) <= 0;
    }),
  );
});

void t.test("finds the common prefix behind the prefix only", async (t) => {
  t.equal(commonPrefixOf("a/b/c", "", "/"), "a/");
  t.equal(commonPrefixOf("a/b/c", "a/", "/"), "a/b/");
  t.equal(commonPrefixOf("a/b", "a/", "/"), null);
  t.equal(commonPrefixOf("a/", "a/", "/"), null, "the prefix itself is a key");
  t.equal(commonPrefixOf("a/", "a", "/"), "a/");
  t.equal(commonPrefixOf("a//b", "a/", "//"), null);
  t.equal(commonPrefixOf("a--b--c", "", "--"), "a--");
  t.equal(commonPrefixOf("a/b", "", ""), null);
  t.equal(commonPrefixOf("x/b", "a", "/"), null);
});

void t.test("goes on behind a prefix also when the delimiter is gone", async (t) => {
  t.equal(resumeText({ kind: "key", text: "a/b" }, "", ""), "a/b");
  t.equal(resumeText({ kind: "key", text: "a/b" }, "", "/"), lastKeyUnder("a/"));
  t.equal(resumeText({ kind: "prefix", text: "a/" }, "", ""), lastKeyUnder("a/"));
});

function page(over: Partial<ListPage>): ListPage {
  return {
    entries: [],
    commonPrefixes: [],
    truncated: false,
    nextContinuationToken: null,
    ...over,
  };
}

function mergeOf(cursors: number, asked: Partial<Asked> = {}): ListMerge {
  return new ListMerge({ cursors, prefix: "", delimiter: "", maxKeys: 10, after: null, ...asked });
}

function keys(...names: readonly string[]): ListPage["entries"] {
  return names.map((name) => entryOf(name, "e"));
}

void t.test("asks each cluster once with max-keys 0, and is never truncated", async (t) => {
  const merge = mergeOf(2, { maxKeys: 0 });
  const need = { after: null, continuationToken: null, maxKeys: 0 };
  t.strictSame(merge.needs(), [
    { cursor: 0, ...need },
    { cursor: 1, ...need },
  ]);
  merge.feed(0, page({}));
  t.equal(merge.result(), null);
  merge.feed(1, page({ truncated: true, entries: keys("a") }));
  t.strictSame(merge.needs(), []);
  t.strictSame(merge.result(), { entries: [], commonPrefixes: [], truncated: false, last: null });
});

void t.test("says what it needs, and no more than it needs", async (t) => {
  const merge = mergeOf(2, { maxKeys: 3 });
  const begin = { after: null, continuationToken: null, maxKeys: 3 };
  t.strictSame(merge.needs(), [
    { cursor: 0, ...begin },
    { cursor: 1, ...begin },
  ]);
  t.equal(merge.result(), null);
  merge.feed(1, page({ entries: keys("b"), truncated: true }));
  t.strictSame(merge.needs(), [{ cursor: 0, ...begin }], "the second has something to compare");
  merge.feed(0, page({ entries: keys("a", "z") }));
  t.strictSame(merge.needs(), [{ cursor: 1, after: "b", continuationToken: null, maxKeys: 1 }]);
  merge.feed(1, page({ entries: keys("c"), truncated: true }));
  t.strictSame(merge.needs(), []);
  const result = merge.result();
  t.strictSame(
    result?.entries.map(({ key }) => key),
    ["a", "b", "c"],
  );
  t.equal(result?.truncated, true);
  t.strictSame(result?.last, { kind: "key", text: "c" });
});

void t.test("is not truncated when the page is exactly full", async (t) => {
  const merge = mergeOf(2, { maxKeys: 2 });
  merge.feed(0, page({ entries: keys("a", "b") }));
  merge.feed(1, page({ entries: keys("a", "b") }));
  t.equal(merge.result()?.truncated, false);
  t.equal(merge.result()?.entries.length, 2);
});

void t.test("follows the token of a page that is empty and yet truncated", async (t) => {
  const merge = mergeOf(1);
  merge.feed(0, page({ truncated: true, nextContinuationToken: "t1" }));
  t.strictSame(merge.needs(), [{ cursor: 0, after: null, continuationToken: "t1", maxKeys: 10 }]);
  t.strictSame(merge.feed(0, page({ truncated: true, nextContinuationToken: "t1" })), {
    kind: "fault",
    fault: "stalled",
  });
  merge.feed(0, page({ entries: keys("a"), truncated: true, nextContinuationToken: "t2" }));
  t.strictSame(merge.needs(), [{ cursor: 0, after: "a", continuationToken: null, maxKeys: 9 }]);
});

void t.test("does not trust an answer that would lose or repeat keys", async (t) => {
  const cases: readonly [string, Partial<Asked>, Partial<ListPage>][] = [
    ["disordered", {}, { entries: keys("b", "a") }],
    ["disordered", {}, { entries: keys("a", "a") }],
    ["disordered", {}, { entries: keys("\u{10000}", "\uffff") }],
    ["disordered", { delimiter: "/" }, { commonPrefixes: ["b/", "a/"] }],
    ["foreign", { prefix: "a" }, { entries: keys("b") }],
    ["foreign", { prefix: "a", delimiter: "/" }, { commonPrefixes: ["b/"] }],
    ["stalled", {}, { truncated: true }],
    ["stalled", {}, { truncated: true, nextContinuationToken: "" }],
  ];
  for (const [fault, asked, answer] of cases) {
    t.strictSame(mergeOf(1, asked).feed(0, page(answer)), { kind: "fault", fault });
  }
  const deaf = mergeOf(1);
  deaf.feed(0, page({ entries: keys("a"), truncated: true }));
  t.strictSame(
    deaf.feed(0, page({ entries: keys("a"), truncated: true })),
    { kind: "fault", fault: "stalled" },
    "an upstream that does not know start-after",
  );
});

void t.test(
  "a full page that ends in a prefix rolled up here has perhaps all there is",
  async (t) => {
    const rolled = mergeOf(1, { delimiter: "/", maxKeys: 1 });
    rolled.feed(0, page({ entries: keys("a/1"), truncated: true }));
    const need = { cursor: 0, after: lastKeyUnder("a/"), continuationToken: null, maxKeys: 1 };
    t.strictSame(rolled.needs(), [need]);
    rolled.feed(0, page({}));
    t.equal(rolled.result()?.truncated, false);
    const upstream = mergeOf(1, { delimiter: "/", maxKeys: 1 });
    upstream.feed(0, page({ commonPrefixes: ["a/"], truncated: true }));
    t.equal(upstream.result()?.truncated, true, "the upstream's own prefix is whole");
  },
);

void t.test("takes no page that it did not ask for", async (t) => {
  const merge = mergeOf(2);
  merge.feed(0, page({ entries: keys("a") }));
  t.strictSame(merge.feed(0, page({})), { kind: "fault", fault: "unasked" });
  t.strictSame(merge.feed(2, page({})), { kind: "fault", fault: "unasked" });
});

void t.test("drops the prefix that an upstream repeats when the list goes on", async (t) => {
  const merge = new ListMerge({
    cursors: 1,
    prefix: "",
    delimiter: "/",
    maxKeys: 10,
    after: { kind: "prefix", text: "a/" },
  });
  t.strictSame(merge.needs()[0]?.after, lastKeyUnder("a/"));
  merge.feed(0, page({ entries: keys("b"), commonPrefixes: ["a/", "c/"] }));
  t.strictSame(merge.result()?.commonPrefixes, ["c/"]);
  t.strictSame(merge.result()?.last, { kind: "prefix", text: "c/" });
});

void t.test("an empty bucket on no cluster at all is an empty list", async (t) => {
  t.strictSame(mergeOf(0).result(), {
    entries: [],
    commonPrefixes: [],
    truncated: false,
    last: null,
  });
});
