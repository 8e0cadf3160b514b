// The room for what clusters answer to lists: bounded over all of them, one always comes to its end, a
// caller waits for itself, and nothing is held for a list that has ended.

import fc from "fast-check";
import t from "tap";
import { Cancellation } from "../../proxy/gateway/cancellation.ts";
import { readHeld } from "../../proxy/operations/held-list.ts";
import { type ListHold, ListRoom } from "../../proxy/operations/list-room.ts";
import type { ByteStream } from "../../proxy/placement/ports.ts";
import { handClock } from "../support/hand-clock.ts";

const kibibyte = 1024;
const limits = { mostBytes: 1000 * kibibyte, mostBytesOfOne: 600 * kibibyte, waitMs: 10_000 };

function open() {
  const clock = handClock();
  const room = new ListRoom(clock.timers, limits);
  const ending = new Cancellation();
  return { clock, room, ending, list: (who: string) => room.open(who, ending) };
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

/** KiB that have arrived. */
const hundred = async (hold: ListHold): Promise<void> => await hold.take(100 * kibibyte);

t.test("what has arrived waits for room, its turn comes, and the eldest goes beyond", async (t) => {
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
  const reading = readHeld(response, reader);
  t.notOk(await isDone(reading));
  t.equal(seen.read, 10, "what there is room for, and the piece that waits");
  full.give(100 * kibibyte);
  t.notOk(await isDone(reading));
  t.equal(seen.read, 20);
  full.end();
  t.equal((await reading).length, 300 * kibibyte);
  const short = answerOf(3);
  await readHeld(short.response, reader);
  t.equal(reader.heldBytes, 330 * kibibyte, "no more than has come");
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
  const [one, two] = [hundred(failing), readHeld(response, failing)];
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

t.test("a list that has nothing yet takes no room, and begins when there is some", async (t) => {
  const { clock, room, list, ending } = open();
  const hung = Array.from({ length: 100 }, () => list("1"));
  await Promise.all(hung.map(async (hold) => await hold.begin()));
  t.equal(room.takenBytes, 0, "whatever their clusters do");
  const [own, other] = [list("1"), list("2")];
  for (let n = 0; n < 6; n += 1) await hundred(own);
  const mine = list("1");
  const begins = mine.begin();
  t.notOk(await isDone(begins), "the caller's share is full");
  for (let n = 0; n < 4; n += 1) await hundred(other);
  const fourth = list("4");
  const waits = fourth.begin();
  t.notOk(await isDone(waits), "the room is full, and who has nothing does not go beyond it");
  const reader = list("3");
  t.ok(await isDone(hundred(reader)), "one that began later, and has an answer, does");
  other.end();
  t.ok(await isDone(waits));
  t.notOk(await isDone(begins));
  own.end();
  t.ok(await isDone(begins));
  t.equal(room.takenBytes, 100 * kibibyte, "to begin takes nothing");
  reader.end();
  for (let n = 0; n < 5; n += 1) await Promise.all([hundred(mine), hundred(fourth)]);
  const slow = list("5").begin();
  t.notOk(await isDone(slow));
  clock.pass(limits.waitMs);
  await t.rejects(slow, { code: "SlowDown" });
  const failing = list("6");
  const ended = failing.begin();
  t.notOk(await isDone(ended));
  failing.end();
  await t.rejects(ended, { message: "The list has ended" });
  const left = list("7").begin();
  t.notOk(await isDone(left));
  ending.abort(new Error("gone"));
  await t.rejects(left, { message: "gone" });
  for (const hold of [mine, fourth, ...hung]) hold.end();
  t.equal(room.takenBytes, 0);
});

t.test(
  "one that went beyond and asks for more lets the next go beyond, up to a share",
  async (t) => {
    const { room, list } = open();
    const [full, half] = [list("1"), list("2")];
    for (let n = 0; n < 5; n += 1) await Promise.all([hundred(full), hundred(half)]);
    const lists = Array.from({ length: 8 }, (_, index) => list(`other ${index}`));
    const takes = lists.map(async (hold) => await hundred(hold));
    const done = async (): Promise<number> => {
      const all = await Promise.all(takes.map(async (take) => await isDone(take)));
      return all.filter((is) => is).length;
    };
    for (const [index, hold] of lists.entries()) {
      t.equal(await done(), Math.min(index + 1, 7));
      hold.ask();
    }
    t.equal(room.takenBytes, limits.mostBytes + 700 * kibibyte);
    half.end();
    full.end();
    t.equal(await done(), 8);
    for (const hold of lists) hold.end();
    t.equal(room.takenBytes, 0);
  },
);

t.test("however documents come, all lists come to their end within bounds", async (t) => {
  // A list has rounds, a round documents, a document pieces of so many KiB.
  const pieces = fc.array(fc.integer({ min: 1, max: 64 }), { maxLength: 12 });
  const rounds = fc.array(fc.array(pieces, { minLength: 1, maxLength: 3 }), { maxLength: 3 });
  const lists = fc.array(fc.record({ who: fc.constantFrom("1", "2", "3"), rounds }), {
    maxLength: 20,
  });
  const sizeOf = (all: readonly (readonly (readonly number[])[])[]): number =>
    all.flat(2).reduce((a, b) => a + b, 0);
  await fc.assert(
    fc.asyncProperty(lists, fc.scheduler(), async (wanted, scheduler) => {
      const { room, list } = open();
      const largest = Math.max(0, ...wanted.map(({ rounds }) => sizeOf(rounds)));
      let most = 0;
      const all = Promise.all(
        wanted.map(async ({ who, rounds }) => {
          const hold = list(who);
          await hold.begin();
          for (const documents of rounds) {
            hold.ask();
            await scheduler.schedule(Promise.resolve());
            await Promise.all(
              documents.map(async (document) => {
                for (const size of document) {
                  await hold.take(size * kibibyte);
                  most = Math.max(most, room.takenBytes);
                  await scheduler.schedule(Promise.resolve());
                }
              }),
            );
          }
          hold.end();
        }),
      );
      await scheduler.waitFor(all);
      const bound = limits.mostBytes + limits.mostBytesOfOne + largest * kibibyte;
      return room.takenBytes === 0 && most <= bound;
    }),
    { numRuns: 60 },
  );
  t.pass();
});
