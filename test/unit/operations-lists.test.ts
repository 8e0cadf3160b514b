// Every list over several clusters is, page by page, the list of one cluster that holds the union: the
// operations whole, from the client's query to the document, against the plain definition of a list.

import fc from "fast-check";
import t from "tap";
import { listObjects } from "../../proxy/operations/listing.ts";
import { listUploads } from "../../proxy/operations/upload-listing.ts";
import { listVersions } from "../../proxy/operations/version-listing.ts";
import { readUploadHandle } from "../../proxy/placement/upload-handle.ts";
import { noTenant } from "../../proxy/s3/names.ts";
import { childOf, childText } from "../../proxy/s3/xml.ts";
import {
  clusterIdOf,
  type HeldLists,
  listBucket,
  overClusters,
  rootOf,
} from "../support/list-clusters.ts";
import {
  defined,
  encodedText,
  type Page,
  pagesOf,
  type Query,
  readPage,
  same,
  walk,
} from "../support/list-definition.ts";
import { type ListHabits, listHabitNames, noHabits, rgwHabits } from "../support/list-habits.ts";
import { keyNamed } from "../support/placement-names.ts";

// Few letters, so that keys, prefixes and delimiters collide; blanks, signs that a query or a form means
// something by, a line break; U+E000–U+FFFF against U+10000, where UTF-16 order is not byte order.
const letters = "a b / / _ _ - . + % \u0001 \u007f é \ue000 \uffff 😀".split(" ").concat(" ", "\n");
const word = fc
  .array(fc.constantFrom(...letters), { minLength: 1, maxLength: 5 })
  .map((parts) => parts.join(""));
const longest = word.map((text) => text + "z".repeat(1024 - Buffer.byteLength(text)));
const key = fc.oneof({ arbitrary: word, weight: 12 }, { arbitrary: longest, weight: 1 });
const delimiter = fc.constantFrom("", ..."/,/,//,-,a,😀,/-, ,_,_,__,_/,\u007f,".split(","));
const prefix = fc.oneof(fc.constant(""), fc.constant(""), word, fc.constantFrom("a", "a/", "/"));
const marker = fc.oneof(fc.constant(""), fc.constant(""), key);
/** S3's own, RGW's, and any mixture. */
const habits = fc.oneof(
  fc.constantFrom(noHabits, rgwHabits, rgwHabits),
  fc.subarray([...listHabitNames]).map((names): ListHabits => new Set(names)),
);
const limit = fc.constantFrom(1, 2, 3, 1000);
const pageSize = fc.constantFrom(0, 1, 2, 7, 1000, 1001, 2_147_483_647);
const place = fc.constantFrom(0, 1, 2, 3);

/** Keys with the clusters that have them: mostly one. */
const holdings = fc.record({
  habits: fc.array(fc.tuple(habits, limit), { minLength: 2, maxLength: 4 }),
  keys: fc.array(
    fc.tuple(
      key,
      fc.oneof(
        place.map((at) => [at]),
        fc.array(place, { maxLength: 3 }),
      ),
    ),
    {
      maxLength: 30,
    },
  ),
});

/** The clusters, and of each key the first cluster that has it. */
function clustersOf(
  given: { readonly habits: readonly (readonly [ListHabits, number])[] },
  keys: readonly (readonly [key: string, places: readonly number[]])[],
  versions: (key: string, cluster: number) => readonly string[],
): { readonly clusters: readonly HeldLists[]; readonly fronts: ReadonlyMap<string, number> } {
  const maps = given.habits.map(() => new Map<string, readonly string[]>());
  for (const [text, places] of keys) {
    for (const at of places) {
      const cluster = at % maps.length;
      maps[cluster]?.set(text, versions(text, cluster));
    }
  }
  const fronts = new Map<string, number>();
  for (const [cluster, map] of [...maps.entries()].toReversed()) {
    for (const text of map.keys()) fronts.set(text, cluster);
  }
  const clusters = given.habits.map(([habits, limit], index): HeldLists => {
    return { habits, limit, versions: maps[index] ?? new Map() };
  });
  return { clusters, fronts };
}

/** A further cluster, with copies of some of the others' keys, and uploads of none. */
function joining(clusters: readonly HeldLists[]): HeldLists {
  const held = clusters.flatMap(({ versions }) => [...(versions ?? [])]);
  const versions = new Map(held.filter((_, index) => index % 2 === 0));
  return { habits: rgwHabits, limit: 1000, versions };
}

/**
 * The clusters of a page where they change between two: the last one joins and leaves, and the order turns,
 * so that others are the front.
 */
function changed<Id>(clusters: readonly Id[], page: number): readonly Id[] {
  const there = page % 2 === 0 ? clusters.slice(0, -1) : clusters;
  const at = page % there.length;
  return [...there.slice(at), ...there.slice(0, at)];
}

