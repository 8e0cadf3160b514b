// Where client keys come from: in which order, how long an RGW's word counts, and what a file that
// changes does to keys in use.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t, { type Test } from "tap";
import { CredentialChain, FixedCredentials } from "../../proxy/gateway/credential-chain.ts";
import { ReloadingCredentials } from "../../proxy/gateway/reloading-credentials.ts";
import { type RgwAnswer, RgwCredentials } from "../../proxy/gateway/rgw-credentials.ts";
import { system } from "../../proxy/main.ts";
import type { Credential } from "../../proxy/policy/credential.ts";
import { type AccessKeyId, noTenant, parseAccessKeyId } from "../../proxy/s3/names.ts";
import { configOf, faultsOf, load } from "../support/config-load.ts";
import { handClock } from "../support/hand-clock.ts";

function idOf(text: string): AccessKeyId {
  const id = parseAccessKeyId(text);
  if (id === null) throw new Error(`Not an access key id: ${text}`);
  return id;
}

function credential(
  id: string,
  secret: string,
  status: Credential["status"] = "active",
): Credential {
  const principal = {
    accessKey: id,
    account: id,
    displayName: null,
    tenant: noTenant,
    groups: [],
    grants: [],
    scheme: "header",
  } as const;
  return {
    accessKeyId: idOf(id),
    secretAccessKey: secret,
    principal,
    status,
    clusters: new Map(),
  };
}

t.test("the first source that knows a key wins, also by saying that it is suspended", async (t) => {
  const later = { find: async (id: AccessKeyId) => credential(id, "from the last") };
  const chain = new CredentialChain([
    new FixedCredentials([credential("A", "first"), credential("S", "first", "suspended")]),
    new FixedCredentials([credential("A", "second"), credential("B", "second")]),
    later,
    { find: () => (t.fail("nobody is asked behind the one that knows") ? null : null) },
  ]);
  const secret = async (id: string) => (await chain.find(idOf(id)))?.secretAccessKey ?? null;
  t.notOk(chain.find(idOf("A")) instanceof Promise, "known at once");
  t.equal(await secret("A"), "first");
  t.equal(await secret("B"), "second");
  t.equal(await secret("C"), "from the last");
  t.equal(await secret("S"), null);
});

// ---- rgw-admin ----

const userOf = (
  id: string,
  more: { readonly suspended?: boolean; readonly subuser?: string } = {},
): RgwAnswer => ({
  kind: "user",
  user: {
    uid: "alice",
    tenant: "acme",
    displayName: "Alice",
    suspended: more.suspended ?? false,
    privileged: false,
    keys: [
      { user: "alice", subuser: null, accessKeyId: "other", secretAccessKey: "other" },
      { user: "alice", subuser: more.subuser ?? null, accessKeyId: id, secretAccessKey: "s" },
    ],
  },
});

function rgw(options: { readonly maxEntries?: number } = {}) {
  const time = handClock();
  const asked: string[] = [];
  const outcomes: string[] = [];
  const pending: ((answer: RgwAnswer) => void)[] = [];
  const events: string[] = [];
  let answer: ((id: AccessKeyId) => RgwAnswer) | null = (id) => userOf(id);
  const source = new RgwCredentials({
    ask: async (id) => {
      asked.push(id);
      return answer === null ? await new Promise((resolve) => pending.push(resolve)) : answer(id);
    },
    ttlMs: 60_000,
    negativeTtlMs: 10_000,
    maxStaleMs: 3_600_000,
    maxEntries: options.maxEntries ?? 100,
    grants: [],
    clock: time,
    timers: time.timers,
    log: { write: (_level, event) => events.push(event) },
    meter: { credentialAsked: (outcome) => outcomes.push(outcome) },
  });
  return {
    time,
    asked,
    outcomes,
    pending,
    events,
    answers: (next: ((id: AccessKeyId) => RgwAnswer) | null) => {
      answer = next;
    },
    /** `user`, `unknown`, or the code it fails with; whether it was known at once. */
    find: async (id: string) => {
      try {
        const found = source.find(idOf(id));
        const isSync = !(found instanceof Promise);
        const known = await found;
        return `${known === null ? "unknown" : known.status}${isSync ? ", at once" : ""}`;
      } catch (caught) {
        return caught instanceof Error && "code" in caught ? String(caught.code) : String(caught);
      }
    },
    source,
  };
}

