// What operators may set cluster weights to: the ratio rule, the weight of a joining cluster, and shares
// to show. Any positive integers, so byte sizes work; the admin surface alone limits them to 0–100. Integer arithmetic. Spec: placement.md §3 (AIStore rules).

import type { ClusterId } from "../s3/names.ts";
import { gcd } from "./hrw.ts";
import type { ClusterState, Weights } from "./records.ts";
import { sameShares } from "./routes.ts";

/** Assigned weights; `null` is unweighted and counts 1. */
export type AssignedWeights = ReadonlyMap<ClusterId, number | null>;

const warnRatio = 10n;
const refuseRatio = 100n;

/** `none` stands for the weight that the cluster would get if it joined now. */
export type WeightWord = number | "none";

export type WeightCommand =
  | { readonly kind: "clear" }
  | {
      readonly kind: "set";
      readonly named: ReadonlyMap<ClusterId, WeightWord>;
      /** For live clusters not named; `null`: they keep what they have. */
      readonly rest: WeightWord | null;
    };

function invalid(message: string): { readonly kind: "invalid"; readonly message: string } {
  return { kind: "invalid", message };
}

/** What the weight rules look at in a cluster's record. */
export interface WeightedCluster {
  readonly id: ClusterId;
  readonly state: ClusterState;
  readonly weight: number | null;
}

export type WeightChange =
  | {
      readonly kind: "ok";
      /** Every live cluster with its weight after the command. */
      readonly weights: AssignedWeights;
      /** The largest positive weight is 10 times the smallest or more. */
      readonly warn: boolean;
      /** Whether the owner of any key on the default wheel can change. */
      readonly moves: boolean;
    }
  | { readonly kind: "unknown_cluster"; readonly id: ClusterId }
  | { readonly kind: "not_live"; readonly id: ClusterId; readonly state: ClusterState }
  | { readonly kind: "invalid"; readonly message: string };

/** The weights of all live clusters after a command; clusters in other states keep theirs. */
export function applyWeightCommand(
  command: WeightCommand,
  clusters: readonly WeightedCluster[],
): WeightChange {
  const live = clusters.filter((cluster) => cluster.state === "live");
  const before = new Map(live.map(({ id, weight }) => [id, weight]));
  if (command.kind === "clear") return changed(before, cleared(before));
  for (const id of command.named.keys()) {
    const cluster = clusters.find((candidate) => candidate.id === id);
    if (cluster === undefined) return { kind: "unknown_cluster", id };
    if (cluster.state !== "live") return { kind: "not_live", id, state: cluster.state };
  }
  const words = new Map(live.map(({ id }) => [id, command.named.get(id) ?? command.rest]));
  const [unnamed] = [...words].find(([, word]) => word === null) ?? [];
  if (unnamed !== undefined && live.every(({ weight }) => weight === null)) {
    return invalid(
      `Cannot set weights: cluster "${unnamed}" has none, name it or add rest=N to weigh every cluster`,
    );
  }
  return changed(before, assigned(before, words));
}

/** Weighted are all or none: whoever has no weight now gets what a joining cluster would. */
function assigned(
  before: AssignedWeights,
  words: ReadonlyMap<ClusterId, WeightWord | null>,
): AssignedWeights {
  const after = new Map<ClusterId, number | null>();
  for (const [id, weight] of before) {
    const word = words.get(id) ?? weight;
    after.set(id, word === "none" ? null : word);
  }
  const mean = meanWeight(positive(after));
  if (mean === null) return cleared(before);
  for (const [id, weight] of after) if (weight === null) after.set(id, mean);
  return after;
}

function cleared(weights: AssignedWeights): AssignedWeights {
  return new Map([...weights.keys()].map((id): [ClusterId, null] => [id, null]));
}

function changed(before: AssignedWeights, after: AssignedWeights): WeightChange {
  const ratio = weightRatio(positive(after));
  if (ratio === "refused") {
    return invalid("Cannot set weights: the largest is 100 times the smallest or more");
  }
  return {
    kind: "ok",
    weights: after,
    warn: ratio === "warn",
    moves: weightsMoveKeys(before, after),
  };
}

