// The admin listener with what it shows and changes: placement, adoption and drift of buckets over
// the clusters, and whether this process may take traffic.

import type { OpenState } from "../bridge/open-state.ts";
import { AuditRing, auditedRegistry } from "./admin/audit-ring.ts";
import type { Metrics } from "./admin/metrics.ts";
import { placementChanges } from "./admin/placement-changes.ts";
import type { ReadinessCheck } from "./admin/ports.ts";
import type { AdminPorts } from "./admin/routes.ts";
import type { AdminServer } from "./admin/server.ts";
import { openAdminServer } from "./admin/server.ts";
import type { OpenCredentials } from "./assembly-credentials.ts";
import type { Config } from "./config.ts";
import { requestIds } from "./gateway/request-ids.ts";
import type { Views } from "./gateway/views.ts";
import { Adoption, type AdoptPorts } from "./operations/adopt.ts";
import type { OperationPorts } from "./operations/context.ts";
import type { Discovery } from "./operations/discovery.ts";
import { healDrift, showDrift } from "./operations/drift.ts";
import { pingCluster } from "./operations/ping.ts";
import type { ClusterFacts } from "./placement/cluster-facts.ts";
import type { Random } from "./placement/ports.ts";
import type { StartOptions } from "./system.ts";
import { listRgwBuckets } from "./upstream/rgw-buckets.ts";
import type { UpstreamPools } from "./upstream/upstream.ts";

export interface AdminParts {
  readonly ports: OperationPorts;
  readonly views: Views;
  readonly meter: Metrics;
  readonly options: StartOptions;
  readonly credentials: OpenCredentials;
  readonly discovery: Discovery;
  readonly state: OpenState;
  readonly pools: UpstreamPools;
  readonly facts: ClusterFacts;
  readonly lifecycle: { readonly accepting: boolean };
}

/** Opens the admin listener; null where none is configured. */
export async function openAdmin(config: Config, parts: AdminParts): Promise<AdminServer | null> {
  if (config.admin === null) return null;
  const { ports, views, meter, state, options, lifecycle, credentials } = parts;
  const { log, version, system } = options;
  const { clock } = system;
  const audit = new AuditRing();
  const registry = auditedRegistry(ports.registry, { ring: audit, clock });
  // Inherits rather than copies: the handle keys behind a getter may not be known yet.
  const auditedPorts: OperationPorts = Object.create(ports, { registry: { value: registry } });
  return await openAdminServer({
    ...config.admin.address,
    token: config.admin.token,
    ports: {
      registry,
      snapshots: ports.snapshots,
      clock,
      placementChanges: placementChanges(views, auditedPorts),
      ...bucketPorts(parts),
      clusterKinds: parts.facts,
      ping: (cluster, asked) =>
        pingCluster(cluster, ports, { ...asked, run: runId(system.random) }),
      facts: {
        version,
        nodeId: config.nodeId,
        startedAtMs: clock.nowMs(),
        stateDriver: state.store.driver,
      },
      seals: { keys: config.sealKeys, random: system.random },
      storedKeyUse: credentials.storedKeyUse,
      readiness: { checks: () => readiness(views, lifecycle) },
      metrics: meter,
      audit,
    },
    requestId: requestIds(system.random),
    createServer: (serverOptions) => system.createServer(serverOptions, null),
    log,
  });
}

/** 16 hex digits that no other probe has. */
function runId(random: Random): string {
  return Buffer.from(random.bytes(8)).toString("hex");
}

interface BucketParts {
  readonly ports: OperationPorts;
  readonly discovery: Discovery;
  readonly pools: UpstreamPools;
}

/** Adoption and drift, as the admin API asks for them. */
function bucketPorts(parts: BucketParts): Pick<AdminPorts, "adopt" | "drift"> {
  const { ports, discovery, pools } = parts;
  const adoption = new Adoption({ ports, discovery, listAll: bucketLister(ports, pools) });
  return {
    adopt: (asked) => adoption.next(asked),
    drift: {
      show: (entry, reference, signal) => showDrift(entry.value, ports, { reference, signal }),
      heal: async (entry, reference, signal) =>
        ports.membership.mayMutate() ? await healDrift(entry, ports, { reference, signal }) : null,
    },
  };
}

/** Lists all buckets of an RGW with the cluster's keys, where they may. */
function bucketLister(ports: OperationPorts, pools: UpstreamPools): AdoptPorts["listAll"] {
  return async (id, signal) => {
    const keys = pools.clusterKeys(id);
    if (keys === null || ports.facts(id).backend !== "rgw") return null;
    return await listRgwBuckets(id, { keys, ask: pools.askAdmin }, signal);
  };
}

/** Whether this process may take traffic: never what its upstreams are like. */
function readiness(
  views: Views,
  lifecycle: { readonly accepting: boolean },
): readonly ReadinessCheck[] {
  const lifecycleCheck = {
    name: "lifecycle",
    ok: lifecycle.accepting,
    detail: lifecycle.accepting ? "serving" : "stopping",
  } as const;
  const config = { name: "config", ok: true, detail: "valid" } as const;
  try {
    const { placement, policy } = views.current();
    const detail = `revision ${placement.revision}, ${placement.origin}`;
    return [
      config,
      { name: "policy", ok: true, detail: policy.revision },
      { name: "snapshot", ok: true, detail },
      lifecycleCheck,
    ];
  } catch {
    return [config, { name: "policy", ok: false, detail: "does not load" }, lifecycleCheck];
  }
}
