// Reads what `opa deps` says an entrypoint can read, and makes of it the memo fields and the route
// digest that a bundle's metadata carries (policy.md §4, §6).

import { createHash } from "node:crypto";
import { FaultError } from "../placement/ports.ts";

export interface Dependencies {
  /** Fields of the input, `input.request.key`, sorted; a field's parts are not listed beside it. */
  readonly inputs: readonly string[];
  /** Base data outside what the host supplies, `data.site.limits`. */
  readonly data: readonly string[];
  /** Rules that are reached, `data.headgate.route.decision`. */
  readonly rules: readonly string[];
}

/** Supplied by the host from the placement snapshot, not by the bundle. */
const hostData = ["data.headgate.clusters", "data.headgate.classes"];

/** @throws FaultError policy_load when the text is not what `opa deps --format json` prints. */
export function readDependencies(text: string): Dependencies {
  const document: unknown = JSON.parse(text);
  const base = readPaths(document, "base");
  return {
    inputs: outermost(base.filter((path) => isAt(path, "input"))),
    data: outermost(
      base.filter((path) => isAt(path, "data") && !hostData.some((root) => isAt(path, root))),
    ),
    rules: readPaths(document, "virtual").toSorted(),
  };
}

function readPaths(document: unknown, section: "base" | "virtual"): readonly string[] {
  const lists = isFields(document) ? (document[section] ?? []) : null;
  if (!Array.isArray(lists)) throw unreadable();
  return (lists as readonly unknown[]).map(readPath);
}

/** A ref of constants; it ends before the first part that is only known when it runs. */
function readPath(terms: unknown): string {
  if (!Array.isArray(terms)) throw unreadable();
  const names: string[] = [];
  for (const [index, term] of (terms as readonly unknown[]).entries()) {
    if (!isFields(term) || typeof term["value"] !== "string") break;
    if (term["type"] !== (index === 0 ? "var" : "string")) break;
    // A name with a dot cannot be told from two names: its parent stands for it.
    if (term["value"].includes(".") || term["value"] === "") break;
    names.push(term["value"]);
  }
  if (names.length === 0) throw unreadable();
  return names.join(".");
}

function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function unreadable(): FaultError {
  return new FaultError("policy_load", 'Cannot read the output of "opa deps"');
}

function isAt(path: string, root: string): boolean {
  return path === root || path.startsWith(`${root}.`);
}

function outermost(paths: readonly string[]): readonly string[] {
  const sorted = [...new Set(paths)].toSorted();
  return sorted.filter((path) => !sorted.some((other) => other !== path && isAt(path, other)));
}

/**
 * Digest of everything in a bundle that the route entrypoint can reach: the sources of the packages
 * whose rules it uses, and the values of the data it reads. `sha256:` + hex.
 */
export function routeDigest(
  route: Dependencies,
  sources: ReadonlyMap<string, string>,
  data: unknown,
): string {
  const hash = createHash("sha256");
  for (const [path, source] of [...sources].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const name = /^package\s+(\S+)/m.exec(source)?.[1];
    const root = `data.${name ?? ""}`;
    if (name !== undefined && !route.rules.some((rule) => isAt(rule, root))) continue;
    hash.update(JSON.stringify([path, source]));
  }
  for (const path of route.data) hash.update(JSON.stringify([path, valueAt(data, path) ?? null]));
  return `sha256:${hash.digest("hex")}`;
}

function valueAt(data: unknown, path: string): unknown {
  let value = data;
  for (const name of path.split(".").slice(1)) {
    if (!isFields(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}

/** What the canonical input has (placement.md §1); the rest can make a write divergent. */
const canonicalFields = [
  "input.version",
  "input.bucket",
  "input.request.operation",
  "input.request.tenant",
  "input.request.bucket",
  "input.request.key",
];

/** Fields outside the canonical input, for authors to see what can make a write divergent. */
export function beyondCanonical(route: Dependencies): readonly string[] {
  return route.inputs.filter((path) => !canonicalFields.some((field) => isAt(path, field)));
}
