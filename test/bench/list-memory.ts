// What many lists at once cost the process in memory: clients that page through a bucket of long names
// on four clusters, beside the same through one; and how soon one page of it comes. Each in a process of
// its own, since a heap that grew stays grown.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, get } from "node:http";
import { join } from "node:path";
import { signedHead } from "./requests.ts";
import { type Row, ratioRow, valueRow } from "./rows.ts";
import { clientPair, spawnPinned, startHeadgate, untilListens } from "./variants.ts";

const keyCount = 100_000;
const keyBytes = 1024;
const clients = 32;
const pagesEach = 10;
const pagesTimed = 40;
const mebibyte = 2 ** 20;

interface Seen {
  /** MiB by which the process grew. */
  readonly growth: number[];
  /** ms a page, one at a time. */
  readonly firstByte: number[];
  readonly whole: number[];
}

/** @param ports free ones: two for the proxy, then one for each of five clusters. */
export async function measureListMemory(
  rounds: number,
  place: { readonly dir: string; readonly ports: readonly number[] },
): Promise<readonly Row[]> {
  const [port = 0, adminPort = 0, ...clusterPorts] = place.ports;
  mkdirSync(place.dir, { recursive: true });
  const script = join(import.meta.dirname, "list-stub.js");
  const numbers = [keyCount, keyBytes, ...clusterPorts].map(String);
  const stub = spawnPinned(1, [process.execPath, script, ...numbers]);
  const one: Seen = { growth: [], firstByte: [], whole: [] };
  const spread: Seen = { growth: [], firstByte: [], whole: [] };
  try {
    await untilListens(clusterPorts.at(-1) ?? 0, stub);
    const clusters = clusterPorts.map((clusterPort, index) => ({
      id: `c${index}`,
      port: clusterPort,
      accessKeyId: "STUBACCESSKEY0000001",
      secretAccessKey: "stub-secret",
    }));
    for (let round = 0; round < rounds; round += 1) {
      for (const [bucket, seen] of Object.entries({ one, spread })) {
        const headgate = await startHeadgate({ port, adminPort, dir: place.dir }, clusters);
        try {
          await measure(bucket, headgate, seen);
        } finally {
          headgate.stop();
        }
      }
    }
  } finally {
    stub.kill("SIGKILL");
  }
  return report(one, spread);
}

async function measure(
  bucket: string,
  proxy: { readonly port: number; readonly pid: number },
  seen: Seen,
): Promise<void> {
  const agent = new Agent({ keepAlive: true });
  // Code is compiled and connections are open before the first figure.
  await readPages(pagesTimed, { bucket, agent, port: proxy.port });
  const times = await readPages(pagesTimed, { bucket, agent, port: proxy.port });
  seen.firstByte.push(median(times.map(({ firstByte }) => firstByte)));
  seen.whole.push(median(times.map(({ whole }) => whole)));
  const before = memory(proxy.pid, "VmRSS");
  // From here on the peak is counted anew (proc(5)).
  writeFileSync(`/proc/${proxy.pid}/clear_refs`, "5");
  await Promise.all(
    Array.from({ length: clients }, () =>
      readPages(pagesEach, { bucket, agent, port: proxy.port }),
    ),
  );
  seen.growth.push((memory(proxy.pid, "VmHWM") - before) / mebibyte);
  agent.destroy();
}

function memory(pid: number, what: "VmRSS" | "VmHWM"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${what}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) * 1024;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}

interface From {
  readonly bucket: string;
  readonly agent: Agent;
  readonly port: number;
}

interface PageTime {
  readonly firstByte: number;
  readonly whole: number;
}

/** The first pages of the list, one after another. */
async function readPages(count: number, from: From): Promise<readonly PageTime[]> {
  const times: PageTime[] = [];
  let token: string | null = "";
  for (let page = 0; page < count && token !== null; page += 1) {
    const read: { readonly token: string | null; readonly time: PageTime } = await readPage(
      token,
      from,
    );
    times.push(read.time);
    token = read.token;
  }
  return times;
}

async function readPage(
  token: string,
  { bucket, agent, port }: From,
): Promise<{ readonly token: string | null; readonly time: PageTime }> {
  const query = token === "" ? "list-type=2" : `continuation-token=${token}&list-type=2`;
  const path = `/${bucket}`;
  const host = `127.0.0.1:${port}`;
  const head = signedHead({ method: "GET", path, query, bodyBytes: 0 }, { host, ...clientPair });
  const fields = head.split("\r\n").slice(1, -2);
  const headers = Object.fromEntries(fields.map((line) => line.split(/: (.*)/s).slice(0, 2)));
  const began = performance.now();
  return await new Promise((resolve, reject) => {
    const request = get({ port, path: `${path}?${query}`, agent, headers }, (response) => {
      const firstByte = performance.now() - began;
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("end", () => {
        const whole = performance.now() - began;
        const text = Buffer.concat(parts).toString("latin1");
        const keys = text.split("<Contents>").length - 1;
        if (keys !== 1000) reject(new Error(`${response.statusCode}: ${keys} keys`));
        const next = /<NextContinuationToken>(.*?)</.exec(text)?.[1] ?? null;
        resolve({ token: next, time: { firstByte, whole } });
      });
    });
    request.on("error", reject);
  });
}

function report(one: Seen, spread: Seen): readonly Row[] {
  const what = "page of 1000 keys of 1 KiB";
  const many = `${clients} clients list keys of 1 KiB at once: memory grows`;
  const bar = { bar: 2, goal: 1.25 };
  const ratio = (name: string, unit: string, side: keyof Seen): Row =>
    ratioRow(name, unit, { over: spread[side], under: one[side] }, bar);
  return [
    valueRow(`${what} from one cluster: first byte`, "ms", one.firstByte),
    valueRow(`${what} from one cluster: whole`, "ms", one.whole),
    ratio(`${what}: first byte merged from 4 clusters / from one`, "ms", "firstByte"),
    ratio(`${what}: whole merged from 4 clusters / from one`, "ms", "whole"),
    valueRow(`${many} from one cluster`, "MiB", one.growth),
    ratio(`${many}, merged from 4 clusters / from one`, "MiB", "growth"),
  ];
}
