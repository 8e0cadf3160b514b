// From the Config to what the parts take: plain mappings, no effect.

import type { StateDriverOptions } from "../bridge/open-state.ts";
import type { Config } from "./config.ts";
import type { Passthrough } from "./gateway/passthrough.ts";
import type { Snapshots } from "./placement/ports.ts";
import type { ClusterRecord } from "./placement/records.ts";
import type { PlacementSnapshot } from "./placement/snapshot.ts";
import { createPassthrough } from "./upstream/passthrough.ts";
import type { UpstreamCluster } from "./upstream/upstream.ts";

/** Pause before an etcd endpoint that failed is dialled again. */
const dialRetryMs = 300;

/** Where and how a cluster is reached is the record's word; keys and trust are local. */
export function upstreamCluster(
  cluster: Config["clusters"][number],
  placement: PlacementSnapshot | null,
): UpstreamCluster {
  const { id, host, identity, credentials, tls } = cluster;
  const { endpoints, region, addressing } = placement?.clusters.get(id)?.value ?? cluster;
  return {
    id,
    endpoints,
    region,
    addressing,
    host,
    identity,
    credentials: credentials === null ? null : { ...credentials, sessionToken: null },
    tls,
  };
}

/** The other APIs of a cluster, reached as its record says now; null: none is passed through. */
export function passthroughTo(
  { passthrough, clusters, upstream }: Config,
  snapshots: Pick<Snapshots, "current">,
): Passthrough | null {
  const cluster = clusters.find(({ id }) => id === passthrough?.cluster);
  if (passthrough === null || cluster === undefined) return null;
  return {
    ...passthrough,
    send: createPassthrough({
      cluster: () => upstreamCluster(cluster, snapshots.current()),
      idleMs: upstream.bodyIdleTimeoutMs,
    }),
  };
}

export function stateDriver(config: Config): StateDriverOptions {
  const { state } = config;
  if (state.driver !== "etcd") return state;
  const { endpoints, username, password, caPem: ca, certPem: cert, keyPem: key } = state;
  const tls = ca === null && cert === null && key === null ? null : { ca, cert, key };
  const etcd = { endpoints, username, password, tls, dialTimeoutMs: state.dialTimeoutMs };
  return { driver: "etcd", etcd: { ...etcd, dialRetryMs }, snapshotFile: config.snapshotFile };
}

export function clusterRecord(cluster: Config["clusters"][number]): ClusterRecord {
  const { id, endpoints, profile, region, addressing, labels, weight } = cluster;
  return {
    id,
    endpoints,
    profile,
    region,
    addressing,
    labels,
    weight,
    state: cluster.state ?? "live",
  };
}
