// ListBuckets over several clusters is, page by page, the list of one cluster that has all of their buckets.

import fc from "fast-check";
import t from "tap";
import { listBuckets } from "../../proxy/operations/list-buckets.ts";
import { type ProfileFacts, profiles } from "../../proxy/placement/profiles.ts";
import { childOf, childrenOf, childText } from "../../proxy/s3/xml.ts";
import { type HeldLists, overClusters, rootOf } from "../support/list-clusters.ts";
import { defined, type Piece, pagesOf, same, walk } from "../support/list-definition.ts";
import { noHabits } from "../support/list-habits.ts";

const limit = fc.constantFrom(1, 2, 3, 1000);

t.test("ListBuckets", async (t) => {
  const name = fc
    .array(fc.constantFrom("a", "b", "-", "1"), { minLength: 1, maxLength: 3 })
    .map((parts) => `x${parts.join("")}x`);
  const held = fc.array(fc.tuple(fc.dictionary(name, fc.integer({ min: 1, max: 9 })), limit), {
    minLength: 2,
    maxLength: 4,
  });
  const asked = fc.record({
    prefix: fc.constantFrom("", "xa", "x-", "y"),
    most: fc.constantFrom(null, 1, 2, 7, 10_000),
    // All clusters are in us-east-1, and one of them is called c1.
    region: fc.constantFrom("", "", "us-east-1", "c1", "elsewhere"),
    isRgw: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(held, asked, async (given, list) => {
      const clusters = given.map(
        ([names, limit]): HeldLists => ({
          habits: noHabits,
          limit,
          buckets: new Map(Object.entries(names).map(([text, day]) => [text, `2026-01-0${day}`])),
        }),
      );
      const { ports, ask } = overClusters(clusters);
      const everywhere = list.isRgw || ["", "us-east-1"].includes(list.region);
      const there = everywhere ? clusters : clusters.slice(1, list.region === "c1" ? 2 : 1);
      const all = [...new Set(there.flatMap(({ buckets }) => [...(buckets?.keys() ?? [])]))];
      const rows = all.map((text) => {
        const dates = there.flatMap(({ buckets }) => buckets?.get(text) ?? []);
        return [text, dates.toSorted()[0] ?? ""] as const;
      });
      const pages = await walk(
        async (more) => {
          const most = list.most === null ? [] : ([["max-buckets", String(list.most)]] as const);
          const place = [
            ["prefix", list.prefix],
            ["bucket-region", list.region],
          ] as const;
          const asking = ask("ListBuckets", [...place, ...most, ...more]);
          const facts = (): ProfileFacts => profiles[list.isRgw ? "rgw-reef" : "aws"];
          return rootOf((await listBuckets(asking, { ...ports, facts })).body);
        },
        (root) => {
          const buckets = childOf(root, "Buckets");
          return {
            pieces: (buckets === null ? [] : childrenOf(buckets, "Bucket")).map((node): Piece => {
              const mark = childText(node, "CreationDate") ?? "";
              return { kind: "row", text: childText(node, "Name") ?? "", mark };
            }),
            truncated: childOf(root, "ContinuationToken") !== null,
          };
        },
        (root) => [["continuation-token", childText(root, "ContinuationToken") ?? ""]],
      );
      const wanted = defined(rows, { prefix: list.prefix, delimiter: "", after: "" });
      same(pages, pagesOf(wanted, list.most ?? 1000));
    }),
    { numRuns: 200 },
  );
  t.pass("same pages, whether or not the clusters page themselves");
});
