// The README's commands, run as they stand there, and their output, compared. A line `…` in the README
// stands for any number of lines. Ports are moved out of the way of whatever runs on the machine.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import t, { type Test } from "tap";
import { plainCommand } from "../support/plain-command.ts";
import { requireCommands } from "../support/requires.ts";

const root = join(import.meta.dirname, "..", "..");
const readme = readFileSync(join(root, "README.md"), "utf8");

interface Block {
  readonly language: string;
  readonly text: string;
}

const blocks: readonly Block[] = [...readme.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(
  ([, language = "", text = ""]) => ({ language, text }),
);

/** Shell blocks that a test here runs. */
const run = new Set<string>();

/** The shell block that holds `part`, and the text block after it. */
function commandAndOutput(part: string): { readonly command: string; readonly output: string } {
  const index = blocks.findIndex(({ language, text }) => language === "sh" && text.includes(part));
  const [command, output] = blocks.slice(index, index + 2);
  if (command === undefined || output?.language !== "text") {
    throw new Error(`The README has no command with "${part}" and an output after it`);
  }
  run.add(command.text);
  return { command: command.text, output: output.text };
}

/** Every wanted line in order; only after a `…` may other lines stand in between. */
function compareLines(t: Test, seen: string, wanted: string): void {
  const lines = seen.split("\n");
  let at = 0;
  let skips = false;
  for (const line of wanted.trimEnd().split("\n")) {
    if (line === "…") {
      skips = true;
      continue;
    }
    const found: number = skips ? lines.indexOf(line, at) : at;
    t.equal(lines[found], line, `after line ${at} of\n${seen}`);
    at = found + 1;
    skips = false;
  }
}

interface Ports {
  readonly s3: number;
  readonly admin: number;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  if (address === null || typeof address === "string") throw new Error("No port was given");
  return address.port;
}

function toTestPorts(text: string, { s3, admin }: Ports): string {
  return text.replaceAll(":9000", `:${s3}`).replaceAll(":9001", `:${admin}`);
}

function shell(t: Test, command: string, env: Readonly<Record<string, string>>): ChildProcess {
  const [program, args] = plainCommand("sh", ["-c", command]);
  const options = { cwd: root, env: { ...process.env, ...env }, detached: true } as const;
  const child = spawn(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  // npm starts a shell that starts node: the whole group ends with the test.
  t.teardown(() => {
    if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, "SIGTERM");
  });
  return child;
}

/** What a command prints on both streams until it ends with code 0. */
async function printed(
  t: Test,
  command: string,
  env: Readonly<Record<string, string>>,
): Promise<string> {
  const child = shell(t, `{ ${command.trimEnd()}\n} 2>&1`, env);
  let text = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    text += chunk.toString("utf8");
  });
  const [code] = await once(child, "close");
  t.equal(code, 0, text);
  return text;
}

/** Runs `npm start`; resolves with the text it greets with, without npm's own lines. */
async function started(t: Test, ports: Ports): Promise<string> {
  const child = shell(t, "exec npm start", {
    HEADGATE_LISTEN_ADDRESS: `127.0.0.1:${ports.s3}`,
    HEADGATE_ADMIN_ADDRESS: `127.0.0.1:${ports.admin}`,
    HEADGATE_SHUTDOWN_DELAY: "10ms",
  });
  let stdout = "";
  await new Promise<void>((resolve, reject) => {
    child.once("close", () => reject(new Error(`npm start ended: ${stdout}`)));
    child.stdout?.on("data", (chunk: Buffer) => {
      stdout += chunk.toString("utf8");
      if (stdout.includes("/undrain\n")) resolve();
    });
  });
  return stdout.replace(/^(?:>.*|)\n/gm, "");
}

