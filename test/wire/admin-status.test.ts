import t from "tap";
import { FaultError } from "../../proxy/placement/ports.ts";
import { openAdminFixture } from "../support/admin-client.ts";
import {
  AdminMemory,
  adminBucket,
  adminCluster,
  adminClusterId,
  fixedClock,
} from "../support/admin-state.ts";

const v1 = "/admin/v1";

t.test("readiness is that of its checks; liveness is not", async (t) => {
  const admin = await openAdminFixture({
    state: new AdminMemory({}),
    checks: [
      { name: "config", ok: true, detail: "valid" },
      { name: "snapshot", ok: false, detail: "none yet" },
    ],
  });
  t.teardown(() => admin.close());
  t.match(await admin.ask("GET", "/readyz"), { status: 503, text: "snapshot\n" });
  t.match(await admin.ask("GET", "/readyz?verbose"), {
    status: 503,
    text: "[+] config: valid\n[-] snapshot: none yet\n",
  });
  t.match(await admin.ask("GET", "/healthz"), { status: 200, text: "ok\n" });
  t.match(await admin.ask("GET", "/livez"), { status: 200 });
  t.match(await admin.ask("GET", `${v1}/cluster/status`), { json: { status: "degraded" } });
});

t.test("one dead cluster or none at all does not make a process unready", async (t) => {
  const admin = await openAdminFixture({
    state: new AdminMemory({}),
    checks: [{ name: "config", ok: true, detail: "valid" }],
  });
  t.teardown(() => admin.close());
  t.match(await admin.ask("GET", "/readyz"), { status: 200, text: "ok\n" });
});

t.test("metrics come as text, even before the first snapshot", async (t) => {
  const state = new AdminMemory({ clusters: [adminCluster("a")] });
  const admin = await openAdminFixture({ state });
  t.teardown(() => admin.close());
  const metrics = await admin.ask("GET", "/metrics");
  t.match(metrics.headers["content-type"], "text/plain; version=0.0.4");
  t.match(metrics.text, 'headgate_cluster_state{cluster="a",state="live"} 1');
  const early = await openAdminFixture({
    state,
    snapshots: {
      current: () => {
        throw new FaultError("state_unavailable", "no snapshot yet");
      },
      reached: () => Promise.resolve(),
      subscribe: () => () => undefined,
    },
  });
  t.teardown(() => early.close());
  t.match(await early.ask("GET", "/metrics"), { status: 200, text: "headgate_build_info" });
  t.match(await early.ask("GET", `${v1}/clusters`), {
    status: 503,
    json: { code: "StateUnavailable" },
  });
});

t.test("state, members and status", async (t) => {
  const state = new AdminMemory({
    clusters: [adminCluster("a"), adminCluster("b", { profile: "aws" })],
    buckets: [adminBucket("one"), adminBucket("two", { phase: "creating" })],
  });
  const member = {
    id: "m1",
    nodeId: "node-1",
    mode: "full",
    startedAt: "2026-11-29T00:00:00.000Z",
    version: "0.1.0",
    acked: 9_007_199_254_740_993n,
  } as const;
  state.memberList = [
    { record: member, alive: true },
    { record: { ...member, id: "m2" }, alive: false },
  ];
  const admin = await openAdminFixture({ state });
  t.teardown(() => admin.close());
  t.match((await admin.ask("GET", `${v1}/members`)).json, {
    members: [
      { id: "m1", alive: true, acked: "9007199254740993" },
      { id: "m2", alive: false },
    ],
  });
  t.match(await admin.ask("DELETE", `${v1}/members/m1`), {
    status: 409,
    json: { code: "MemberAlive" },
  });
  t.match(await admin.ask("DELETE", `${v1}/members/m3`), {
    status: 404,
    json: { code: "NoSuchMember" },
  });
  t.match(await admin.ask("DELETE", `${v1}/members/m2?dry_run=true`), {
    status: 200,
    json: { dry_run: true, effect: { forgotten: "m2" } },
  });
  t.equal(state.memberList.length, 2);
  t.match((await admin.ask("GET", `${v1}/state`)).json, {
    driver: "memory",
    revision: "1",
    origin: "live",
    buckets: 2,
    open_buckets_count: 1,
    open_buckets: [{ tenant: "-", name: "two", phase: "creating" }],
  });
  t.strictSame((await admin.ask("GET", `${v1}/cluster/status`)).json, {
    status: "healthy",
    version: "0.1.0",
    started_at: new Date(fixedClock.nowMs() - 5000).toISOString(),
    uptime_sec: 5,
    cluster_name: "headgate",
    node_count: 2,
    node_count_healthy: 1,
    meta_backend: "memory",
    data_backend: "rgw,s3",
  });
  t.strictSame((await admin.ask("GET", "/version")).json, { name: "headgate", version: "0.1.0" });
  t.match(await admin.ask("GET", `${v1}/audit?limit=0`), { status: 400 });
});

