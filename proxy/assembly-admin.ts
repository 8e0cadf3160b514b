// What of the admin surface needs parts of several layers: adoption and drift of buckets over the
// clusters, and whether this process may take traffic.

import type { ReadinessCheck } from "./admin/ports.ts";
import type { AdminPorts } from "./admin/routes.ts";
import type { Config } from "./config.ts";
import type { Views } from "./gateway/views.ts";
import { type AdoptPorts, adoptBuckets } from "./operations/adopt.ts";
import type { OperationPorts } from "./operations/context.ts";
import type { Discovery } from "./operations/discovery.ts";
import { healDrift, showDrift } from "./operations/drift.ts";
import { listRgwBuckets } from "./upstream/rgw-buckets.ts";
import type { UpstreamPools } from "./upstream/upstream.ts";

interface BucketParts {
  readonly ports: OperationPorts;
  readonly discovery: Discovery;
  readonly pools: UpstreamPools;
}

/** Adoption and drift, as the admin API asks for them. */
export function bucketPorts(
  config: Config,
  parts: BucketParts,
): Pick<AdminPorts, "adopt" | "drift"> {
  const { ports, discovery, pools } = parts;
  const listAll = bucketLister(config, ports, pools);
  return {
    adopt: (asked) => adoptBuckets({ ports, discovery, listAll }, asked),
    drift: {
      show: (entry, reference, signal) => showDrift(entry.value, ports, { reference, signal }),
      heal: async (entry, reference, signal) =>
        ports.membership.mayMutate() ? await healDrift(entry, ports, { reference, signal }) : null,
    },
  };
}

/** Lists all buckets of an RGW with the cluster's keys, where they may. */
function bucketLister(
  config: Config,
  ports: OperationPorts,
  pools: UpstreamPools,
): AdoptPorts["listAll"] {
  return async (id, signal) => {
    const keys = config.clusters.find((cluster) => cluster.id === id)?.credentials ?? null;
    if (keys === null || ports.facts(id).backend !== "rgw") return null;
    return await listRgwBuckets(id, { keys, ask: pools.askAdmin }, signal);
  };
}

/** Whether this process may take traffic: never what its upstreams are like. */
export function readiness(
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
