import t from "tap";
import { faultText } from "../../proxy/config/source-file.ts";
import { readDuration, readListenAddress, readSize } from "../../proxy/config/values.ts";
import { profileFacts } from "../../proxy/placement/profiles.ts";
import { configOf, faultsOf, load } from "../support/config-load.ts";

const secretText = "s3cr3t-must-not-show";

t.test("durations, sizes and addresses", async (t) => {
  t.strictSame(readDuration("250ms"), { kind: "value", value: 250 });
  t.strictSame(readDuration("168h"), { kind: "value", value: 604_800_000 });
  t.equal(readDuration("1.5s").kind, "wrong");
  t.equal(readDuration("600h").kind, "wrong", "timers hold 31 bits");
  t.strictSame(readSize("5MiB"), { kind: "value", value: 5_242_880 });
  t.strictSame(readSize(12), { kind: "value", value: 12 });
  t.equal(readSize("5MB").kind, "wrong");
  t.equal(readSize(-1).kind, "wrong");
  t.strictSame(readListenAddress("[::1]:0"), { kind: "value", value: { host: "::1", port: 0 } });
  t.equal(readListenAddress("127.0.0.1:70000").kind, "wrong");
});

t.test("secrets come directly or from a file, never both", async (t) => {
  const file = (keys: string) =>
    `clusters: [{id: a, endpoints: [http://h:1], credentials: {${keys}}}]`;
  const { config } = configOf(
    load({
      "headgate.yaml": file("access_key_id: AK, secret_access_key_file: a.sk"),
      "a.sk": `${secretText}\n`,
    }),
  );
  t.strictSame(config.clusters[0]?.credentials, {
    accessKeyId: "AK",
    secretAccessKey: secretText,
    sessionToken: null,
  });
  const faults = (keys: string) =>
    faultsOf(load({ "headgate.yaml": file(keys), "a.sk": secretText, empty: "\n" }));
  t.match(
    faults("access_key_id: AK, secret_access_key: x, secret_access_key_file: a.sk")[0],
    "Both secret_access_key and secret_access_key_file are set, keep one",
  );
  t.match(faults("access_key_id: AK")[0], "Needs both access_key_id and secret_access_key");
  t.match(faults("access_key_id: AK, secret_access_key_file: no")[0], "it does not exist");
  t.match(faults("access_key_id: AK, secret_access_key_file: empty")[0], "is empty");
});

t.test(
  "a cluster may differ from its profile in single facts, and need a Host of its own",
  async (t) => {
    const file = (rest: string) => `clusters: [{id: a, endpoints: [http://h:1]${rest}}]`;
    const clusterOf = (rest: string) =>
      configOf(load({ "headgate.yaml": file(rest) })).config.clusters[0];
    const plain = clusterOf("");
    t.equal(plain?.host, null);
    t.equal(profileFacts("rgw-reef", plain?.overrides), profileFacts("rgw-reef"));
    const facts = Object.keys(profileFacts("aws")).filter((name) => name !== "backend");
    t.strictSame(Object.keys(plain?.overrides ?? {}).sort(), facts.sort());
    for (const name of facts) {
      const setting = name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
      const values = name === "conditionalEtagQuotes" ? ["keep", "strip"] : [true, false];
      for (const value of values) {
        const given = clusterOf(`, overrides: {${setting}: ${value}}`);
        t.strictSame(
          profileFacts("rgw-reef", given?.overrides),
          { ...profileFacts("rgw-reef"), [name]: value },
          setting,
        );
      }
    }
    t.match(
      faultsOf(load({ "headgate.yaml": file(", overrides: {trailers: true}") }))[0],
      "trailers",
    );
    t.equal(clusterOf(", host: 's3.example:7480'")?.host, "s3.example:7480");
    t.match(faultsOf(load({ "headgate.yaml": file(", host: 'http://h'") }))[0], "name:port");
  },
);

t.test("no secret is shown", async (t) => {
  const loaded = load({
    "headgate.yaml": `clusters: [{id: a, endpoints: [http://h:1], credentials: {access_key_id: AK, secret_access_key: ${secretText}}}]`,
  });
  const { shown } = configOf(loaded);
  t.notMatch(JSON.stringify(shown), secretText);
  t.match(
    shown.find((setting) => setting.name === "clusters[0].credentials.secret_access_key")?.value,
    /^sha256:[0-9a-f]{8}$/,
  );
  const wrong = load({ "headgate.yaml": `state: {etcd: {password: [${secretText}]}}` });
  t.equal(faultsOf(wrong).length, 1);
  t.notMatch(faultsOf(wrong).join(), secretText);
});

