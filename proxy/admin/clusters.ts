// Clusters: shown with Strata's fields, changed by the transitions of placement/transitions.ts.

import { isWeight } from "../placement/placement-request.ts";
import { profileFacts } from "../placement/profiles.ts";
import type { ClusterRecord } from "../placement/records.ts";
import type { PlacementSnapshot, Versioned } from "../placement/snapshot.ts";
import {
  activateCluster,
  drainCluster,
  type TransitionResult,
  undrainCluster,
} from "../placement/transitions.ts";
import { activationWeight, applyWeightCommand, type WeightCommand } from "../placement/weights.ts";
import { parseClusterId } from "../s3/names.ts";
import { type ChangePorts, change, type Plan } from "./change.ts";
import { type KindPorts, kindFields } from "./cluster-kinds.ts";
import {
  type AdminReply,
  type AdminRequest,
  invalidTransition,
  json,
  malformed,
  problem,
  unknownCluster,
  unknownKeys,
} from "./reply.ts";
import { clustersRevision, wheelShares } from "./shares.ts";
import { weightPlan } from "./weights.ts";

/** A cluster as lists show it. `weight` is 0 unless live, as in Strata; the stored one beside it. */
function summary(record: ClusterRecord): Readonly<Record<string, unknown>> {
  return {
    id: record.id,
    state: record.state,
    mode: drainMode(record),
    weight: record.state === "live" ? (record.weight ?? 1) : 0,
    backend: profileFacts(record.profile).backend,
    configured_weight: record.weight,
  };
}

function drainMode(record: ClusterRecord): string {
  if (record.state === "draining_readonly") return "readonly";
  return record.state === "evacuating" ? "evacuate" : "";
}

/** GET /admin/v1/clusters */
export function listClusters(_request: AdminRequest, ports: ChangePorts): AdminReply {
  const view = ports.snapshots.current();
  const records = [...view.clusters.values()].map(({ value }) => value);
  records.sort((a, b) => (a.id < b.id ? -1 : 1));
  return json(200, { clusters: records.map(summary) }, clustersRevision(view));
}

/** GET /admin/v1/clusters/{id} */
export function showCluster(request: AdminRequest, ports: ChangePorts & KindPorts): AdminReply {
  const view = ports.snapshots.current();
  const found = findCluster(request, view);
  if (found === null) return unknownCluster(request.params.get("id") ?? "");
  const { value: record, modRevision } = found;
  return json(
    200,
    {
      ...summary(record),
      endpoints: record.endpoints,
      profile: record.profile,
      region: record.region,
      addressing: record.addressing,
      labels: record.labels,
      ...kindFields(record.id, ports),
      share_ratio: wheelShares(view.clusters).get(record.id) ?? 0,
      revision: String(modRevision),
    },
    modRevision,
  );
}

function findCluster(
  request: AdminRequest,
  view: PlacementSnapshot,
): Versioned<ClusterRecord> | null {
  const id = parseClusterId(request.params.get("id") ?? "");
  return (id === null ? undefined : view.clusters.get(id)) ?? null;
}

/** POST /admin/v1/clusters/{id}/activate `{weight?}` */
export function activate(request: AdminRequest, ports: ChangePorts): Promise<AdminReply> {
  const wrong = unknownKeys(request.body, ["weight"]);
  if (wrong !== null) return Promise.resolve(wrong);
  const weight = request.body["weight"] ?? null;
  if (weight !== null && !isWeight(weight)) return Promise.resolve(wrongWeight());
  return changeCluster(request, ports, {
    action: "admin:ActivateCluster",
    transition: (record, clusters) =>
      activateCluster(record, activationWeight(weight, record, clusters)),
  });
}

/** POST /admin/v1/clusters/{id}/drain `{mode: readonly|evacuate}` */
export function drain(request: AdminRequest, ports: ChangePorts): Promise<AdminReply> {
  const wrong = unknownKeys(request.body, ["mode"]);
  if (wrong !== null) return Promise.resolve(wrong);
  const mode = request.body["mode"] ?? "readonly";
  if (mode !== "readonly" && mode !== "evacuate") {
    return Promise.resolve(malformed('Body key "mode" needs readonly or evacuate'));
  }
  return changeCluster(request, ports, {
    action: "admin:DrainCluster",
    transition: (record) => drainCluster(record, mode),
  });
}

/** POST /admin/v1/clusters/{id}/undrain */
export function undrain(request: AdminRequest, ports: ChangePorts): Promise<AdminReply> {
  const wrong = unknownKeys(request.body, []);
  if (wrong !== null) return Promise.resolve(wrong);
  return changeCluster(request, ports, {
    action: "admin:UndrainCluster",
    transition: undrainCluster,
  });
}

/** PUT /admin/v1/clusters/{id}/weight `{weight: 0..100}` */
export function putWeight(request: AdminRequest, ports: ChangePorts): Promise<AdminReply> {
  const wrong = unknownKeys(request.body, ["weight"]);
  if (wrong !== null) return Promise.resolve(wrong);
  const { weight } = request.body;
  if (!isWeight(weight)) return Promise.resolve(wrongWeight());
  return change(request, ports, (view): Plan => {
    const found = findCluster(request, view);
    if (found === null) return notKnown(request);
    const { id } = found.value;
    const command: WeightCommand = { kind: "set", named: new Map([[id, weight]]), rest: null };
    const applied = applyWeightCommand(
      command,
      [...view.clusters.values()].map((c) => c.value),
    );
    const action = "admin:UpdateClusterWeight";
    return weightPlan(applied, view, { action, resource: id, revision: found.modRevision });
  });
}

function wrongWeight(): AdminReply {
  return problem(400, "InvalidWeight", 'Body key "weight" needs a whole number from 0 to 100');
}

function notKnown(request: AdminRequest): Plan {
  return { kind: "reply", reply: unknownCluster(request.params.get("id") ?? "") };
}

interface ClusterChange {
  readonly action: string;
  readonly transition: (
    record: ClusterRecord,
    clusters: readonly ClusterRecord[],
  ) => TransitionResult;
}

function changeCluster(
  request: AdminRequest,
  ports: ChangePorts,
  options: ClusterChange,
): Promise<AdminReply> {
  return change(request, ports, (view): Plan => {
    const found = findCluster(request, view);
    if (found === null) return notKnown(request);
    const { value: before, modRevision } = found;
    const result = options.transition(
      before,
      [...view.clusters.values()].map((c) => c.value),
    );
    switch (result.kind) {
      case "invalid_transition":
        return { kind: "reply", reply: invalidTransition(before.id, result) };
      case "ok": {
        const after = result.record;
        return {
          kind: "changes",
          revision: modRevision,
          changes: [{ kind: "cluster", id: before.id, expected: modRevision, record: after }],
          audit: {
            action: options.action,
            resource: `cluster:${before.id}`,
            detail: `${before.state} to ${after.state}, weight ${after.weight ?? "none"}`,
          },
          effect: { cluster: before.id, before: summary(before), after: summary(after) },
        };
      }
    }
  });
}
