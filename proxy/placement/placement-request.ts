// Reads what an operator sends as a bucket's placement into the record's form, or says what is wrong
// in the admin API's own error codes. Untrusted JSON comes in here. Spec: control.md (placement PUT
// body); placement.md §1 and §2 (pending clusters may be named, removed ones may not).

import type { ClusterId } from "../s3/names.ts";
import { parseClusterId } from "../s3/names.ts";
import type { BucketPlacement, ClusterRecord, PlacementMode, Spread } from "./records.ts";

const maxPlacementWeight = 100;

/** The body's fields as they came. */
export interface PlacementRequest {
  readonly placement: unknown;
  readonly mode?: unknown;
  readonly spread?: unknown;
  readonly weighting?: unknown;
}

export type PlacementCheck =
  | { readonly kind: "ok"; readonly placement: BucketPlacement }
  | {
      readonly kind: "invalid";
      readonly code: "InvalidPlacement" | "InvalidPlacementMode" | "UnknownCluster";
      readonly message: string;
    };

type Invalid = Extract<PlacementCheck, { readonly kind: "invalid" }>;

function invalid(code: Invalid["code"], message: string): Invalid {
  return { kind: "invalid", code, message };
}

/** Absent, null and empty all mean that nothing was said. */
function said(value: unknown): boolean {
  return value !== undefined && value !== null && value !== "";
}

/** `placement` {cluster: 0..100}, sum above 0; `mode` weighted (default) or strict. */
export function checkPlacement(
  request: PlacementRequest,
  clusters: ReadonlyMap<ClusterId, Pick<ClusterRecord, "state">>,
): PlacementCheck {
  const weights = checkWeights(request.placement, clusters);
  if (weights.kind === "invalid") return weights;
  const mode = said(request.mode) ? request.mode : "weighted";
  if (!isMode(mode)) {
    return invalid(
      "InvalidPlacementMode",
      'Cannot set placement: mode needs "weighted" or "strict"',
    );
  }
  const spread = said(request.spread) ? request.spread : null;
  if (spread !== null && !isSpread(spread)) {
    return invalid(
      "InvalidPlacement",
      'Cannot set placement: spread needs "object", "prefix" or "bucket"',
    );
  }
  const weighting = said(request.weighting) ? request.weighting : "weights";
  if (weighting !== "weights" && weighting !== "uniform") {
    return invalid(
      "InvalidPlacement",
      'Cannot set placement: weighting needs "weights" or "uniform"',
    );
  }
  return { kind: "ok", placement: { weights: weights.weights, mode, spread, weighting } };
}

function checkWeights(
  placement: unknown,
  clusters: ReadonlyMap<ClusterId, Pick<ClusterRecord, "state">>,
): Invalid | { readonly kind: "weights"; readonly weights: ReadonlyMap<ClusterId, number> } {
  if (typeof placement !== "object" || placement === null || Array.isArray(placement)) {
    return invalid("InvalidPlacement", "Cannot set placement: needs a map of cluster to weight");
  }
  const weights = new Map<ClusterId, number>();
  let positive = false;
  for (const [name, weight] of Object.entries(placement)) {
    if (!isWeight(weight)) {
      return invalid(
        "InvalidPlacement",
        `Cannot set placement: weight of cluster "${name}" needs an integer from 0 to 100`,
      );
    }
    const id = parseClusterId(name);
    const state = id === null ? undefined : clusters.get(id)?.state;
    if (id === null || state === undefined || state === "removed") {
      return invalid("UnknownCluster", `Cannot set placement: cluster "${name}" is not known`);
    }
    weights.set(id, weight);
    positive ||= weight > 0;
  }
  if (!positive) {
    return invalid("InvalidPlacement", "Cannot set placement: no cluster has a weight above 0");
  }
  return { kind: "weights", weights };
}

/** Whether a value may be a weight at the admin surface. */
export function isWeight(value: unknown): value is number {
  return (
    typeof value === "number" &&
    Number.isInteger(value) &&
    value >= 0 &&
    value <= maxPlacementWeight
  );
}

function isMode(value: unknown): value is PlacementMode {
  return value === "weighted" || value === "strict";
}

function isSpread(value: unknown): value is Spread {
  return value === "object" || value === "prefix" || value === "bucket";
}
