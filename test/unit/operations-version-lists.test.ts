// What a page of versions costs, and that none is lost while versions are deleted between pages: by others,
// or by the client that empties a bucket with what each page shows.

import fc from "fast-check";
import t from "tap";
import { listVersions } from "../../proxy/operations/version-listing.ts";
import { childText } from "../../proxy/s3/xml.ts";
import { type HeldLists, overClusters, rootOf } from "../support/list-clusters.ts";
import type { Query } from "../support/list-definition.ts";
import { noHabits, rgwHabits } from "../support/list-habits.ts";

type World = ReturnType<typeof overClusters>;

/** `key version` of each row; `next`: where a client goes on, `null` at the end. */
async function pageOf(
  { ports, ask }: World,
  size: number,
  more: Query,
): Promise<{ readonly rows: readonly string[]; readonly next: Query | null }> {
  const query: Query = [["versions", ""], ["max-keys", String(size)], ...more];
  const root = rootOf((await listVersions(ask("ListObjectVersions", query), ports)).body);
  const rows = root.children
    .filter(({ name }) => name === "Version")
    .map((node) => `${childText(node, "Key")} ${childText(node, "VersionId")}`);
  const next: Query = [
    ["key-marker", childText(root, "NextKeyMarker") ?? ""],
    ["version-id-marker", childText(root, "NextVersionIdMarker") ?? ""],
  ];
  return { rows, next: childText(root, "IsTruncated") === "true" ? next : null };
}

type Versions = Map<string, readonly string[]>;

function rowsOf(maps: readonly Versions[]): readonly string[] {
  return maps.flatMap((map) =>
    [...map].flatMap(([key, versions]) => versions.map((version) => `${key} ${version}`)),
  );
}

/** Whether it was there. */
function isDeleted(maps: readonly Versions[], row: string): boolean {
  const [key = "", version = ""] = row.split(" ");
  const map = maps.find((one) => one.get(key)?.includes(version));
  const left = map?.get(key)?.filter((one) => one !== version) ?? [];
  if (left.length === 0) map?.delete(key);
  else map?.set(key, left);
  return map !== undefined;
}

/** What goes between two pages; `deletions`: so many went before. */
const choices = {
  nothing: () => [],
  shown: (shown) => shown,
  last: (shown, { deletions }) => (deletions < 20 ? shown.slice(-1) : []),
  null: (shown) => shown.filter((row) => row.endsWith(" null")),
  any: (_, { deletions, held, number }) =>
    deletions < 5 ? held.slice(number % held.length).slice(0, 1) : [],
} as const satisfies Record<string, Choice>;

type Choice = (
  shown: readonly string[],
  by: { readonly deletions: number; readonly held: readonly string[]; readonly number: number },
) => readonly string[];

const count = fc.oneof(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 150 }));
const nullAt = fc.oneof(fc.constant(-1), fc.nat(149));
const holding = fc.record({
  clusters: fc.array(fc.tuple(fc.constantFrom(noHabits, rgwHabits), fc.constantFrom(1, 7, 1000)), {
    minLength: 1,
    maxLength: 2,
  }),
  keys: fc.array(
    fc.tuple(fc.constantFrom("a", "k", "k\u0001", "kk", "l"), fc.tuple(count, nullAt)),
    { minLength: 1, maxLength: 3 },
  ),
  size: fc.constantFrom(1, 2, 10, 100, 1000),
  choice: fc.constantFrom(...Object.values(choices)),
  dice: fc.infiniteStream(fc.nat(1000)),
});

