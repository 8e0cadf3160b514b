// A whole Headgate in this process, over demo clusters that can be looked into: what the wire tests
// talk to. Everything is real but the clusters' storage and the placement state, which is memory.

import { readFileSync } from "node:fs";
import { S3Client } from "@aws-sdk/client-s3";
import type { Test } from "tap";
import type { Headgate } from "../../proxy/assembly.ts";
import { startHeadgate } from "../../proxy/assembly.ts";
import type { Config } from "../../proxy/config.ts";
import { loadConfig } from "../../proxy/config.ts";
import type { DemoServer } from "../../proxy/demo/server.ts";
import { startDemoServer } from "../../proxy/demo/server.ts";
import type { AccessRecord } from "../../proxy/gateway/trace.ts";
import { system } from "../../proxy/main.ts";
import type { LogFields, LogLevel, Timers } from "../../proxy/placement/ports.ts";
import { type ProfileFacts, profiles } from "../../proxy/placement/profiles.ts";

export const clientKeys = { accessKeyId: "test-client", secretAccessKey: "test-client-secret" };
/** A pair that was issued with a session token. */
export const sessionKeys = {
  accessKeyId: "test-session",
  secretAccessKey: "test-session-secret",
  sessionToken: "test/session+token==",
};
export const readerKeys = { accessKeyId: "test-reader", secretAccessKey: "test-reader-secret" };
export const otherKeys = { accessKeyId: "test-other", secretAccessKey: "test-other-secret" };
/** All but administration, of keys in `mine/`. */
export const limitedKeys = {
  accessKeyId: "test-limited",
  secretAccessKey: "test-limited-secret",
};
export const clusterKeys = {
  accessKeyId: "cluster-service",
  secretAccessKey: "cluster-service-secret",
};

export interface TestHeadgate {
  readonly url: string;
  readonly adminUrl: string;
  readonly clusters: Readonly<Record<string, DemoServer>>;
  /** Ends it before the test does, as a crash would. */
  readonly stop: () => Promise<void>;
  readonly s3: S3Client;
  readonly accessLog: readonly AccessRecord[];
  readonly logLines: readonly {
    readonly level: LogLevel;
    readonly event: string;
    readonly fields: LogFields;
  }[];
  readonly client: (options?: Partial<ConstructorParameters<typeof S3Client>[0]>) => S3Client;
  readonly admin: (
    method: string,
    path: string,
    body?: unknown,
  ) => Promise<{ readonly status: number; readonly body: unknown }>;
}

export interface TestHeadgateOptions {
  /** Cluster → weight; default a, b, c with 1, 2, 3. */
  readonly clusters?: Readonly<Record<string, number>>;
  /** YAML that is merged behind the settings of the test. */
  readonly settings?: string;
  /** Settings of `listen`, as one line of YAML flow: `body_idle_timeout: 50ms`. */
  readonly listen?: string;
  /** Files that settings name, as lying beside the configuration. */
  readonly files?: Readonly<Record<string, string>>;
  /** Settings of `auth`, likewise: `sigv2: on`. */
  readonly auth?: string;
  /** Clusters that are somebody else's servers. */
  readonly endpoints?: Readonly<Record<string, string>>;
  /** Cluster → whose keys sign upstream. */
  readonly identities?: Readonly<Record<string, string>>;
  /** In place of the test's users: the text of the credentials file. */
  readonly credentials?: string;
  /** In place of that file: entries of `auth.credentials` as YAML flow. */
  readonly sources?: string;
  /** In place of the keys that sign at every cluster, as YAML flow; files of the disk may be named. */
  readonly clusterKeys?: string;
  /** One more line of YAML for every cluster, `tls: {ca_file: ca.pem}`. */
  readonly clusterSettings?: string;
  readonly states?: Readonly<Record<string, string>>;
  /** What waits for limits of time. */
  readonly timers?: Timers;
  /** Start over clusters that run already. */
  readonly servers?: Readonly<Record<string, DemoServer>>;
  /** Milliseconds that its monotonic clock is ahead of the machine's. */
  readonly aheadMs?: () => number;
}

const credentials = `
users:
  - uid: client
    keys: [{access_key: ${clientKeys.accessKeyId}, secret_key: ${clientKeys.secretAccessKey}}]
    grants: [{buckets: ["*"], keys: ["*"], allow: [read, list, write, delete, admin]}]
  - uid: other
    keys: [{access_key: ${otherKeys.accessKeyId}, secret_key: ${otherKeys.secretAccessKey}}]
    grants: [{buckets: ["*"], keys: ["*"], allow: [read, list, write, delete, admin]}]
  - uid: session
    keys: [{access_key: ${sessionKeys.accessKeyId}, secret_key: ${sessionKeys.secretAccessKey}, session_token: ${sessionKeys.sessionToken}}]
    grants: [{buckets: ["*"], keys: ["*"], allow: [read, list, write, delete, admin]}]
  - uid: reader
    keys: [{access_key: ${readerKeys.accessKeyId}, secret_key: ${readerKeys.secretAccessKey}}]
    grants: [{buckets: ["shown-*"], keys: ["*"], allow: [read, list]}]
  - uid: limited
    keys: [{access_key: ${limitedKeys.accessKeyId}, secret_key: ${limitedKeys.secretAccessKey}}]
    grants: [{buckets: ["*"], keys: ["mine/*"], allow: [read, list, write, delete]}]
`;

