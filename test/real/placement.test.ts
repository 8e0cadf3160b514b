// Where bytes land: shares by weight, one cluster a key, merged lists, explicitly named pending
// clusters, buckets that were there before. Everything is read back from the RGWs themselves.

import {
  CreateBucketCommand,
  DeleteBucketCommand,
  GetObjectLockConfigurationCommand,
  HeadBucketCommand,
  ListBucketsCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import { withLab } from "./support/lab.ts";
import { until } from "./support/processes.ts";
import { answerOf, inParallel, keysOf, put, read } from "./support/s3.ts";

function numbered(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `folder ${index % 7}/object-${index}`);
}

function byteOrder(keys: readonly string[]): readonly string[] {
  return keys.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

withLab(t, [], async (lab, test) => {
  const headgate = await lab.headgate({
    name: "weighted",
    clusters: lab.clusters({ a: 1, b: 3 }),
    prefix: "/headgate-placement/",
  });
  const client = lab.client(headgate);
  const [a, b] = [lab.direct("a"), lab.direct("b")];

  test("400 objects at weights 1:3 land within 4 sigma, each on one cluster", async (t) => {
    const keys = numbered(400);
    await client.send(new CreateBucketCommand({ Bucket: "shares" }));
    await inParallel(keys, 8, (key) => put(client, "shares", key, key));
    const [onA, onB] = await Promise.all([keysOf(a, "shares"), keysOf(b, "shares")]);
    t.strictSame(byteOrder([...onA, ...onB]), byteOrder(keys), "every object is on one cluster");
    const sigma = Math.sqrt(400 * 0.25 * 0.75);
    t.ok(Math.abs(onA.length - 100) <= 4 * sigma, `${onA.length} of 400 are on a`);
    t.same(Buffer.from((await read(b, "shares", onB[0] ?? "")) ?? []).toString(), onB[0]);
    t.strictSame(await keysOf(client, "shares"), byteOrder(keys), "one list shows them all");
    t.strictSame(await keysOf(client, "shares", 37), byteOrder(keys), "and so do its pages");
  });

  test("a bucket is made on every cluster of its route and listed once", async (t) => {
    await client.send(new CreateBucketCommand({ Bucket: "both" }));
    for (const direct of [a, b]) {
      t.equal((await answerOf(direct.send(new HeadBucketCommand({ Bucket: "both" })))).status, 200);
    }
    const { Buckets } = await client.send(new ListBucketsCommand({}));
    t.strictSame((Buckets ?? []).filter(({ Name }) => Name === "both").length, 1);
    await client.send(new DeleteBucketCommand({ Bucket: "both" }));
    for (const direct of [a, b, client]) {
      t.equal((await answerOf(direct.send(new HeadBucketCommand({ Bucket: "both" })))).status, 404);
    }
    // An RGW refuses for good what names somebody it does not know: it is nowhere, and to be had.
    const refused = new CreateBucketCommand({ Bucket: "refused", GrantRead: "id=nobody" });
    const bare = await answerOf(a.send(refused));
    t.equal(bare.status, 404);
    t.strictSame(await answerOf(client.send(refused)), bare);
    t.equal((await headgate.admin("GET", "/buckets/refused")).status, 404);
    const lock = { Bucket: "refused", ObjectLockEnabledForBucket: true };
    await client.send(new CreateBucketCommand(lock));
    const locks = await Promise.all(
      [a, b].map(async (direct) => {
        const asked = new GetObjectLockConfigurationCommand({ Bucket: "refused" });
        return (await answerOf(direct.send(asked))).status;
      }),
    );
    t.strictSame(
      locks.toSorted((one, other) => one - other),
      [200, 404],
      "with object lock it is on one of them, and locked there",
    );
  });

  test("a bucket that was there before is found on its cluster and stays there", async (t) => {
    await b.send(new CreateBucketCommand({ Bucket: "older" }));
    await put(b, "older", "kept", "from before");
    t.same(Buffer.from((await read(client, "older", "kept")) ?? []).toString(), "from before");
    await inParallel(numbered(20), 4, (key) => put(client, "older", key, key));
    t.strictSame(await keysOf(a, "older"), [], "nothing of it comes to a");
    t.equal((await keysOf(b, "older")).length, 21);
    const absent = client.send(new HeadBucketCommand({ Bucket: "never-made" }));
    t.equal((await answerOf(absent)).status, 404);
  });

  test("a pending cluster takes what names it, and nothing of the wheel", async (t) => {
    const pending = await lab.headgate({
      name: "pending",
      clusters: lab
        .clusters({ a: 50, b: 50 })
        .map((cluster) => (cluster.id === "b" ? { ...cluster, state: "pending" } : cluster)),
      prefix: "/headgate-pending/",
    });
    t.equal((await pending.cluster("b")).state, "pending");
    const other = lab.client(pending);
    await other.send(new CreateBucketCommand({ Bucket: "wheel" }));
    await inParallel(numbered(20), 4, (key) => put(other, "wheel", key, key));
    t.strictSame(await keysOf(b, "wheel"), []);
    await other.send(new CreateBucketCommand({ Bucket: "named" }));
    await pending.change("PUT", "/buckets/named/placement", {
      placement: { b: 1 },
      mode: "strict",
    });
    await until("a write that is accepted", 5_000, async () => {
      const { status } = await answerOf(put(other, "named", "first", "x"));
      return status === 200 ? true : null;
    });
    await inParallel(numbered(20), 4, (key) => put(other, "named", key, key));
    t.equal((await keysOf(b, "named")).length, 21);
    t.strictSame(await keysOf(a, "named"), []);
    const busy = await pending.admin("PUT", "/buckets/named/placement", {
      placement: { a: 1 },
      mode: "strict",
    });
    t.match(busy, { status: 409, body: { code: "PlacementBusy" } });
  });
});
