// Headgate over the embedded clusters: what `npm start` and `headgate demo` run. They are real S3
// servers on sockets of this process, so everything but the disks is as in front of other clusters.

import { noAccessLog } from "./admin/access-log.ts";
import { JsonLog } from "./admin/log.ts";
import type { Headgate } from "./assembly.ts";
import { startHeadgate } from "./assembly.ts";
import type { CliIo } from "./cli/command.ts";
import { demoPair } from "./config/credentials.ts";
import type { Config } from "./config.ts";
import { loadConfig } from "./config.ts";
import type { EmbeddedClusters } from "./demo/embedded.ts";
import { startEmbeddedClusters } from "./demo/embedded.ts";
import type { TourOptions } from "./demo/tour.ts";
import { runTour } from "./demo/tour.ts";
import { welcomeText } from "./demo/welcome.ts";
import type { Clock } from "./placement/ports.ts";
import type { Credential } from "./policy/credential.ts";
import type { ClusterId } from "./s3/names.ts";
import { noTenant, parseAccessKeyId, parseClusterId } from "./s3/names.ts";
import type { System } from "./system.ts";
import type { UpstreamPools } from "./upstream/upstream.ts";
import { createUpstream } from "./upstream/upstream.ts";

export function withEmbedded(config: Config, embedded: EmbeddedClusters): Config {
  return {
    ...config,
    clusters: embedded.clusters.map(({ id, endpoint, weight, region, credentials }) => ({
      id,
      endpoints: [endpoint],
      profile: "aws",
      identity: "service",
      region,
      addressing: "path",
      host: null,
      forwardedFor: "off",
      overrides: {},
      weight,
      state: "live",
      labels: {},
      credentials,
      keyFiles: null,
      tls: { caPem: null, insecureSkipVerify: false },
    })),
    auth: { ...config.auth, sources: [{ kind: "fixed", credentials: [demoCredential()] }] },
  };
}

/** The demo pair may do everything. */
function demoCredential(): Credential {
  const accessKeyId = parseAccessKeyId(demoPair.accessKeyId);
  if (accessKeyId === null) throw new Error("The demo pair has no valid access key id");
  return {
    accessKeyId,
    secretAccessKey: demoPair.secretAccessKey,
    principal: {
      accessKey: accessKeyId,
      account: "demo",
      displayName: "Demo",
      tenant: noTenant,
      groups: [],
      grants: [
        { buckets: ["*"], keys: ["*"], allow: ["read", "list", "write", "delete", "admin"] },
      ],
      scheme: "header",
    },
    status: "active",
    clusters: new Map(),
  };
}

export function welcome(headgate: Headgate, { clusters }: EmbeddedClusters): string {
  const { s3Url: endpoint, adminUrl } = headgate;
  return welcomeText({ endpoint, adminUrl, ...demoPair, clusters });
}

/** The scripted tour, on ports of its own. Gives the exit code. */
export async function demo(
  options: { readonly json: boolean; readonly system: System },
  io: CliIo,
): Promise<number> {
  const { system } = options;
  const { clock, random } = system;
  const loaded = loadConfig({
    file: null,
    env: {},
    overrides: [
      { flag: "demo", path: ["listen", "address"], value: "127.0.0.1:0" },
      { flag: "demo", path: ["admin", "address"], value: "127.0.0.1:0" },
    ],
    hostname: io.hostname,
    nowMs: clock.nowMs(),
    embedded: true,
    readFile: io.readFile,
  });
  if (loaded.kind === "faults") throw new Error("The configuration of the tour has faults");
  const { signal } = new AbortController();
  const clusters = await startEmbeddedClusters({ clock, random });
  const config = withEmbedded(loaded.config, clusters);
  const log = new JsonLog({ write: io.stderr }, { clock, level: "error" });
  const headgate = await startHeadgate(config, {
    system,
    version: io.version,
    log,
    accessLog: noAccessLog,
    signal,
  });
  try {
    await tour(headgate, clusters, {
      clock,
      signal,
      write: options.json ? () => {} : io.stdout,
      report: options.json ? (step) => io.stdout(`${JSON.stringify(step)}\n`) : () => {},
    });
    return 0;
  } catch (caught) {
    io.stderr(`The tour stopped: ${caught instanceof Error ? caught.message : String(caught)}\n`);
    return 1;
  } finally {
    await headgate.close(0);
    await clusters.close();
  }
}

async function tour(
  headgate: Headgate,
  clusters: EmbeddedClusters,
  options: Pick<TourOptions, "signal" | "write" | "report"> & { readonly clock: Clock },
): Promise<void> {
  const proxy = parseClusterId("proxy");
  if (proxy === null || headgate.adminUrl === null) throw new Error("The tour needs an admin API");
  const client = openClient(proxy, { url: headgate.s3Url, clock: options.clock });
  try {
    await runTour({
      upstream: client.upstream,
      proxy,
      adminUrl: headgate.adminUrl,
      clusters: clusters.clusters,
      held: (bucket) => clusters.held(bucket),
      ...options,
    });
  } finally {
    await client.close();
  }
}

/** An S3 client of Headgate itself, for the tour: the upstream adapter pointed at the proxy. */
function openClient(
  id: ClusterId,
  { url, clock }: { readonly url: string; readonly clock: Clock },
): UpstreamPools {
  return createUpstream({
    clusters: [
      {
        id,
        endpoints: [url],
        region: "us-east-1",
        addressing: "path",
        host: null,
        identity: "service",
        credentials: { ...demoPair, sessionToken: null },
        tls: { caPem: null, insecureSkipVerify: false },
      },
    ],
    clock,
    meter: { upstreamEnded: () => {}, upstreamRetried: () => {} },
    limits: {
      maxSockets: 32,
      connectTimeoutMs: 3_000,
      headersTimeoutMs: 30_000,
      bodyIdleTimeoutMs: 30_000,
      keepAliveMs: 10_000,
    },
    maxAttempts: 1,
    callerKeys: () => null,
  });
}