const away = (): RgwAnswer => ({ kind: "unavailable", reason: "gone" });
const turn = () => new Promise((resolve) => setImmediate(resolve));

t.test(
  "a key that an RGW knows is asked for once in its time, and refreshed while in use",
  async (t) => {
    const { find, time, asked, source, answers } = rgw();
    t.equal(await find("AK"), "active");
    t.match(await source.find(idOf("AK")), {
      secretAccessKey: "s",
      principal: { account: "alice", tenant: "acme", displayName: "Alice", groups: [] },
    });
    time.pass(29_000);
    t.equal(await find("AK"), "active, at once");
    t.strictSame(asked, ["AK"]);
    time.pass(2_000);
    t.equal(await find("AK"), "active, at once", "older than half its time: asked again meanwhile");
    await turn();
    t.strictSame(asked, ["AK", "AK"]);
    time.pass(59_000);
    t.equal(await find("AK"), "active, at once", "the answer counts from when it came");
    await turn();
    time.pass(61_000);
    answers(() => ({ kind: "unknown" }));
    t.equal(await find("AK"), "unknown", "a key that was removed ends with its time");
    t.equal(await find("AK"), "unknown, at once");
  },
);

t.test("suspended users and subusers", async (t) => {
  const { find, answers, source } = rgw();
  answers((id) => userOf(id, { suspended: true }));
  t.equal(await find("AK"), "suspended");
  answers((id) => userOf(id, { subuser: "phone" }));
  await find("SUB");
  t.match(await source.find(idOf("SUB")), { principal: { groups: ["subuser:phone"] } });
});

t.test("a key that an RGW does not know is remembered for a shorter time", async (t) => {
  const { find, time, asked, answers } = rgw();
  answers(() => ({ kind: "unknown" }));
  t.equal(await find("AK"), "unknown");
  time.pass(9_000);
  t.equal(await find("AK"), "unknown, at once");
  answers((id) => userOf(id));
  time.pass(2_000);
  t.equal(await find("AK"), "active", "it was created meanwhile");
  t.equal(asked.length, 2);
});

t.test("an RGW out of reach is 503 for new keys, and known ones count on for a time", async (t) => {
  const { find, time, asked, answers, outcomes, events } = rgw();
  await find("AK");
  answers(away);
  time.pass(61_000);
  t.equal(await find("AK"), "active");
  t.equal(await find("AK"), "active, at once", "not asked again at once");
  t.equal(await find("NEW"), "ServiceUnavailable");
  t.strictSame(asked, ["AK", "AK"]);
  time.pass(1_001);
  t.equal(await find("NEW"), "ServiceUnavailable");
  t.strictSame(asked, ["AK", "AK", "NEW"]);
  t.strictSame(events, ["credentials.unavailable"], "said once");
  time.pass(3_600_000);
  t.equal(await find("AK"), "ServiceUnavailable", "not for ever");
  time.pass(1_001);
  answers((id) => userOf(id));
  t.equal(await find("AK"), "active");
  t.strictSame(events, ["credentials.unavailable", "credentials.available"]);
  t.strictSame(outcomes, ["user", "unavailable", "unavailable", "unavailable", "user"]);
});

t.test("one question a key at a time, sixteen in all, the rest in a bounded line", async (t) => {
  const { source, asked, pending, answers, time, find } = rgw();
  await find("KNOWN");
  asked.length = 0;
  time.pass(61_000);
  answers(null);
  const same = [source.find(idOf("K0")), source.find(idOf("K0"))];
  const others = Array.from({ length: 1_015 }, (_, index) => source.find(idOf(`K${index + 1}`)));
  t.strictSame(asked.length, 16);
  t.throws(() => source.find(idOf("ONE-MORE")), { code: "SlowDown" });
  answers((id) => userOf(id));
  t.equal(await find("KNOWN"), "active", "a key that was known does not stand in that line");
  for (const [index, resolve] of pending.entries()) resolve(userOf(`K${index}`));
  const found = await Promise.all([...same, ...others]);
  t.ok(found.every((one) => one?.status === "active"));
  t.equal(asked.length, 1_017);
});