function positive(weights: AssignedWeights): number[] {
  const counted: number[] = [];
  for (const weight of weights.values()) if (weight !== null && weight > 0) counted.push(weight);
  return counted;
}

/** Largest against smallest positive weight: 10 times warns, 100 times is refused. */
export function weightRatio(weights: readonly number[]): "ok" | "warn" | "refused" {
  const counted = weights.filter((weight) => weight > 0).map((weight) => BigInt(weight));
  let [smallest, largest] = [counted[0] ?? 1n, counted[0] ?? 1n];
  for (const weight of counted) {
    if (weight < smallest) smallest = weight;
    if (weight > largest) largest = weight;
  }
  if (largest >= smallest * refuseRatio) return "refused";
  return largest >= smallest * warnRatio ? "warn" : "ok";
}

/**
 * The mean of positive weights, rounded to the nearest multiple of their gcd: 100, 200, 300 → 200;
 * 100, 200, 300, 200, 500 → 300. A half rounds up (1, 2 → 2): a joining cluster is rather filled
 * than starved. `null` for no weights.
 */
export function meanWeight(weights: readonly number[]): number | null {
  const counted = weights.filter((weight) => weight > 0);
  if (counted.length === 0) return null;
  const unit = BigInt(gcd(counted));
  const count = BigInt(counted.length);
  let sum = 0n;
  for (const weight of counted) sum += BigInt(weight);
  return Number(((2n * sum + count * unit) / (2n * count * unit)) * unit);
}

/**
 * The weight of a cluster that is activated: the one asked for, else the positive preference in its
 * record, else the mean of the live weights (of all weights when no live cluster has one). Where no
 * weights are set a preference does not begin them: `null`.
 */
export function activationWeight(
  requested: number | null,
  joining: WeightedCluster,
  clusters: readonly WeightedCluster[],
): number | null {
  if (requested !== null) return requested;
  const others = clusters.filter(({ id, state }) => id !== joining.id && state !== "removed");
  const live = others.filter(({ state }) => state === "live");
  const mean = meanOf(live) ?? (live.length === 0 ? meanOf(others) : null);
  const preference = joining.weight !== null && joining.weight > 0 ? joining.weight : null;
  if (mean === null) return live.length === 0 ? preference : null;
  return preference ?? mean;
}

function meanOf(clusters: readonly WeightedCluster[]): number | null {
  return meanWeight(positive(new Map(clusters.map(({ id, weight }) => [id, weight]))));
}

/** Weights as they are ranked: `null` counts 1, 0 is left out. */
export function effectiveWeights(weights: AssignedWeights): Weights {
  const effective = new Map<ClusterId, number>();
  for (const [id, weight] of weights) if (weight !== 0) effective.set(id, weight ?? 1);
  return effective;
}

/** Whether a change can move a key; proportional weights and equal against none cannot. */
export function weightsMoveKeys(before: AssignedWeights, after: AssignedWeights): boolean {
  return !sameShares(effectiveWeights(before), effectiveWeights(after));
}

export interface Shares {
  /** All shares are equal, or nothing is weighted. */
  readonly uniform: boolean;
  /** Tenths of a percent, rounded half up: 167 is 16.7 %. Shown sums may miss 1000 by rounding. */
  readonly tenths: ReadonlyMap<ClusterId, number>;
}

/** Configured shares of keys. */
export function sharesOf(weights: AssignedWeights): Shares {
  const effective = effectiveWeights(weights);
  let total = 0n;
  for (const weight of effective.values()) total += BigInt(weight);
  const tenths = new Map<ClusterId, number>();
  for (const id of weights.keys()) {
    const weight = BigInt(effective.get(id) ?? 0);
    tenths.set(id, total === 0n ? 0 : Number((weight * 2000n + total) / (2n * total)));
  }
  const uniform = new Set(effective.values()).size < 2 && effective.size === weights.size;
  return { uniform, tenths };
}

/** `16.7%` of 167 tenths. */
export function shareText(tenths: number): string {
  return `${String(Math.floor(tenths / 10))}.${String(tenths % 10)}%`;
}