t.test("while versions are deleted all that stay are listed, and the list ends", async (t) => {
  await fc.assert(
    fc.asyncProperty(holding, async ({ clusters, keys, size, choice, dice }) => {
      const maps = clusters.map((): Versions => new Map());
      for (const [index, [key, [count, at]]] of keys.entries()) {
        const place = index % clusters.length;
        const [habits, limit] = clusters[place] ?? [noHabits, 1000];
        const most = limit === 1 ? Math.min(count, 12) : count;
        // An RGW that gives one row alone gives nothing behind null, whatever it is asked.
        const nullAt = limit === 1 && habits === rgwHabits ? -1 : at % most;
        const ids = Array.from({ length: most }, (_, age) => `${place}-${age}`);
        maps[place]?.set(key, at < 0 ? ids : ids.map((id, age) => (age === nullAt ? "null" : id)));
      }
      const total = rowsOf(maps).length;
      const held = clusters.map(
        ([habits, limit], index): HeldLists => ({
          habits,
          limit,
          versions: maps[index] ?? new Map(),
        }),
      );
      const world = overClusters(held, { conflict: true });
      const seen = new Set<string>();
      let deletions = 0;
      let pages = 0;
      for (let more: Query | null = []; more !== null; pages += 1) {
        const { rows, next }: Awaited<ReturnType<typeof pageOf>> = await pageOf(world, size, more);
        for (const row of rows) seen.add(row);
        more = next;
        const by = { deletions, held: rowsOf(maps), number: dice.next().value };
        if (more !== null) {
          deletions += choice(rows, by).filter((row) => isDeleted(maps, row)).length;
        }
        const most = (Math.ceil(total / size) + 1) * (1 + deletions);
        if (pages > most) throw new Error(`no end after ${pages} pages`);
      }
      const shadowed = (row: string): boolean =>
        maps.findIndex((map) => map.has(row.split(" ")[0] ?? "")) !==
        maps.findIndex((map) => rowsOf([map]).includes(row));
      const never = rowsOf(maps).filter((row) => !seen.has(row) && !shadowed(row));
      if (never.length > 0) throw new Error(`never listed: ${never.join(", ")}`);
    }),
    { numRuns: 30 },
  );
  t.pass("all that were there from the first page to the last");
});

t.test("a page of versions is one question to each cluster", async (t) => {
  const keys = Array.from({ length: 45 }, (_, index) => `k${String(index + 10)}`);
  const kinds = [
    ["unversioned", 1, ["null"]],
    ["versioned", 1, ["v1"]],
    ["versioned", 1, ["v3", "v2", "v1"]],
    ["versioned since", 1, ["v1", "null"]],
    ["suspended since", 1, ["null", "v1"]],
    ["spread over two", 2, ["null"]],
    ["spread over three", 3, ["null"]],
  ] as const;
  for (const [name, count, versions] of kinds) {
    const clusters = Array.from({ length: count }, (_, at): HeldLists => {
      const own = keys.filter((_, index) => index % count === at);
      return { habits: rgwHabits, limit: 1000, versions: new Map(own.map((k) => [k, versions])) };
    });
    const world = overClusters(clusters);
    const seen: string[] = [];
    let pages = 0;
    for (let more: Query | null = []; more !== null; pages += 1) {
      const page: Awaited<ReturnType<typeof pageOf>> = await pageOf(world, 10, more);
      seen.push(...page.rows);
      more = page.next;
    }
    const what = `${name}: ${versions.join()}`;
    t.strictSame(
      seen,
      keys.flatMap((key) => versions.map((version) => `${key} ${version}`)),
      what,
    );
    t.equal(pages, Math.ceil(seen.length / 10));
    t.equal(world.asked.length, pages * count, what);
  }
});

t.test("the longest page of versions is passed as its one cluster gave it", async (t) => {
  const keys = Array.from({ length: 2100 }, (_, index) => `k${String(index + 1000)}`);
  const versions = new Map(keys.map((text) => [text, ["v"]]));
  const world = overClusters([{ habits: rgwHabits, limit: 1000, versions }]);
  const counts: number[] = [];
  for (let more: Query | null = []; more !== null; ) {
    const page: Awaited<ReturnType<typeof pageOf>> = await pageOf(world, 1000, more);
    counts.push(page.rows.length);
    more = page.next;
  }
  t.strictSame(counts, [1000, 999, 101]);
  t.equal(world.asked.length, 3);
});
