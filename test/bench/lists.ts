// A list of ten thousand keys merged from four clusters beside the same list from one: CPU time of the
// proxy's process and time until the last page, round by round in one run.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import {
  ListObjectsV2Command,
  type ListObjectsV2CommandOutput,
  S3Client,
} from "@aws-sdk/client-s3";
import { type Row, ratioRow, valueRow } from "./rows.ts";
import {
  clientPair,
  cpuMicroseconds,
  spawnPinned,
  startHeadgate,
  untilListens,
} from "./variants.ts";

const keyCount = 10_000;
const buckets = ["one", "spread"] as const;
type Bucket = (typeof buckets)[number];

interface Seen {
  readonly cpu: number[];
  readonly elapsed: number[];
}

/** @param ports free ones: two for the proxy, then one for each of five clusters. */
export async function measureLists(
  rounds: number,
  place: { readonly dir: string; readonly ports: readonly number[] },
): Promise<readonly Row[]> {
  const [port = 0, adminPort = 0, ...clusterPorts] = place.ports;
  mkdirSync(place.dir, { recursive: true });
  const script = join(import.meta.dirname, "list-stub.js");
  const numbers = [keyCount, 0, ...clusterPorts].map(String);
  const stub = spawnPinned(1, [process.execPath, script, ...numbers]);
  try {
    await untilListens(clusterPorts.at(-1) ?? 0, stub);
    const clusters = clusterPorts.map((clusterPort, index) => ({
      id: `c${index}`,
      port: clusterPort,
      accessKeyId: "STUBACCESSKEY0000001",
      secretAccessKey: "stub-secret",
    }));
    const headgate = await startHeadgate({ port, adminPort, dir: place.dir }, clusters);
    try {
      return report(await measure(rounds, headgate));
    } finally {
      headgate.stop();
    }
  } finally {
    stub.kill("SIGKILL");
  }
}

async function measure(
  rounds: number,
  proxy: { readonly port: number; readonly pid: number },
): Promise<ReadonlyMap<Bucket, Seen>> {
  const client = new S3Client({
    endpoint: `http://127.0.0.1:${proxy.port}`,
    credentials: clientPair,
    region: "us-east-1",
    forcePathStyle: true,
  });
  const seen = new Map(buckets.map((bucket): [Bucket, Seen] => [bucket, { cpu: [], elapsed: [] }]));
  const warmUpRounds = 15;
  for (let round = -warmUpRounds; round < rounds; round += 1) {
    for (const [bucket, { cpu, elapsed }] of seen) {
      const before = { cpu: cpuMicroseconds(proxy.pid), at: performance.now() };
      await readList(client, bucket);
      if (round < 0) continue;
      elapsed.push(performance.now() - before.at);
      cpu.push(cpuMicroseconds(proxy.pid) - before.cpu);
    }
  }
  client.destroy();
  return seen;
}

/** Every page of the list. @throws when it is not whole. */
async function readList(client: S3Client, bucket: Bucket): Promise<void> {
  let keys = 0;
  let token: string | undefined;
  do {
    const page: ListObjectsV2CommandOutput = await client.send(
      new ListObjectsV2Command({ Bucket: bucket, ContinuationToken: token }),
    );
    keys += page.KeyCount ?? 0;
    token = page.NextContinuationToken;
  } while (token !== undefined);
  if (keys !== keyCount) throw new Error(`The list of ${bucket} has ${keys} keys`);
}

function report(seen: ReadonlyMap<Bucket, Seen>): readonly Row[] {
  const one = seen.get("one") ?? { cpu: [], elapsed: [] };
  const spread = seen.get("spread") ?? { cpu: [], elapsed: [] };
  const what = "list of 10k keys";
  const sides = { over: spread.cpu, under: one.cpu };
  return [
    valueRow(`${what} from one cluster`, "CPU us/list", one.cpu),
    valueRow(`${what} from one cluster: elapsed`, "ms", one.elapsed),
    valueRow(`${what} merged from 4 clusters: elapsed`, "ms", spread.elapsed),
    ratioRow(`${what}: merged from 4 clusters / from one`, "CPU us/list", sides, {
      bar: 2,
      goal: 1.2,
    }),
  ];
}