t.test("a question that hangs ends, and both tables are bounded", async (t) => {
  const time = handClock();
  const ended: string[] = [];
  const source = new RgwCredentials({
    ask: (_id, signal) =>
      new Promise((resolve) => {
        const handleEvent = () => {
          ended.push(String(signal.reason));
          resolve(away());
        };
        signal.addEventListener("abort", { handleEvent });
      }),
    ttlMs: 1,
    negativeTtlMs: 1,
    maxStaleMs: 1,
    maxEntries: 1,
    grants: [],
    clock: time,
    timers: time.timers,
    log: { write: () => {} },
    meter: { credentialAsked: () => {} },
  });
  const found = source.find(idOf("AK"));
  time.pass(5_000);
  await t.rejects(Promise.resolve(found), { code: "ServiceUnavailable" });
  t.equal(ended.length, 1);

  const few = rgw({ maxEntries: 2 });
  for (const id of ["A", "B", "C"]) await few.find(id);
  t.equal(await few.find("C"), "active, at once");
  t.equal(await few.find("A"), "active", "the oldest had to go");
});

// ---- files ----

function fileSource(t: Test, listen = "127.0.0.1:0") {
  const dir = mkdtempSync(join(tmpdir(), "headgate-credentials-"));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const write = (name: string, text: string) => writeFileSync(join(dir, name), text);
  mkdirSync(join(dir, "keys"));
  write("keys/a.sk", "one");
  write("c.yaml", "users: [{uid: a, keys: [{access_key: AK, secret_key_file: keys/a.sk}]}]");
  write(
    "headgate.yaml",
    `listen: {address: "${listen}"}\nauth: {credentials: [{source: file, file: ${join(dir, "c.yaml")}, reload_interval: 1s}]}`,
  );
  const { config } = configOf(
    load({}, { file: join(dir, "headgate.yaml"), readFile: (path) => readFileSync(path, "utf8") }),
  );
  const [source] = config.auth.sources;
  if (source?.kind !== "file") throw new Error("No file source");
  const time = handClock();
  const outcomes: string[] = [];
  const lines: string[] = [];
  let looks = 0;
  let ended = 0;
  const credentials = new ReloadingCredentials(source, {
    fingerprint: async (path) => {
      looks += 1;
      const print = await system.fingerprint(path);
      ended += 1;
      return print;
    },
    timers: time.timers,
    log: { write: (_level, event, fields) => lines.push(`${event} ${JSON.stringify(fields)}`) },
    meter: { credentialsReloaded: (outcome) => outcomes.push(outcome) },
  });
  t.teardown(() => credentials.close());
  return {
    write,
    outcomes,
    lines,
    secret: (id = "AK") => credentials.find(idOf(id))?.secretAccessKey ?? null,
    /** Lets one interval pass and waits until the files were looked at. */
    look: async () => {
      time.pass(1_000);
      do await turn();
      while (looks !== ended);
      await turn();
    },
  };
}

t.test("a credentials file is read again when it or a file it names changes", async (t) => {
  const { write, look, secret, outcomes } = fileSource(t);
  t.equal(secret(), "one");
  await look();
  await look();
  t.strictSame(outcomes, [], "nothing changed");
  write("keys/a.sk", "two");
  await look();
  t.equal(secret(), "two");
  write("c.yaml", "users: [{uid: b, keys: [{access_key: BK, secret_key: three}]}]");
  await look();
  t.equal(secret(), null, "a key that was taken out is refused");
  t.equal(secret("BK"), "three");
  t.strictSame(outcomes, ["ok", "ok"]);
});

t.test("a broken file keeps the last good keys until it is mended", async (t) => {
  const { write, look, secret, outcomes, lines } = fileSource(t);
  await look();
  write("c.yaml", "users: [{uid: a, keys: [{access_key: AK, secret_key: SECRETTEXT}, oops");
  await look();
  await look();
  t.equal(secret(), "one");
  t.strictSame(outcomes, ["failed"], "tried once");
  t.match(lines[0], /credentials\.not_reloaded.*c\.yaml/);
  t.notMatch(lines.join("\n"), "SECRETTEXT");
  write("c.yaml", "users: [{uid: a, keys: [{access_key: AK, secret_key_file: keys/b.sk}]}]");
  await look();
  t.equal(secret(), "one", "it names a file that does not exist");
  write("keys/b.sk", "four");
  await look();
  await look();
  t.equal(secret(), "four", "the file that was missed is enough");
});

