import t from "tap";
import { settings, settingsJsonSchema } from "../../proxy/config/schema.ts";
import { listSettings } from "../../proxy/config/setting-list.ts";
import { faultText } from "../../proxy/config/source-file.ts";
import { configOf, faultsOf, load } from "../support/config-load.ts";

t.test("without a file everything has its default", async (t) => {
  const { config } = configOf(load({}));
  t.strictSame(config.listen.address, { host: "127.0.0.1", port: 9000 });
  t.strictSame(config.admin, { address: { host: "127.0.0.1", port: 9001 }, token: null });
  t.equal(config.nodeId, "node-1");
  t.equal(config.listen.maxHeaderBytes, 32_768);
  t.equal(config.auth.presignMaxAgeMs, 604_800_000);
  t.equal(config.member.fenceAfterMs, 600_000);
  t.equal(config.listen.regions, null);
  t.strictSame(config.state, { driver: "memory" });
  t.ok(Object.isFrozen(config));
});

t.test("every fault is reported at once, with its place and the nearest key", async (t) => {
  const loaded = load({
    "headgate.yaml": [
      "listen:",
      "  adress: 0.0.0.0:9000",
      "  idle_timeout: 30",
      "upstream: {connect_timeout: 3 s}",
      "clusters:",
      "  - id: Rgw_A",
      "    endpoints: [ftp://x, http://10.0.0.1:7480/path]",
      "    weight: 101",
      "    identity: anybody",
      "    credentials: {access_key_id: AK, secret_access_key_file: gone.sk}",
      "log: {level: verbose}",
      "zzzzzz: 1",
      "admin: {address: 0.0.0.0:9001}",
      "keys: {handle_key_file: gone.keys}",
      "auth: {credentials: [{source: file}, {source: file, file: gone.yaml}]}",
      "node_id: ${UNSET_NAME}",
      "member: {lease_ttl: 1500ms}",
    ].join("\n"),
  });
  t.strictSame(
    faultsOf(loaded)
      .map((fault) => fault.replace(`${process.cwd()}/`, ""))
      .toSorted(),
    [
      "headgate.yaml:12:1: zzzzzz: Unknown key, valid are version, node_id, listen, admin, shutdown, auth, clusters, upstream, policy, buckets, classes, keys, member, state, passthrough, access_log, log",
      'headgate.yaml:10:62: clusters[0].credentials.secret_access_key_file: Cannot read file "gone.sk": it does not exist',
      'headgate.yaml:13:18: admin.address: Address "0.0.0.0" is reachable from other machines, needs admin.auth.token_file',
      'headgate.yaml:14:25: keys.handle_key_file: Cannot read file "gone.keys": it does not exist',
      "headgate.yaml:15:22: auth.credentials[0].file: Expected a path, got nothing",
      'headgate.yaml:15:59: auth.credentials[1].file: Cannot read file "gone.yaml": it does not exist',
      'headgate.yaml:16:10: node_id: Environment variable "UNSET_NAME" is not set',
      "headgate.yaml:17:21: member.lease_ttl: Lease needs whole seconds, 2s or more",
      'headgate.yaml:11:14: log.level: Expected one of debug, info, warn, error, got text "verbose"',
      'headgate.yaml:2:3: listen.adress: Unknown key, nearest is "address"',
      'headgate.yaml:3:17: listen.idle_timeout: Duration 30 has no unit, write "30s" or "30ms"',
      'headgate.yaml:4:29: upstream.connect_timeout: Duration "3 s" is not readable, write a whole number with ms, s, m or h',
      "headgate.yaml:6:9: clusters[0].id: Cluster id needs 1 to 63 of a-z, 0-9 and -",
      'headgate.yaml:7:17: clusters[0].endpoints[0]: Endpoint "ftp://x" has scheme "ftp:", needs http or https',
      'headgate.yaml:7:26: clusters[0].endpoints[1]: Endpoint "http://10.0.0.1:7480/path" has a path, needs scheme, host and port only',
      "headgate.yaml:8:13: clusters[0].weight: Number is above 100",
      'headgate.yaml:9:15: clusters[0].identity: Expected one of service, same, mapped, got text "anybody"',
    ].toSorted(),
  );
});

