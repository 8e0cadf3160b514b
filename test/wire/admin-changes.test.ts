import t, { type Test } from "tap";
import { FaultError } from "../../proxy/placement/ports.ts";
import { openAdminFixture } from "../support/admin-client.ts";
import { AdminMemory, adminBucket, adminCluster, adminClusterId } from "../support/admin-state.ts";

const v1 = "/admin/v1";

async function open(t: Test, memory: AdminMemory) {
  const admin = await openAdminFixture({ state: memory });
  t.teardown(() => admin.close());
  return admin;
}

function weighted() {
  return new AdminMemory({
    clusters: [
      adminCluster("a", { weight: 1 }),
      adminCluster("b", { weight: 3 }),
      adminCluster("c", { state: "pending", weight: null }),
    ],
  });
}

function record(memory: AdminMemory, id: string) {
  return memory.current().clusters.get(adminClusterId(id))?.value;
}

t.test("clusters are shown as Strata does, with the kept weight beside", async (t) => {
  const memory = weighted();
  const admin = await open(t, memory);
  t.equal(
    (await admin.ask("POST", `${v1}/clusters/b/drain`, { body: { mode: "readonly" } })).status,
    204,
  );
  const list = await admin.ask("GET", `${v1}/clusters`);
  t.strictSame(list.json, {
    clusters: [
      { id: "a", state: "live", mode: "", weight: 1, backend: "rgw", configured_weight: 1 },
      {
        id: "b",
        state: "draining_readonly",
        mode: "readonly",
        weight: 0,
        backend: "rgw",
        configured_weight: 3,
      },
      { id: "c", state: "pending", mode: "", weight: 0, backend: "rgw", configured_weight: null },
    ],
  });
  const one = await admin.ask("GET", `${v1}/clusters/b`);
  t.match(one, {
    status: 200,
    headers: { etag: '"2"' },
    json: { share_ratio: 0, revision: "2", endpoints: ["http://127.0.0.1:7480"] },
  });
  t.match(await admin.ask("GET", `${v1}/clusters/zz`), {
    status: 400,
    json: { code: "UnknownCluster" },
  });
});

t.test("drain, upgrade, undrain: the weight comes back", async (t) => {
  const memory = weighted();
  const admin = await open(t, memory);
  const post = async (verb: string, body?: unknown) =>
    await admin.ask("POST", `${v1}/clusters/b/${verb}`, body === undefined ? {} : { body });
  t.equal((await post("drain", { mode: "readonly" })).status, 204);
  t.strictSame((await post("drain", { mode: "readonly" })).json, {
    code: "InvalidTransition",
    message: 'Cluster "b" is draining_readonly, which does not allow readonly',
    current_state: "draining_readonly",
    requested_mode: "readonly",
  });
  t.equal((await post("drain", { mode: "evacuate" })).status, 204);
  t.equal(record(memory, "b")?.state, "evacuating");
  t.equal((await post("undrain")).status, 204);
  t.match(record(memory, "b"), { state: "live", weight: 3 });
  t.match(await post("undrain"), {
    status: 409,
    json: { current_state: "live", requested_mode: "undrain" },
  });
  t.match(await post("activate"), { status: 409 });
  t.match(await admin.ask("POST", `${v1}/clusters/zz/drain`, { body: {} }), {
    status: 400,
    json: { code: "UnknownCluster" },
  });
  t.strictSame(
    memory.audit.map((line) => [line.action, line.resource, line.detail, line.actor.name]),
    [
      ["admin:DrainCluster", "cluster:b", "live to draining_readonly, weight 3", "local"],
      ["admin:DrainCluster", "cluster:b", "draining_readonly to evacuating, weight 3", "local"],
      ["admin:UndrainCluster", "cluster:b", "evacuating to live, weight 3", "local"],
    ],
  );
  const trail = await admin.ask("GET", `${v1}/audit?limit=1`);
  t.match(trail.json, {
    events: [{ action: "admin:UndrainCluster", remote_address: "127.0.0.1" }],
  });
});

