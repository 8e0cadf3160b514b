// The whole bridge on a real etcd that is killed, stalled, compacted, absent, closed by a password.

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import t, { type Test } from "tap";
import { encodeBucket } from "../../bridge/codec.ts";
import type { EtcdOptions } from "../../bridge/etcd-options.ts";
import { Keyspace } from "../../bridge/keyspace.ts";
import { type OpenState, openState } from "../../bridge/open-state.ts";
import { noTenant } from "../../proxy/s3/names.ts";
import { freePort, skipWithoutEtcd, TestEtcd } from "../support/bridge-etcd.ts";
import { EtcdDoor } from "../support/bridge-etcd-door.ts";
import {
  CountingMeter,
  eventually,
  never,
  RecordingLog,
  realClock,
  realRandom,
} from "../support/bridge-parts.ts";
import { bucketName, bucketRecord, clusterId, clusterRecord } from "../support/bridge-records.ts";

const skip = skipWithoutEtcd();
const run = promisify(execFile);
const keys = new Keyspace();
const stamp = { updatedAt: "2026-11-29T23:00:00.000Z", updatedBy: "test" };
t.setTimeout(120_000);

interface Opened extends OpenState {
  readonly log: RecordingLog;
  readonly meter: CountingMeter;
}

async function folder(t: Test): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "headgate-bridge-"));
  t.teardown(() => rm(path, { recursive: true, force: true }));
  return path;
}

async function etcdFor(t: Test): Promise<TestEtcd> {
  const etcd = await TestEtcd.start();
  t.teardown(() => etcd.stop());
  return etcd;
}

async function open(t: Test, etcd: EtcdOptions, snapshotFile: string | null): Promise<Opened> {
  const log = new RecordingLog();
  const meter = new CountingMeter();
  const state = await openState(
    {
      store: { driver: "etcd", etcd: { callTimeoutMs: 2000, ...etcd }, snapshotFile },
      prefix: keys.prefix,
      member: {
        nodeId: "n",
        version: "0.1.0",
        mode: "full",
        leaseTtlSeconds: 3,
        fenceAfterMs: 600_000,
      },
      clock: realClock,
      random: realRandom,
      log,
      meter,
    },
    never,
  );
  t.teardown(() => state.close());
  return { ...state, log, meter };
}

async function putBucket(etcd: TestEtcd, name: string): Promise<void> {
  const key = keys.bucket(noTenant, bucketName(name));
  await etcd.ctl("put", key, encodeBucket(bucketRecord(name), stamp));
}

function names(state: OpenState): readonly string[] {
  return [...state.snapshots.current().buckets.all()].map(({ value }) => value.name).sort();
}

t.test("two processes see each other's writes by events alone", { skip }, async (t) => {
  const etcd = await etcdFor(t);
  const one = await open(t, etcd.options(), null);
  const two = await open(t, etcd.options(), null);
  await one.seedClusters([clusterRecord("a")], never);
  const ranges = two.meter.calls.range;
  const held = one.snapshots.current().clusters.get(clusterId("a"));
  if (held === undefined) throw new Error("not seeded");
  const drained = { ...held.value, state: "draining_readonly" } as const;
  const result = await one.registry.commit(
    [{ kind: "cluster", id: drained.id, expected: held.modRevision, record: drained }],
    null,
  );
  if (result.kind !== "committed") throw new Error(result.kind);
  await two.snapshots.reached(result.revision, never);
  t.equal(two.snapshots.current().clusters.get(drained.id)?.value.state, "draining_readonly");
  t.equal(two.meter.calls.range, ranges, "no range between snapshot and event");
  t.ok(two.meter.propagationSeconds.length > 0);
  t.equal((await one.registry.members(never)).filter(({ alive }) => alive).length, 2);
  const calls = { ...two.meter.calls };
  await delay(4000);
  t.strictSame(two.meter.calls, calls, "an idle process makes no call beyond its keep-alives");
  t.equal((await one.registry.members(never)).filter(({ alive }) => alive).length, 2);
});

t.test(
  "etcd killed and restarted: the right map, deletes of the gap included",
  { skip },
  async (t) => {
    const etcd = await etcdFor(t);
    const state = await open(t, etcd.options(), null);
    await putBucket(etcd, "keep");
    await putBucket(etcd, "drop");
    await eventually(() => names(state).length === 2);
    await etcd.kill();
    await eventually(() => !state.snapshots.status().connected);
    t.strictSame(names(state), ["drop", "keep"], "the last map stands");
    t.equal(state.membership.mayMutate(), true);
    await etcd.run();
    await etcd.ctl("del", keys.bucket(noTenant, bucketName("drop")));
    await putBucket(etcd, "new");
    await eventually(() => names(state).join() === "keep,new");
    await eventually(() => state.membership.registered);
    const members = await state.registry.members(never);
    t.strictSame(
      members.filter(({ alive }) => alive).map(({ record }) => record.id),
      [state.membership.id],
    );
  },
);

