// The life of a cluster: which command is legal in which state, and the record it leaves. Pure; the
// caller compares, swaps and audits. The weight survives drain and undrain. Spec: control.md (state
// transitions); all that is not listed there is an invalid transition.

import type { ClusterRecord, ClusterState } from "./records.ts";

export type DrainMode = "readonly" | "evacuate";

/** What was asked for, as `requested_mode` shows it. */
type RequestedMode = "activate" | "readonly" | "evacuate" | "undrain";

export type TransitionResult =
  | {
      readonly kind: "ok";
      readonly record: ClusterRecord;
    }
  | {
      readonly kind: "invalid_transition";
      readonly currentState: ClusterState;
      readonly requestedMode: RequestedMode;
    };

function moved(record: ClusterRecord, state: ClusterState): TransitionResult {
  return { kind: "ok", record: { ...record, state } };
}

function refused(record: ClusterRecord, requestedMode: RequestedMode): TransitionResult {
  return { kind: "invalid_transition", currentState: record.state, requestedMode };
}

/** pending → live, with the weight that `activationWeight` chose. */
export function activateCluster(record: ClusterRecord, weight: number | null): TransitionResult {
  if (record.state !== "pending") return refused(record, "activate");
  return moved({ ...record, weight }, "live");
}

/** live → draining_readonly or evacuating; draining_readonly → evacuating. */
export function drainCluster(record: ClusterRecord, mode: DrainMode): TransitionResult {
  const target = mode === "readonly" ? "draining_readonly" : "evacuating";
  const upgrade = record.state === "draining_readonly" && mode === "evacuate";
  if (record.state !== "live" && !upgrade) return refused(record, mode);
  return moved(record, target);
}

/** draining_readonly or evacuating → live, with the weight it had. */
export function undrainCluster(record: ClusterRecord): TransitionResult {
  if (record.state !== "draining_readonly" && record.state !== "evacuating") {
    return refused(record, "undrain");
  }
  return moved(record, "live");
}
