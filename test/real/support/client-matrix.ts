// Every client program against one generation of RGW through Headgate, over HTTP and HTTPS, each with its
// own default settings. A step that fails is a failed assertion with what the client said; then the
// cluster is asked what the clients left on it.

import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { GetObjectCommand, type S3Client } from "@aws-sdk/client-s3";
import type { Test } from "tap";
import { TestAuthority } from "../../support/certificates.ts";
import { type ClientProgram, clientInstallLine, clientPrograms } from "./client-programs.ts";
import { clientPair, type Headgate } from "./headgate.ts";
import { type Lab, withLab } from "./lab.ts";
import type { Outcome } from "./processes.ts";
import { keysOf } from "./s3.ts";
import type { Generation } from "./services.ts";

/** More than there are cores: clients wait for answers most of their time. */
const clientsAtATime = 3;

/** Longest output of a client that a message quotes. */
const quotedLength = 2000;

interface ClientRun {
  readonly program: ClientProgram;
  readonly scheme: "http" | "https";
  readonly bucket: string;
  readonly outcome: Promise<Outcome>;
}

interface ClientRunsOptions {
  /** For a Headgate that speaks HTTPS. */
  readonly caFile?: string;
  /** All when absent. */
  readonly programs?: readonly ClientProgram[];
}

/** Client programs of one lab; those that run when it ends are stopped. */
export class ClientRuns {
  readonly runs: readonly ClientRun[];
  readonly #children = new Set<ChildProcess>();
  #closed = false;

  constructor(
    lab: Lab,
    headgates: readonly Headgate[],
    { caFile = "", programs = clientPrograms }: ClientRunsOptions,
  ) {
    const queue: (() => Promise<void>)[] = [];
    this.runs = programs.flatMap((program) =>
      headgates.map((headgate) => {
        const scheme = headgate.url.startsWith("https:") ? "https" : "http";
        const bucket = `${program.name}-${scheme}`;
        const folder = join(lab.dir, bucket);
        mkdirSync(folder);
        const outcome = new Promise<Outcome>((resolve, reject) => {
          queue.push(() =>
            this.#run(program, {
              PATH: process.env["PATH"] ?? "",
              ...program.env,
              LAB_ENDPOINT: headgate.url,
              LAB_ACCESS_KEY: clientPair.accessKeyId,
              LAB_SECRET_KEY: clientPair.secretAccessKey,
              LAB_BUCKET: bucket,
              LAB_FOLDER: folder,
              PYTHONDONTWRITEBYTECODE: "1",
              ...(scheme === "https" ? { LAB_CA_FILE: caFile, NODE_EXTRA_CA_CERTS: caFile } : {}),
            }).then(resolve, reject),
          );
        });
        return { program, scheme, bucket, outcome };
      }),
    );
    for (let count = 0; count < clientsAtATime; count += 1) void this.#work(queue);
    lab.onClose(() => this.close());
  }

  close(): void {
    this.#closed = true;
    for (const child of this.#children) child.kill("SIGKILL");
  }

  async #work(queue: (() => Promise<void>)[]): Promise<void> {
    for (let next = queue.shift(); next !== undefined && !this.#closed; next = queue.shift()) {
      await next();
    }
  }

  /** With this environment alone: nothing of the machine's own settings is a default of the client. */
  async #run(program: ClientProgram, env: Readonly<Record<string, string>>): Promise<Outcome> {
    const child = spawn(
      "env",
      [
        "-i",
        ...Object.entries(env).map((pair) => pair.join("=")),
        program.command,
        ...program.args,
      ],
      {
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
    this.#children.add(child);
    const [stdout, stderr]: [Buffer[], Buffer[]] = [[], []];
    child.stdout.on("data", (chunk: Buffer) => stdout.push(chunk));
    child.stderr.on("data", (chunk: Buffer) => stderr.push(chunk));
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", resolve);
    });
    this.#children.delete(child);
    return {
      code,
      stdout: Buffer.concat(stdout).toString("utf8"),
      stderr: Buffer.concat(stderr).toString("utf8"),
    };
  }
}

/** Every step of a program went well. */
export function checkSteps(t: Test, program: ClientProgram, outcome: Outcome): void {
  const lines = outcome.stdout.split("\n").filter((line) => line !== "");
  const quoted = {
    stdout: outcome.stdout.slice(-quotedLength),
    stderr: outcome.stderr.slice(-quotedLength),
  };
  t.equal(outcome.code, 0, "the client ends well", quoted);
  t.equal(lines.at(-1), `end ${program.steps}`, "after all its steps", quoted);
  const steps = lines.filter((line) => !line.startsWith("end "));
  t.equal(steps.length, program.steps, "one line a step", quoted);
  for (const line of steps) {
    if (line.startsWith("ok ")) t.pass(line.slice(3));
    else t.fail(line.replace(/^FAIL /, ""));
  }
}

/** `kept/SHA256/name` of every object that a client left for this is its content's. */
export async function checkKept(t: Test, direct: S3Client, run: ClientRun): Promise<void> {
  const keys = (await keysOf(direct, run.bucket)).filter((key) => key.startsWith("kept/"));
  t.equal(keys.length, run.program.kept, `${run.bucket} keeps its objects`, { keys });
  for (const key of keys) {
    const answer = await direct.send(new GetObjectCommand({ Bucket: run.bucket, Key: key }));
    const hash = createHash("sha256");
    for await (const chunk of answer.Body?.transformToWebStream() ?? []) hash.update(chunk);
    t.equal(hash.digest("hex"), key.split("/")[1], `${run.bucket} ${key.slice(70)}`);
    const encoding = key.endsWith("/attributes") ? "gzip" : "";
    t.equal(answer.ContentEncoding ?? "", encoding, `Content-Encoding of ${run.bucket} ${key}`);
  }
}

/** Declares the tests of one generation; to be called once in a file. */
export function testClientMatrix(t: Test, generation: Generation): void {
  const needs = [...new Set(clientPrograms.flatMap((program) => program.needs))];
  withLab(
    t,
    needs,
    async (lab, test) => {
      const authority = new TestAuthority();
      const caFile = join(lab.dir, "ca.pem");
      writeFileSync(caFile, authority.certPem);
      const settings = { clusters: lab.clusters({ a: 1, b: 0 }).slice(0, 1), sigv2: true };
      const plain = await lab.headgate({ ...settings, name: "plain", prefix: "/headgate-plain/" });
      const tls = await lab.headgate({
        ...settings,
        name: "tls",
        prefix: "/headgate-tls/",
        tls: authority.issue(),
      });
      const clients = new ClientRuns(lab, [plain, tls], { caFile });
      for (const { program, scheme, outcome } of clients.runs) {
        test(`${program.title} over ${scheme} on RGW ${generation}.2`, async (t) => {
          checkSteps(t, program, await outcome);
        });
      }
      test(`what clients left on RGW ${generation}.2 is whole and has no framing`, async (t) => {
        for (const run of clients.runs) await checkKept(t, lab.direct("a"), run);
      });
    },
    { generation, timeoutMs: 860_000, install: clientInstallLine },
  );
}
