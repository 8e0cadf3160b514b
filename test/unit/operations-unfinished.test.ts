// Errands that operations left behind: when they are tried, how often, and when nobody tries any more.

import t, { type Test } from "tap";
import { type Errand, Unfinished } from "../../proxy/operations/unfinished.ts";
import { uploadErrand } from "../../proxy/operations/upload-errand.ts";
import {
  serviceIdentity,
  UpstreamError,
  type UpstreamRequest,
} from "../../proxy/placement/ports.ts";
import { S3Error } from "../../proxy/s3/errors.ts";
import { noTenant } from "../../proxy/s3/names.ts";
import { RecordingLog, turns } from "../support/bridge-parts.ts";
import { handClock } from "../support/hand-clock.ts";
import { answer } from "../support/held-settings.ts";
import { bucketNamed, clusterNamed, keyNamed } from "../support/placement-names.ts";

function scene(t: Test) {
  const clock = handClock();
  const log = new RecordingLog();
  const unfinished = new Unfinished({ clock, timers: clock.timers, log });
  t.teardown(() => unfinished.close());
  const pass = async (seconds: number): Promise<void> => {
    clock.pass(seconds * 1000);
    await turns();
  };
  const events = () => log.records.map(({ event }) => event);
  return { clock, log, unfinished, pass, events };
}

/** An errand that notes the second of each attempt, and ends as it is told. */
function errandOf(
  key: string,
  clock: { monotonicMs(): number },
  run: Errand["run"],
): Errand & { readonly attempts: number[] } {
  const attempts: number[] = [];
  return {
    key,
    fields: { errand: "test", bucket: key },
    attempts,
    run: async (signal) => {
      attempts.push(clock.monotonicMs() / 1000);
      return await run(signal);
    },
  };
}

t.test("it is tried again later and later, and for an hour", async (t) => {
  const { clock, unfinished, pass, log } = scene(t);
  const errand = errandOf("k", clock, async () => "again");
  unfinished.add(errand);
  for (let second = 0; second < 4000; second += 1) await pass(1);
  t.strictSame(errand.attempts.slice(0, 8), [1, 3, 7, 15, 31, 63, 123, 183]);
  t.ok(Math.abs((errand.attempts.at(-1) ?? 0) - 3600) <= 60);
  const told = log.records.filter(({ level }) => level !== "debug");
  t.match(
    told.map(({ level, event, fields }) => [level, event, fields["bucket"]]),
    [
      ["warn", "unfinished.added", "k"],
      ["warn", "unfinished.given_up", "k"],
    ],
  );
});

t.test("many that hang let a new one through", async (t) => {
  const { clock, unfinished, pass } = scene(t);
  const hangs: Errand["run"] = (signal) =>
    new Promise((_, reject) => {
      const handleEvent = () => reject(new Error("given up"));
      signal.addEventListener("abort", { handleEvent });
    });
  for (let number = 0; number < 50; number += 1) {
    unfinished.add(errandOf(`hanging ${number}`, clock, hangs));
  }
  for (let second = 0; second < 1500; second += 1) await pass(1);
  const errand = errandOf("k", clock, async () => "done");
  unfinished.add(errand);
  for (let second = 0; second < 60; second += 1) await pass(1);
  t.equal(errand.attempts.length, 1);
  t.ok((errand.attempts[0] ?? 0) <= 1521, "behind the one under way");
});

t.test("it ends when it is done, or nobody wants it any more", async (t) => {
  for (const outcome of ["done", "void"] as const) {
    const { clock, unfinished, pass, events } = scene(t);
    let tries = 0;
    const errand = errandOf("k", clock, async () => (++tries < 3 ? "again" : outcome));
    unfinished.add(errand);
    for (let second = 0; second < 20; second += 1) await pass(1);
    t.strictSame(errand.attempts, [1, 3, 7]);
    t.strictSame(events(), [
      "unfinished.added",
      "unfinished.again",
      "unfinished.again",
      `unfinished.${outcome}`,
    ]);
  }
});

