// Runs the command line in this process and keeps what it printed.

import { type CliIo, runCli, type Starters } from "../../proxy/cli/main-command.ts";

export interface CliResult {
  readonly exit: number;
  readonly out: string;
  readonly err: string;
  /** What the starters were given. */
  readonly started: readonly unknown[];
}

export interface CliWorld {
  readonly env?: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
  readonly confirm?: CliIo["confirm"];
  readonly fetch?: CliIo["fetch"];
  /** One that jumps when it is slept on, without it. */
  readonly clock?: CliIo["clock"];
}

export async function runHeadgate(line: string, world: CliWorld = {}): Promise<CliResult> {
  let out = "";
  let err = "";
  let nowMs = 0;
  const started: unknown[] = [];
  const io: CliIo = {
    stdout: (text) => {
      out += text;
    },
    stderr: (text) => {
      err += text;
    },
    env: world.env ?? {},
    readFile: (path) => {
      const text = world.files?.[path];
      if (text === undefined) throw Object.assign(new Error("no file"), { code: "ENOENT" });
      return text;
    },
    fetch: world.fetch ?? ((url, init) => fetch(url, init)),
    confirm: world.confirm ?? null,
    clock: world.clock ?? {
      nowMs: () => nowMs,
      monotonicMs: () => nowMs,
      sleep: (durationMs) => {
        nowMs += durationMs;
        return Promise.resolve();
      },
    },
    hostname: "node-1",
    version: "0.1.0",
    policies: "policies",
  };
  const starters: Starters = {
    run: (options) => {
      started.push(options);
      return Promise.resolve(0);
    },
    demo: (options) => {
      started.push(options);
      return Promise.resolve(0);
    },
  };
  const exit = await runCli(
    line.split(" ").filter((word) => word !== ""),
    io,
    starters,
  );
  return { exit, out, err, started };
}