t.test("npm start serves, and the commands of the README work against it", async (t) => {
  const ports: Ports = { s3: await freePort(), admin: await freePort() };
  const start = commandAndOutput("npm start");
  t.equal(start.command, "npm ci && npm start\n");
  const said = await started(t, ports);
  compareLines(t, said, toTestPorts(start.output, ports));

  const env = { HEADGATE_ADMIN_URL: `http://127.0.0.1:${ports.admin}` };
  await t.test("drain walk-through", async (t) => {
    const { command, output } = commandAndOutput("cluster drain");
    compareLines(t, await printed(t, command, env), output);
  });
  const aws = requireCommands(t, ["aws"], "apt-get install awscli");
  const { command, output } = commandAndOutput("s3 mb");
  await t.test("aws-cli lines", aws, async (t) => {
    compareLines(t, await printed(t, toTestPorts(command, ports), env), output);
  });
});

t.test("the tour prints what the README shows", async (t) => {
  const { command, output } = commandAndOutput("headgate demo");
  compareLines(t, await printed(t, command, {}), output);
});

const boto3 = { PATH: `/usr/bin:${process.env["PATH"] ?? ""}` };

/** `requireCommands` for what the greeting's lines need; boto3 is a module of Debian's Python. */
function requireClients(t: Test): { readonly skip: string | false } {
  const need = requireCommands(t, ["aws", "python3", "curl"], "apt-get install awscli curl");
  if (need.skip !== false) return need;
  const env = { ...process.env, ...boto3 };
  if (spawnSync("python3", ["-c", "import boto3"], { env }).status === 0) return { skip: false };
  const reason = "needs boto3: apt-get install python3-boto3";
  if (process.env["CI"] === "true") t.fail(reason);
  return { skip: reason };
}

t.test("every line that npm start prints can be pasted", requireClients(t), async (t) => {
  const ports: Ports = { s3: await freePort(), admin: await freePort() };
  const said = await started(t, ports);
  const commands = [...said.matchAll(/^ {2}(\S.*)$/gm)].map(([, command = ""]) => command);
  const count = (part: string): number => commands.filter((line) => line.includes(part)).length;
  t.strictSame(
    [count("export "), count("aws "), count("boto3"), count("curl "), commands.length],
    [2, 3, 1, 4, 10],
  );
  // Without curl's progress, which comes in between on the same terminal.
  const quiet = t.testdir({ ".curlrc": "silent\nshow-error\n" });
  const named = readFileSync("/etc/hostname", "utf8").trim();
  compareLines(
    t,
    await printed(t, `set -e\n${commands.join("\n")}`, { ...boto3, CURL_HOME: quiet }),
    ["make_bucket: hello", "…", "b'hello\\n'", named].join("\n"),
  );
  const curl = commands.find((line) => line.startsWith("curl") && line.endsWith("/hello/hostname"));
  const status = `${curl} -s -o /dev/null -w '%{http_code}'`;
  t.equal(await printed(t, status, {}), "200");
  // Both changes were accepted: c is back.
  const answer = await fetch(`http://127.0.0.1:${ports.admin}/admin/v1/clusters/c`);
  t.match(await answer.json(), { id: "c", state: "live", weight: 3 });
});

t.test("every shell block of the README is run by a test", async (t) => {
  const shell = blocks.filter(({ language }) => language === "sh").map(({ text }) => text);
  // On two RGWs, by test/real/adopt.test.ts.
  const written = shell.filter((text) => !text.startsWith("rclone "));
  t.equal(shell.length - written.length, 1);
  t.ok(written.length >= 4);
  t.strictSame(written.toSorted(), [...run].toSorted());
});

t.test("the README's configuration is the tested example", async (t) => {
  const yaml = blocks.find(({ language }) => language === "yaml");
  t.equal(yaml?.text, readFileSync(join(root, "deploy", "examples", "config.yaml"), "utf8"));
  t.ok((yaml?.text.trimEnd().split("\n").length ?? 99) <= 10);
});

t.test("every path that the README names exists", async (t) => {
  const paths = [...readme.matchAll(/`((?:proxy|bridge|policies|test|deploy|\.ci)\/[^`\s]*)`/g)];
  t.ok(paths.length > 8);
  for (const [, path = ""] of paths) t.ok(existsSync(join(root, path)), path);
});
