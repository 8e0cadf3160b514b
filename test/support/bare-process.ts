// Headgate in a process of its own, whose memory is nobody else's.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Test } from "tap";
import { plainCommand } from "./plain-command.ts";

/** Over clusters that answer anybody, by id. Runs what `npm run build` has made. */
export async function startBareProcess(
  t: Test,
  clusters: Readonly<Record<string, string>>,
): Promise<{ readonly url: string; readonly pid: number }> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-long-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const keys = [{ access_key: "test-client", secret_key: "test-client-secret" }];
  const grants = [{ buckets: ["*"], allow: ["read", "list", "write", "delete", "admin"] }];
  writeFileSync(join(folder, "keys.yaml"), JSON.stringify({ users: [{ uid: "u", keys, grants }] }));
  const credentials = { access_key_id: "sink", secret_access_key: "sink-secret" };
  const config = {
    listen: { address: "127.0.0.1:0" },
    admin: { address: "" },
    auth: { credentials: [{ source: "file", file: "keys.yaml" }] },
    clusters: Object.entries(clusters).map(([id, url]) => ({ id, endpoints: [url], credentials })),
    access_log: { format: "off" },
  };
  writeFileSync(join(folder, "config.yaml"), JSON.stringify(config));
  const main = join(import.meta.dirname, "../../dist/proxy/main.js");
  const args = [main, "run", "-c", join(folder, "config.yaml")];
  const [program, rest] = plainCommand(process.execPath, args);
  const child = spawn(program, rest, { stdio: ["ignore", "ignore", "pipe"] });
  t.teardown(() => child.kill("SIGKILL"));
  const url = await new Promise<string>((resolve, reject) => {
    child.once("exit", () => reject(new Error("ended before it started")));
    createInterface({ input: child.stderr }).on("line", (line) => {
      const found = /"s3":"(http:[^"]+)"/.exec(line)?.[1];
      if (found !== undefined) resolve(found);
    });
  });
  return { url, pid: child.pid ?? 0 };
}

/** Bytes of memory: now, or the most since `forgetPeak` (proc(5)). */
export function residentBytes(pid: number, what: "VmRSS" | "VmHWM" = "VmRSS"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${what}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) * 1024;
}

export function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}
