// Reads the settings although some cannot be read: those get their default or a stand-in, so that one
// mistyped duration does not hide a missing file. The result serves for finding more faults, never for
// a run.

import { issueFaults } from "./issues.ts";
import { type Settings, settings } from "./schema.ts";
import { listSettings } from "./setting-list.ts";
import { type ConfigFault, isRelated, pathText, type SettingPath } from "./source-file.ts";

/** In place of settings that have no default. An empty file name is an unset one. */
const standIns: Readonly<Record<string, (path: SettingPath) => unknown>> = {
  "clusters[].id": (path) => `unreadable-${path[1]}`,
  "clusters[].endpoints": () => ["http://unreadable.invalid"],
  "auth.credentials[].source": () => "file",
  "auth.credentials[].file": () => "",
};

/** A stand-in can need another one in it: an unreadable cluster needs an id. */
const maxRounds = 4;

export interface ReadSettings {
  /** Null: not even the rest can be read. */
  readonly data: Settings | null;
  /** Faults of form; none: `data` is what was written. */
  readonly faults: readonly ConfigFault[];
}

/** Checks the form of settings. `known`: faults that stand already, whose values are not looked at. */
export function readSettings(
  root: unknown,
  known: readonly ConfigFault[],
  locate: (path: SettingPath, part: "key" | "value") => Pick<ConfigFault, "source" | "position">,
): ReadSettings {
  const value: unknown = structuredClone(root);
  for (const { path } of known) replaceSetting(value, path);
  let faults: readonly ConfigFault[] | null = null;
  for (let round = 0; round < maxRounds; round += 1) {
    const parsed = settings.safeParse(value);
    if (parsed.success) return { data: parsed.data, faults: [...known, ...(faults ?? [])] };
    const found = issueFaults(parsed.error.issues, settings, locate);
    faults ??= found.filter(({ path }) => !known.some((fault) => isRelated(fault.path, path)));
    for (const { path } of found) replaceSetting(value, path);
  }
  return { data: null, faults: [...known, ...(faults ?? [])] };
}

const settingNames: ReadonlySet<string> = new Set(listSettings(settings).map(({ name }) => name));

function nameOf(path: SettingPath): string {
  return pathText(path).replaceAll(/\[\d+\]/g, "[]");
}

/** Takes the setting away that holds the path, or puts what stands in for it. */
function replaceSetting(root: unknown, path: SettingPath): void {
  let length = path.length;
  for (let end = 1; end < path.length; end += 1) {
    // Of a free map one entry goes, of a list the whole.
    if (settingNames.has(nameOf(path.slice(0, end))) && typeof path[end] === "number") length = end;
  }
  const target = path.slice(0, length);
  const last = target.at(-1);
  let node: unknown = root;
  for (const part of target.slice(0, -1)) node = childOf(node, part);
  if (last === undefined || typeof node !== "object" || node === null) return;
  const standIn = standIns[nameOf(target)];
  if (standIn !== undefined) Reflect.set(node, last, standIn(target));
  else if (typeof last === "number") Reflect.set(node, last, {});
  else Reflect.deleteProperty(node, last);
}

function childOf(node: unknown, part: string | number): unknown {
  return typeof node === "object" && node !== null ? Reflect.get(node, part) : undefined;
}