t.test("one that fails by itself is tried again", async (t) => {
  const { clock, unfinished, pass, log } = scene(t);
  const errand = errandOf("k", clock, async () => {
    throw new Error("Out of luck");
  });
  unfinished.add(errand);
  await pass(1);
  await pass(2);
  t.strictSame(errand.attempts, [1, 3]);
  t.match(log.events("unfinished.failed")[0], { fields: { cause: "Error: Out of luck" } });
});

t.test("one at a time, and none for longer than its limit", async (t) => {
  const { clock, unfinished, pass } = scene(t);
  const hanging = errandOf(
    "hangs",
    clock,
    (signal) =>
      new Promise((resolve) => {
        signal.addEventListener("abort", { handleEvent: () => resolve("done") });
      }),
  );
  const other = errandOf("other", clock, async () => "done");
  unfinished.add(hanging);
  unfinished.add(other);
  await pass(1);
  t.strictSame([hanging.attempts, other.attempts], [[1], []]);
  await pass(19);
  t.strictSame(other.attempts, []);
  await pass(1);
  await pass(0);
  t.strictSame(other.attempts, [21]);
});

t.test("one of the same key takes its place, even while it is tried", async (t) => {
  const { clock, unfinished, pass, events } = scene(t);
  let end = (): void => undefined;
  const first = errandOf("k", clock, async () => {
    await new Promise<void>((resolve) => {
      end = resolve;
    });
    return "done";
  });
  const second = errandOf("k", clock, async () => "done");
  unfinished.add(first);
  await pass(1);
  unfinished.add(second);
  end();
  await pass(0);
  await pass(1);
  t.strictSame([first.attempts, second.attempts], [[1], [2]]);
  t.strictSame(events(), ["unfinished.added", "unfinished.added", "unfinished.done"]);
});

t.test("there are no more than a thousand, and none behind the end", async (t) => {
  const { clock, unfinished, pass, log } = scene(t);
  const errands = Array.from({ length: 1001 }, (_, n) =>
    errandOf(`k${n}`, clock, async () => "done"),
  );
  for (const errand of errands) unfinished.add(errand);
  t.match(log.events("unfinished.full"), [{ level: "warn", fields: { bucket: "k1000" } }]);
  t.equal(log.events("unfinished.full").length, 1);
  let signal: Parameters<Errand["run"]>[0] | null = null;
  unfinished.add(
    errandOf("k0", clock, (given) => {
      signal = given;
      return new Promise(() => undefined);
    }),
  );
  await pass(1);
  t.match(signal, { aborted: false });
  unfinished.close();
  t.match(signal, { aborted: true });
  t.equal(log.events("unfinished.left").length, 1000, "those who run it are told what is left");
  const late = errandOf("late", clock, async () => "done");
  unfinished.add(late);
  await pass(5000);
  t.strictSame(
    [late, ...errands].flatMap(({ attempts }) => attempts),
    [],
  );
});

t.test(
  "an upload is aborted until its cluster says that it is gone, or ours no more",
  async (t) => {
    const cluster = clusterNamed("a");
    const abort: UpstreamRequest = {
      operation: "AbortMultipartUpload",
      method: "DELETE",
      tenant: noTenant,
      bucket: bucketNamed("copies"),
      key: keyNamed("k"),
      query: [["uploadId", "u1"]],
      headers: [],
      body: null,
      payloadSha256: null,
      identity: serviceIdentity,
    };
    for (const [given, outcome] of [
      [204, "done"],
      [200, "done"],
      [404, "done"],
      [403, "void"],
      [500, "again"],
      [503, "again"],
      [new UpstreamError("connect", cluster), "again"],
      [new UpstreamError("response_head", cluster), "again"],
      [new S3Error("AccessDenied"), "void"],
    ] as const) {
      const asked: UpstreamRequest[] = [];
      const errand = uploadErrand(cluster, abort, {
        upstream: {
          async send(_cluster, request) {
            asked.push(request);
            if (typeof given !== "number") throw given;
            return answer(given, "");
          },
        },
      });
      const { signal } = new AbortController();
      t.equal(await errand.run(signal), outcome, String(given));
      t.strictSame(asked, [abort]);
    }
  },
);
