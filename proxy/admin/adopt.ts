// POST /admin/v1/adopt?dry_run=true&after=NAME&limit=N: records for buckets that clusters had before, a
// page of them at a time. Answered with what was recorded, or would be.

import type { AdoptOptions, AdoptPage } from "../operations/adopt.ts";
import type { ChangePorts } from "./change.ts";
import {
  type AdminReply,
  type AdminRequest,
  json,
  malformed,
  problem,
  unknownKeys,
} from "./reply.ts";

export interface AdoptPorts extends ChangePorts {
  readonly adopt: (options: AdoptOptions) => Promise<AdoptPage>;
}

const maxPage = 1000;

export async function adopt(request: AdminRequest, ports: AdoptPorts): Promise<AdminReply> {
  const wrong = unknownKeys(request.body, []);
  if (wrong !== null) return wrong;
  const limit = Number(request.query.get("limit") ?? maxPage);
  if (!Number.isInteger(limit) || limit < 1 || limit > maxPage) {
    return malformed(`Query parameter limit needs 1 to ${maxPage}`);
  }
  const { dryRun, signal } = request;
  const after = request.query.get("after") ?? "";
  const page = await ports.adopt({ after, limit, dryRun, signal });
  if (page.kind === "unavailable") {
    const message = `Cluster "${page.cluster}" ${page.why}, nothing was recorded`;
    return problem(503, "ClusterUnavailable", message);
  }
  const recorded = page.buckets.filter(({ outcome }) => outcome === "recorded").length;
  if (recorded > 0) {
    await ports.registry.commit([], {
      action: "admin:AdoptBuckets",
      resource: "buckets",
      actor: request.actor,
      requestId: request.requestId,
      detail: `${recorded} recorded`,
    });
  }
  return json(200, {
    dry_run: dryRun,
    clusters: page.listed,
    known: page.known,
    buckets: page.buckets,
    next_after: page.nextAfter,
  });
}
