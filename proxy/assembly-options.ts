// From the Config to what the parts take: plain mappings, no effect.

import type { StateDriverOptions } from "../bridge/open-state.ts";
import type { Metrics } from "./admin/metrics.ts";
import type { Config } from "./config.ts";
import type { Passthrough } from "./gateway/passthrough.ts";
import { ClusterFacts } from "./placement/cluster-facts.ts";
import type { Log, Snapshots } from "./placement/ports.ts";
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
  const { id, host, forwardedFor, identity, credentials, tls } = cluster;
  const { endpoints, region, addressing } = placement?.clusters.get(id)?.value ?? cluster;
  return {
    id,
    endpoints,
    region,
    addressing,
    host,
    forwardedFor,
    identity,
    credentials,
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

/** What the clusters are taken to do. A server that is not what its profile says is told of once. */
export function clusterFacts(
  { clusters }: Config,
  seen: Pick<Snapshots, "current"> & {
    readonly meter: Pick<Metrics, "profileMismatch">;
    readonly log: Log;
  },
): ClusterFacts {
  const overrides = new Map(clusters.map((cluster) => [cluster.id, cluster.overrides]));
  for (const { id } of clusters) seen.meter.profileMismatch(id, false);
  return new ClusterFacts({
    configured: (id) => ({
      profile: seen.current().clusters.get(id)?.value.profile ?? "",
      overrides: overrides.get(id),
    }),
    onMismatch: (cluster, { profile, facts }) => {
      seen.meter.profileMismatch(cluster, true);
      seen.log.write("warn", "cluster.profile_mismatch", {
        cluster,
        profile,
        not_relied_on: facts.join(),
      });
    },
  });
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
