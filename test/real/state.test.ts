// etcd as it fails: killed and restarted, compacted behind a watcher's back, stalled. The map stays
// right, no process ends, and a change is applied from its event alone.

import { setTimeout as sleep } from "node:timers/promises";
import { CreateBucketCommand } from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { Headgate } from "./support/headgate.ts";
import { withLab } from "./support/lab.ts";
import { until } from "./support/processes.ts";
import { answerOf, keysOf, put, read } from "./support/s3.ts";

async function setWeight(on: Headgate, weight: number): Promise<void> {
  await on.change("PUT", "/clusters/b/weight", { weight });
}

async function seesWeight(on: Headgate, weight: number, limitMs: number): Promise<void> {
  await until(`weight ${weight} on ${on.name}`, limitMs, async () =>
    (await on.cluster("b")).weight === weight ? true : null,
  );
}

withLab(t, [], async (lab, test) => {
  const installation = {
    clusters: lab.clusters({ a: 10, b: 10 }),
    prefix: "/headgate-state/",
  };
  const first = await lab.headgate({ ...installation, name: "first" });
  const second = await lab.headgate({ ...installation, name: "second" });
  const client = lab.client(second);
  const ranges = () => second.metric("headgate_state_requests_total", { kind: "range" });

  /** Keys that `servesObjects` was told were stored. */
  const written: string[] = [];
  const direct = [lab.direct("a"), lab.direct("b")] as const;

  /** What the two RGW hold under a key, in no order; an absent copy is left out. */
  async function copiesOf(key: string): Promise<readonly string[]> {
    const found = await Promise.all(direct.map((rgw) => read(rgw, "data", key)));
    return found.flatMap((copy) => (copy === null ? [] : [Buffer.from(copy).toString()]));
  }

  /** Writes an object, reads it back, and finds it on exactly one RGW. */
  async function servesObjects(t: Test, key: string): Promise<void> {
    t.match(await answerOf(put(client, "data", key, key)), { status: 200, code: null }, key);
    t.equal(Buffer.from((await read(client, "data", key)) ?? []).toString(), key);
    t.strictSame(await copiesOf(key), [key], `${key} lies on one RGW`);
    written.push(key);
  }

  test("a change is applied from its event, without a range call", async (t) => {
    await client.send(new CreateBucketCommand({ Bucket: "data" }));
    await servesObjects(t, "before");
    const before = await ranges();
    await setWeight(first, 11);
    await seesWeight(second, 11, 1000);
    t.equal(await ranges(), before);
    t.ok(before > 0, "the snapshot at the start was counted");
  });

  test("objects are served while etcd is down, and changes arrive after it", async (t) => {
    await lab.etcd.kill();
    await servesObjects(t, "while-down");
    const { status } = await first.admin("PUT", "/clusters/b/weight", { weight: 99 });
    t.ok(status >= 500, `a change is refused with ${status}`);
    await lab.etcd.up();
    await until("a change that is accepted", 20_000, async () => {
      await setWeight(first, 12);
      return true;
    });
    await seesWeight(second, 12, 15_000);
    t.ok(first.runs && second.runs);
    await servesObjects(t, "after-restart");
  });

  test("a watcher that slept through a compaction has the right map", async (t) => {
    second.freeze();
    for (const weight of [21, 22, 23]) await setWeight(first, weight);
    await lab.etcd.compact();
    await lab.etcd.kill();
    await lab.etcd.up();
    second.thaw();
    await seesWeight(second, 23, 20_000);
    t.ok(second.runs);
    await until("a change that is accepted", 20_000, async () => {
      await setWeight(first, 24);
      return true;
    });
    await seesWeight(second, 24, 5_000);
    await servesObjects(t, "after-compaction");
  });

  test("a stalled etcd stops nothing, and its changes arrive when it wakes", async (t) => {
    lab.etcd.stall();
    t.teardown(() => lab.etcd.resume());
    await servesObjects(t, "while-stalled");
    await sleep(6_000);
    await servesObjects(t, "still-stalled");
    lab.etcd.resume();
    await until("a change that is accepted", 20_000, async () => {
      await setWeight(first, 31);
      return true;
    });
    await seesWeight(second, 31, 15_000);
    t.ok(first.runs && second.runs);
  });

  test("a process that starts while etcd is down serves from its last good map", async (t) => {
    await second.stop();
    await lab.etcd.kill();
    const again = await lab.headgate({ ...installation, name: "second" });
    const back = await read(lab.client(again), "data", "after-compaction");
    t.equal(Buffer.from(back ?? []).toString(), "after-compaction");
    const absent = await answerOf(put(lab.client(again), "data", "unregistered", "x"));
    t.match(absent, { status: 503, code: "SlowDown" }, "but it is no member yet");
    t.strictSame(await copiesOf("unregistered"), [], "nothing of it reached an RGW");
    await lab.etcd.up();
    await until("a write that is accepted", 30_000, async () => {
      const { status } = await answerOf(put(lab.client(again), "data", "registered", "x"));
      return status === 200 ? true : null;
    });
    t.strictSame(await copiesOf("registered"), ["x"]);
    const everything = await Promise.all(direct.map((rgw) => keysOf(rgw, "data")));
    t.strictSame(everything.flat().toSorted(), [...written, "registered"].toSorted());
  });
});
