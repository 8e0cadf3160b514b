// One Headgate process, started from the build with a written configuration, and what a test asks it.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Identity } from "../../support/certificates.ts";
import { plainCommand } from "../../support/plain-command.ts";
import { freePort, HopelessError, type Outcome, run, until } from "./processes.ts";
import type { Pair } from "./s3.ts";
import { rgwPair } from "./services.ts";

const main = join(import.meta.dirname, "..", "..", "..", "dist", "proxy", "main.js");

/** The key pair clients use; the clusters have another one. */
export const clientPair = {
  accessKeyId: "CLIENTACCESSKEY00001",
  secretAccessKey: "client-secret-for-tests-only-0000000001",
} as const;

export interface ClusterSetting {
  readonly id: string;
  readonly url: string;
  readonly weight: number;
  /** `rgw-pacific` when absent. */
  readonly profile?: string;
  readonly state?: "pending" | "live";
}

export interface HeadgateSettings {
  readonly name: string;
  readonly clusters: readonly ClusterSetting[];
  readonly etcdUrl: string;
  /** `/headgate-drain/`: an installation of its own. */
  readonly prefix: string;
  /** Path of a policy bundle, a file or a folder; the built-in one when absent. */
  readonly bundle?: string;
  /** Whose keys sign at the clusters, `service` when absent. */
  readonly identity?: "service" | "same" | "mapped";
  /** In place of a file with `client`: entries of `auth.credentials`. */
  readonly sources?: readonly unknown[];
  /** What opens the secrets of source `etcd`. */
  readonly sealKeyFile?: string;
  /** The key pair that clients use, `clientPair` when absent. */
  readonly client?: Pair;
  /** Certificate and key of the S3 listener; HTTP when absent. */
  readonly tls?: Identity;
  /** Other APIs of a cluster that are handed on. */
  readonly passthrough?: { readonly cluster: string; readonly paths: readonly string[] };
  /** Under which a bucket may be named in Host; none when absent. */
  readonly baseDomains?: readonly string[];
  /** Whether Signature Version 2 is taken. */
  readonly sigv2?: boolean;
}

export interface AdminAnswer {
  readonly status: number;
  readonly body: unknown;
}

export interface ClusterView {
  readonly id: string;
  readonly state: string;
  readonly weight: number;
  readonly configured_weight: number;
}

export class Headgate {
  readonly name: string;
  readonly url: string;
  readonly adminUrl: string;
  readonly #child: ChildProcess;
  readonly #output: string[] = [];

  private constructor(
    name: string,
    scheme: "http" | "https",
    ports: readonly [number, number],
    child: ChildProcess,
  ) {
    this.name = name;
    this.url = `${scheme}://127.0.0.1:${ports[0]}`;
    this.adminUrl = `http://127.0.0.1:${ports[1]}`;
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on("data", (chunk: Buffer) => this.#output.push(chunk.toString("utf8")));
    }
  }