t.test("the demo pair does not come to a public listener by a change either", async (t) => {
  const { write, look, secret, outcomes } = fileSource(t, "0.0.0.0:0");
  await look();
  write("c.yaml", "users: [{uid: a, keys: [{access_key: headgate-demo, secret_key: x}]}]");
  await look();
  t.equal(secret("headgate-demo"), null);
  t.equal(secret(), "one");
  t.strictSame(outcomes, ["failed"]);
});

// ---- configuration ----

const clusterOf = (
  identity: string,
  keys = ", credentials: {access_key_id: CK, secret_access_key: CS}",
) => `clusters: [{id: a, endpoints: [http://h:1], identity: ${identity}${keys}}]`;

t.test("pairs on clusters are for clusters with identity mapped", async (t) => {
  const files = (identity: string, cluster = "a") => ({
    "headgate.yaml": `auth: {credentials: [{source: file, file: c.yaml}]}\n${clusterOf(identity)}`,
    "c.yaml": `users: [{uid: u, keys: [{access_key: AK, secret_key: s}], clusters: {${cluster}: {access_key: MK, secret_key: ms}}}]`,
  });
  const { config } = configOf(load(files("mapped")));
  const [source] = config.auth.sources;
  const [first] = source?.kind === "file" ? source.credentials : [];
  t.strictSame([...(first?.clusters ?? [])], [["a", { accessKeyId: "MK", secretAccessKey: "ms" }]]);
  t.match(faultsOf(load(files("same")))[0], 'Cluster "a" has identity same, needs mapped');
  t.match(faultsOf(load(files("mapped", "b")))[0], 'Cluster "b" is not configured');
});

t.test("no grants mean everything only where every cluster knows its users", async (t) => {
  const loaded = (clusters: string) =>
    configOf(
      load({
        "headgate.yaml": `auth: {credentials: [{source: file, file: c.yaml}, {source: rgw-admin, cluster: a}]}\n${clusters}`,
        "c.yaml": "users: [{uid: u, keys: [{access_key: AK, secret_key: s}]}]",
      }),
    );
  const grantsOf = (clusters: string) =>
    loaded(clusters).config.auth.sources.map((source) =>
      source.kind === "rgw-admin"
        ? source.grants.length
        : source.kind === "etcd"
          ? -1
          : (source.credentials[0]?.principal.grants.length ?? -1),
    );
  const warned = (clusters: string) =>
    loaded(clusters).warnings.filter(({ message }) => message.includes("no grants")).length;
  t.strictSame(grantsOf(clusterOf("same")), [1, 1]);
  t.equal(warned(clusterOf("same")), 0);
  const both = `${clusterOf("same").slice(0, -1)}, {id: b, endpoints: [http://h:2], identity: service}]`;
  for (const clusters of [clusterOf("service"), clusterOf("mapped"), both]) {
    t.strictSame(grantsOf(clusters), [0, 0]);
    t.equal(warned(clusters), 2);
  }
});

t.test("settings of a source belong to that source", async (t) => {
  const first = (source: string, clusters = clusterOf("same")) =>
    faultsOf(
      load({
        "headgate.yaml": `auth: {credentials: [${source}]}\n${clusters}`,
        "c.yaml": "users: []",
      }),
    ).join("\n");
  t.match(
    first("{source: file, file: c.yaml, cache_ttl: 1s}"),
    "auth.credentials[0].cache_ttl: Setting is not one of source file",
  );
  t.match(first("{source: file}"), "auth.credentials[0].file: Expected a path, got nothing");
  t.match(first("{source: rgw-admin}"), "Expected the id of a cluster under clusters, got nothing");
  t.match(first("{source: rgw-admin, cluster: b}"), 'under clusters, got "b"');
  t.match(
    first("{source: rgw-admin, cluster: a}", clusterOf("same", "")),
    "Needs both access_key_id and secret_access_key, here or at the cluster",
  );
  t.match(
    first("{source: rgw-admin, cluster: a, access_key_id: X}"),
    "Needs both access_key_id and secret_access_key, or their _file twins",
  );
  const { config } = configOf(
    load({
      "headgate.yaml": `auth: {credentials: [{source: rgw-admin, cluster: a}]}\n${clusterOf("same")}`,
    }),
  );
  t.match(config.auth.sources, [
    {
      kind: "rgw-admin",
      cluster: "a",
      keys: null,
      cacheTtlMs: 60_000,
      negativeTtlMs: 10_000,
      maxStaleMs: 3_600_000,
      maxEntries: 10_000,
    },
  ]);
});