t.test("ListObjects and ListObjectsV2", async (t) => {
  const asked = fc.record({
    prefix,
    delimiter,
    marker,
    pageSize,
    url: fc.boolean(),
    owner: fc.boolean(),
    version: fc.constantFrom(1, 2),
    lastKey: fc.boolean(),
    changing: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(holdings, asked, async (given, list) => {
      const { clusters, fronts } = clustersOf(given, given.keys, (_, at) => [`of ${at}`]);
      const { ports, ask } = overClusters([...clusters, joining(clusters)]);
      const second = list.version === 2;
      const fixed: Query = [
        ...(second ? ([["list-type", "2"]] as const) : []),
        ["prefix", list.prefix],
        ["delimiter", list.delimiter],
        ["max-keys", String(list.pageSize)],
        ...(list.url ? ([["encoding-type", "url"]] as const) : []),
        ...(list.owner ? ([["fetch-owner", "true"]] as const) : []),
      ];
      const start: Query = [[second ? "start-after" : "marker", list.marker]];
      let page = 0;
      const pages = await walk(
        async (more) => {
          const query = [...fixed, ...(more.length === 0 ? start : more)];
          const asking = ask(second ? "ListObjectsV2" : "ListObjects", query);
          const given = asking.candidates;
          const candidates = list.changing ? changed(given, page++) : given;
          return rootOf((await listObjects({ ...asking, candidates }, ports)).body);
        },
        (root) => {
          const page = readPage(root, {
            names: ["Contents"],
            mark: (node) => {
              const owner = childOf(node, "Owner");
              if ((owner !== null) !== (!second || list.owner)) throw new Error("owner");
              return list.changing ? "" : (childText(node, "ETag") ?? "");
            },
          });
          if (childText(root, "MaxKeys") !== String(Math.min(list.pageSize, 1000))) {
            throw new Error("MaxKeys");
          }
          const count = childText(root, "KeyCount");
          if (second && count !== String(page.pieces.length)) throw new Error("KeyCount");
          return page;
        },
        (root, page) => {
          if (second)
            return [["continuation-token", childText(root, "NextContinuationToken") ?? ""]];
          // Without a delimiter a client of S3 goes on behind the last key, and ignores NextMarker.
          const last = page.pieces.at(-1)?.text ?? "";
          const marked = encodedText(root, "NextMarker") ?? "";
          return [["marker", list.lastKey && list.delimiter === "" ? last : marked]];
        },
      );
      const rows = [...fronts].map(
        ([text, at]) => [text, list.changing ? "" : `of ${at}`] as const,
      );
      same(pages, pagesOf(defined(rows, { ...list, after: list.marker }), list.pageSize));
    }),
    { numRuns: 400 },
  );
  t.pass("same pages, the front-most cluster's rows, owners as asked");
});

t.test("ListObjectVersions of a spread bucket, whose objects have one version each", async (t) => {
  const asked = fc.record({
    prefix,
    delimiter,
    marker,
    pageSize,
    url: fc.boolean(),
    changing: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(holdings, asked, async (given, list) => {
      const { clusters, fronts } = clustersOf(given, given.keys, () => ["null"]);
      const rows = [...fronts.keys()].map((text) => [text, "null"] as const);
      const pages = await versionPages([...clusters, joining(clusters)], list, false);
      same(pages, pagesOf(defined(rows, { ...list, after: list.marker }), list.pageSize));
    }),
    { numRuns: 300 },
  );
  t.pass("same pages");
});

/** Versions of a key on one cluster, newest first: how many, and which of them is `null`. */
const ages = fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: -1, max: 3 }));

function versionsOf(at: number, [count, nullAt]: readonly [number, number]): readonly string[] {
  return Array.from({ length: count }, (_, age) => (age === nullAt ? "null" : `${at}-${age}`));
}

t.test("ListObjectVersions of a bucket that was found on one or several clusters", async (t) => {
  const held = fc.record({
    // Two: no server gives less than that where no delimiter is.
    habits: fc.array(fc.tuple(habits, fc.constantFrom(2, 3, 1000)), {
      minLength: 1,
      maxLength: 4,
    }),
    keys: fc.array(fc.tuple(key, fc.array(place, { minLength: 1, maxLength: 3 })), {
      maxLength: 20,
    }),
  });
  const asked = fc.record({
    prefix,
    delimiter,
    pageSize,
    marker,
    url: fc.boolean(),
    counts: fc.array(ages, { minLength: 4, maxLength: 4 }),
  });
  await fc.assert(
    fc.asyncProperty(held, asked, async (given, list) => {
      const { clusters, fronts } = clustersOf(given, given.keys, (_, at) =>
        versionsOf(at, list.counts[at] ?? [1, 0]),
      );
      const rows = [...fronts].flatMap(([text, at]) =>
        (clusters[at]?.versions?.get(text) ?? []).map((version) => [text, version] as const),
      );
      const pages = await versionPages(clusters, { ...list, changing: false }, true);
      same(pages, pagesOf(defined(rows, { ...list, after: list.marker }), list.pageSize));
    }),
    { numRuns: 400 },
  );
  t.pass("same pages, each key's versions those of the first cluster that has it");
});

