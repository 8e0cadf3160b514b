// One question to several clusters: who decides what the answer is, and that no answer is left unread.

import t from "tap";
import { Cancellation } from "../../proxy/gateway/cancellation.ts";
import type { Reply } from "../../proxy/operations/asked-together.ts";
import { askTogether, readTogether } from "../../proxy/operations/asked-together.ts";
import { listBuckets } from "../../proxy/operations/list-buckets.ts";
import { listObjects } from "../../proxy/operations/listing.ts";
import { listUploads } from "../../proxy/operations/upload-listing.ts";
import { listVersions } from "../../proxy/operations/version-listing.ts";
import type { ByteStream, CancelSignal } from "../../proxy/placement/ports.ts";
import { S3Error } from "../../proxy/s3/errors.ts";
import { clusterIdOf, overClusters } from "../support/list-clusters.ts";
import { noHabits } from "../support/list-habits.ts";

/** An answer that notes whether it was read or dropped. */
function answerOf(text = "", status = 200) {
  const seen = { read: false, cancelled: false };
  const body: ByteStream = {
    takeWhole: () => null,
    pipe: () => Promise.reject(new Error("not piped")),
    cancel: () => void (seen.cancelled = true),
    async *[Symbol.asyncIterator]() {
      seen.read = true;
      yield Buffer.from(text);
    },
  };
  return { seen, response: { status, headers: [], body } };
}

/** Replaced at once. */
const unset: { answer: (reply: Reply) => void; fail: (why: Error) => void } = {
  answer: () => {},
  fail: () => {},
};

/** Clusters that answer when a test says so; one that is given up fails. */
function gates(count: number) {
  const all = Array.from({ length: count }, () => {
    const gate = { ...unset, givenUp: false };
    const reply = new Promise<Reply>((resolve, reject) => {
      gate.answer = resolve;
      gate.fail = reject;
    });
    return { gate, reply };
  });
  const ask = async (index: number, signal: CancelSignal): Promise<Reply> => {
    const one = all[index];
    if (one === undefined) throw new Error("no such cluster");
    const handleEvent = (): void => {
      one.gate.givenUp = signal.aborted && signal.reason instanceof Error;
    };
    signal.addEventListener("abort", { handleEvent });
    return await one.reply;
  };
  return { ask, indexes: all.map((_, index) => index), gates: all.map(({ gate }) => gate) };
}

const turn = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));

t.test("all that have something to tell are handed on in the order asked", async (t) => {
  const { ask, indexes, gates: all } = gates(3);
  const asked = askTogether(indexes, ask, new AbortController().signal);
  const [first, last] = [answerOf(), answerOf()];
  all[2]?.answer({ kind: "document", response: last.response });
  all[1]?.answer({ kind: "nothing" });
  all[0]?.answer({ kind: "document", response: first.response });
  t.strictSame(await asked, {
    kind: "answered",
    responses: [first.response, null, last.response],
  });
  t.notOk(first.seen.cancelled || last.seen.cancelled || all.some(({ givenUp }) => givenUp));
  const none = await askTogether([], ask, new AbortController().signal);
  t.strictSame(none, { kind: "answered", responses: [] });
});

t.test("the first that refuses or fails decides, and all else is dropped", async (t) => {
  for (const how of ["refuses", "fails"] as const) {
    const { ask, indexes, gates: all } = gates(5);
    const asked = askTogether(indexes, ask, new AbortController().signal);
    const [before, deciding, refusing, late] = [answerOf(), answerOf(), answerOf(), answerOf()];
    const refusal = (one: typeof before): Reply => {
      const { status, headers, body } = one.response;
      return { kind: "refused", answer: { status, headers, body, cluster: clusterIdOf(0) } };
    };
    all[0]?.answer({ kind: "document", response: before.response });
    await turn();
    if (how === "refuses") all[1]?.answer(refusal(deciding));
    else all[1]?.fail(new Error("away"));
    all[2]?.answer(refusal(refusing));
    const outcome = await asked.catch((caught: unknown) => caught);
    if (how === "refuses") t.strictSame(outcome, refusal(deciding));
    else t.match(outcome, { message: "away" });
    all[3]?.answer({ kind: "document", response: late.response });
    all[4]?.fail(new Error("given up"));
    await turn();
    t.strictSame(
      [before, deciding, refusing, late].map(({ seen }) => seen.cancelled),
      [true, false, true, true],
    );
    t.strictSame(
      all.map(({ givenUp }) => givenUp),
      [true, false, true, true, true],
    );
  }
});