t.test("an admin listener that others reach needs a token", async (t) => {
  t.strictSame(faultsOf(load({ "headgate.yaml": "admin: {address: 0.0.0.0:9001}" })), [
    'headgate.yaml:1:18: admin.address: Address "0.0.0.0" is reachable from other machines, needs admin.auth.token_file',
  ]);
  t.strictSame(
    faultsOf(
      load({
        "headgate.yaml": "admin: {address: 0.0.0.0:9001, auth: {mode: none, token_file: t}}",
        t: "x",
      }),
    ).length,
    1,
  );
  const withToken = (token: string) =>
    load({ "headgate.yaml": "admin: {address: 0.0.0.0:9001, auth: {token_file: t}}", t: token });
  t.equal(configOf(withToken("0123456789abcdef\n")).config.admin?.token, "0123456789abcdef");
  t.match(faultsOf(withToken("short"))[0], "Token is shorter than 16 characters");
  t.match(
    faultsOf(load({ "headgate.yaml": "admin: {auth: {mode: token}}" }))[0],
    "Mode token needs admin.auth.token_file",
  );
  t.equal(configOf(load({ "headgate.yaml": "admin: {address: ''}" })).config.admin, null);
});

t.test("the demo pair stays on loopback", async (t) => {
  const files = {
    "headgate.yaml":
      "listen: {address: 0.0.0.0:9000}\nauth: {credentials: [{source: file, file: c.yaml}]}",
    "c.yaml": "users: [{uid: u, keys: [{access_key: headgate-demo, secret_key: other}]}]",
  };
  t.match(faultsOf(load(files))[0], /^headgate\.yaml:1:19: listen\.address: The demo key pair/);
  t.match(
    faultsOf(load({ "headgate.yaml": "listen: {address: 0.0.0.0:1}" }, { embedded: true }))[0],
    "The demo key pair",
  );
  t.equal(load({}, { embedded: true }).kind, "config");
});

t.test("a credentials file gives keys with their grants", async (t) => {
  const files = {
    "headgate.yaml": "auth: {credentials: [{source: file, file: c.yaml}]}",
    "k/a.sk": "from-file\n",
    "c.yaml": [
      "users:",
      "  - uid: alice",
      "    display_name: Alice",
      "    tenant: acme",
      "    keys:",
      "      - {access_key: AK1, secret_key_file: k/a.sk}",
      "      - {access_key: AK2, secret_key: s, status: suspended}",
      "    groups: [readers]",
      "    grants: [{buckets: ['a-*'], allow: [write]}]",
      "groups: [{name: readers, grants: [{buckets: ['*'], keys: ['x/*'], allow: [read, list]}]}]",
    ].join("\n"),
  };
  const { config, warnings } = configOf(load(files));
  const [source] = config.auth.sources;
  const credentials = source?.kind === "file" ? source.credentials : [];
  t.strictSame(
    credentials.map(({ accessKeyId, status }) => [accessKeyId, status]),
    [
      ["AK1", "active"],
      ["AK2", "suspended"],
    ],
  );
  t.strictSame(credentials[0], {
    accessKeyId: "AK1",
    secretAccessKey: "from-file",
    principal: {
      accessKey: "AK1",
      account: "alice",
      displayName: "Alice",
      tenant: "acme",
      groups: ["readers"],
      grants: [
        { buckets: ["a-*"], keys: ["*"], allow: ["write"] },
        { buckets: ["*"], keys: ["x/*"], allow: ["read", "list"] },
      ],
      scheme: "header",
    },
    status: "active",
    clusters: new Map(),
  });
  t.notOk(warnings.some((warning) => warning.message.includes("no grants")));
});

