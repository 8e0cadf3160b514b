// What is measured: each variant is a process that forwards S3 requests to the same upstream. Started
// pinned to the first core; load generator and stub have the others.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export type VariantName = "headgate" | "dispatch" | "http-proxy" | "nginx";

export interface UpstreamTarget {
  readonly port: number;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

/** A running forwarder. `signsFor`: whose key pair its clients use, and under which Host. */
export interface Variant {
  readonly name: VariantName;
  readonly port: number;
  readonly pid: number;
  readonly signsFor: "headgate" | "upstream";
  stop(): void;
}

export const clientPair = {
  accessKeyId: "BENCHACCESSKEY000001",
  secretAccessKey: "bench-secret-for-measurements-only-00001",
} as const;

const here = import.meta.dirname;
const packageRoot = join(here, "..", "..", "..");

export function commandExists(name: string): boolean {
  return spawnSync("sh", ["-c", `command -v ${name}`]).status === 0;
}

/** `core` 0 is the proxy's, 1 everybody else's; without taskset or a second core nothing is pinned. */
export function pinned(core: 0 | 1, command: readonly string[]): readonly string[] {
  if (cpus().length < 2 || !commandExists("taskset")) return command;
  return ["taskset", "-c", core === 0 ? "0" : `1-${cpus().length - 1}`, ...command];
}

export function spawnPinned(core: 0 | 1, command: readonly string[]): ChildProcess {
  const [program = "", ...args] = pinned(core, command);
  return spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
}

/** @throws when nothing listens there within ten seconds. */
export async function untilListens(port: number, child: ChildProcess): Promise<void> {
  const errors: string[] = [];
  child.stderr?.on("data", (chunk: Buffer) => errors.push(chunk.toString("utf8")));
  child.stdout?.on("data", (chunk: Buffer) => errors.push(chunk.toString("utf8")));
  for (let tries = 0; tries < 200; tries++) {
    if (child.exitCode !== null) break;
    try {
      await (await fetch(`http://127.0.0.1:${port}/`)).arrayBuffer();
      return;
    } catch {
      await sleep(50);
    }
  }
  child.kill("SIGKILL");
  throw new Error(`Nothing listens on port ${port}: ${errors.join("").slice(-2000)}`);
}

/** CPU time of all threads of a process so far, in microseconds. */
export function cpuMicroseconds(pid: number): number {
  let nanoseconds = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const text = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8");
    nanoseconds += Number(text.split(" ")[0]);
  }
  return nanoseconds / 1000;
}

interface Place {
  readonly port: number;
  readonly adminPort: number;
  /** A directory for configuration and pid files. */
  readonly dir: string;
}

interface StartOptions extends Place {
  readonly upstream: UpstreamTarget;
}

interface BenchCluster extends UpstreamTarget {
  readonly id: string;
}

const commands: Record<VariantName, (options: StartOptions) => readonly string[]> = {
  headgate: (options) => headgateCommand(options, [{ ...options.upstream, id: "upstream" }]),
  dispatch: ({ port, upstream }) => [
    process.execPath,
    join(here, "forward.js"),
    String(port),
    String(upstream.port),
  ],
  "http-proxy": ({ port, upstream }) => [
    process.execPath,
    join(here, "http-proxy.js"),
    String(port),
    String(upstream.port),
  ],
  nginx: (options) => ["nginx", "-c", writeNginxConfig(options), "-p", options.dir],
};

function headgateCommand(place: Place, clusters: readonly BenchCluster[]): readonly string[] {
  return [
    process.execPath,
    // As the image runs it.
    "--max-semi-space-size=32",
    join(packageRoot, "dist/proxy/main.js"),
    "run",
    "-c",
    writeHeadgateConfig(place, clusters),
  ];
}

/** Headgate over several clusters. */
export async function startHeadgate(
  place: Place,
  clusters: readonly BenchCluster[],
): Promise<Pick<Variant, "port" | "pid" | "stop">> {
  const child = spawnPinned(0, headgateCommand(place, clusters));
  await untilListens(place.port, child);
  return { port: place.port, pid: child.pid ?? 0, stop: () => child.kill("SIGKILL") };
}

export async function startVariant(name: VariantName, options: StartOptions): Promise<Variant> {
  mkdirSync(options.dir, { recursive: true });
  const child = spawnPinned(0, commands[name](options));
  await untilListens(options.port, child);
  return {
    name,
    port: options.port,
    pid: child.pid ?? 0,
    signsFor: name === "headgate" ? "headgate" : "upstream",
    stop: () => child.kill("SIGKILL"),
  };
}

function writeHeadgateConfig(
  { port, adminPort, dir }: Place,
  clusters: readonly BenchCluster[],
): string {
  const credentials = join(dir, "credentials.yaml");
  const { accessKeyId, secretAccessKey } = clientPair;
  const grants = [{ buckets: ["*"], allow: ["read", "list", "write", "delete", "admin"] }];
  const keys = [{ access_key: accessKeyId, secret_key: secretAccessKey }];
  writeFileSync(credentials, JSON.stringify({ users: [{ uid: "bench", keys, grants }] }));
  const config = join(dir, "config.yaml");
  writeFileSync(
    config,
    JSON.stringify({
      version: 1,
      listen: { address: `127.0.0.1:${port}` },
      admin: { address: `127.0.0.1:${adminPort}` },
      auth: { credentials: [{ source: "file", file: credentials }] },
      clusters: clusters.map((cluster) => ({
        id: cluster.id,
        endpoints: [`http://127.0.0.1:${cluster.port}`],
        profile: "rgw-pacific",
        credentials: {
          access_key_id: cluster.accessKeyId,
          secret_access_key: cluster.secretAccessKey,
        },
      })),
      access_log: { format: "off" },
      log: { level: "error" },
    }),
  );
  return config;
}

function writeNginxConfig({ port, upstream, dir }: StartOptions): string {
  const path = join(dir, "nginx.conf");
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `  ${name}_temp_path ${join(dir, name)};`,
  );
  writeFileSync(
    path,
    [
      "daemon off; master_process off; worker_processes 1;",
      `pid ${join(dir, "nginx.pid")}; error_log stderr error;`,
      "events { worker_connections 1024; }",
      "http {",
      "  access_log off; client_max_body_size 0; keepalive_requests 1000000;",
      ...temporary,
      `  upstream s3 { server 127.0.0.1:${upstream.port}; keepalive 128; keepalive_requests 1000000; }`,
      "  server {",
      `    listen 127.0.0.1:${port};`,
      "    location / {",
      '      proxy_pass http://s3; proxy_http_version 1.1; proxy_set_header Connection "";',
      "      proxy_set_header Host $http_host; proxy_request_buffering off; proxy_buffering off;",
      "    }",
      "  }",
      "}",
      "",
    ].join("\n"),
  );
  return path;
}
