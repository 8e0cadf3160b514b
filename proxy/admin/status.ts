// What this process and its installation are: probes, version, members, state of the state.
// Readiness never looks at upstreams: one dead cluster must not take an application's Pod away.

import type { AuditLine, Clock, Registry, Snapshots } from "../placement/ports.ts";
import { profileFacts } from "../placement/profiles.ts";
import type { PlacementSnapshot } from "../placement/snapshot.ts";
import type { AuditRing } from "./audit-ring.ts";
import type { Metrics } from "./metrics.ts";
import type { ProcessFacts, Readiness } from "./ports.ts";
import {
  type AdminReply,
  type AdminRequest,
  done,
  json,
  malformed,
  problem,
  text,
} from "./reply.ts";

export interface StatusPorts {
  readonly registry: Registry;
  readonly snapshots: Snapshots;
  readonly clock: Clock;
  readonly facts: ProcessFacts;
  readonly readiness: Readiness;
  readonly metrics: Metrics;
  readonly audit: AuditRing;
}

/** Phases that end by themselves; more of them than this are only counted. */
const maxOpenBuckets = 100;

/** GET /healthz, /livez: the process turns its event loop. */
export function alive(): AdminReply {
  return text(200, "ok\n");
}

/** GET /readyz[?verbose] */
export function ready(request: AdminRequest, ports: StatusPorts): AdminReply {
  const checks = ports.readiness.checks();
  const failed = checks.filter((check) => !check.ok);
  const status = failed.length === 0 ? 200 : 503;
  if (request.query.has("verbose")) {
    const lines = checks.map(({ ok, name, detail }) => `[${ok ? "+" : "-"}] ${name}: ${detail}\n`);
    return text(status, lines.join(""));
  }
  return text(status, status === 200 ? "ok\n" : `${failed.map((c) => c.name).join(", ")}\n`);
}

/** GET /metrics */
export async function showMetrics(_request: AdminRequest, ports: StatusPorts): Promise<AdminReply> {
  const body = await ports.metrics.render(viewOrNull(ports.snapshots));
  return text(200, body, "text/plain; version=0.0.4");
}

function viewOrNull(snapshots: Snapshots): PlacementSnapshot | null {
  try {
    return snapshots.current();
  } catch {
    return null; // before the first view; every other fault of state shows in its own metrics
  }
}

/** GET /version */
export function showVersion(_request: AdminRequest, ports: StatusPorts): AdminReply {
  return json(200, { name: "headgate", version: ports.facts.version });
}

/** GET /admin/v1/members */
export async function listMembers(request: AdminRequest, ports: StatusPorts): Promise<AdminReply> {
  return json(200, { members: await membersBody(request, ports) });
}

/** DELETE /admin/v1/members/{id}: 204, or 409 for one that is alive. */
export async function forgetMember(request: AdminRequest, ports: StatusPorts): Promise<AdminReply> {
  const id = request.params.get("id") ?? "";
  if (request.dryRun) {
    const members = await ports.registry.members(request.signal);
    const member = members.find(({ record }) => record.id === id);
    if (member === undefined) return unknownMember(id);
    return member.alive ? aliveMember(id) : json(200, { dry_run: true, effect: { forgotten: id } });
  }
  const audit: AuditLine = {
    action: "admin:ForgetMember",
    resource: id,
    actor: request.actor,
    requestId: request.requestId,
    detail: "declared dead",
  };
  switch (await ports.registry.forgetMember(id, audit)) {
    case "forgotten":
      return done();
    case "alive":
      return aliveMember(id);
    case "unknown":
      return unknownMember(id);
  }
}

function aliveMember(id: string): AdminReply {
  return problem(409, "MemberAlive", `Member "${id}" is alive`);
}

function unknownMember(id: string): AdminReply {
  return problem(404, "NoSuchMember", `Member "${id}" is not registered`);
}

async function membersBody(
  request: AdminRequest,
  ports: StatusPorts,
): Promise<readonly { readonly alive: boolean }[]> {
  const members = await ports.registry.members(request.signal);
  return members.map(({ record, alive: isAlive }) => ({
    id: record.id,
    node_id: record.nodeId,
    mode: record.mode,
    alive: isAlive,
    started_at: record.startedAt,
    version: record.version,
    acked: String(record.acked),
  }));
}

/** GET /admin/v1/state */
export async function showState(request: AdminRequest, ports: StatusPorts): Promise<AdminReply> {
  const view = ports.snapshots.current();
  const open: unknown[] = [];
  let openCount = 0;
  const conflicts: unknown[] = [];
  let conflictsCount = 0;
  for (const { value: record } of view.buckets.all()) {
    if (record.conflict) {
      conflictsCount += 1;
      const { tenant, name, extra } = record;
      if (conflicts.length < maxOpenBuckets) conflicts.push({ tenant, name, clusters: extra });
    }
    if (record.phase === "settled") continue;
    openCount += 1;
    if (open.length < maxOpenBuckets) {
      open.push({ tenant: record.tenant, name: record.name, phase: record.phase });
    }
  }
  return json(200, {
    driver: ports.facts.stateDriver,
    revision: String(view.revision),
    origin: view.origin,
    clusters: view.clusters.size,
    classes: view.classes.size,
    buckets: view.buckets.size,
    open_buckets_count: openCount,
    open_buckets: open,
    conflicts_count: conflictsCount,
    conflicts,
    members: await membersBody(request, ports),
  });
}

/** GET /admin/v1/cluster/status, with Strata's fields. */
export async function clusterStatus(
  request: AdminRequest,
  ports: StatusPorts,
): Promise<AdminReply> {
  const { facts } = ports;
  const members = await membersBody(request, ports);
  const backends = new Set<string>();
  for (const { value } of ports.snapshots.current().clusters.values()) {
    backends.add(profileFacts(value.profile).backend);
  }
  return json(200, {
    status: ports.readiness.checks().every((check) => check.ok) ? "healthy" : "degraded",
    version: facts.version,
    started_at: new Date(facts.startedAtMs).toISOString(),
    uptime_sec: Math.floor((ports.clock.nowMs() - facts.startedAtMs) / 1000),
    cluster_name: "headgate",
    node_count: members.length,
    node_count_healthy: members.filter((member) => member.alive).length,
    meta_backend: facts.stateDriver,
    data_backend: [...backends].toSorted((a, b) => (a < b ? -1 : 1)).join(","),
  });
}

/** GET /admin/v1/audit?limit= : what this process changed, newest first. */
export function listAudit(request: AdminRequest, ports: StatusPorts): AdminReply {
  const limit = Number(request.query.get("limit") ?? 100);
  if (!Number.isInteger(limit) || limit < 1)
    return malformed("Query parameter limit needs 1 or more");
  return json(200, {
    events: ports.audit.newest(limit).map(({ atMs, line }) => ({
      time: new Date(atMs).toISOString(),
      action: line.action,
      resource: line.resource,
      actor: line.actor.name,
      remote_address: line.actor.remoteAddress,
      request_id: line.requestId,
      detail: line.detail,
    })),
  });
}
