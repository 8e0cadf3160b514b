// From the Config to what the parts take: plain mappings, no effect.

import type { StateDriverOptions } from "../bridge/open-state.ts";
import type { Config } from "./config.ts";
import type { ClusterRecord } from "./placement/records.ts";
import type { PlacementSnapshot } from "./placement/snapshot.ts";
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
