// The worked examples of deploy/README.md: the first is run as it stands there, command for command,
// against a cluster in memory; the second needs an RGW with users, so its configuration is loaded here
// and its settings are run on a real one by test/real/identity and test/real/passthrough.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import t, { type Test } from "tap";
import { configOf, load } from "../support/config-load.ts";
import { clusterKeys, startClusters } from "../support/headgate.ts";
import { plainCommand } from "../support/plain-command.ts";
import { requireCommands } from "../support/requires.ts";

const root = join(import.meta.dirname, "..", "..");
const text = readFileSync(join(root, "deploy", "README.md"), "utf8");
const examples = text
  .slice(text.indexOf("## Worked examples"))
  .split(/^### /m)
  .slice(1)
  .map((example) => [...example.matchAll(/^```(\w+)\n(.*?)^```$/gms)])
  .map((blocks) => blocks.map(([, language = "", block = ""]) => ({ language, block })));

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  if (address === null || typeof address === "string") throw new Error("No port was given");
  return address.port;
}

function requireClients(t: Test): { readonly skip: string | false } {
  const need = requireCommands(t, ["aws", "curl", "openssl", "awk"], "apt-get install awscli curl");
  if (need.skip !== false || spawnSync("/usr/bin/python3", ["-c", "import boto3"]).status === 0) {
    return need;
  }
  const reason = "needs boto3: apt-get install python3-boto3";
  if (process.env["CI"] === "true") t.fail(reason);
  return { skip: reason };
}

/** What the script prints on standard output; its process group ends with the test. */
async function printed(t: Test, script: string, env: NodeJS.ProcessEnv): Promise<string> {
  const [program, args] = plainCommand("bash", ["-c", script]);
  const child: ChildProcess = spawn(program, args, {
    cwd: env["PWD"],
    env,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  t.teardown(() => {
    if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  });
  let [out, err] = ["", ""];
  child.stdout?.on("data", (chunk: Buffer) => (out += chunk.toString("utf8")));
  child.stderr?.on("data", (chunk: Buffer) => (err += chunk.toString("utf8")));
  const [code] = await once(child, "exit");
  t.equal(code, 0, err);
  return out;
}

t.test("the first example does what it says", requireClients(t), async (t) => {
  const servers = await startClusters(t, ["first"]);
  const [s3, admin] = [await freePort(), await freePort()];
  const [config, ...steps] = examples[0] ?? [];
  const placed = (part: string): string =>
    part
      .replaceAll(":9000", `:${s3}`)
      .replaceAll("http://127.0.0.1:7480", servers["first"]?.url ?? "");
  const folder = t.testdir({
    "headgate.yaml": placed(config?.block ?? ""),
    "first.ak": clusterKeys.accessKeyId,
    "first.sk": clusterKeys.secretAccessKey,
    bin: {},
  });
  const program = join(folder, "bin", "headgate");
  const main = join(root, "dist", "proxy", "main.js");
  writeFileSync(program, `#!/bin/sh\nexec "${process.execPath}" "${main}" "$@"\n`);
  chmodSync(program, 0o755);
  const script = steps.filter(({ language }) => language === "sh").map(({ block }) => block);
  const wanted = steps.filter(({ language }) => language === "text").map(({ block }) => block);
  t.strictSame([script.length, wanted.length], [4, 4]);
  const out = await printed(t, `set -e\n${script.map(placed).join("")}`, {
    ...process.env,
    PATH: `${folder}/bin:/usr/bin:${process.env["PATH"] ?? ""}`,
    PWD: folder,
    HEADGATE_ADMIN_ADDRESS: `127.0.0.1:${admin}`,
    HEADGATE_ADMIN_URL: `http://127.0.0.1:${admin}`,
  });
  t.equal(out, wanted.join(""));
  const stored = servers["first"]?.objects("photos").map(({ key }) => key);
  t.strictSame(stored, ["cat.txt", "in/dog.txt"]);
});

t.test("the configuration of the second is valid", async (t) => {
  const [config, ...steps] = examples[1] ?? [];
  t.equal(config?.language, "yaml");
  t.equal(steps.length, 1);
  const files = { "headgate.yaml": config?.block ?? "", "east.ak": "AK", "east.sk": "secret" };
  const warnings = configOf(load(files)).warnings.map(({ message }) => message);
  t.equal(warnings.length, 2);
  for (const warning of warnings) t.match(warning, "handed on without policy");
});
