// The process itself: it outlives a closed output pipe and stops in order when it is asked to.

import { spawn } from "node:child_process";
import { once } from "node:events";
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
    env: { ...process.env, HEADGATE_SHUTDOWN_DELAY: "10ms" },
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

t.test("an access log that cannot be opened stops the start", async (t) => {
  const path = join(t.testdir({}), "gone", "access.log");
  for (const more of [["--embedded"], []]) {
    const flags = ["run", ...more, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    const child = spawn(process.execPath, [...process.execArgv, "proxy/main.ts", ...flags], {
      cwd: root,
      env: { ...process.env, HEADGATE_ACCESS_LOG_PATH: path },
      stdio: ["ignore", "pipe", "pipe"],
    });
    t.teardown(() => child.kill("SIGKILL"));
    let errors = "";
    child.stderr.on("data", (chunk: Buffer) => {
      errors += chunk.toString("utf8");
    });
    const [code] = await once(child, "close");
    t.equal(code, 1);
    const told = errors.split("\n").filter((line) => line !== "" && !line.startsWith("Warning: "));
    t.equal(told.length, 1, errors);
    t.match(told[0], `Cannot start: Cannot open access log "${path}": ENOENT`);
  }
});

t.test(
  "an embedded run stops as any other: still serving at first, a second signal ends it",
  async (t) => {
    const flags = ["run", "--embedded", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    const child = spawn(process.execPath, [...process.execArgv, "proxy/main.ts", ...flags], {
      cwd: root,
      env: { ...process.env, HEADGATE_SHUTDOWN_DELAY: "300s" },
      stdio: ["ignore", "ignore", "pipe"],
    });
    t.teardown(() => child.kill("SIGKILL"));
    const urls = await new Promise<{ readonly s3: string; readonly admin: string }>(
      (resolve, reject) => {
        child.once("exit", () => reject(new Error("ended before it started")));
        createInterface({ input: child.stderr }).on("line", (line) => {
          const [, s3, admin] = /"s3":"(http:[^"]+)","admin":"(http:[^"]+)"/.exec(line) ?? [];
          if (s3 !== undefined && admin !== undefined) resolve({ s3, admin });
        });
      },
    );
    const ready = async () => (await fetch(`${urls.admin}/readyz`)).status;
    t.equal(await ready(), 200);
    child.kill("SIGINT");
    while ((await ready()) === 200);
    const head = rawHead(urls.s3, { method: "GET", path: "/absent-bucket/k", keys: demoKeys });
    t.equal((await rawExchange(urls.s3, head)).status, 404, "it serves until the delay is over");
    const ended = once(child, "exit");
    child.kill("SIGINT");
    t.strictSame(await ended, [0, null]);
  },
);
