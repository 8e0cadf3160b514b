// The room for what clusters answer to lists: bounded over all of them, one always comes to its end, a
// caller waits for itself, and nothing is held for a list that has ended.

import fc from "fast-check";
import t from "tap";
import { readHeld } from "../../proxy/operations/held-list.ts";
import { type ListHold, ListRoom } from "../../proxy/operations/list-room.ts";
import type { ByteStream } from "../../proxy/placement/ports.ts";
import { handClock } from "../support/hand-clock.ts";

const kibibyte = 1024;
const limits = { mostBytes: 1000 * kibibyte, mostBytesOfOne: 600 * kibibyte, waitMs: 10_000 };

function open() {
  const clock = handClock();
  const room = new ListRoom(clock.timers, limits);
  const ending = new AbortController();
  return { clock, room, ending, list: (who: string) => room.open(who, ending.signal) };
}

/** An answer of so many pieces of 10 KiB; `read` counts those that were taken from it. */
function answerOf(pieces: number) {
  const seen = { read: 0, cancelled: false };
  const body: ByteStream = {
    takeWhole: () => null,
    pipe: () => Promise.reject(new Error("not piped")),
    cancel: () => void (seen.cancelled = true),
    async *[Symbol.asyncIterator]() {
      try {
        for (; seen.read < pieces; seen.read += 1) yield new Uint8Array(10 * kibibyte);
      } finally {
        seen.cancelled = seen.read < pieces;
      }
    },
  };
  return { seen, response: { status: 200, headers: [], body } };
}

/** Whether it has come about when nothing else can happen. */
async function isDone(work: Promise<unknown>): Promise<boolean> {
  let done = false;
  const note = (): void => void (done = true);
  work.then(note, note);
  await new Promise((resolve) => setImmediate(resolve));
  return done;
}

/** Of 100 KiB: rows are counted as half a KiB each. */
const hundred = async (hold: ListHold): Promise<number> => await hold.expect(200);

t.test("a list waits before it asks, its turn comes, and the eldest goes beyond", async (t) => {
  const { room, list } = open();
  const [a, b, c, d] = [list("1"), list("2"), list("3"), list("4")] as const;
  for (let n = 0; n < 5; n += 1) await Promise.all([hundred(a), hundred(b)]);
  t.equal(room.takenBytes, limits.mostBytes);
  const later = hundred(d);
  t.ok(await isDone(later), "one may go beyond, whoever waits first");
  const waits = hundred(c);
  t.notOk(await isDone(waits));
  const more = hundred(a);
  t.notOk(await isDone(more), "an elder one too: only one at a time");
  d.end();
  t.ok(await isDone(more), "then the eldest");
  t.notOk(await isDone(waits));
  b.end();
  t.ok(await isDone(waits));
  a.end();
  c.end();
  t.equal(room.takenBytes, 0);
});

t.test("a caller has a share, and others are served past it", async (t) => {
  const { room, list } = open();
  const [much, again, more] = [list("much"), list("much"), list("much")];
  for (let n = 0; n < 6; n += 1) await hundred(much);
  t.ok(await isDone(hundred(again)), "the one that may go beyond");
  const waits = hundred(more);
  t.notOk(await isDone(waits), "there is room, but not for this caller");
  const other = list("other");
  for (let n = 0; n < 3; n += 1) t.ok(await isDone(hundred(other)));
  much.end();
  t.ok(await isDone(waits));
  for (const hold of [again, more, other]) hold.end();
  t.equal(room.takenBytes, 0);
});

t.test("a document is read as far as there is room, and no further", async (t) => {
  const { room, list } = open();
  const [beyond, full] = [list("1"), list("2")];
  for (let n = 0; n < 5; n += 1) await Promise.all([hundred(beyond), hundred(full)]);
  await hundred(beyond);
  const reader = list("3");
  full.give(200 * kibibyte);
  const { seen, response } = answerOf(30);
  const expected = await hundred(reader);
  const reading = readHeld(response, reader, expected);
  t.notOk(await isDone(reading));
  t.equal(seen.read, 10, "what was expected, and the piece that waits");
  full.give(100 * kibibyte);
  t.notOk(await isDone(reading));
  t.equal(seen.read, 20);
  full.end();
  t.equal((await reading).length, 300 * kibibyte);
  const short = answerOf(3);
  await readHeld(short.response, reader, await hundred(reader));
  t.equal(reader.heldBytes, 330 * kibibyte, "what was expected and did not come is given back");
  beyond.end();
  reader.end();
  t.equal(room.takenBytes, 0);
});

t.test("who waits too long comes back later, who leaves or has ended is forgotten", async (t) => {
  const { clock, room, list, ending } = open();
  const [beyond, full] = [list("1"), list("2")];
  for (let n = 0; n < 5; n += 1) await Promise.all([hundred(beyond), hundred(full)]);
  await hundred(beyond);
  const slow = list("3");
  const waits = hundred(slow);
  clock.pass(limits.waitMs - 1);
  t.notOk(await isDone(waits));
  clock.pass(1);
  await t.rejects(waits, { code: "SlowDown", retryAfterSeconds: 1 });
  const failing = list("4");
  const { seen, response } = answerOf(3);
  const [one, two] = [hundred(failing), readHeld(response, failing, 0)];
  t.notOk(await isDone(Promise.race([one, two])));
  failing.end();
  await t.rejects(one, { message: "The list has ended" });
  await t.rejects(two, { message: "The list has ended" });
  t.ok(seen.cancelled);
  await t.rejects(hundred(failing), { message: "The list has ended" });
  const left = hundred(list("5"));
  t.notOk(await isDone(left));
  ending.abort(new Error("gone"));
  await t.rejects(left, { message: "gone" });
  await t.rejects(hundred(list("6")), { message: "gone" });
  full.end();
  full.end();
  beyond.end();
  slow.end();
  t.equal(room.takenBytes, 0);
});

t.test("whatever comes in whatever order, all that wait come to their end", async (t) => {
  const lists = fc.array(
    fc.record({
      who: fc.constantFrom("1", "2", "3"),
      takes: fc.array(fc.integer({ min: 1, max: 700 }), { maxLength: 4 }),
    }),
    { maxLength: 12 },
  );
  await fc.assert(
    fc.asyncProperty(lists, async (wanted) => {
      const { room, list } = open();
      const largest = Math.max(0, ...wanted.map(({ takes }) => takes.reduce((a, b) => a + b, 0)));
      let most = 0;
      await Promise.all(
        wanted.map(async ({ who, takes }) => {
          const hold = list(who);
          for (const rows of takes) {
            await hold.expect(rows * 2);
            most = Math.max(most, room.takenBytes);
            await new Promise((resolve) => setImmediate(resolve));
          }
          hold.end();
        }),
      );
      const leastPages = 4 * 64 * kibibyte;
      return room.takenBytes === 0 && most <= limits.mostBytes + largest * kibibyte + leastPages;
    }),
    { numRuns: 60 },
  );
  t.pass();
});
