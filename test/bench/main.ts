// npm run bench -- [--quick] [--json] [--rgw] [--lists]: what a request costs the proxy's process in CPU time,
// Headgate's full job beside a bare dispatch forward, http-proxy and nginx, round by round in one run.
// Absolute figures move with the machine; the ratios are what counts. Never a timed test.

import { type ChildProcess, fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { measureListMemory } from "./list-memory.ts";
import { measureLists } from "./lists.ts";
import type { LoadOrder, LoadReport } from "./load.ts";
import { type BenchOperation, bucket, keyOf, operations, signedHead } from "./requests.ts";
import { addedRow, type Bar, leftOutRow, lineOf, type Row, ratioRow, valueRow } from "./rows.ts";
import { type BenchUpstream, startRgw, startStub } from "./upstreams.ts";
import {
  clientPair,
  commandExists,
  cpuMicroseconds,
  pinned,
  startVariant,
  type Variant,
  type VariantName,
} from "./variants.ts";

const { values: flags } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    rgw: { type: "boolean", default: false },
    /** The rows of lists alone. */
    lists: { type: "boolean", default: false },
  },
});

const rounds = flags.quick ? 3 : 7;
const durationMs = flags.quick ? 400 : 1500;
const connectionCounts = [1, 32] as const;
/** V8 compiles a full job for about three seconds of load; before that figures are those of the compiler. */
const warmUpMs = 3000;

/** Bars and goals of the ratios headgate / other. */
function barOf(other: VariantName, operation: BenchOperation, connections: number): Bar | null {
  const small = operation.sizeBytes === 1024;
  if (other === "dispatch" && small) return { bar: 1.5, goal: 1.25 };
  if (other === "http-proxy" && operation.name === "GET 1 KiB") return { bar: 0.9, goal: 0.6 };
  if (other !== "nginx") return null;
  if (!small) return { bar: 2, goal: 1.3 };
  if (operation.method === "PUT") return null;
  if (!flags.rgw) return { bar: 8, goal: 4 };
  return connections === 32 ? { bar: 3.5, goal: 2.5 } : null;
}

function print(row: Row): void {
  process.stdout.write(`${flags.json ? JSON.stringify(row) : lineOf(row)}\n`);
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("No port was given");
  return address.port;
}

class Load {
  readonly #child: ChildProcess;

  constructor() {
    const script = join(import.meta.dirname, "load.js");
    const [execPath = process.execPath, ...before] = pinned(1, [process.execPath]);
    // taskset runs node, which runs the script: fork's channel passes through an exec.
    this.#child = fork(script, { execPath, execArgv: before });
  }

  async run(order: LoadOrder): Promise<LoadReport> {
    return new Promise((resolve) => {
      this.#child.once("message", (report: LoadReport) => resolve(report));
      this.#child.send(order);
    });
  }

  stop(): void {
    this.#child.kill("SIGKILL");
  }
}

interface Cell {
  /** CPU µs a request, one value a round. */
  readonly cpu: number[];
  readonly p50: number[];
  readonly p99: number[];
}

type Cells = Map<string, Cell>;

function cellOf(cells: Cells, name: string): Cell {
  const found = cells.get(name) ?? { cpu: [], p50: [], p99: [] };
  cells.set(name, found);
  return found;
}

function orderFor(
  variant: Pick<Variant, "port" | "signsFor">,
  operation: BenchOperation,
  context: { readonly connections: number; readonly upstream: BenchUpstream },
): LoadOrder {
  const { upstream, connections } = context;
  const bodyBytes = operation.method === "PUT" ? operation.sizeBytes : 0;
  const request = { method: operation.method, path: `/${bucket}/${keyOf(operation)}`, bodyBytes };
  const to =
    variant.signsFor === "headgate"
      ? { host: `127.0.0.1:${variant.port}`, ...clientPair }
      : { host: `127.0.0.1:${upstream.port}`, ...upstream };
  return { port: variant.port, connections, durationMs, head: signedHead(request, to), bodyBytes };
}

