import t, { type Test } from "tap";
import type { PlacementChanges, ReadinessCheck } from "../../proxy/admin/ports.ts";
import { system } from "../../proxy/main.ts";
import { openAdminFixture } from "../support/admin-client.ts";
import { AdminMemory, adminBucket, adminCluster, adminClusterId } from "../support/admin-state.ts";
import { type CliWorld, runHeadgate } from "../support/cli-run.ts";

interface Opened {
  readonly memory: AdminMemory;
  readonly run: (line: string, world?: CliWorld) => ReturnType<typeof runHeadgate>;
}

async function open(
  t: Test,
  options: {
    readonly token?: string;
    readonly placementChanges?: PlacementChanges;
    readonly checks?: readonly ReadinessCheck[];
  } = {},
): Promise<Opened> {
  const memory = new AdminMemory({
    clusters: [
      adminCluster("a", { weight: 1 }),
      adminCluster("b", { weight: 3 }),
      adminCluster("c", { state: "pending", weight: null }),
    ],
    buckets: [adminBucket("logs"), adminBucket("media")],
  });
  const admin = await openAdminFixture({ state: memory, ...options });
  t.teardown(() => admin.close());
  return { memory, run: (line, world) => runHeadgate(`${line} --admin-url ${admin.url}`, world) };
}

const stateOf = (memory: AdminMemory, id: string) =>
  memory.current().clusters.get(adminClusterId(id))?.value.state;

t.test("lists are tables, or the API's JSON", async (t) => {
  const { run } = await open(t);
  t.strictSame(await run("cluster list"), {
    exit: 0,
    out: [
      "ID  STATE    WEIGHT  CONFIGURED WEIGHT  BACKEND",
      "a   live          1  1                  rgw",
      "b   live          3  3                  rgw",
      "c   pending       0  -                  rgw",
      "",
    ].join("\n"),
    err: "",
    started: [],
  });
  const json = await run("cluster list -o json");
  t.match(JSON.parse(json.out), { clusters: [{ id: "a" }, { id: "b" }, { id: "c" }] });
  t.match((await run("placement show")).out, /^b +3 {2}75\.0%$/m);
  t.match((await run("cluster show b")).out, /^share_ratio +0\.75$/m);
  t.match(
    (await run("bucket list --prefix lo")).out,
    /^logs +- +created +weighted +settled +no +alice$/m,
  );
  const page = await run("bucket list --limit 1");
  t.match(page.err, "More: --after logs");
  t.notMatch((await run("bucket list --after logs")).out, "logs");
  t.match((await run("state")).out, /^driver +memory$/m);
  t.match((await run("status")).out, /^meta_backend +memory$/m);
  t.match((await run("member list")).out, "ID  NODE ID");
});

t.test("a drain is asked about at a terminal only", async (t) => {
  const { run, memory } = await open(t);
  const asked: string[] = [];
  const answer = (sure: boolean) => (question: string) => {
    asked.push(question);
    return Promise.resolve(sure);
  };
  t.equal((await run("cluster drain a", { confirm: answer(false) })).exit, 1);
  t.equal(stateOf(memory, "a"), "live");
  t.equal((await run("cluster drain a", { confirm: answer(true) })).exit, 0);
  t.equal(stateOf(memory, "a"), "draining_readonly");
  t.equal(asked.length, 2);
  const done = await run("cluster drain b --mode evacuate -y", { confirm: answer(false) });
  t.strictSame([done.exit, done.out, done.err], [0, "", "Cluster b drains (evacuate)\n"]);
  t.equal((await run("cluster undrain a")).exit, 0);
  t.equal(asked.length, 2);
});

t.test("exit codes tell scripts what happened", async (t) => {
  const { run } = await open(t);
  const exitOf = async (line: string) => (await run(line)).exit;
  t.equal(await exitOf("cluster undrain a"), 5, "illegal transition");
  t.equal(await exitOf("cluster show zz"), 4);
  t.equal(await exitOf("bucket show none"), 4);
  t.equal(await exitOf("bucket placement get logs"), 4);
  t.equal(await exitOf("cluster weight a 2 --if-match 9"), 5);
  t.equal(await exitOf("placement set-weights a=100 b=1"), 1);
  const refused = await run("bucket placement set logs --weights a=1,b=1");
  t.strictSame(
    [refused.exit, refused.err],
    [5, "PlacementBusy: The bucket holds objects that this change would have to move\n"],
  );
  const away = await runHeadgate("cluster list --admin-url http://127.0.0.1:1");
  t.equal(away.exit, 6);
  t.match(away.err, /^Cannot reach the admin API at http:\/\/127\.0\.0\.1:1: /);
});

