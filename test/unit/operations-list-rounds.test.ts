// What a list over clusters costs: pages of all of them at the same time, no more keys than are needed.

import t from "tap";
import { listBuckets } from "../../proxy/operations/list-buckets.ts";
import { listObjects } from "../../proxy/operations/listing.ts";
import { listUploads } from "../../proxy/operations/upload-listing.ts";
import { listVersions } from "../../proxy/operations/version-listing.ts";
import { childrenOf } from "../../proxy/s3/xml.ts";
import { type HeldLists, overClusters, rootOf } from "../support/list-clusters.ts";
import { noHabits } from "../support/list-habits.ts";

t.test(
  "a page of many keys reads each cluster's share, and whoever has more is asked again",
  async (t) => {
    const keysOf = (
      count: number,
      name: (index: number) => string,
    ): ReadonlyMap<string, readonly string[]> =>
      new Map(Array.from({ length: count }, (_, index) => [name(index), ["v"]]));
    const number = (index: number): string => String(index).padStart(5, "0");
    const even = [0, 1, 2, 3].map((part): HeldLists => {
      return {
        habits: noHabits,
        limit: 1000,
        versions: keysOf(2500, (index) => number(index * 4 + part)),
      };
    });
    const evenly = overClusters(even);
    const page = rootOf((await listObjects(evenly.ask("ListObjectsV2", []), evenly.ports)).body);
    t.equal(childrenOf(page, "Contents").length, 1000);
    t.strictSame(
      evenly.asked,
      [0, 1, 2, 3].map((part) => `c${part} ListObjectsV2 max-keys=308`),
    );
    const lopsided = overClusters([
      { habits: noHabits, limit: 1000, versions: keysOf(5000, number) },
      { habits: noHabits, limit: 1000, versions: keysOf(3, (index) => `z${index}`) },
    ]);
    const full = rootOf(
      (await listObjects(lopsided.ask("ListObjectsV2", []), lopsided.ports)).body,
    );
    t.equal(childrenOf(full, "Contents").length, 1000);
    t.strictSame(lopsided.asked, [
      "c0 ListObjectsV2 max-keys=608",
      "c1 ListObjectsV2 max-keys=608",
      "c0 ListObjectsV2 max-keys=392",
    ]);
  },
);

t.test("all clusters are asked before one has answered", async (t) => {
  const held: HeldLists = {
    habits: noHabits,
    limit: 1000,
    versions: new Map([["k", ["null"]]]),
    uploads: [{ key: "k", id: "1" }],
    buckets: new Map([["b", "2026-01-01"]]),
  };
  const runs = [
    ["ListObjectsV2", listObjects],
    ["ListObjects", listObjects],
    ["ListObjectVersions", listVersions],
    ["ListMultipartUploads", listUploads],
    ["ListBuckets", listBuckets],
  ] as const;
  for (const [operation, run] of runs) {
    const { ports, ask } = overClusters([held, held, held]);
    const { upstream } = ports;
    let waiting = 3;
    let open = (): void => {};
    const allAsked = new Promise<void>((resolve) => {
      open = resolve;
    });
    const gated: typeof upstream = {
      async send(cluster, request, signal) {
        waiting -= 1;
        if (waiting === 0) open();
        await allAsked;
        return await upstream.send(cluster, request, signal);
      },
    };
    const answer = await run(ask(operation, []), { ...ports, upstream: gated });
    t.equal(answer.status, 200, operation);
    t.ok(ports.listRoom.takenBytes > 0, "documents are held until the answer was sent");
    answer.release?.();
    t.equal(ports.listRoom.takenBytes, 0);
    const failing = async (): Promise<never> => await Promise.reject(new Error("away"));
    const cut: typeof upstream = { send: failing };
    await t.rejects(run(ask(operation, []), { ...ports, upstream: cut }), { message: "away" });
    t.equal(ports.listRoom.takenBytes, 0, "nor is anything of a list that failed");
  }
});
