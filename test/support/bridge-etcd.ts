// A private etcd for a test: free ports, its own folder, ended at teardown. Without etcd installed
// a test is skipped with the install line, unless CI=true, where a missing part is a failure.

import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import type { EtcdOptions } from "../../bridge/etcd-options.ts";

const run = promisify(execFile);
const installLine = "etcd is not installed: apt-get install etcd-server etcd-client";

/** The reason to skip, or `false`. Under CI=true it throws instead. */
export function skipWithoutEtcd(): string | false {
  const isThere = ["etcd", "etcdctl"].every(
    (name) => spawnSync(name, ["--help"], { stdio: "ignore" }).error === undefined,
  );
  if (isThere) return false;
  if (process.env["CI"] === "true") throw new Error(installLine);
  return installLine;
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

export interface EtcdTls {
  readonly certFile: string;
  readonly keyFile: string;
  readonly caFile: string;
}

export class TestEtcd {
  readonly url: string;
  readonly folder: string;
  readonly #args: readonly string[];
  readonly #tls: EtcdTls | null;
  #process: ChildProcess | null = null;

  private constructor(folder: string, url: string, more: { args: string[]; tls: EtcdTls | null }) {
    this.folder = folder;
    this.url = url;
    this.#args = more.args;
    this.#tls = more.tls;
  }

  static async start(tls: EtcdTls | null = null): Promise<TestEtcd> {
    const folder = await mkdtemp(join(tmpdir(), "headgate-etcd-"));
    const client = `${tls === null ? "http" : "https"}://127.0.0.1:${await freePort()}`;
    const peer = `http://127.0.0.1:${await freePort()}`;
    const flags = {
      name: "t",
      "data-dir": join(folder, "data"),
      "log-level": "error",
      "listen-client-urls": client,
      "advertise-client-urls": client,
      "listen-peer-urls": peer,
      "initial-advertise-peer-urls": peer,
      "initial-cluster": `t=${peer}`,
      ...(tls === null
        ? {}
        : { "cert-file": tls.certFile, "key-file": tls.keyFile, "trusted-ca-file": tls.caFile }),
    };
    const args = Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
    args.push("--unsafe-no-fsync", ...(tls === null ? [] : ["--client-cert-auth"]));
    const etcd = new TestEtcd(folder, client, { args, tls });
    await etcd.run();
    return etcd;
  }

  /** Starts the process again on its own data. `flags`: for etcdctl, such as a user. */
  async run(...flags: readonly string[]): Promise<void> {
    this.#process = spawn("etcd", this.#args, { stdio: "ignore" });
    for (let attempt = 0; attempt < 100; attempt += 1) {
      try {
        await this.ctl("endpoint", "health", "--command-timeout=1s", ...flags);
        return;
      } catch {
        await delay(50);
      }
    }
    throw new Error("etcd did not become healthy");
  }

  async ctl(...args: readonly string[]): Promise<string> {
    const tls =
      this.#tls === null
        ? []
        : ["--cacert", this.#tls.caFile, "--cert", this.#tls.certFile, "--key", this.#tls.keyFile];
    const { stdout } = await run("etcdctl", ["--endpoints", this.url, ...tls, ...args], {
      env: { PATH: process.env["PATH"], ETCDCTL_API: "3" },
    });
    return stdout;
  }

  signal(name: "SIGSTOP" | "SIGCONT"): void {
    this.#process?.kill(name);
  }

  /** Ends it at once, as a crash does; the data stays. */
  async kill(): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (child === null || child.exitCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.folder, { recursive: true, force: true });
  }

  options(more: Partial<EtcdOptions> = {}): EtcdOptions {
    return {
      endpoints: [this.url],
      username: null,
      password: null,
      tls: null,
      dialTimeoutMs: 3000,
      dialRetryMs: 300,
      ...more,
    };
  }
}
