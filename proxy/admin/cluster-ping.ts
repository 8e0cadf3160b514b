// POST /admin/v1/clusters/{id}/ping?probe=true&bucket=B: asks a cluster whether it can be reached and, with
// `probe`, what it can do. Changes nothing of the placement; a probe puts and deletes objects of its own.

import type { PingOptions, PingReport, ProbeReport } from "../operations/ping.ts";
import type { Snapshots } from "../placement/ports.ts";
import { type ClusterId, parseBucketName, parseClusterId } from "../s3/names.ts";
import { factSetting, type KindPorts, kindFields } from "./cluster-kinds.ts";
import { type AdminReply, type AdminRequest, json, malformed, unknownCluster } from "./reply.ts";

export interface PingPorts extends KindPorts {
  readonly snapshots: Snapshots;
  readonly ping: (cluster: ClusterId, options: Omit<PingOptions, "run">) => Promise<PingReport>;
}

export async function pingCluster(request: AdminRequest, ports: PingPorts): Promise<AdminReply> {
  const id = parseClusterId(request.params.get("id") ?? "");
  const record = id === null ? undefined : ports.snapshots.current().clusters.get(id)?.value;
  if (id === null || record === undefined) return unknownCluster(request.params.get("id") ?? "");
  const wanted = request.query.get("probe") ?? "false";
  if (wanted !== "true" && wanted !== "false") {
    return malformed('Parameter "probe" needs true or false');
  }
  const named = request.query.get("bucket");
  const bucket = named === null ? null : parseBucketName(named);
  if (named !== null && bucket === null) return malformed('Parameter "bucket" names no bucket');
  const { signal } = request;
  const report = await ports.ping(id, { probe: wanted === "true", bucket, signal });
  if (report.kind === "unreachable") {
    return json(200, { cluster: id, reachable: false, reason: report.reason });
  }
  return json(200, {
    cluster: id,
    reachable: true,
    status: report.status,
    code: report.code,
    latency_ms: report.latencyMs,
    clock_skew_ms: report.clockSkewMs,
    server: report.server,
    ...kindFields(id, ports),
    ...(report.probe === null ? {} : { probe: probeFields(report.probe, record.profile) }),
  });
}

function probeFields(probe: ProbeReport, profile: string): Readonly<Record<string, unknown>> {
  if (probe.kind === "failed") return { failed: probe.reason };
  const configured = new Map<string, unknown>(Object.entries(probe.configured));
  return {
    configured_profile: profile,
    best_profiles: probe.best,
    differs: probe.differences.map(factSetting),
    best_differs: probe.bestDifferences.map(factSetting),
    facts: Object.entries(probe.seen).map(([name, seen]) => ({
      fact: factSetting(name),
      seen,
      configured: configured.get(name) ?? null,
    })),
  };
}
