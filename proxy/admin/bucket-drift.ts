// GET and POST /admin/v1/buckets/{b}/drift: how the clusters of a bucket differ, and the repair of that.
// A repair changes clusters, not records; it is audited and answered with what was done.

import type { DriftReport } from "../operations/drift.ts";
import type { AuditLine } from "../placement/ports.ts";
import type { BucketRecord } from "../placement/records.ts";
import type { Versioned } from "../placement/snapshot.ts";
import { type ClusterId, parseClusterId } from "../s3/names.ts";
import { findBucket, noSuchBucket } from "./buckets.ts";
import type { ChangePorts } from "./change.ts";
import {
  type AdminReply,
  type AdminRequest,
  json,
  problem,
  unknownCluster,
  unknownKeys,
} from "./reply.ts";

interface BucketDrift {
  show(
    entry: Versioned<BucketRecord>,
    reference: ClusterId | null,
    signal: AbortSignal,
  ): Promise<DriftReport>;
  /** `null`: this process may not write now. */
  heal(
    entry: Versioned<BucketRecord>,
    reference: ClusterId | null,
    signal: AbortSignal,
  ): Promise<DriftReport | null>;
}

export interface DriftPorts extends ChangePorts {
  readonly drift: BucketDrift;
}

/** GET /admin/v1/buckets/{b}/drift?from=ID */
export async function showDrift(request: AdminRequest, ports: DriftPorts): Promise<AdminReply> {
  const asked = askedOf(request, request.query.get("from"), ports);
  if (asked.kind === "reply") return asked.reply;
  return answer(await ports.drift.show(asked.entry, asked.from, request.signal), asked.entry.value);
}

/** POST /admin/v1/buckets/{b}/drift `{from?: ID}`: makes the others say what one cluster says. */
export async function healDrift(request: AdminRequest, ports: DriftPorts): Promise<AdminReply> {
  const wrong = unknownKeys(request.body, ["from"]);
  if (wrong !== null) return wrong;
  const { from = null } = request.body;
  const asked = askedOf(request, from, ports);
  if (asked.kind === "reply") return asked.reply;
  const { entry } = asked;
  if (request.dryRun) {
    return answer(await ports.drift.show(entry, asked.from, request.signal), entry.value);
  }
  if (entry.value.phase !== "settled") {
    return problem(409, "Conflict", "The bucket is being changed");
  }
  if (entry.value.conflict && asked.from === null) {
    const why = "The bucket was found on several clusters, which may hold two buckets of one name";
    return problem(409, "Conflict", `${why}: name the cluster whose settings count (from)`);
  }
  const report = await ports.drift.heal(entry, asked.from, request.signal);
  if (report === null) {
    return problem(503, "StateUnavailable", "This process takes no writes now");
  }
  await ports.registry.commit([], auditLine(request, entry.value, report));
  return answer(report, entry.value);
}

type Asked =
  | { readonly kind: "reply"; readonly reply: AdminReply }
  | {
      readonly kind: "bucket";
      readonly entry: Versioned<BucketRecord>;
      readonly from: ClusterId | null;
    };

function askedOf(request: AdminRequest, from: unknown, ports: DriftPorts): Asked {
  const entry = findBucket(request, ports);
  if (entry === null) return { kind: "reply", reply: noSuchBucket(request) };
  if (from === null) return { kind: "bucket", entry, from };
  const id = typeof from === "string" ? parseClusterId(from) : null;
  if (id === null || !ports.snapshots.current().clusters.has(id)) {
    return {
      kind: "reply",
      reply: unknownCluster(typeof from === "string" ? from : JSON.stringify(from)),
    };
  }
  return { kind: "bucket", entry, from: id };
}

function answer({ reference, clusters, drift }: DriftReport, record: BucketRecord): AdminReply {
  const { name: bucket, tenant } = record;
  return json(200, { bucket, tenant, clusters, compared_with: reference, drift });
}

function auditLine(request: AdminRequest, record: BucketRecord, report: DriftReport): AuditLine {
  const count = (outcome: string): number =>
    report.drift.filter((each) => each.outcome === outcome).length;
  return {
    action: "admin:HealBucketDrift",
    resource: `bucket:${record.tenant}/${record.name}`,
    actor: request.actor,
    requestId: request.requestId,
    detail: `${count("healed")} healed, ${count("failed")} failed`,
  };
}
