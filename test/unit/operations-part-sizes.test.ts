// Proofs of part sizes among callers: one for all who ask for the same object, turns that go round, and
// none for those who left.

import { createHash } from "node:crypto";
import t from "tap";
import { FairLine } from "../../proxy/operations/fair-line.ts";
import { PartSizes } from "../../proxy/operations/part-sizes.ts";
import type { ByteStream, CancelSignal } from "../../proxy/placement/ports.ts";

const partBytes = 5 * 1024 * 1024;
const content = Buffer.alloc(partBytes + 10, "headgate");
const digests = [content.subarray(0, partBytes), content.subarray(partBytes)].map((part) =>
  createHash("md5").update(part).digest(),
);
const etag = `"${createHash("md5").update(Buffer.concat(digests)).digest("hex")}-2"`;
const object = { etag, sizeBytes: content.length, count: 2 };

/** Reads of the object that come to their end when they are told to. */
function reads() {
  const begun: CancelSignal[] = [];
  const ends: (() => void)[] = [];
  const read = async (signal: CancelSignal) => {
    begun.push(signal);
    await new Promise<void>((resolve, reject) => {
      ends.push(resolve);
      signal.addEventListener("abort", { handleEvent: () => reject(new Error("broken off")) });
    });
    const body: ByteStream = {
      async *[Symbol.asyncIterator]() {
        yield content;
      },
      cancel: () => {},
      pipe: () => Promise.reject(new Error("not piped")),
      takeWhole: () => null,
    };
    return { status: 200, headers: [["etag", etag] as const], body };
  };
  return { begun, read, end: () => ends.shift()?.() };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

t.test("all who ask for one object wait for one proof, whoever leaves", async (t) => {
  const sizes = new PartSizes();
  const { begun, read, end } = reads();
  const client = () => new AbortController();
  const [first, second] = [client(), client()];
  const asked = [first, second].map(({ signal }, at) =>
    sizes.of(object, { caller: `c${at}`, signal, read }),
  );
  const left = t.rejects(asked[0] ?? Promise.resolve(null), /went away/);
  first.abort();
  await left;
  t.equal(begun[0]?.aborted, false, "the other still waits");
  end();
  t.equal(await asked[1], partBytes);
  t.equal(await sizes.of(object, { caller: "c2", signal: client().signal, read }), partBytes);
  t.equal(begun.length, 1, "one read");
});

t.test("a proof that nobody waits for is broken off, and begun again", async (t) => {
  const sizes = new PartSizes();
  const { begun, read, end } = reads();
  const clients = [new AbortController(), new AbortController()];
  const asked = clients.map(({ signal }) => sizes.of(object, { caller: "c", signal, read }));
  const left = asked.map((each) => t.rejects(each, /went away/));
  for (const client of clients) client.abort();
  await Promise.all(left);
  t.equal(begun[0]?.aborted, true);
  const { signal } = new AbortController();
  const again = sizes.of(object, { caller: "c", signal, read });
  await turn();
  end();
  end();
  t.equal(await again, partBytes);
  t.equal(begun.length, 2);
  const gone = AbortSignal.abort();
  const other = { ...object, etag: etag.replace(/^"./, '"z') };
  await t.rejects(sizes.of(other, { caller: "c", signal: gone, read }), /went away/);
  await turn();
  t.equal(begun.length, 3, "a client that is gone already");
  t.equal(begun[2]?.aborted, true);
});

t.test("turns go round among those who wait", async (t) => {
  const line = new FairLine({ atOnce: 2, waiting: 4, waitingOfOne: 3 });
  const { signal } = new AbortController();
  const running = new Map<string, () => void>();
  const order: string[] = [];
  const ask = (name: string, ended: CancelSignal = signal) =>
    line.run(name.slice(0, 1), ended, async () => {
      order.push(name);
      await new Promise<void>((resolve) => running.set(name, resolve));
    });
  const end = async (name: string) => {
    running.get(name)?.();
    await turn();
  };
  const leaving = new AbortController();
  const greedy = ["a1", "a2", "a3"].map((name) => ask(name));
  const gone = t.rejects(ask("a4", leaving.signal), /Nobody waits/);
  await t.rejects(ask("a5"), { code: "SlowDown" }, "three of one wait");
  leaving.abort();
  await gone;
  await turn();
  t.strictSame(order, ["a1"], "one of each at once");
  const others = ["b1", "b2", "c1"].map((name) => ask(name));
  await t.rejects(ask("d1"), { code: "SlowDown" }, "the line is full");
  await turn();
  for (const name of ["a1", "b1", "a2", "b2", "c1", "a3"]) await end(name);
  await Promise.all([...greedy, ...others]);
  t.strictSame(
    order,
    ["a1", "b1", "a2", "b2", "c1", "a3"],
    "who had a turn waits behind the others",
  );
});
