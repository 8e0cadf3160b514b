// A cluster's keys out of files: when new ones count, and what a broken or half-written set does.
// https://github.com/envoyproxy/envoy/issues/41047

import t, { type Test } from "tap";
import { parseClusterId } from "../../proxy/s3/names.ts";
import { RenewingKeys } from "../../proxy/upstream/cluster-keys.ts";
import { handClock } from "../support/hand-clock.ts";

const set = (name: string) => ({
  accessKeyId: `${name}-id`,
  secretAccessKey: `${name}-secret`,
  sessionToken: `${name}-token`,
});

/** Three files; a text is also the print of its file. */
function scene(t: Test) {
  const cluster = parseClusterId("a");
  if (cluster === null) throw new Error("no cluster id");
  const files: Record<string, string> = { id: "one-id", secret: "one-secret", token: "one-token" };
  const outcomes: string[] = [];
  const lines: string[] = [];
  const clock = handClock();
  const seen = { prints: 0, readings: 0 };
  const options = {
    cluster,
    fingerprint: async (path: string) => {
      seen.prints += 1;
      return files[path] ?? "gone";
    },
    timers: clock.timers,
    log: { write: (_level: string, event: string) => lines.push(event) },
    reloaded: (outcome: string) => outcomes.push(outcome),
  };
  const read = () => {
    seen.readings += 1;
    const { id = "", secret = "", token = "" } = files;
    return secret === ""
      ? ({ kind: "faults", texts: ['File "secret" is empty'] } as const)
      : ({
          kind: "keys",
          keys: { accessKeyId: id, secretAccessKey: secret, sessionToken: token },
        } as const);
  };
  const keys = new RenewingKeys(
    set("one"),
    { files: Object.keys(files), reloadIntervalMs: 10_000, read },
    options,
  );
  t.teardown(() => keys.close());
  return {
    keys,
    outcomes,
    lines,
    seen,
    write: (texts: Record<string, string>) => Object.assign(files, texts),
    pass: async (durationMs: number) => {
      clock.pass(durationMs);
      for (let turns = 0; turns < 4; turns += 1)
        await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

const two = { id: "two-id", secret: "two-secret", token: "two-token" };

t.test("new keys count together, when their files have come to rest", async (t) => {
  const { keys, write, pass, outcomes, lines, seen } = scene(t);
  await pass(10_000);
  await pass(100);
  t.strictSame([keys.current(), outcomes], [set("one"), []], "nothing has changed");
  write({ id: two.id });
  await pass(10_000);
  write({ secret: two.secret });
  await pass(100);
  t.strictSame(keys.current(), set("one"), "half of a set is no set");
  write({ token: two.token });
  await pass(100);
  await pass(100);
  t.strictSame(keys.current(), set("two"));
  t.strictSame([outcomes, lines], [["ok"], ["cluster.keys_reloaded"]]);
  const { readings } = seen;
  await pass(10_000);
  await pass(100);
  t.equal(seen.readings, readings, "files that rest are not read");
});

t.test("what does not read keeps the last good keys, and is told once", async (t) => {
  const { keys, write, pass, outcomes, lines } = scene(t);
  write({ secret: "" });
  for (const _ of [1, 2]) {
    await pass(10_000);
    await pass(100);
  }
  t.strictSame(keys.current(), set("one"));
  t.strictSame([outcomes, lines], [["failed"], ["cluster.keys_not_reloaded"]]);
  write(two);
  await pass(10_000);
  await pass(100);
  t.strictSame([keys.current(), outcomes], [set("two"), ["failed", "ok"]]);
});

t.test("refused keys are looked for at once, by one look for all who ask", async (t) => {
  const { keys, write, pass, seen } = scene(t);
  const refused = keys.current();
  await pass(10_000);
  await pass(100);
  const before = seen.prints;
  const nothing = keys.renew(refused);
  t.equal(await nothing, null, "there are no others");
  t.equal(seen.prints - before, 3);
  write(two);
  const asked = Array.from({ length: 100 }, () => keys.renew(refused));
  await pass(0);
  await pass(100);
  const renewed = await Promise.all(asked);
  t.strictSame(
    renewed,
    renewed.map(() => set("two")),
  );
  t.equal(seen.prints - before, 12, "one look for a hundred");
  t.strictSame(await keys.renew(refused), set("two"), "who comes late needs no look");
  t.equal(seen.prints - before, 12);
});

t.test("a look that has begun is not enough for who asks behind it", async (t) => {
  const { keys, write, pass } = scene(t);
  const refused = keys.current();
  await pass(10_000);
  await pass(100);
  const early = keys.renew(refused);
  await Promise.resolve();
  write(two);
  const late = keys.renew(refused);
  await early;
  await pass(100);
  await pass(100);
  t.strictSame(await late, set("two"));
});

t.test("files that never rest and an end in between leave the keys as they are", async (t) => {
  const { keys, write, pass } = scene(t);
  const refused = keys.current();
  const asked = keys.renew(refused);
  for (let step = 0; step < 21; step += 1) {
    write({ token: String(step) });
    await pass(100);
  }
  t.equal(await asked, null);
  write(two);
  const ended = keys.renew(refused);
  await pass(0);
  keys.close();
  t.equal(await ended, null);
});
