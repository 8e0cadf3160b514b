// The document that policies see as `data`: clusters, storage classes, and what operators put under
// `data/…` in the state store, on top of the bundle's own data.json. Never health: it would give
// members different owners (policy.md §3).

import type { PlacementSnapshot } from "../placement/snapshot.ts";
import { isJsonObject, type JsonObject } from "./bundle.ts";

type Tree = Record<string, unknown>;

/** The parts of a snapshot that policy data is made of. */
export type DataSource = Pick<PlacementSnapshot, "clusters" | "classes" | "data">;

/** `{headgate: {clusters: {a: {state: "live", weight: 1, …}}, classes: {GLACIER: "a"}}, …}`. */
export function policyData(snapshot: DataSource): JsonObject {
  const root: Tree = {};
  // Shorter paths first, so that `data/site` does not replace `data/site/limits`.
  const paths = [...snapshot.data.keys()].toSorted();
  for (const path of paths) plant(root, path.split("/"), snapshot.data.get(path));
  const clusters: Tree = {};
  for (const [id, { value }] of snapshot.clusters) {
    clusters[id] = {
      state: value.state,
      weight: value.weight,
      kind: value.profile.startsWith("rgw") ? "rgw" : "s3",
      region: value.region,
      labels: value.labels,
    };
  }
  const classes: Tree = {};
  for (const [storageClass, { value }] of snapshot.classes) classes[storageClass] = value;
  const headgate = isJsonObject(root["headgate"]) ? root["headgate"] : {};
  root["headgate"] = { ...headgate, clusters, classes };
  return root;
}

/** `over` on top of `base`: objects are merged, everything else is replaced. */
export function mergeData(base: JsonObject, over: JsonObject): JsonObject {
  const merged: Tree = { ...base };
  for (const [name, value] of Object.entries(over)) {
    const below = Object.hasOwn(base, name) ? base[name] : undefined;
    define(
      merged,
      name,
      isJsonObject(below) && isJsonObject(value) ? mergeData(below, value) : value,
    );
  }
  return merged;
}

function plant(root: Tree, path: readonly string[], value: unknown): void {
  let node = root;
  for (const name of path.slice(0, -1)) {
    const below = Object.hasOwn(node, name) ? node[name] : undefined;
    const next: Tree = isJsonObject(below) ? { ...below } : {};
    define(node, name, next);
    node = next;
  }
  define(node, path.at(-1) ?? "", value);
}

/** An own property whatever its name, `__proto__` included. */
function define(target: Tree, name: string, value: unknown): void {
  const property = { value, enumerable: true, writable: true, configurable: true };
  Object.defineProperty(target, name, property);
}