async function measure(
  variants: readonly Variant[],
  upstream: BenchUpstream,
  load: Load,
): Promise<Cells> {
  const cells: Cells = new Map();
  for (const variant of variants) {
    for (const operation of operations) {
      const order = orderFor(variant, operation, { connections: 32, upstream });
      await load.run({ ...order, durationMs: warmUpMs / (operation.sizeBytes > 1024 ? 3 : 1) });
    }
  }
  for (let round = -1; round < rounds; round++) {
    for (const operation of operations) {
      for (const connections of connectionCounts) {
        for (const variant of variants) {
          const order = orderFor(variant, operation, { connections, upstream });
          const before = cpuMicroseconds(variant.pid);
          const report = await load.run(order);
          const cpu = (cpuMicroseconds(variant.pid) - before) / report.requests;
          refuseErrors(variant.name, operation, report);
          if (round >= 0) {
            const cell = cellOf(cells, `${operation.name} ${connections} ${variant.name}`);
            cell.cpu.push(cpu);
            cell.p50.push(report.p50);
            cell.p99.push(report.p99);
          }
        }
        const direct = { port: upstream.port, signsFor: "upstream" } as const;
        const report = await load.run(orderFor(direct, operation, { connections, upstream }));
        refuseErrors("direct", operation, report);
        if (round >= 0) {
          const cell = cellOf(cells, `${operation.name} ${connections} direct`);
          cell.p50.push(report.p50);
          cell.p99.push(report.p99);
        }
      }
    }
  }
  return cells;
}

function refuseErrors(name: string, operation: BenchOperation, report: LoadReport): void {
  // http-proxy now and then cuts a connection whose upstream socket went stale.
  const allowed = name === "http-proxy" ? report.requests / 100 : 0;
  if (report.errors <= allowed && report.requests > 0) return;
  throw new Error(
    `Cannot measure ${operation.name} on ${name}: ${report.errors} errors, first "${report.firstError}"`,
  );
}

function report(cells: Cells, names: readonly VariantName[]): void {
  const unit = "CPU us/request";
  for (const operation of operations) {
    for (const connections of connectionCounts) {
      const what = `${operation.name}, ${connections} ${connections === 1 ? "connection" : "connections"}`;
      const own = cellOf(cells, `${operation.name} ${connections} headgate`);
      for (const name of names) {
        const { cpu } = cellOf(cells, `${operation.name} ${connections} ${name}`);
        print(valueRow(`${what}: ${name}`, unit, cpu));
        if (name === "headgate") continue;
        const sides = { over: own.cpu, under: cpu };
        const bar = barOf(name, operation, connections);
        print(ratioRow(`${what}: headgate / ${name}`, unit, sides, bar));
      }
      if (connections !== 1 || operation.name !== "GET 1 KiB") continue;
      const direct = cellOf(cells, `${operation.name} ${connections} direct`);
      const p50 = { over: own.p50, under: direct.p50 };
      const p99 = { over: own.p99, under: direct.p99 };
      print(addedRow(`${what}: added latency p50`, p50, { bar: 1, goal: 0.4 }));
      print(addedRow(`${what}: added latency p99`, p99, { bar: 3, goal: 1.5 }));
    }
  }
}

async function main(): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), "headgate-bench-"));
  const closing: (() => void | Promise<void>)[] = [
    () => rmSync(dir, { recursive: true, force: true }),
  ];
  try {
    const ports = await Promise.all(Array.from({ length: 7 }, () => freePort()));
    const place = { dir: join(dir, "lists"), ports };
    for (const row of await measureLists(rounds * 3, place)) print(row);
    for (const row of await measureListMemory(rounds, place)) print(row);
    if (flags.lists) return;
    const upstream = flags.rgw ? await startRgw(dir) : await startStub(await freePort());
    closing.push(() => upstream.stop());
    const names: VariantName[] = ["headgate", "dispatch", "http-proxy"];
    if (commandExists("nginx")) names.push("nginx");
    else print(leftOutRow("nginx", "nginx is not installed"));
    const variants: Variant[] = [];
    for (const name of names) {
      const ports = { port: await freePort(), adminPort: await freePort() };
      const variant = await startVariant(name, { ...ports, upstream, dir: join(dir, name) });
      closing.push(() => variant.stop());
      variants.push(variant);
    }
    const load = new Load();
    closing.push(() => load.stop());
    report(await measure(variants, upstream, load), names);
    const cores = "client, upstream and two workers need more than two cores";
    print(leftOutRow("two worker processes / one, requests per second", cores));
    if (!flags.rgw) print(leftOutRow("with a real RGW as the upstream", "ask with --rgw"));
  } finally {
    for (const close of closing.toReversed()) await close();
  }
}

await main();
process.exit(0);