t.test("YAML that does not parse names its place", async (t) => {
  const faults = faultsOf(load({ "headgate.yaml": "listen: {\nlog: [" }));
  t.match(faults[0], /^headgate\.yaml:\d+:\d+: Cannot read YAML: /);
  t.strictSame(faultsOf(load({ "headgate.yaml": "log: {level: info}\nlog: {level: warn}" })), [
    "headgate.yaml:2:1: Cannot read YAML: Map keys must be unique",
  ]);
  t.strictSame(faultsOf(load({ "headgate.yaml": "- 1" })), [
    "headgate.yaml:1:1: Expected a map of settings",
  ]);
  t.match(
    faultsOf(load({ "headgate.yaml": "a: &x 1\nb: *x" })).join("\n"),
    /^headgate\.yaml:2:4: b: Al/,
  );
  t.strictSame(faultsOf(load({}, { file: "gone.yaml" })), [
    'gone.yaml: Cannot read file "gone.yaml": it does not exist',
  ]);
});

t.test("an empty file and JSON are fine", async (t) => {
  t.equal(load({ "headgate.yaml": "" }).kind, "config");
  const { config } = configOf(load({ "headgate.yaml": '{"log": {"level": "debug"}}' }));
  t.equal(config.logLevel, "debug");
});

t.test("flags win over environment, environment over file, file over defaults", async (t) => {
  const files = {
    "headgate.yaml": "log: {level: warn}\nlisten: {max_in_flight: 5, base_domains: [a.example]}",
  };
  const env = {
    HEADGATE_LISTEN_MAX_IN_FLIGHT: "6",
    HEADGATE_LISTEN_BASE_DOMAINS: "b.example, C.example",
    HEADGATE_LISTEN_ADDRESS: "127.0.0.1:1",
    HEADGATE_UPSTREAM_RETRIES_MAX_ATTEMPTS: "3",
  };
  const overrides = [{ flag: "--listen", path: ["listen", "address"], value: "127.0.0.1:2" }];
  const { config, shown } = configOf(load(files, { env, overrides }));
  t.equal(config.logLevel, "warn");
  t.equal(config.listen.maxInFlight, 6);
  t.equal(config.upstream.maxAttempts, 3);
  t.strictSame(config.listen.baseDomains, ["b.example", "c.example"]);
  t.equal(config.listen.address.port, 2);
  const origin = (name: string) => {
    const found = shown.find((setting) => setting.name === name);
    return [found?.origin, found?.source, found?.value];
  };
  t.strictSame(origin("log.level"), ["file", "headgate.yaml", "warn"]);
  t.strictSame(origin("listen.max_in_flight"), ["env", "HEADGATE_LISTEN_MAX_IN_FLIGHT", 6]);
  t.strictSame(origin("listen.address"), ["flag", "--listen", "127.0.0.1:2"]);
  t.strictSame(origin("listen.idle_timeout"), ["default", null, "120s"]);
});

t.test("faults of the environment and of flags name them", async (t) => {
  const faults = faultsOf(
    load(
      { "headgate.yaml": "listen: {max_connections: 5}" },
      {
        env: { HEADGATE_LISTEN_MAX_CONNECTIONS: "many" },
        overrides: [{ flag: "--listen", path: ["listen", "address"], value: "nowhere" }],
      },
    ),
  );
  t.strictSame(faults.toSorted(), [
    '--listen: listen.address: Address "nowhere" is not readable, write host:port',
    'HEADGATE_LISTEN_MAX_CONNECTIONS: listen.max_connections: Expected a whole number, got text "many"',
  ]);
});

t.test("a mistyped variable is a warning, a strange one is nothing", async (t) => {
  const { warnings } = configOf(
    load({}, { env: { HEADGATE_LOG_LEVLE: "debug", HEADGATE_PORT_9000_TCP_ADDR: "10.0.0.1" } }),
  );
  t.ok(
    warnings
      .map(faultText)
      .includes(
        'HEADGATE_LOG_LEVLE: Environment variable is no setting, nearest is "HEADGATE_LOG_LEVEL"',
      ),
  );
  t.notOk(warnings.some((warning) => warning.source.includes("TCP_ADDR")));
});

t.test("a list flag appends a cluster", async (t) => {
  const { config } = configOf(
    load(
      { "headgate.yaml": "clusters: [{id: a, endpoints: [http://h:1]}]" },
      {
        overrides: [
          {
            flag: "--cluster",
            path: ["clusters"],
            value: { id: "b", endpoints: ["http://h:2"] },
            append: true,
          },
        ],
      },
    ),
  );
  t.strictSame(
    config.clusters.map((cluster) => [cluster.id, cluster.endpoints, cluster.weight]),
    [
      ["a", ["http://h:1"], null],
      ["b", ["http://h:2"], null],
    ],
  );
});

