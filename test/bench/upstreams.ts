// The upstream under the bench: our stub, or one real RGW with the objects that are read.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { bucket, keyOf, operations, signedHead } from "./requests.ts";
import { spawnPinned, type UpstreamTarget, untilListens } from "./variants.ts";

export interface BenchUpstream extends UpstreamTarget {
  stop(): void;
}

/** The pair that test/real/services/rgw-up.sh makes. */
const rgwPair = {
  accessKeyId: "HEADGATERGWACCESS001",
  secretAccessKey: "headgate-rgw-secret-for-tests-only-0001",
} as const;

const stubScript = join(import.meta.dirname, "stub.js");
const services = join(import.meta.dirname, "..", "..", "..", "test", "real", "services");

export async function startStub(port: number): Promise<BenchUpstream> {
  const child = spawnPinned(1, [process.execPath, stubScript, String(port)]);
  await untilListens(port, child);
  return {
    port,
    accessKeyId: "STUBACCESSKEY0000001",
    secretAccessKey: "stub-secret",
    stop: () => child.kill("SIGKILL"),
  };
}

/** @throws when the services do not start; what they said goes to standard error. */
export async function startRgw(dir: string): Promise<BenchUpstream> {
  const home = join(dir, "rgw");
  const port = 27_481;
  const flags = ["-d", home, "-a", String(port), "-b", "27482", "-m", "27470"];
  const up = spawnSync(join(services, "rgw-up.sh"), flags, {
    stdio: ["ignore", "inherit", "inherit"],
  });
  const stop = (): void => {
    spawnSync(join(services, "rgw-down.sh"), ["-k", "-d", home, "-p"], { stdio: "ignore" });
  };
  if (up.status !== 0) {
    stop();
    throw new Error("The RGW does not start");
  }
  const target = { port, ...rgwPair };
  await send(target, "PUT", `/${bucket}`, 0);
  for (const operation of operations) {
    await send(target, "PUT", `/${bucket}/${keyOf(operation)}`, operation.sizeBytes);
  }
  return { ...target, stop };
}

async function send(
  target: UpstreamTarget,
  method: string,
  path: string,
  bodyBytes: number,
): Promise<void> {
  const host = `127.0.0.1:${target.port}`;
  const head = signedHead({ method, path, bodyBytes }, { host, ...target });
  const fields = head
    .split("\r\n")
    .slice(1)
    .filter((line) => line !== "" && !/^(?:host|content-length):/.test(line))
    .map((line) => line.split(/: (.*)/s).slice(0, 2) as [string, string]);
  const answer = await fetch(`http://${host}${path}`, {
    method,
    headers: fields,
    body: Buffer.alloc(bodyBytes, "x"),
  });
  if (!answer.ok) throw new Error(`Cannot prepare ${path}: the RGW answers ${answer.status}`);
}
