// The three clusters of `npm start` and `headgate demo`: demo servers on loopback ports, with the
// configuration entries a Headgate needs to use them. Each start has fresh upstream keys, so a client
// that finds the ports cannot pass the proxy by. Data is gone when they close.

import type { Clock, Random } from "../placement/ports.ts";
import { type ClusterId, parseClusterId } from "../s3/names.ts";
import type { SigningCredentials } from "../s3/sigv4.ts";
import { type DemoServer, startDemoServer } from "./server.ts";

export interface EmbeddedCluster {
  readonly id: ClusterId;
  readonly endpoint: string;
  readonly weight: number;
  readonly region: string;
  readonly credentials: SigningCredentials;
}

export interface EmbeddedClusters {
  readonly clusters: readonly EmbeddedCluster[];
  /** How many objects of a bucket each cluster holds. */
  held(bucket: string): ReadonlyMap<ClusterId, number>;
  close(): Promise<void>;
}

/** Cluster → weight: shares of 1/6, 2/6 and 3/6. */
const embeddedWeights = { a: 1, b: 2, c: 3 } as const;

/** Starts clusters a, b and c on free ports of 127.0.0.1. */
export async function startEmbeddedClusters(options: {
  readonly clock: Pick<Clock, "nowMs">;
  readonly random: Random;
}): Promise<EmbeddedClusters> {
  const started: { readonly cluster: EmbeddedCluster; readonly server: DemoServer }[] = [];
  for (const [name, weight] of Object.entries(embeddedWeights)) {
    const id = parseClusterId(name);
    if (id === null) continue;
    const credentials: SigningCredentials = {
      accessKeyId: `embedded-${name}`,
      secretAccessKey: Buffer.from(options.random.bytes(24)).toString("base64url"),
      sessionToken: null,
    };
    const server = await startDemoServer({ port: 0, credentials, ...options });
    const cluster = { id, endpoint: server.url, weight, region: "us-east-1", credentials };
    started.push({ cluster, server });
  }
  return {
    clusters: started.map(({ cluster }) => cluster),
    held: (bucket) =>
      new Map(started.map(({ cluster, server }) => [cluster.id, server.objects(bucket).length])),
    async close() {
      await Promise.all(started.map(({ server }) => server.close()));
    },
  };
}
