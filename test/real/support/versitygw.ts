// versitygw over a folder: an S3 server that, unlike the RGWs, verifies checksums and trailers itself and
// keeps them, and so stands for S3 in the cloud.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findCommand } from "../../support/requires.ts";
import { freePort, until } from "./processes.ts";
import type { Pair } from "./s3.ts";

export const versityInstallLine = "go install github.com/versity/versitygw/cmd/versitygw@v1.8.0";

export interface Versitygw {
  readonly url: string;
  stop(): Promise<void>;
}

export async function startVersitygw(pair: Pair): Promise<Versitygw> {
  const dir = mkdtempSync(join(tmpdir(), "headgate-versitygw-"));
  const [data, versions] = [join(dir, "data"), join(dir, "versions")];
  mkdirSync(data);
  mkdirSync(versions);
  const url = `http://127.0.0.1:${await freePort()}`;
  const program = findCommand("versitygw") ?? "versitygw";
  const listen = url.slice("http://".length);
  const child = spawn(
    program,
    ["--port", listen, "--quiet", "posix", "--versioning-dir", versions, data],
    {
      stdio: "ignore",
      env: {
        ...process.env,
        ROOT_ACCESS_KEY: pair.accessKeyId,
        ROOT_SECRET_KEY: pair.secretAccessKey,
      },
    },
  );
  await until("versitygw", 30_000, async () => ((await fetch(url)).status > 0 ? true : null));
  return { url, stop: () => stop(child, dir) };
}

async function stop(child: ChildProcess, dir: string): Promise<void> {
  const ended = new Promise((resolve) => child.once("close", resolve));
  child.kill("SIGKILL");
  await ended;
  rmSync(dir, { recursive: true, force: true });
}