t.test("buckets are listed in order, a page at a time", async (t) => {
  const names = Array.from(
    { length: 25 },
    (_, index) => `b${String((index * 7) % 25).padStart(2, "0")}`,
  );
  const state = new AdminMemory({ buckets: names.map((name) => adminBucket(name)) });
  const admin = await openAdminFixture({ state });
  t.teardown(() => admin.close());
  const seen: string[] = [];
  let after = "";
  for (let page = 0; page < 5; page += 1) {
    const { json } = await admin.ask("GET", `${v1}/buckets?limit=10&after=${after}`);
    const { buckets, next_after: next } = json as {
      readonly buckets: readonly { readonly name: string }[];
      readonly next_after: string | null;
    };
    seen.push(...buckets.map(({ name }) => name));
    if (next === null) break;
    after = next;
  }
  t.strictSame(
    seen,
    names.toSorted((a, b) => (a < b ? -1 : 1)),
  );
  t.match(await admin.ask("GET", `${v1}/buckets?limit=0`), { status: 400 });
  t.match((await admin.ask("GET", `${v1}/buckets?prefix=b2`)).json, { next_after: null });
});

t.test("placements by way of the port: shown, busy, gone, stale", async (t) => {
  const placement = {
    weights: new Map([
      [adminClusterId("b"), 1],
      [adminClusterId("a"), 3],
    ]),
    mode: "strict",
    spread: null,
    weighting: "weights",
  } as const;
  const state = new AdminMemory({
    clusters: [adminCluster("a"), adminCluster("b"), adminCluster("x", { state: "removed" })],
    buckets: [adminBucket("own", { placement }), adminBucket("none")],
  });
  let result: "changed" | "busy" | "no_such_bucket" | "conflict" = "changed";
  const admin = await openAdminFixture({
    state,
    placementChanges: { putPlacement: () => Promise.resolve({ kind: result }) },
  });
  t.teardown(() => admin.close());
  const path = `${v1}/buckets/own/placement`;
  t.strictSame((await admin.ask("GET", path)).json, {
    placement: { a: 3, b: 1 },
    mode: "strict",
    spread: null,
    weighting: "weights",
  });
  t.match(await admin.ask("GET", `${v1}/buckets/none/placement`), {
    status: 404,
    json: { code: "NoSuchPlacement" },
  });
  t.match(await admin.ask("GET", `${path}?tenant=acme`), { json: { code: "NoSuchBucket" } });
  const put = async (body: unknown, ifMatch?: string) =>
    await admin.ask("PUT", path, {
      body,
      headers: ifMatch === undefined ? {} : { "if-match": ifMatch },
    });
  const good = { placement: { a: 1 } };
  t.equal((await put(good)).status, 204);
  t.match(await put({ placement: { a: 101 } }), {
    status: 400,
    json: { code: "InvalidPlacement" },
  });
  t.match(await put({ placement: { x: 1 } }), { status: 400, json: { code: "UnknownCluster" } });
  t.match(await put({ ...good, mode: "loose" }), { json: { code: "InvalidPlacementMode" } });
  t.match(await put({ ...good, modes: "strict" }), { json: { code: "MalformedRequest" } });
  t.match(await put(good, '"7"'), { status: 412 });
  t.match(await admin.ask("PUT", `${path}?dry_run=true`, { body: good }), {
    status: 200,
    json: { effect: { before: { placement: { a: 3 } }, after: { placement: { a: 1 } } } },
  });
  result = "busy";
  t.match(await put(good), { status: 409, json: { code: "PlacementBusy" } });
  result = "conflict";
  t.match(await put(good), { status: 409, json: { code: "Conflict" } });
  t.match(await put(good, '"1"'), { status: 412, json: { code: "PreconditionFailed" } });
  result = "no_such_bucket";
  t.match(await admin.ask("DELETE", path), { status: 404, json: { code: "NoSuchBucket" } });
});
