// `headgate demo` as a user runs it, and what a deviation does to it.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import t from "tap";
import { shareTable } from "../../proxy/demo/share-table.ts";
import { runTour } from "../../proxy/demo/tour.ts";
import { clusterA, idOf } from "../support/raw-upstream.ts";

const root = join(import.meta.dirname, "../..");

t.test("the tour reaches its end, says what it saw and exits 0", async (t) => {
  const run = spawnSync(process.execPath, [...process.execArgv, "proxy/main.ts", "demo"], {
    cwd: root,
    encoding: "utf8",
    timeout: 90_000,
  });
  t.equal(run.status, 0, run.stderr);
  t.match(run.stdout, /is refused: 503 DrainRefused, Retry-After 300 s/);
  t.match(run.stdout, /^ +c +3 +50\.0 % +300 ± 12 +\d+ +\d+\.\d %$/m);
  t.match(run.stdout, /Done in \d+\.\d s: 662 objects written, none lost\./);
});

t.test("with --json each step is one JSON object, and nothing else is printed", async (t) => {
  const flags = ["proxy/main.ts", "demo", "--json"];
  const run = spawnSync(process.execPath, [...process.execArgv, ...flags], {
    cwd: root,
    encoding: "utf8",
    timeout: 90_000,
  });
  t.equal(run.status, 0, run.stderr);
  const steps: unknown[] = run.stdout
    .trimEnd()
    .split("\n")
    .map((line): unknown => JSON.parse(line));
  t.match(steps, [
    {
      step: "spread",
      bucket: "tour-photos",
      objects: 600,
      clusters: [
        { id: "a", weight: 1 },
        { id: "b", weight: 2 },
        { id: "c", weight: 3, configured_share: 0.5, held: Number, share: Number },
      ],
    },
    { step: "pin", bucket: "tour-archive", cluster: "c" },
    {
      step: "drain",
      cluster: "c",
      refused: { status: 503, code: "DrainRefused", retry_after_seconds: 300 },
      placed_elsewhere: 60,
    },
    { step: "read", objects: 600, from_draining: Number },
    { step: "undrain", cluster: "c", weight: 3 },
    { step: "done", objects: 662, seconds: Number },
  ]);
  t.equal(steps.length, 6);
});

t.test("a deviation stops the tour", async (t) => {
  const options = {
    upstream: {
      send: () =>
        Promise.resolve({
          status: 200,
          headers: [],
          body: {
            async *[Symbol.asyncIterator]() {},
            takeWhole: () => null,
            pipe: () => Promise.resolve(),
            cancel: () => undefined,
          },
        }),
    },
    proxy: clusterA,
    adminUrl: "http://127.0.0.1:9",
    signal: new AbortController().signal,
    clusters: [
      { id: idOf("a"), weight: 1 },
      { id: idOf("c"), weight: 3 },
    ],
    write: () => undefined,
    report: () => undefined,
    clock: { monotonicMs: () => 0 },
  };
  const cases: readonly [a: number, c: number, error: RegExp][] = [
    [150, 449, /The tour stops: the clusters hold 599 objects, not 600/],
    [400, 200, /The tour stops: the shares are too far from the weights/],
    [150, 450, /fetch failed/],
  ];
  for (const [a, c, error] of cases) {
    const held = (): ReadonlyMap<ReturnType<typeof idOf>, number> =>
      new Map([
        [idOf("a"), a],
        [idOf("c"), c],
      ]);
    await t.rejects(runTour({ ...options, held }), error);
  }
});

t.test("shares are judged against chance", async (t) => {
  const clusters = [
    { id: idOf("a"), weight: 1 },
    { id: idOf("bb"), weight: 3 },
  ];
  const table = shareTable(
    clusters,
    new Map([
      [idOf("a"), 115],
      [idOf("bb"), 285],
    ]),
  );
  t.strictSame(table.rows, [
    "cluster  weight  configured  expected  measured   share",
    "a             1      25.0 %   100 ± 9       115  28.7 %",
    "bb            3      75.0 %   300 ± 9       285  71.3 %",
  ]);
  t.match(table.shares[1], { id: "bb", weight: 3, configured_share: 0.75, held: 285 });
  t.ok(Math.abs(table.worstSigma - 1.73) < 0.01);
});
