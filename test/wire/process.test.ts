// The process itself: it outlives a closed output pipe and stops in order when it is asked to.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import t from "tap";
import { rawExchange, rawHead } from "../support/raw-http.ts";

const root = join(import.meta.dirname, "../..");
const demoKeys = { accessKeyId: "headgate-demo", secretAccessKey: "headgate-demo-secret" };

t.test("a disk that takes no more log lines ends nothing", async (t) => {
  const flags = ["run", "--embedded", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
  const child = spawn(process.execPath, [...process.execArgv, "proxy/main.ts", ...flags], {
    cwd: root,
    env: { ...process.env, HEADGATE_ACCESS_LOG_PATH: "/dev/full" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  t.teardown(() => child.kill("SIGKILL"));
  const lines: string[] = [];
  const url = await new Promise<string>((resolve, reject) => {
    child.once("exit", () => reject(new Error("ended before it started")));
    createInterface({ input: child.stderr }).on("line", (line) => {
      lines.push(line);
      const found = /"s3":"(http:[^"]+)"/.exec(line)?.[1];
      if (found !== undefined) resolve(found);
    });
  });
  for (let n = 0; n < 20; n += 1) {
    const head = rawHead(url, { method: "GET", path: "/absent-bucket/k", keys: demoKeys });
    t.equal((await rawExchange(url, head)).status, 404);
  }
  t.equal(lines.filter((line) => line.startsWith("Cannot write access log")).length, 1);
});

t.test("a closed output pipe ends nothing, SIGTERM ends it well", async (t) => {
  const flags = ["run", "--embedded", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
  const child = spawn(process.execPath, [...process.execArgv, "proxy/main.ts", ...flags], {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
  });
  t.teardown(() => child.kill("SIGKILL"));
  child.stdout.destroy();
  const url = await new Promise<string>((resolve, reject) => {
    child.once("exit", () => reject(new Error("ended before it started")));
    createInterface({ input: child.stderr }).on("line", (line) => {
      const found = /"s3":"(http:[^"]+)"/.exec(line)?.[1];
      if (found !== undefined) resolve(found);
    });
  });
  for (let n = 0; n < 20; n += 1) {
    const head = rawHead(url, { method: "GET", path: "/absent-bucket/k", keys: demoKeys });
    t.equal((await rawExchange(url, head)).status, 404);
  }
  const ended = new Promise((resolve) => child.once("exit", (code) => resolve(code)));
  child.kill("SIGTERM");
  t.equal(await ended, 0);
});
