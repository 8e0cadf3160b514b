#!/usr/bin/env node
// The program: hands the command line to cli/main-command.ts and starts what it asks for. Owns the
// outside world (clock, chance, sockets, streams, signals); assembly.ts puts the parts together.

import { randomBytes } from "node:crypto";
import { createWriteStream, existsSync, openSync, readFileSync, realpathSync } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { performance } from "node:perf_hooks";
import { createInterface } from "node:readline/promises";
import { jsonAccessLog, noAccessLog } from "./admin/access-log.ts";
import { JsonLog, type LineSink } from "./admin/log.ts";
import type { Headgate } from "./assembly.ts";
import { startHeadgate } from "./assembly.ts";
import { demo, welcome, withEmbedded } from "./assembly-demo.ts";
import type { CliIo } from "./cli/command.ts";
import { runCli } from "./cli/main-command.ts";
import type { Config } from "./config.ts";
import { startEmbeddedClusters } from "./demo/embedded.ts";
import type { AccessLog } from "./gateway/trace.ts";
import type { Clock, Log, Random, Timers } from "./placement/ports.ts";
import { FaultError } from "./placement/ports.ts";
import type { System } from "./system.ts";

/** The installed package: `dist/proxy` and `proxy` both lie in it. */
const packageRoot = packageRootOf(import.meta.dirname);
const version = packageVersion();

// ---- the outside world ----

const clock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  async sleep(durationMs, signal) {
    signal.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const abort = (): void => {
        clearTimeout(timer);
        reject(signal.reason);
      };
      const timer = setTimeout(() => {
        signal.removeEventListener("abort", abort);
        resolve();
      }, durationMs);
      signal.addEventListener("abort", abort, { once: true });
    });
  },
};

const timers: Timers = {
  after(durationMs, run) {
    // A limit that has not come yet is no reason to keep a process that has nothing else to do.
    const timer = setTimeout(run, durationMs).unref();
    return () => clearTimeout(timer);
  },
};

const random: Random = { bytes: (count) => randomBytes(count) };

/** The outside world as it really is; tests use it too. */
export const system: System = {
  clock,
  timers,
  random,
  createServer: (options, tls) => {
    if (tls === null) return createServer(options);
    const { certPem: cert, keyPem: key, minVersion, handshakeTimeoutMs: handshakeTimeout } = tls;
    return createSecureServer({ ...options, cert, key, minVersion, handshakeTimeout });
  },
  fingerprint: async (path) => {
    try {
      const { ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
      return `${ino} ${size} ${mtimeNs} ${ctimeNs}`;
    } catch (caught) {
      return caught instanceof Error && "code" in caught ? String(caught.code) : "unreadable";
    }
  },
  nodeVersion: process.version,
  defaultBundle: join(packageRoot, "policies/default"),
};

function packageRootOf(start: string): string {
  let folder = start;
  while (!existsSync(join(folder, "package.json"))) {
    const parent = dirname(folder);
    if (parent === folder) throw new Error("Cannot find the package this file belongs to");
    folder = parent;
  }
  return folder;
}

function packageVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8"));
  if (typeof manifest !== "object" || manifest === null || !("version" in manifest)) return "0.0.0";
  return String(manifest.version);
}

// ---- headgate run ----

async function run(
  options: { readonly config: Config; readonly embedded: boolean },
  io: CliIo,
): Promise<number> {
  const log = processLog(options.config, io);
  const stop = stopSignal();
  const clusters = options.embedded ? await startEmbeddedClusters({ clock, random }) : null;
  const config = clusters === null ? options.config : withEmbedded(options.config, clusters);
  let headgate: Headgate;
  try {
    headgate = await startHeadgate(config, {
      system,
      version,
      log,
      accessLog: accessLog(config, io),
      signal: stop.asked,
    });
  } catch (caught) {
    await clusters?.close();
    if (stop.asked.aborted) return 130;
    io.stderr(`Cannot start: ${caught instanceof Error ? caught.message : String(caught)}\n`);
    return 1;
  }
  if (clusters !== null) io.stdout(welcome(headgate, clusters));
  await stop.wait();
  await shutDown(headgate, config, stop);
  await clusters?.close();
  return 0;
}

