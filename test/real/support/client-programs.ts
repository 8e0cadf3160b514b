// The client programs of test/real/clients: how each is started, how many steps it walks and how many
// objects it leaves below `kept/`. A step that is added there is counted here, so that none gets lost.

import { join } from "node:path";

const folder = join(import.meta.dirname, "..", "clients");

/** Where test/real/services/client-venv.sh puts the current releases of boto3 and aws-cli. */
const venv = join(process.env["HEADGATE_LAB_ROOT"] ?? "/var/cache/headgate-lab", "clients", "bin");

export const clientInstallLine =
  "apt-get install --no-install-recommends awscli python3-boto3 rclone s3cmd restic openssl, then test/real/services/client-venv.sh";

export interface ClientProgram {
  /** Also part of its bucket's name. */
  readonly name: string;
  readonly title: string;
  /** Full path, or a name on PATH. */
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Commands it needs beside its own. */
  readonly needs: readonly string[];
  readonly steps: number;
  readonly kept: number;
}

function script(
  name: string,
  steps: number,
  kept: number,
  aws?: string,
): Omit<ClientProgram, "name" | "title"> {
  return {
    command: "bash",
    args: [join(folder, name)],
    ...(aws === undefined ? {} : { env: { LAB_AWS: aws } }),
    needs: ["openssl", "curl", ...(aws === undefined ? [name.replace(".sh", "")] : [aws])],
    steps,
    kept,
  };
}

function python(
  command: string,
  steps: number,
  kept: number,
): Omit<ClientProgram, "name" | "title"> {
  return { command, args: [join(folder, "boto3_steps.py")], needs: [command], steps, kept };
}

function node(name: string, steps: number, kept: number): Omit<ClientProgram, "name" | "title"> {
  return { command: process.execPath, args: [join(folder, name)], needs: [], steps, kept };
}

/** The slow ones first: several run at a time. */
export const clientPrograms: readonly ClientProgram[] = [
  { name: "cli2", title: "aws-cli 2", ...script("aws-cli.sh", 20, 8, "/usr/bin/aws") },
  { name: "cli1", title: "aws-cli 1", ...script("aws-cli.sh", 20, 8, join(venv, "aws")) },
  { name: "boto-new", title: "boto3 1.43", ...python(join(venv, "python"), 44, 20) },
  { name: "boto-old", title: "boto3 1.26", ...python("/usr/bin/python3", 41, 20) },
  { name: "sdk", title: "AWS SDK v3 with lib-storage", ...node("aws-sdk.mjs", 51, 32) },
  { name: "minio", title: "minio-js", ...node("minio-js.mjs", 29, 17) },
  { name: "s3cmd", title: "s3cmd", ...script("s3cmd.sh", 18, 7) },
  { name: "rclone", title: "rclone", ...script("rclone.sh", 16, 7) },
  { name: "restic", title: "restic", ...script("restic.sh", 9, 0) },
];