t.test("activate takes the mean weight unless one is given", async (t) => {
  const memory = weighted();
  const admin = await open(t, memory);
  t.match(await admin.ask("POST", `${v1}/clusters/c/activate`, { body: { weight: 101 } }), {
    status: 400,
    json: { code: "InvalidWeight" },
  });
  t.equal((await admin.ask("POST", `${v1}/clusters/c/activate`)).status, 204);
  t.match(record(memory, "c"), { state: "live", weight: 2 });
});

t.test("one weight and all weights", async (t) => {
  const memory = weighted();
  const admin = await open(t, memory);
  const put = async (path: string, body: unknown) => await admin.ask("PUT", v1 + path, { body });
  t.equal((await put("/clusters/a/weight", { weight: 5 })).status, 204);
  t.equal(record(memory, "a")?.weight, 5);
  t.equal(record(memory, "b")?.weight, 3);
  t.match(await put("/clusters/c/weight", { weight: 5 }), {
    status: 409,
    json: { code: "InvalidTransition", requested_mode: "weight" },
  });
  for (const weight of [-1, 101, 1.5, "5", null]) {
    t.match(await put("/clusters/a/weight", { weight }), {
      status: 400,
      json: { code: "InvalidWeight" },
    });
  }
  t.match(await put("/weights", { weights: { a: 10 }, rest: 1 }), {
    status: 204,
    headers: { "x-headgate-warning": /10 times/ },
  });
  t.match(await put("/weights", { weights: { a: 100, b: 1 } }), {
    status: 400,
    json: { code: "InvalidWeight" },
  });
  t.match(await put("/weights", { weights: { zz: 1 } }), {
    status: 400,
    json: { code: "UnknownCluster" },
  });
  t.match(await put("/weights", {}), { status: 400, json: { code: "MalformedRequest" } });
  t.match(await put("/weights", { weights: { a: "some" } }), {
    status: 400,
    json: { code: "InvalidWeight" },
  });
  t.equal((await put("/weights", { weights: { a: 100, b: 50 } })).status, 204);
  t.match((await admin.ask("GET", `${v1}/placement`)).json, {
    uniform: false,
    clusters: [
      { id: "a", weight: 100, share: "66.7%" },
      { id: "b", weight: 50, share: "33.3%" },
    ],
  });
  t.equal((await put("/weights", { clear: true })).status, 204);
  t.match((await admin.ask("GET", `${v1}/placement`)).json, { uniform: true });
});

t.test("a dry run shows the effect and writes nothing", async (t) => {
  const memory = weighted();
  const admin = await open(t, memory);
  const dry = await admin.ask("POST", `${v1}/clusters/b/drain?dry_run=true`, { body: {} });
  t.match(dry, {
    status: 200,
    json: {
      dry_run: true,
      effect: { cluster: "b", before: { state: "live" }, after: { state: "draining_readonly" } },
    },
  });
  const weights = await admin.ask("PUT", `${v1}/weights?dry_run=true`, {
    body: { weights: { a: 3, b: 9 } },
  });
  t.match(weights.json, { effect: { moves_keys: false, after: [{ id: "a", share: "25.0%" }] } });
  t.equal(memory.current().revision, 1n);
  t.match(await admin.ask("POST", `${v1}/clusters/b/drain?dry_run=yes`), { status: 400 });
  t.equal(memory.audit.length, 0);
});

t.test("If-Match and a revision in the body hold off a lost update", async (t) => {
  const memory = weighted();
  const admin = await open(t, memory);
  const put = async (weight: number, ifMatch: string | null, revision?: unknown) =>
    await admin.ask("PUT", `${v1}/clusters/a/weight`, {
      body: revision === undefined ? { weight } : { weight, revision },
      headers: ifMatch === null ? {} : { "if-match": ifMatch },
    });
  t.match(await put(2, '"9"'), { status: 412, json: { code: "PreconditionFailed" } });
  t.match(await put(2, 'W/"1"'), { status: 412 }, "weak tags do not match");
  t.match(await put(2, null, "9"), { status: 409, json: { code: "Conflict" } });
  t.match(await put(2, null, "x"), { status: 400 });
  t.equal((await put(2, '"7", "1"')).status, 204);
  t.equal((await put(3, null, "2")).status, 204);
  t.equal((await put(4, "*")).status, 204);

  const elsewhere = () => {
    const entry = memory.current().clusters.get(adminClusterId("a"));
    if (entry === undefined) return;
    const { value, modRevision } = entry;
    memory.write([
      { kind: "cluster", id: value.id, expected: modRevision, record: { ...value, weight: 50 } },
    ]);
  };
  memory.beforeCommit = elsewhere;
  t.equal((await put(5, '"4"')).status, 412, "lost the race");
  t.equal(record(memory, "a")?.weight, 50);
  memory.beforeCommit = elsewhere;
  t.equal((await put(6, null)).status, 204, "without a precondition it is tried again");
  t.equal(record(memory, "a")?.weight, 6);
});