t.test("compacted while it was away: it lists again and sees the deletes", { skip }, async (t) => {
  const etcd = await etcdFor(t);
  const state = await open(t, etcd.options(), null);
  await putBucket(etcd, "drop");
  await eventually(() => names(state).length === 1);
  etcd.signal("SIGSTOP");
  t.teardown(() => etcd.signal("SIGCONT"));
  await eventually(() => !state.snapshots.status().connected);
  t.ok(state.meter.restarts.length > 0, "a stall is noticed on an idle watch");
  etcd.signal("SIGCONT");
  await etcd.ctl("del", keys.bucket(noTenant, bucketName("drop")));
  for (let round = 0; round < 3; round += 1) await putBucket(etcd, "new");
  const status = JSON.parse(await etcd.ctl("get", "/", "-w", "json"));
  await etcd.ctl("compact", String(status.header.revision));
  await eventually(() => names(state).join() === "new");
});

t.test(
  "a watch that etcd cancels on an open connection: it lists again and sees the deletes",
  { skip },
  async (t) => {
    const etcd = await etcdFor(t);
    const as = "--user=root:secret";
    const permission = ["--prefix=true", "member", "readwrite", keys.prefix] as const;
    await etcd.ctl("user", "add", "root:secret");
    await etcd.ctl("user", "grant-role", "root", "root");
    await etcd.ctl("role", "add", "member");
    await etcd.ctl("role", "grant-permission", ...permission);
    await etcd.ctl("user", "add", "headgate:word");
    await etcd.ctl("user", "grant-role", "headgate", "member");
    await etcd.ctl("auth", "enable");
    const write = (name: string): Promise<string> => {
      const value = encodeBucket(bucketRecord(name), stamp);
      return etcd.ctl(as, "put", keys.bucket(noTenant, bucketName(name)), value);
    };
    const door = await EtcdDoor.open(t, etcd.url);
    const user = { username: "headgate", password: "word" };
    const state = await open(t, { ...etcd.options(user), endpoints: [door.url] }, null);
    await write("keep");
    await write("drop");
    await eventually(() => names(state).join() === "drop,keep");
    const before = { ...state.meter.calls };

    door.holdEvents();
    await etcd.ctl(as, "del", keys.bucket(noTenant, bucketName("drop")));
    await write("new");
    await etcd.ctl(as, "role", "revoke-permission", "--prefix=true", "member", keys.prefix);
    t.strictSame(names(state), ["drop", "keep"], "nothing was heard of it");
    t.equal(door.openWatches, 1);
    door.cancelWatches("etcdserver: permission denied");
    await eventually(() => !state.snapshots.status().connected);
    t.match(state.log.events("state_watch_ended")[0]?.fields, { error: /permission denied/ });
    // The list is refused as well, by etcd itself, for as long as the permission is away.
    await eventually(() => state.meter.calls.range > before.range + 1);
    t.strictSame(names(state), ["drop", "keep"], "the last map stands");

    await etcd.ctl(as, "role", "grant-permission", ...permission);
    await eventually(() => names(state).join() === "keep,new");
    t.equal(state.snapshots.status().connected, true);
    await eventually(() => door.openWatches === 1);
    const { range } = state.meter.calls;
    await write("later");
    await eventually(() => names(state).join() === "keep,later,new");
    t.equal(state.meter.calls.range, range, "by an event of the new watch");
    t.equal(door.disconnects, 0, "no connection was lost on the way");
  },
);

t.test(
  "a start without etcd uses the persisted snapshot, then the live one",
  { skip },
  async (t) => {
    const etcd = await etcdFor(t);
    const file = join(await folder(t), "snapshot.json");
    const before = await open(t, etcd.options(), file);
    await putBucket(etcd, "old");
    await eventually(() => names(before).length === 1);
    await before.close();
    t.match(await readFile(file, "utf8"), /buckets\/-\/old/);
    await putBucket(etcd, "while-closed");
    const live = await open(t, etcd.options(), file);
    t.equal(live.snapshots.current().origin, "live", "a store that answers is read");
    t.strictSame(names(live), ["old", "while-closed"]);
    await live.close();
    await etcd.kill();
    const cold = await open(t, etcd.options(), file);
    t.equal(cold.snapshots.current().origin, "persisted");
    t.strictSame(names(cold), ["old", "while-closed"]);
    t.equal(cold.membership.mayMutate(), false, "unregistered");
    await etcd.run();
    await eventually(() => cold.snapshots.current().origin === "live");
    await eventually(() => cold.membership.mayMutate());
    t.strictSame(names(cold), ["old", "while-closed"]);
  },
);