t.test("whoever asks may leave", async (t) => {
  const { ask, indexes, gates: all } = gates(2);
  const controller = new AbortController();
  const asked = askTogether(indexes, ask, controller.signal);
  controller.abort(new Error("gone"));
  t.ok(all.every(({ givenUp }) => givenUp));
  all[0]?.fail(new Error("gone"));
  await t.rejects(asked, { message: "gone" });
});

t.test("where one answer cannot be read the others are not any more", async (t) => {
  const answers = [answerOf(), answerOf(), answerOf()];
  const responses = [...answers.map(({ response }) => response), null];
  const read = readTogether(responses, async (_, index) => {
    if (index === 1) throw new Error("unreadable");
    return await new Promise<never>(() => {});
  });
  await t.rejects(read, { message: "unreadable" });
  t.ok(answers.every(({ seen }) => seen.cancelled));
  t.strictSame(await readTogether(responses, async (_, index) => await Promise.resolve(index)), [
    0,
    1,
    2,
    null,
  ]);
});

const lists = [
  ["ListObjectsV2", listObjects],
  ["ListObjects", listObjects],
  ["ListObjectVersions", listVersions],
  ["ListMultipartUploads", listUploads],
  ["ListBuckets", listBuckets],
] as const;

t.test(
  "no list leaves an answer unread, nor waits for a cluster when another refuses",
  async (t) => {
    const empty = { habits: noHabits, limit: 1000 };
    for (const [operation, run] of lists) {
      const { ports, ask } = overClusters([empty, empty, empty, empty]);
      const [page, refusing, too] = [answerOf(), answerOf("", 500), answerOf("", 500)];
      const answers = [page, refusing, too];
      let givenUp = false;
      const upstream: typeof ports.upstream = {
        async send(cluster, _, signal) {
          const answer = answers[[0, 1, 2].findIndex((index) => clusterIdOf(index) === cluster)];
          if (answer !== undefined) return answer.response;
          return await new Promise((_, reject) => {
            const handleEvent = (): void => {
              givenUp = true;
              reject(new Error("given up"));
            };
            signal.addEventListener("abort", { handleEvent });
          });
        },
      };
      const outcome = await run(ask(operation, []), { ...ports, upstream }).catch(
        (caught: unknown) => caught,
      );
      await turn();
      const passed = operation === "ListBuckets" ? null : refusing;
      if (passed === null)
        t.ok(outcome instanceof S3Error && outcome.code === "ServiceUnavailable");
      else t.match(outcome, { status: 500, body: passed.response.body });
      t.strictSame(
        answers.map(({ seen }) => seen.cancelled),
        answers.map((answer) => answer !== passed),
        operation,
      );
      t.ok(givenUp);
      t.equal(ports.listRoom.takenBytes, 0);
    }
  },
);

t.test("lists of a cluster that hangs hold up none of another one", async (t) => {
  const held = { habits: noHabits, limit: 1000, versions: new Map([["k", ["v"]]]) };
  for (const [operation, run] of lists.filter(([name]) => name !== "ListBuckets")) {
    const { ports, ask } = overClusters([held, held]);
    const [hangs, answers] = [clusterIdOf(0), clusterIdOf(1)];
    const client = new Cancellation();
    const upstream: typeof ports.upstream = {
      async send(cluster, request, signal) {
        if (cluster === answers) return await ports.upstream.send(cluster, request, signal);
        return await new Promise((_, reject) => {
          const handleEvent = (): void => reject(new Error("gone"));
          signal.addEventListener("abort", { handleEvent });
        });
      },
    };
    const list = async (candidates: readonly (typeof hangs)[], signal: CancelSignal = client) =>
      await run({ ...ask(operation, []), candidates, signal }, { ...ports, upstream });
    // A list over both has an answer of one: it reads none before there are all.
    const hung = Array.from({ length: 400 }, (_, index) =>
      list(index % 2 === 0 ? [hangs] : [hangs, answers]),
    );
    const ended = Promise.allSettled(hung);
    await turn();
    t.equal(ports.listRoom.takenBytes, 0);
    const answer = await list([answers], new Cancellation());
    t.equal(answer.status, 200, operation);
    answer.release?.();
    client.abort(new Error("gone"));
    t.ok((await ended).every(({ status }) => status === "rejected"));
    t.equal(ports.listRoom.takenBytes, 0);
  }
});
