// Two RGW clusters and one etcd, real ones, in a directory and on ports of their own. Each handle can
// be killed and started again; what was not killed on purpose must be the same process at the end.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { processRuns, run, runOk, until } from "./processes.ts";
import type { Pair } from "./s3.ts";

const scripts = join(import.meta.dirname, "..", "services");

export type ClusterName = "a" | "b";

/** The pair that test/real/services/rgw-up.sh gives its user on both clusters. */
export const rgwPair = {
  accessKeyId: "HEADGATERGWACCESS001",
  secretAccessKey: "headgate-rgw-secret-for-tests-only-0001",
} as const;

/** Release series of the RGW that a lab runs: Debian 12's 16.2, or 18.2 in a folder of its own. */
export type Generation = 16 | 18;

/**
 * What a lab runs when its file names no generation: HEADGATE_LAB_GENERATION, 16 or 18; 16 when absent.
 * @throws for anything else
 */
export function chosenGeneration(): Generation {
  const text = process.env["HEADGATE_LAB_GENERATION"] ?? "16";
  if (text === "16" || text === "18") return text === "16" ? 16 : 18;
  throw new Error(`HEADGATE_LAB_GENERATION must be 16 or 18, not "${text}"`);
}

export const installLine =
  "apt-get install --no-install-recommends ceph-mon ceph-osd radosgw ceph-common etcd-server etcd-client curl debootstrap";

export const serviceCommands = [
  "ceph-mon",
  "ceph-osd",
  "ceph",
  "radosgw",
  "radosgw-admin",
  "monmaptool",
  "etcd",
  "etcdctl",
  "curl",
] as const;

/** What the folder of generation 18 is made with. */
export const folderCommands = ["debootstrap", "unshare", "chroot"] as const;

/** The profile of a cluster in each generation. */
export const profileOf = { 16: "rgw-pacific", 18: "rgw-reef" } as const;

export interface RgwPorts {
  readonly a: number;
  readonly b: number;
  /** Its OSD takes ports from 30 above this one. */
  readonly mon: number;
}

function readPid(file: string): number {
  return Number(readFileSync(file, "utf8").trim());
}

function readStat(pid: number): string | null {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return null;
  }
}

/** The two radosgw daemons of one DIR. */
export class RgwPair {
  readonly #dir: string;
  readonly #ports: RgwPorts;
  readonly #pids = new Map<ClusterName, number>();
  readonly #dnsName: string | null;
  readonly generation: Generation;

  /** @param options.dnsName as rgw_dns_name */
  constructor(
    dir: string,
    ports: RgwPorts,
    options: { readonly generation: Generation; readonly dnsName: string | null },
  ) {
    this.#dir = dir;
    this.#ports = ports;
    this.#dnsName = options.dnsName;
    this.generation = options.generation;
  }

  url(cluster: ClusterName): string {
    return `http://127.0.0.1:${this.#ports[cluster]}`;
  }

  /** Starts whatever does not run. */
  async up(): Promise<void> {
    const { a, b, mon } = this.#ports;
    const flags = ["-d", this.#dir, "-a", String(a), "-b", String(b), "-m", String(mon)];
    if (this.#dnsName !== null) flags.push("-n", this.#dnsName);
    await runOk(join(scripts, this.generation === 16 ? "rgw-up.sh" : "rgw18-up.sh"), flags);
    for (const name of ["a", "b"] as const) this.#pids.set(name, this.#readPid(name));
  }

  /** Asks or changes one cluster by its own tool, past its radosgw. Answers what the tool printed. */
  async admin(cluster: ClusterName, ...args: readonly string[]): Promise<string> {
    const tool = this.generation === 16 ? "radosgw-admin" : join(this.#dir, "bin", "radosgw-admin");
    const env = { CEPH_CONF: join(this.#dir, "ceph.conf") };
    return await runOk(tool, ["-n", `client.rgw.${cluster}`, ...args], { env });
  }

  /** Sets an option of a radosgw while it runs. */
  async configure(cluster: ClusterName, option: string, value: string): Promise<void> {
    const tool = this.generation === 16 ? "ceph" : join(this.#dir, "bin", "ceph");
    const env = { CEPH_CONF: join(this.#dir, "ceph.conf") };
    await runOk(tool, ["config", "set", `client.rgw.${cluster}`, option, value], { env });
  }

  /** A user with one key pair. */
  async makeUser(cluster: ClusterName, uid: string, pair: Pair): Promise<void> {
    const keys = [`--access-key=${pair.accessKeyId}`, `--secret-key=${pair.secretAccessKey}`];
    await this.admin(cluster, "user", "create", `--uid=${uid}`, `--display-name=${uid}`, ...keys);
  }

  /** Kills one daemon as a crash would and waits until it is gone. */
  async kill(cluster: ClusterName): Promise<void> {
    const pid = this.#readPid(cluster);
    process.kill(pid, "SIGKILL");
    await until(`the end of radosgw ${cluster}`, 15_000, () =>
      processRuns(pid, readStat(pid)) ? null : true,
    );
  }

  /** Which daemons do not run, or are not the ones that were started. */
  dead(): readonly ClusterName[] {
    return (["a", "b"] as const).filter((name) => {
      const pid = this.#readPid(name);
      return pid !== this.#pids.get(name) || !processRuns(pid, readStat(pid));
    });
  }

  async down(): Promise<void> {
    await run(join(scripts, "rgw-down.sh"), ["-k", "-d", this.#dir, "-p"]);
  }

  #readPid(cluster: ClusterName): number {
    return readPid(join(this.#dir, "run", `client.rgw.${cluster}.pid`));
  }
}

/** One etcd node with its data in DIR. */
export class EtcdNode {
  readonly #dir: string;
  readonly #port: number;

  constructor(dir: string, port: number) {
    this.#dir = dir;
    this.#port = port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async up(): Promise<void> {
    await runOk(join(scripts, "etcd-up.sh"), ["-d", this.#dir, "-p", String(this.#port)]);
  }

  async kill(): Promise<void> {
    await runOk(join(scripts, "etcd-down.sh"), ["-k", "-d", this.#dir]);
  }

  /** Stops its process without closing anything: what a frozen machine looks like. */
  stall(): void {
    process.kill(readPid(join(this.#dir, "run", "etcd.pid")), "SIGSTOP");
  }

  resume(): void {
    process.kill(readPid(join(this.#dir, "run", "etcd.pid")), "SIGCONT");
  }

  async ctl(...args: readonly string[]): Promise<string> {
    return runOk("etcdctl", ["--endpoints", this.url, ...args], { env: { ETCDCTL_API: "3" } });
  }

  /** Drops every revision before the newest one. */
  async compact(): Promise<void> {
    const answer: { readonly header: { readonly revision: number } } = JSON.parse(
      await this.ctl("get", "/headgate-absent", "-w", "json"),
    );
    await this.ctl("compact", String(answer.header.revision));
  }

  async down(): Promise<void> {
    await run(join(scripts, "etcd-down.sh"), ["-k", "-d", this.#dir, "-p"]);
  }
}