  /** Writes the configuration into `dir`, starts a process and waits until it is ready. */
  static async start(dir: string, settings: HeadgateSettings): Promise<Headgate> {
    const ports = [await freePort(), await freePort()] as const;
    const home = join(dir, settings.name);
    mkdirSync(home, { recursive: true });
    writeFileSync(
      join(home, "credentials.yaml"),
      JSON.stringify(credentials(settings.client ?? clientPair)),
    );
    writeFileSync(join(home, "config.yaml"), JSON.stringify(configuration(settings, ports, home)));
    const args = [main, "run", "-c", join(home, "config.yaml")];
    const [program, rest] = plainCommand(process.execPath, args);
    const child = spawn(program, rest, { stdio: ["ignore", "pipe", "pipe"] });
    const headgate = new Headgate(
      settings.name,
      settings.tls === undefined ? "http" : "https",
      ports,
      child,
    );
    try {
      await until(`${settings.name} ready`, 60_000, async () => {
        if (!headgate.runs) throw new HopelessError(`Headgate ended: ${headgate.output}`);
        const { status } = await fetch(`${headgate.adminUrl}/readyz`);
        return status === 200 ? true : null;
      });
    } catch (error) {
      child.kill("SIGKILL");
      throw new Error(`Headgate ${settings.name} does not get ready: ${headgate.output}`, {
        cause: error,
      });
    }
    return headgate;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get runs(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** The last of what it wrote, for messages. */
  get output(): string {
    return this.#output.join("").slice(-4000);
  }

  freeze(): void {
    this.#child.kill("SIGSTOP");
  }

  thaw(): void {
    this.#child.kill("SIGCONT");
  }

  async stop(): Promise<void> {
    if (!this.runs) return;
    const ended = new Promise<void>((resolve) => this.#child.once("exit", () => resolve()));
    this.thaw();
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), 15_000);
    await ended;
    clearTimeout(timer);
  }

  async admin(method: string, path: string, body?: unknown): Promise<AdminAnswer> {
    const answer = await fetch(`${this.adminUrl}/admin/v1${path}`, {
      method,
      ...(body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    });
    const text = await answer.text();
    return { status: answer.status, body: text === "" ? null : JSON.parse(text) };
  }

  /** @throws unless the answer is 2xx. */
  async change(method: string, path: string, body?: unknown): Promise<void> {
    const { status, body: answer } = await this.admin(method, path, body);
    if (status < 200 || status > 299) {
      throw new Error(`Admin ${method} ${path} answered ${status}: ${JSON.stringify(answer)}`);
    }
  }

  async cluster(id: string): Promise<ClusterView> {
    const { body } = await this.admin("GET", "/clusters");
    const { clusters } = body as { readonly clusters: readonly ClusterView[] };
    const found = clusters.find((cluster) => cluster.id === id);
    if (found === undefined) throw new Error(`Cluster "${id}" is not listed`);
    return found;
  }

  /** Sum of the samples of a metric whose labels are as given; 0 when there is none. */
  async metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
    const text = await (await fetch(`${this.adminUrl}/metrics`)).text();
    const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
    let sum = 0;
    for (const line of text.split("\n")) {
      const match = /^([a-zA-Z_:]+)(\{.*\})? (\S+)/.exec(line);
      if (match === null || match[1] !== name) continue;
      if (wanted.every((label) => (match[2] ?? "").includes(label))) sum += Number(match[3]);
    }
    return sum;
  }

  async cli(...args: readonly string[]): Promise<Outcome> {
    return run(process.execPath, [main, ...args, "--admin-url", this.adminUrl]);
  }
}

function credentials(pair: Pair): unknown {
  return {
    users: [
      {
        uid: "client",
        keys: [{ access_key: pair.accessKeyId, secret_key: pair.secretAccessKey }],
        grants: [{ buckets: ["*"], allow: ["read", "list", "write", "delete", "admin"] }],
      },
    ],
  };
}

function tlsFiles(identity: Identity, home: string): unknown {
  const files = { cert_file: join(home, "cert.pem"), key_file: join(home, "key.pem") };
  writeFileSync(files.cert_file, identity.certPem);
  writeFileSync(files.key_file, identity.keyPem, { mode: 0o600 });
  return files;
}

function configuration(
  settings: HeadgateSettings,
  ports: readonly [number, number],
  home: string,
): unknown {
  return {
    version: 1,
    node_id: settings.name,
    listen: {
      address: `127.0.0.1:${ports[0]}`,
      ...(settings.baseDomains === undefined ? {} : { base_domains: settings.baseDomains }),
      ...(settings.tls === undefined ? {} : { tls: tlsFiles(settings.tls, home) }),
    },
    admin: { address: `127.0.0.1:${ports[1]}` },
    shutdown: { delay: "0s", drain_timeout: "2s" },
    auth: {
      credentials: settings.sources ?? [{ source: "file", file: join(home, "credentials.yaml") }],
      ...(settings.sigv2 === true ? { sigv2: "on" } : {}),
    },
    clusters: settings.clusters.map(({ id, url, weight, profile, state }) => ({
      id,
      endpoints: [url],
      identity: settings.identity ?? "service",
      profile: profile ?? "rgw-pacific",
      weight,
      ...(state === undefined ? {} : { state }),
      credentials: {
        access_key_id: rgwPair.accessKeyId,
        secret_access_key: rgwPair.secretAccessKey,
      },
    })),
    ...(settings.passthrough === undefined ? {} : { passthrough: settings.passthrough }),
    ...(settings.bundle === undefined ? {} : { policy: { bundle: settings.bundle } }),
    ...(settings.sealKeyFile === undefined
      ? {}
      : { keys: { seal_key_file: settings.sealKeyFile } }),
    state: {
      driver: "etcd",
      etcd: { endpoints: [settings.etcdUrl], prefix: settings.prefix },
      snapshot_file: join(home, "snapshot.json"),
    },
  };
}
