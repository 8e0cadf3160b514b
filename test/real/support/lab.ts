// What every real suite stands on: two RGW clusters, etcd, Headgate processes, and a count of what ran.
// Each test checks that both radosgw daemons are the ones that were started, before it and after it.

import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { S3Client } from "@aws-sdk/client-s3";
import type { Test } from "tap";
import { requireCommands } from "../../support/requires.ts";
import { type ClusterSetting, clientPair, Headgate, type HeadgateSettings } from "./headgate.ts";
import { freePort } from "./processes.ts";
import { type Pair, s3Client } from "./s3.ts";
import {
  chosenGeneration,
  EtcdNode,
  folderCommands,
  type Generation,
  installLine,
  profileOf,
  RgwPair,
  rgwPair,
  serviceCommands,
} from "./services.ts";

/** Where the tests of one tap run note that they ran; the runner is the parent of each of them. */
const ranFile = join(tmpdir(), `headgate-real-${process.ppid}`, "ran");

/** Names of the real tests that have run to their end in this tap run. */
export function testsThatRan(): readonly string[] {
  try {
    return readFileSync(ranFile, "utf8")
      .split("\n")
      .filter((name) => name !== "");
  } catch {
    return [];
  }
}

export function forgetTestsThatRan(): void {
  rmSync(join(ranFile, ".."), { recursive: true, force: true });
}

export class Lab {
  readonly dir: string;
  readonly rgw: RgwPair;
  readonly etcd: EtcdNode;
  readonly #clients: S3Client[] = [];
  readonly #closing: (() => Promise<void> | void)[] = [];

  private constructor(dir: string, rgw: RgwPair, etcd: EtcdNode) {
    this.dir = dir;
    this.rgw = rgw;
    this.etcd = etcd;
  }

  static async open(generation: Generation, dnsName: string | null = null): Promise<Lab> {
    const dir = mkdtempSync(join(tmpdir(), "headgate-lab-"));
    const a = await freePort(2);
    // The OSD takes ports from 30 above the monitor's.
    const ports = { a, b: a + 1, mon: await freePort(50) };
    const rgw = new RgwPair(join(dir, "rgw"), ports, { generation, dnsName });
    const etcd = new EtcdNode(join(dir, "etcd"), await freePort(2));
    const lab = new Lab(dir, rgw, etcd);
    try {
      await Promise.all([rgw.up(), etcd.up()]);
    } catch (error) {
      await lab.close();
      throw error;
    }
    return lab;
  }

  /** Clusters a and b with these weights. */
  clusters(weights: { readonly a: number; readonly b: number }): readonly ClusterSetting[] {
    const profile = profileOf[this.rgw.generation];
    return (["a", "b"] as const).map((id) => ({
      id,
      url: this.rgw.url(id),
      weight: weights[id],
      profile,
    }));
  }

  async headgate(settings: Omit<HeadgateSettings, "etcdUrl">): Promise<Headgate> {
    const started = await Headgate.start(this.dir, { ...settings, etcdUrl: this.etcd.url });
    this.#closing.push(() => started.stop());
    return started;
  }

  /** Runs at the end of the lab, before what was started earlier ends. */
  onClose(close: () => Promise<void> | void): void {
    this.#closing.push(close);
  }

  client(headgate: Headgate): S3Client {
    return this.#client(headgate.url, clientPair);
  }

  /** Straight to one RGW, past Headgate. */
  direct(cluster: "a" | "b"): S3Client {
    return this.#client(this.rgw.url(cluster), rgwPair);
  }

  #client(url: string, pair: Pair): S3Client {
    const client = s3Client(url, pair);
    this.#clients.push(client);
    return client;
  }

  /** Closes every connection of the clients so far; they can be used again. */
  closeClients(): void {
    for (const client of this.#clients) client.destroy();
  }

  async close(): Promise<void> {
    this.closeClients();
    for (const close of this.#closing.toReversed()) await close();
    await Promise.all([this.rgw.down(), this.etcd.down()]);
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export interface LabOptions {
  /** The chosen one when absent. */
  readonly generation?: Generation;
  /** Under which both clusters take buckets in Host; none when absent. */
  readonly dnsName?: string;
  /** For all tests together, below the timeout of .taprc; 280,000 when absent. */
  readonly timeoutMs?: number;
  /** How to get the commands, beside what every lab needs. */
  readonly install?: string;
}

/**
 * Runs the tests of one file on a lab of its own. Without the services the file is one skip with the
 * install line. `test` is `t.test` that counts and looks after the radosgw daemons.
 */
export function withLab(
  t: Test,
  commands: readonly string[],
  body: (lab: Lab, test: RealTest) => Promise<void>,
  options: LabOptions = {},
): void {
  const { generation = chosenGeneration(), timeoutMs = 280_000, install, dnsName } = options;
  const folder = generation === 16 ? [] : folderCommands;
  const needed = [...serviceCommands, ...folder, ...commands];
  const lines = install === undefined ? installLine : `${installLine}; ${install}`;
  const requirement = requireCommands(t, needed, lines);
  void t.test(`on RGW ${generation}.2`, { ...requirement, timeout: timeoutMs }, async (t) => {
    const lab = await Lab.open(generation, dnsName);
    t.teardown(() => lab.close());
    const pending: { readonly name: string; readonly run: (t: Test) => Promise<void> }[] = [];
    await body(lab, (name, run) => pending.push({ name, run }));
    for (const { name, run } of pending) {
      await t.test(name, { timeout: timeoutMs - 40_000 }, async (t) => {
        t.strictSame(lab.rgw.dead(), [], "both radosgw run before");
        await run(t);
        t.strictSame(lab.rgw.dead(), [], "both radosgw run after");
        mkdirSync(join(ranFile, ".."), { recursive: true });
        appendFileSync(ranFile, `${name}\n`);
      });
    }
  });
}

export type RealTest = (name: string, run: (t: Test) => Promise<void>) => void;