t.test("faults of a credentials file stand in that file", async (t) => {
  const files = {
    "headgate.yaml": "auth: {credentials: [{source: file, file: c.yaml}]}",
    "c.yaml": [
      "users:",
      "  - uid: a",
      `    keys: [{access_key: AK, secret_key: ${secretText}}, {access_key: AK, secret_key: s}, {access_key: 'a b', secret_key: s}, {access_key: C}]`,
      "    groups: [none]",
    ].join("\n"),
  };
  const place = (text: string) => text.replace(`${process.cwd()}/`, "");
  t.strictSame(faultsOf(load(files)).map(place), [
    'c.yaml:4:14: users[0].groups[0]: Group "none" is not under groups',
    'c.yaml:3:77: users[0].keys[1].access_key: Access key "AK" is given twice',
    "c.yaml:3:110: users[0].keys[2].access_key: Access key has characters that S3 does not allow",
    "c.yaml:3:133: users[0].keys[3]: Key needs secret_key or secret_key_file",
  ]);
  const unknown = {
    ...files,
    "c.yaml": "users: [{uid: a, keys: [], grants: [{buckets: [b], allow: [raed, Fly]}]}]\nuser: 1",
  };
  t.strictSame(faultsOf(load(unknown)).map(place), [
    'c.yaml:1:60: users[0].grants[0].allow[0]: Unknown operation or class "raed", nearest is "read"',
    'c.yaml:1:66: users[0].grants[0].allow[1]: Unknown operation or class "Fly", nearest is one of read, write, list, delete, admin',
    'c.yaml:2:1: user: Unknown key, nearest is "users"',
  ]);
  const bare = { ...files, "c.yaml": "users: [{uid: a, keys: [{access_key: AK, secret_key: s}]}]" };
  t.ok(
    configOf(load(bare))
      .warnings.map((warning) => place(faultText(warning)))
      .includes(
        'c.yaml:1:15: users[0].uid: User "a" has no grants, so it may only list buckets, unless a policy of your own says otherwise',
      ),
  );
});

t.test("settings that contradict each other", async (t) => {
  const first = (text: string, files: Record<string, string> = {}) =>
    faultsOf(load({ "headgate.yaml": text, ...files })).join("\n");
  t.match(
    first("clusters: [{id: a, endpoints: [http://h:1]}, {id: a, endpoints: [http://h:2]}]"),
    'Cluster "a" is given twice',
  );
  t.match(
    first("clusters: [{id: a}]"),
    "headgate.yaml:1:12: clusters[0].endpoints: Expected a list of URLs, got nothing",
  );
  t.match(first("member: {lease_ttl: 1500ms}"), "Lease needs whole seconds, 2s or more");
  t.match(first("member: {lease_ttl: 30s, fence_after: 10s}"), "Fence comes before the lease ends");
  t.match(first("member: {fence_after: often}"), 'Duration "often" is not readable');
  t.match(first("state: {driver: etcd, etcd: {username: u}}"), "Needs both username and password");
  t.match(first("state: {driver: etcd, etcd: {prefix: headgate}}"), "Prefix needs the form");
  t.match(first("classes: {glacier: a}"), "Storage class needs");
  t.match(first("classes: {GLACIER: A_}"), '"A_" is not a cluster id');
  t.match(
    first("keys: {handle_key_file: k}", { k: "abc" }),
    "File needs one to three lines of 64 hex digits",
  );
  t.match(first("listen: {address: 127.0.0.1:9001}"), "Address is that of listen.address");
  t.strictSame(
    configOf(
      load({
        "headgate.yaml": "member: {fence_after: never}\nkeys: {handle_key_file: k}",
        k: "ab".repeat(32),
      }),
    ).config.handleKeys?.map((key) => key.length),
    [32],
  );
});

t.test("etcd settings", async (t) => {
  const { config } = configOf(
    load({
      "headgate.yaml":
        "state: {driver: etcd, etcd: {endpoints: ['https://e1:2379', 'https://e2:2379'], username: u, password_file: p, tls: {ca_file: ca}}, snapshot_file: snap.json}",
      p: "pw\n",
      ca: "PEM",
    }),
  );
  t.strictSame(config.state, {
    driver: "etcd",
    endpoints: ["https://e1:2379", "https://e2:2379"],
    prefix: "/headgate/v1/",
    username: "u",
    password: "pw",
    caPem: "PEM",
    certPem: null,
    keyPem: null,
    dialTimeoutMs: 3000,
  });
  t.equal(config.snapshotFile, `${process.cwd()}/snap.json`, "relative to the file");
});

