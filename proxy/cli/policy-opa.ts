// Runs the `opa` binary, which policy authors need and running Headgate does not. Found by
// HEADGATE_OPA or on PATH.

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { FaultError } from "../placement/ports.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** Output of one run. `status` is opa's exit code: 2 of `opa test` means failing tests. */
export interface OpaRun {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The version that the committed bundle is built with; another one may give other bytes. */
const opaVersion = "1.22.3";

const installLine = `go install github.com/open-policy-agent/opa@v${opaVersion}`;

/** @throws FaultError config when there is no opa; the message says what to install. */
export async function runOpa(
  parameters: readonly string[],
  env: Environment,
  cwd = ".",
): Promise<OpaRun> {
  const named = env["HEADGATE_OPA"];
  const program =
    named === undefined || named === "" ? "opa" : named.includes("/") ? resolve(named) : named;
  return await new Promise((done, reject) => {
    const options = { cwd, env: { ...env }, maxBuffer: 64 * 2 ** 20 };
    execFile(program, [...parameters], options, (error, stdout, stderr) => {
      if (error === null) done({ status: 0, stdout, stderr });
      else if (typeof error.code === "number") {
        done({ status: error.code, stdout: beforeUsage(stdout), stderr: beforeUsage(stderr) });
      } else reject(new FaultError("config", missing(program, error), error));
    });
  });
}

/** What opa says without its own usage text, whose flags are not those of the command here. */
function beforeUsage(text: string): string {
  return text.replace(/^Usage:\n[^]*$/m, "");
}

function missing(program: string, error: Error): string {
  const reason = "code" in error && error.code === "ENOENT" ? "is not found" : error.message;
  return `Cannot run "${program}": ${reason}. Install it with "${installLine}", then put it on PATH or name it in HEADGATE_OPA`;
}