t.test("variables expand in values only", async (t) => {
  const text = [
    "node_id: ${NAME}-${N:-7}$$",
    "listen:",
    "  max_in_flight: '${N:-8}'",
    "  max_connections: ${N:-9}",
    "classes: {'${NAME}': a}",
  ].join("\n");
  t.strictSame(faultsOf(load({ "headgate.yaml": text }, { env: { NAME: "x" } })), [
    'headgate.yaml:3:18: listen.max_in_flight: Expected a whole number, got text "8"',
    "headgate.yaml:5:22: classes.${NAME}: Storage class needs 1 to 64 of A-Z, 0-9, _ and -",
  ]);
  t.strictSame(faultsOf(load({ "headgate.yaml": "node_id: ${NAME}\nlog: {level: '${a b}'}" })), [
    'headgate.yaml:1:10: node_id: Environment variable "NAME" is not set',
    'headgate.yaml:2:14: log.level: Reference "${a b}" is not readable, write ${NAME} or ${NAME:-default}',
  ]);
  const { config } = configOf(
    load(
      { "headgate.yaml": "node_id: ${NAME}-${N:-7}$$\nlisten:\n  max_connections: ${N:-9}" },
      {
        env: { NAME: "x" },
      },
    ),
  );
  t.equal(config.nodeId, "x-7$");
  t.equal(config.listen.maxConnections, 9);
});

t.test("environment names are unique and lists of maps have none", async (t) => {
  const names = listSettings(settings).map((setting) => setting.env);
  const given = names.filter((name) => name !== null);
  t.equal(new Set(given).size, given.length);
  t.ok(given.includes("HEADGATE_STATE_ETCD_PASSWORD_FILE"));
  t.equal(
    listSettings(settings).find((setting) => setting.name === "clusters[].weight")?.env,
    null,
  );
  for (const setting of listSettings(settings)) t.not(setting.description, "", setting.name);
});

t.test("the JSON Schema is strict", async (t) => {
  const schema = JSON.parse(JSON.stringify(settingsJsonSchema()));
  t.equal(schema.additionalProperties, false);
  t.equal(schema.properties.listen.properties.address.default, "127.0.0.1:9000");
});

t.test("what only follows from a fault is not told", async (t) => {
  const faults = (text: string) => faultsOf(load({ "headgate.yaml": text }));
  const alone: readonly (readonly [text: string, fault: RegExp])[] = [
    ["listen: {address: nowhere}\nadmin: {address: 127.0.0.1:9000}", /listen\.address: Address/],
    ["admin: {address: 0.0.0.0:1, auth: {token_fle: t}}", /token_fle: Unknown key/],
    ["member: {lease_ttl: 5, fence_after: 10s}", /lease_ttl: Duration 5 has no unit/],
    ["state: {driver: etcd, etcd: {username: u, password: [x]}}", /password: Expected text/],
    [
      "clusters: [{id: a, endpoints: [x], credentials: {access_key_id: 5, secret_access_key: s}}]",
      /endpoints\[0\]: .* not a URL[^]*access_key_id: Expected text$/,
    ],
    ["clusters: [5]", /clusters\[0\]: Expected a map, got 5/],
    ["clusters: 5\nclasses: {GLACIER: a}", /clusters: Expected a list of clusters, got 5/],
    ["log: {level: '${A_NAME}'}", /"A_NAME" is not set/],
  ];
  for (const [text, fault] of alone) {
    t.match(faults(text).join("\n"), fault);
    t.equal(faults(text).length, text.includes("endpoints") ? 2 : 1, text);
  }
  const env = { HEADGATE_LOG_LEVEL: "info" };
  t.equal(load({ "headgate.yaml": "log: {level: '${A_NAME}'}" }, { env }).kind, "config");
});

t.test("short names are not taken for each other", async (t) => {
  t.match(faultsOf(load({ "headgate.yaml": "foo: 1" }))[0], "foo: Unknown key, valid are version,");
  t.match(faultsOf(load({ "headgate.yaml": "lgo: 1" }))[0], "lgo: Unknown key, valid are");
  t.match(faultsOf(load({ "headgate.yaml": "lo: 1" }))[0], 'nearest is "log"');
});
