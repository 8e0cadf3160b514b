// Child processes of the real suites: run one to its end, wait for a condition, find a free port.

import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { plainCommand } from "../../support/plain-command.ts";

export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string | Uint8Array;
  readonly cwd?: string;
}

/** Runs a command to its end; never rejects for its exit code. */
export async function run(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<Outcome> {
  const [program, rest] = plainCommand(command, args);
  const child = spawn(program, rest, {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => stdout.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => stderr.push(chunk));
  child.stdin.on("error", () => undefined);
  child.stdin.end(options.input);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  return {
    code,
    stdout: Buffer.concat(stdout).toString("utf8"),
    stderr: Buffer.concat(stderr).toString("utf8"),
  };
}

/** As `run`. @throws when the exit code is not 0, with what the command said. */
export async function runOk(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<string> {
  const { code, stdout, stderr } = await run(command, args, options);
  if (code !== 0) {
    throw new Error(`Command ${command} ${args.join(" ")} ended with ${code}: ${stderr}${stdout}`);
  }
  return stdout;
}

/** Ends an `until` at once: what is waited for cannot come any more. */
export class HopelessError extends Error {
  override readonly name = "HopelessError";
}

/** Asks until the answer is not null. @throws after `limitMs`, with the last thing that failed. */
export async function until<T>(
  what: string,
  limitMs: number,
  ask: () => Promise<T | null> | T | null,
): Promise<T> {
  const end = performance.now() + limitMs;
  let last: unknown = null;
  for (;;) {
    try {
      const answer = await ask();
      if (answer !== null) return answer;
    } catch (error) {
      if (error instanceof HopelessError) throw error;
      last = error;
    }
    if (performance.now() > end) {
      throw new Error(`Did not see ${what} within ${limitMs} ms`, { cause: last });
    }
    await sleep(25);
  }
}

async function canListen(port: number): Promise<boolean> {
  const server = createServer();
  const listens = await new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => resolve(true));
  });
  if (listens) await new Promise((resolve) => server.close(resolve));
  return listens;
}

/**
 * The first of `count` neighbouring TCP ports of loopback that were free a moment ago. They lie below
 * the ephemeral ports, so that no outgoing connection takes one in between.
 */
export async function freePort(count = 1): Promise<number> {
  for (;;) {
    const first = randomInt(10_000, 30_000);
    const ports = Array.from({ length: count }, (_, index) => first + index);
    const free = await Promise.all(ports.map(canListen));
    if (free.every(Boolean)) return first;
  }
}

/** Whether a process runs (a zombie does not). */
export function processRuns(pid: number, stat: string | null): boolean {
  if (stat === null) return false;
  const state = stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3);
  return pid > 0 && state !== "Z" && state !== "X";
}