t.test("writers that always win end in 409, a store that is away in 503", async (t) => {
  const memory = weighted();
  const losing = await openAdminFixture({
    state: memory,
    registry: {
      members: () => memory.members(),
      forgetMember: (id) => memory.forgetMember(id),
      commit: () => Promise.resolve({ kind: "conflict" }),
    },
  });
  t.teardown(() => losing.close());
  t.match(await losing.ask("POST", `${v1}/clusters/a/drain`), {
    status: 409,
    json: { code: "Conflict" },
  });
  const away = await openAdminFixture({
    state: memory,
    registry: {
      members: () => memory.members(),
      forgetMember: (id) => memory.forgetMember(id),
      commit: () => Promise.reject(new FaultError("state_unavailable", "etcd is away")),
    },
  });
  t.teardown(() => away.close());
  t.match(await away.ask("POST", `${v1}/clusters/a/drain`), {
    status: 503,
    json: { code: "StateUnavailable" },
  });
  const broken = await openAdminFixture({
    state: memory,
    registry: {
      members: () => Promise.reject(new Error("secret inside")),
      forgetMember: (id) => memory.forgetMember(id),
      commit: (c, a) => memory.commit(c, a),
    },
  });
  t.teardown(() => broken.close());
  const failed = await broken.ask("GET", `${v1}/members`);
  t.match(failed, { status: 500, json: { code: "InternalError" } });
  t.notMatch(failed.text, "secret inside");
  t.strictSame(broken.logged, ["error admin.failed"]);
});

t.test("storage classes", async (t) => {
  const memory = weighted();
  const admin = await open(t, memory);
  const path = `${v1}/storage-classes/GLACIER`;
  t.match(await admin.ask("GET", path), { status: 404, json: { code: "NoSuchStorageClass" } });
  t.match(await admin.ask("PUT", path, { body: { cluster: "zz" } }), {
    status: 400,
    json: { code: "UnknownCluster" },
  });
  t.match(await admin.ask("PUT", `${v1}/storage-classes/lower`, { body: { cluster: "a" } }), {
    status: 400,
  });
  t.equal((await admin.ask("PUT", path, { body: { cluster: "a" } })).status, 204);
  t.match(await admin.ask("GET", path), {
    headers: { etag: '"2"' },
    json: { class: "GLACIER", cluster: "a" },
  });
  t.strictSame((await admin.ask("GET", `${v1}/storage-classes`)).json, {
    classes: [{ class: "GLACIER", cluster: "a" }],
  });
  t.equal((await admin.ask("DELETE", path)).status, 204);
  t.equal((await admin.ask("DELETE", path)).status, 404);
});

t.test("a frozen bucket, by its tenant", async (t) => {
  const memory = new AdminMemory({ clusters: [adminCluster("a")], buckets: [adminBucket("logs")] });
  const admin = await open(t, memory);
  t.equal((await admin.ask("POST", `${v1}/buckets/logs/freeze`)).status, 204);
  t.match((await admin.ask("GET", `${v1}/buckets/logs`)).json, { frozen: true });
  t.equal((await admin.ask("POST", `${v1}/buckets/logs/freeze`)).status, 204);
  t.equal(memory.audit.length, 1, "nothing to write the second time");
  t.equal((await admin.ask("POST", `${v1}/buckets/logs/unfreeze`)).status, 204);
  t.match((await admin.ask("GET", `${v1}/buckets/logs`)).json, { frozen: false });
  t.match(await admin.ask("POST", `${v1}/buckets/acme:logs/freeze`), {
    status: 404,
    json: { code: "NoSuchBucket" },
  });
});