t.test("limits of time and size have a least value", async (t) => {
  const zero = (path: string) => {
    const keys = path.split(".");
    const text = `${keys.map((key) => `{${key}: `).join("")}0s${"}".repeat(keys.length)}`;
    return faultsOf(load({ "headgate.yaml": text })).join("\n");
  };
  for (const name of ["header_timeout", "idle_timeout", "body_idle_timeout"]) {
    t.match(zero(`listen.${name}`), `listen.${name}: Duration is 0, needs 1ms or more`);
  }
  for (const name of [
    "connect_timeout",
    "response_header_timeout",
    "body_idle_timeout",
    "keepalive",
  ]) {
    t.match(zero(`upstream.${name}`), `upstream.${name}: Duration is 0, needs 1ms or more`);
  }
  t.match(zero("state.etcd.dial_timeout"), "Duration is 0");
  t.match(zero("auth.clock_skew"), "Duration is 0");
  t.equal(zero("shutdown.delay"), "");
  t.match(
    faultsOf(load({ "headgate.yaml": "listen: {max_header_bytes: 4095}" }))[0],
    "listen.max_header_bytes: Size is below 4KiB",
  );
  t.equal(load({ "headgate.yaml": "listen: {max_header_bytes: 4KiB}" }).kind, "config");
});

t.test(
  "no keys are warned of where none were written, not where they cannot be read",
  async (t) => {
    const auth = "auth: {credentials: [{source: file, file: c}]}";
    const warned = (files: Readonly<Record<string, string>>) =>
      load({ "headgate.yaml": auth, ...files }).warnings.some(({ message }) =>
        message.startsWith("No client keys are configured"),
      );
    t.equal(warned({ c: "users: []" }), true);
    t.equal(warned({}), false, "the file is not there");
    t.equal(
      warned({
        c: "users: [{uid: u, keys: [{access_key: A, secret_key_file: gone}], grants: []}]",
      }),
      false,
    );
  },
);

t.test("settings without effect are warnings", async (t) => {
  const warnings = (text: string) =>
    configOf(load({ "headgate.yaml": text, t: "x" }))
      .warnings.map(faultText)
      .join("\n");
  t.match(
    warnings("classes: {GLACIER: cold}\nclusters: [{id: a, endpoints: [http://h:1]}]"),
    'headgate.yaml:1:20: classes.GLACIER: Cluster "cold" is not under clusters',
  );
  t.notMatch(
    warnings("classes: {GLACIER: a}\nclusters: [{id: a, endpoints: [http://h:1]}]"),
    "under",
  );
  t.match(
    warnings("state: {snapshot_file: s}"),
    "state.snapshot_file: Snapshot file has no effect with driver memory",
  );
  t.match(warnings("state: {driver: file, snapshot_file: s}"), "no effect with driver file");
  t.match(warnings("state: {driver: etcd}"), "state.snapshot_file: No snapshot file");
  t.notMatch(warnings("state: {driver: etcd, snapshot_file: s}"), "napshot");
  t.match(
    warnings("admin: {auth: {mode: none, token_file: t}}"),
    "admin.auth.token_file: Token file has no effect beside mode none",
  );
});

t.test("an embedded run has clusters, client key and state of its own", async (t) => {
  const files = {
    "headgate.yaml": [
      "clusters: [{id: a, endpoints: [http://h:1]}]",
      "auth: {credentials: [{source: file, file: c.yaml}]}",
      "state: {driver: file}",
    ].join("\n"),
    "c.yaml": "users: []",
  };
  const overrides = [
    {
      flag: "--cluster",
      path: ["clusters"],
      value: { id: "b", endpoints: ["http://h:2"] },
      append: true,
    },
  ];
  t.equal(load(files, { overrides }).kind, "config");
  t.strictSame(faultsOf(load(files, { embedded: true, overrides })), [
    "headgate.yaml:1:12: clusters[0]: Flag --embedded brings its own clusters, take this one away",
    "--cluster: clusters[1]: Flag --embedded brings its own clusters, take this one away",
    "headgate.yaml:2:22: auth.credentials[0]: Flag --embedded brings its own client key, take this source away",
    'headgate.yaml:3:17: state.driver: Flag --embedded keeps its state in memory, so driver "file" cannot be used',
  ]);
  const other = "shutdown: {delay: 1s}\nclasses: {GLACIER: a}\nstate: {driver: memory}";
  t.strictSame(configOf(load({ "headgate.yaml": other }, { embedded: true })).warnings, []);
});