export async function startClusters(
  t: Test,
  ids: readonly string[],
  facts: ProfileFacts = profiles.aws,
): Promise<Readonly<Record<string, DemoServer>>> {
  const servers: Record<string, DemoServer> = {};
  for (const id of ids) {
    const server = await startDemoServer({
      port: 0,
      credentials: { ...clusterKeys, sessionToken: null },
      clock: system.clock,
      random: system.random,
      minPartBytes: 1,
      facts,
    });
    t.teardown(() => server.close());
    servers[id] = server;
  }
  return servers;
}

export async function startTestHeadgate(
  t: Test,
  options: TestHeadgateOptions = {},
): Promise<TestHeadgate> {
  const weights = options.clusters ?? { a: 1, b: 2, c: 3 };
  const servers = options.servers ?? (await startClusters(t, Object.keys(weights)));
  const accessLog: AccessRecord[] = [];
  const logLines: { level: LogLevel; event: string; fields: LogFields }[] = [];
  const { aheadMs = () => 0 } = options;
  const clock = {
    ...system.clock,
    monotonicMs: () => system.clock.monotonicMs() + aheadMs(),
  };
  const headgate = await startHeadgate(testConfig(weights, servers, options), {
    system: { ...system, clock, timers: options.timers ?? system.timers },
    version: "0.0.0-test",
    log: { write: (level, event, fields = {}) => logLines.push({ level, event, fields }) },
    accessLog: { write: (record) => accessLog.push(record) },
    signal: AbortSignal.timeout(20_000),
  });
  t.teardown(() => headgate.close(0));
  return running(headgate, { servers, accessLog, logLines, t });
}

function running(
  headgate: Headgate,
  parts: {
    readonly servers: Readonly<Record<string, DemoServer>>;
    readonly accessLog: readonly AccessRecord[];
    readonly logLines: TestHeadgate["logLines"];
    readonly t: Test;
  },
): TestHeadgate {
  const adminUrl = headgate.adminUrl ?? "";
  const client: TestHeadgate["client"] = (given = {}) => {
    const made = new S3Client({
      endpoint: headgate.s3Url,
      region: "us-east-1",
      forcePathStyle: true,
      credentials: clientKeys,
      requestChecksumCalculation: "WHEN_REQUIRED",
      responseChecksumValidation: "WHEN_REQUIRED",
      maxAttempts: 1,
      ...given,
    });
    parts.t.teardown(() => made.destroy());
    return made;
  };
  return {
    url: headgate.s3Url,
    adminUrl,
    clusters: parts.servers,
    stop: () => headgate.close(0),
    s3: client(),
    accessLog: parts.accessLog,
    logLines: parts.logLines,
    client,
    async admin(method, path, body) {
      const response = await fetch(`${adminUrl}/admin/v1${path}`, {
        method,
        headers: { "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, body: text === "" ? null : JSON.parse(text) };
    },
  };
}

function testConfig(
  weights: Readonly<Record<string, number>>,
  servers: Readonly<Record<string, DemoServer>>,
  options: TestHeadgateOptions,
): Config {
  const clusters = Object.entries(weights).map(
    ([id, weight]) => `
  - id: ${id}
    endpoints: ["${options.endpoints?.[id] ?? servers[id]?.url}"]
    weight: ${weight}
    identity: ${options.identities?.[id] ?? "service"}
    state: ${options.states?.[id] ?? "live"}
    credentials: ${options.clusterKeys ?? `{access_key_id: ${clusterKeys.accessKeyId}, secret_access_key: ${clusterKeys.secretAccessKey}}`}
    ${options.clusterSettings ?? ""}`,
  );
  const files: Readonly<Record<string, string>> = {
    "/test/credentials.yaml": options.credentials ?? credentials,
    ...Object.fromEntries(
      Object.entries(options.files ?? {}).map(([name, text]) => [`/test/${name}`, text]),
    ),
    "/test/headgate.yaml": `
listen: {address: "127.0.0.1:0", base_domains: [s3.test]${options.listen === undefined ? "" : `, ${options.listen}`}}
admin: {address: "127.0.0.1:0"}
auth: {credentials: [${options.sources ?? "{source: file, file: credentials.yaml}"}]${options.auth === undefined ? "" : `, ${options.auth}`}}
clusters: ${clusters.join("")}
${options.settings ?? ""}
`,
  };
  const loaded = loadConfig({
    nowMs: Date.now(),
    file: "/test/headgate.yaml",
    env: {},
    overrides: [],
    hostname: "test-host",
    embedded: false,
    readFile: (path) => {
      const text = files[path];
      if (text === undefined && !path.startsWith("/test/")) return readFileSync(path, "utf8");
      if (text === undefined) throw Object.assign(new Error("no such file"), { code: "ENOENT" });
      return text;
    },
  });
  if (loaded.kind === "faults") throw new Error(JSON.stringify(loaded.faults));
  return loaded.config;
}