t.test("weights, classes and freezing", async (t) => {
  const { run, memory } = await open(t);
  const dry = await run("placement set-weights a=1 rest=1 --dry-run --json");
  t.match(JSON.parse(dry.out), { dry_run: true, effect: { moves_keys: true } });
  t.equal(memory.current().revision, 1n);
  t.match(await run("placement set-weights a=10 rest=1"), { exit: 0, err: /^Warning: .*10 times/ });
  t.equal((await run("cluster activate c --weight 5")).exit, 0);
  t.equal((await run("cluster weight c 6")).exit, 0);
  t.equal(memory.current().clusters.get(adminClusterId("c"))?.value.weight, 6);
  t.equal((await run("placement clear-weights")).exit, 0);
  t.equal(memory.current().clusters.get(adminClusterId("c"))?.value.weight, null);
  t.equal((await run("class set GLACIER a")).exit, 0);
  t.match((await run("class list")).out, /^GLACIER {2}a$/m);
  t.equal((await run("class clear GLACIER")).exit, 0);
  t.equal((await run("bucket freeze logs")).exit, 0);
  t.match((await run("bucket show logs")).out, /^frozen +yes$/m);
  t.equal((await run("bucket unfreeze logs")).exit, 0);
  t.match((await run("audit --limit 1")).out, "admin:UnfreezeBucket");
});

t.test("a placement reaches the port as it was written", async (t) => {
  const put: unknown[] = [];
  const { run } = await open(t, {
    placementChanges: {
      putPlacement: (target, placement, context) => {
        put.push([target.bucket, placement, context.dryRun, context.expected]);
        return Promise.resolve({ kind: "changed" });
      },
    },
  });
  t.equal(
    (
      await run(
        "bucket placement set logs --weights a=70,b=30 --mode strict --spread prefix --if-match 1",
      )
    ).exit,
    0,
  );
  const weights = new Map([
    [adminClusterId("a"), 70],
    [adminClusterId("b"), 30],
  ]);
  t.strictSame(put, [
    ["logs", { weights, mode: "strict", spread: "prefix", weighting: "weights" }, false, 1n],
  ]);
  t.equal((await run("bucket placement set logs --weights zz=1")).exit, 4);
  t.equal((await run("bucket placement set logs --weights a=0")).exit, 1);
  t.equal((await run("bucket placement set none --weights a=1")).exit, 4);
  t.equal((await run("bucket placement clear logs")).exit, 4, "there is none");
});

t.test("the token comes from a file", async (t) => {
  const { run } = await open(t, { token: "0123456789abcdef" });
  const files = { "/t": "0123456789abcdef\n", "/wrong": "x" };
  t.equal((await run("cluster list --token-file /t", { files })).exit, 0);
  t.equal(
    (await run("cluster list", { files, env: { HEADGATE_ADMIN_AUTH_TOKEN_FILE: "/t" } })).exit,
    0,
  );
  const denied = await run("cluster list --token-file /wrong", { files });
  t.equal(denied.exit, 1);
  t.match(denied.err, /^Unauthorized: .* with --token-file$/m);
});

t.test("wait ends when ready, or with 7", async (t) => {
  const ready = await open(t, { checks: [{ name: "policy", ok: true, detail: "r1" }] });
  t.equal((await ready.run("wait --ready")).exit, 0);
  const not = await open(t, { checks: [{ name: "policy", ok: false, detail: "none" }] });
  const waited = await not.run("wait --ready --timeout 1s");
  t.equal(waited.exit, 7);
  t.match(waited.err, /^Not ready: .*policy/);
  // The system's clock has fractions of a millisecond.
  const closed = await openAdminFixture({ state: not.memory });
  await closed.close();
  const line = `wait --ready --timeout 300ms --admin-url ${closed.url}`;
  const away = await runHeadgate(line, { clock: system.clock });
  t.equal(away.exit, 7);
  t.match(
    away.err,
    `Not ready: Cannot reach the admin API at ${closed.url}: nothing listens there`,
  );
});