t.test(
  "with neither etcd nor a snapshot a start waits until it is told to stop",
  { skip },
  async (t) => {
    const options: EtcdOptions = {
      endpoints: [`http://127.0.0.1:${await freePort()}`],
      username: null,
      password: null,
      tls: null,
      dialTimeoutMs: 500,
      dialRetryMs: 300,
    };
    const file = join(await folder(t), "snapshot.json");
    await writeFile(file, "damaged");
    const stop = new AbortController();
    const log = new RecordingLog();
    const opening = openState(
      {
        store: { driver: "etcd", etcd: options, snapshotFile: file },
        prefix: keys.prefix,
        member: { nodeId: "n", version: "0", mode: "full", leaseTtlSeconds: 3, fenceAfterMs: null },
        clock: realClock,
        random: realRandom,
        log,
        meter: new CountingMeter(),
      },
      stop.signal,
    );
    await eventually(() => log.events("state_persisted_snapshot_refused").length > 0);
    const reason = new Error("stopped");
    stop.abort(reason);
    await t.rejects(opening, reason);
  },
);

t.test(
  "username and password; a wrong one never opens, tokens outlive a restart",
  { skip },
  async (t) => {
    // https://github.com/etcd-io/etcd/issues/11954
    const etcd = await etcdFor(t);
    const root = "--user=root:secret";
    await etcd.ctl("user", "add", "root:secret");
    await etcd.ctl("user", "grant-role", "root", "root");
    await etcd.ctl("auth", "enable");
    const user = { username: "root", password: "secret" };
    const state = await open(t, etcd.options(user), null);
    await etcd.ctl(
      root,
      "put",
      keys.bucket(noTenant, bucketName("x")),
      encodeBucket(bucketRecord("x"), stamp),
    );
    await eventually(() => names(state).length === 1);
    await etcd.kill();
    await etcd.run(root);
    await etcd.ctl(
      root,
      "put",
      keys.bucket(noTenant, bucketName("y")),
      encodeBucket(bucketRecord("y"), stamp),
    );
    await eventually(() => names(state).length === 2);
    const stop = new AbortController();
    const wrong = openState(
      {
        store: {
          driver: "etcd",
          etcd: etcd.options({ username: "root", password: "wrong" }),
          snapshotFile: null,
        },
        prefix: keys.prefix,
        member: { nodeId: "n", version: "0", mode: "full", leaseTtlSeconds: 3, fenceAfterMs: null },
        clock: realClock,
        random: realRandom,
        log: new RecordingLog(),
        meter: meterOf(() => stop.abort(new Error("refused"))),
      },
      stop.signal,
    );
    await t.rejects(wrong, { message: "refused" });
  },
);

/** A meter that tells when a watch restarted for want of credentials. */
function meterOf(onAuth: () => void): CountingMeter {
  const meter = new CountingMeter();
  meter.watchRestarted = (reason) => {
    if (reason === "auth") onAuth();
  };
  return meter;
}

t.test("TLS with client certificates", { skip }, async (t) => {
  const at = await folder(t);
  const file = (name: string): string => join(at, name);
  await writeFile(
    file("ext"),
    "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n",
  );
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const ca = ["-x509", "-keyout", file("ca.key"), "-out", file("ca.crt"), "-subj", "/CN=test-ca"];
  await run("openssl", ["req", ...key, ...ca]);
  const csr = ["-keyout", file("node.key"), "-out", file("node.csr"), "-subj", "/CN=node"];
  await run("openssl", ["req", ...key, ...csr]);
  const signing = ["-CA", file("ca.crt"), "-CAkey", file("ca.key"), "-CAcreateserial"];
  const out = ["-out", file("node.crt"), "-extfile", file("ext")];
  await run("openssl", ["x509", "-req", "-in", file("node.csr"), ...signing, ...out]);
  const etcd = await TestEtcd.start({
    certFile: file("node.crt"),
    keyFile: file("node.key"),
    caFile: file("ca.crt"),
  });
  t.teardown(() => etcd.stop());
  const tls = {
    ca: await readFile(file("ca.crt"), "utf8"),
    cert: await readFile(file("node.crt"), "utf8"),
    key: await readFile(file("node.key"), "utf8"),
  };
  const state = await open(t, etcd.options({ tls }), null);
  await putBucket(etcd, "x");
  await eventually(() => names(state).length === 1);
  t.equal(state.membership.registered, true);
});