async function versionPages(
  clusters: readonly HeldLists[],
  list: {
    readonly prefix: string;
    readonly delimiter: string;
    readonly marker: string;
    readonly pageSize: number;
    readonly url: boolean;
    readonly changing: boolean;
  },
  conflict: boolean,
): Promise<readonly Page[]> {
  const { ports, ask } = overClusters(clusters, { conflict });
  const fixed: Query = [
    ["versions", ""],
    ["prefix", list.prefix],
    ["delimiter", list.delimiter],
    ["max-keys", String(list.pageSize)],
    ...(list.url ? ([["encoding-type", "url"]] as const) : []),
  ];
  let page = 0;
  return await walk(
    async (more) => {
      const query = [
        ...fixed,
        ...(more.length === 0 ? [["key-marker", list.marker] as const] : more),
      ];
      const asking = ask("ListObjectVersions", query);
      const given = asking.candidates;
      const candidates = list.changing ? changed(given, page++) : given;
      return rootOf((await listVersions({ ...asking, candidates }, ports)).body);
    },
    (root) =>
      readPage(root, { names: ["Version"], mark: (node) => childText(node, "VersionId") ?? "" }),
    (root) => {
      const version = childText(root, "NextVersionIdMarker");
      return [
        ["key-marker", encodedText(root, "NextKeyMarker") ?? ""],
        ...(version === null ? [] : ([["version-id-marker", version]] as const)),
      ];
    },
  );
}

t.test("ListMultipartUploads", async (t) => {
  const uploads = fc.uniqueArray(fc.tuple(key, place, fc.integer({ min: 10, max: 99 })), {
    maxLength: 25,
    selector: ([text, at, id]) => `${at} ${id} ${text}`,
  });
  const asked = fc.record({ prefix, delimiter, marker, pageSize, url: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(
      fc.array(limit, { minLength: 2, maxLength: 4 }),
      uploads,
      asked,
      async (limits, given, list) => {
        const clusters = limits.map(
          (limit, index): HeldLists => ({
            habits: index % 2 === 0 ? rgwHabits : noHabits,
            limit,
            uploads: given
              .filter(([, at]) => at % limits.length === index)
              .map(([text, , id]) => ({ key: text, id: String(id) })),
          }),
        );
        const { ports, ask } = overClusters([...clusters, joining(clusters)]);
        let page = 0;
        const markOf = (cluster: string, id: string): string => `${cluster} ${id}`;
        const rows = given
          .map(
            ([text, at, id]) =>
              [text, markOf(clusterIdOf(at % limits.length), String(id))] as const,
          )
          .filter(
            ([text, mark], index, all) =>
              all.findIndex(([a, b]) => a === text && b === mark) === index,
          )
          .toSorted(([, a], [, b]) => (a < b ? -1 : 1));
        const fixed: Query = [
          ["uploads", ""],
          ["prefix", list.prefix],
          ["delimiter", list.delimiter],
          ["max-uploads", String(list.pageSize)],
          ...(list.url ? ([["encoding-type", "url"]] as const) : []),
        ];
        const pages = await walk(
          async (more) => {
            const start = more.length === 0 ? [["key-marker", list.marker] as const] : more;
            const query = [...fixed, ...start];
            const asking = ask("ListMultipartUploads", query);
            const candidates = changed(asking.candidates, page++);
            return rootOf((await listUploads({ ...asking, candidates }, ports)).body);
          },
          (root) =>
            readPage(root, {
              names: ["Upload"],
              mark: (node, text) => {
                const pin = readUploadHandle(childText(node, "UploadId") ?? "", {
                  keys: ports.handleKeys,
                  tenant: noTenant,
                  bucket: listBucket,
                  key: keyNamed(text),
                });
                return pin === null ? "no handle" : markOf(pin.cluster, pin.uploadId);
              },
            }),
          (root) => [
            ["key-marker", encodedText(root, "NextKeyMarker") ?? ""],
            ["upload-id-marker", childText(root, "NextUploadIdMarker") ?? ""],
          ],
        );
        same(pages, pagesOf(defined(rows, { ...list, after: list.marker }), list.pageSize));
      },
    ),
    { numRuns: 300 },
  );
  t.pass("same pages of handles of this bucket and key");
});