/** Not ready at once, serving for a while so that balancers notice, then the rest in flight. */
async function shutDown(headgate: Headgate, config: Config, stop: StopSignal): Promise<void> {
  headgate.stopAccepting();
  await clock.sleep(config.shutdown.delayMs, stop.insisted).catch(() => {});
  const closed = headgate.close(config.shutdown.drainTimeoutMs);
  const insisted = new Promise<void>((resolve) => {
    stop.insisted.addEventListener("abort", () => resolve(), { once: true });
  });
  await Promise.race([closed, insisted]);
}

interface StopSignal {
  /** Aborts at the first SIGTERM or SIGINT. */
  readonly asked: AbortSignal;
  /** Aborts at the second one: stop now. */
  readonly insisted: AbortSignal;
  wait(): Promise<void>;
}

function stopSignal(): StopSignal {
  const asked = new AbortController();
  const insisted = new AbortController();
  const heard = (): void => {
    if (asked.signal.aborted) insisted.abort(new Error("Stopped"));
    asked.abort(new Error("Stopped"));
  };
  process.on("SIGTERM", heard);
  process.on("SIGINT", heard);
  return {
    asked: asked.signal,
    insisted: insisted.signal,
    async wait() {
      if (asked.signal.aborted) return;
      await new Promise<void>((resolve) => {
        asked.signal.addEventListener("abort", () => resolve(), { once: true });
      });
    },
  };
}

function processLog(config: Config, io: CliIo): Log {
  return new JsonLog({ write: io.stderr }, { clock, level: config.logLevel });
}

function accessLog(config: Config, io: CliIo): AccessLog {
  const { format, path } = config.accessLog;
  if (format === "off") return noAccessLog;
  if (path === "-") return jsonAccessLog({ write: io.stdout });
  return jsonAccessLog(fileSink(path, io));
}

/** Lines beyond this wait for no disk: they are dropped, and serving goes on. */
const unwrittenLimitBytes = 16 * 1024 * 1024;

/** At once, so that a missing folder stops the start. */
function openForAppending(path: string): number {
  try {
    return openSync(path, "a", 0o640);
  } catch (caught) {
    const reason = caught instanceof Error ? caught.message : String(caught);
    throw new FaultError("config", `Cannot open access log "${path}": ${reason}`, caught);
  }
}

function fileSink(path: string, io: CliIo): LineSink {
  const stream = createWriteStream(path, { fd: openForAppending(path) });
  let failed = false;
  stream.on("error", (error) => {
    failed = true;
    io.stderr(`Cannot write access log "${path}": ${error.message}\n`);
  });
  return {
    write(line) {
      if (!failed && stream.writableLength < unwrittenLimitBytes) stream.write(line);
    },
  };
}

// ---- the program ----

function terminalIo(): CliIo {
  return {
    stdout: (text) => {
      process.stdout.write(text);
    },
    stderr: (text) => {
      process.stderr.write(text);
    },
    env: process.env,
    readFile: (path) => readFileSync(path, "utf8"),
    fetch,
    confirm: process.stdin.isTTY ? ask : null,
    clock,
    hostname: hostname(),
    version,
    policies: join(packageRoot, "policies"),
  };
}

async function ask(question: string): Promise<boolean> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(?:es)?$/i.test((await lines.question(`${question} [y/N] `)).trim());
  } finally {
    lines.close();
  }
}

/** Whether this file is the program and not a module of a test; npm links it under another name. */
function isProgram(): boolean {
  const [, script] = process.argv;
  return script !== undefined && realpathSync(script) === import.meta.filename;
}

if (isProgram()) {
  // A reader that closed its end of a pipe (`| head`) must not end a proxy.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  // Setting the code instead of exiting lets the streams empty.
  process.exitCode = await runCli(process.argv.slice(2), terminalIo(), {
    run,
    demo: (options, io) => demo({ ...options, system }, io),
  });
  // A timer or an idle socket must not keep an ended program alive.
  setTimeout(() => process.exit(), 1_000).unref();
}
