// Builds the configuration of a run: defaults < file < environment < flags, all faults at once, each
// with where it stands. Reads nothing by itself: files, environment and host name are handed in.

import { dirname, resolve } from "node:path";
import { Checks } from "./config/checks.ts";
import { readSettings } from "./config/readable.ts";
import { type Config, resolveConfig } from "./config/resolve.ts";
import { settings } from "./config/schema.ts";
import { coerceText, listSettings, type SettingFacts } from "./config/setting-list.ts";
import { type Origin, type ShownSetting, showSettings } from "./config/shown.ts";
import {
  type ConfigFault,
  readSourceFile,
  type SettingPath,
  type SourceFile,
} from "./config/source-file.ts";
import { nearestName } from "./config/values.ts";

export type { Config } from "./config/resolve.ts";

/** A setting given on the command line. */
export interface Override {
  /** `--listen`. */
  readonly flag: string;
  readonly path: readonly string[];
  readonly value: unknown;
  /** Append to the list at `path` rather than replace. */
  readonly append?: boolean;
}

export interface ConfigInputs {
  /** Null: no file. */
  readonly file: string | null;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly overrides: readonly Override[];
  readonly hostname: string;
  /** For what expires. */
  readonly nowMs: number;
  readonly embedded: boolean;
  /** UTF-8 text of a file. @throws as node:fs does. */
  readonly readFile: (path: string) => string;
}

export type LoadedConfig =
  | {
      readonly kind: "config";
      readonly config: Config;
      readonly warnings: readonly ConfigFault[];
      /** Every set or defaulted scalar with its origin; secrets are fingerprints. */
      readonly shown: readonly ShownSetting[];
      readonly bundle: NamedBundle | null;
    }
  | {
      readonly kind: "faults";
      readonly faults: readonly ConfigFault[];
      readonly warnings: readonly ConfigFault[];
      readonly bundle: NamedBundle | null;
    };

/** The policy bundle that the configuration names, and where it does. */
export interface NamedBundle extends Omit<ConfigFault, "message"> {
  /** Path of a file or directory. */
  readonly file: string;
}

/** Variables that commands read and that are no settings. */
const commandVariables = new Set(["HEADGATE_CONFIG", "HEADGATE_ADMIN_URL", "HEADGATE_OPA"]);

interface Layer {
  readonly path: SettingPath;
  readonly source: string;
  readonly origin: Origin;
}

/** Reads, merges and checks the configuration. */
export function loadConfig(inputs: ConfigInputs): LoadedConfig {
  const file = openFile(inputs);
  if (file.kind === "faults") {
    return { kind: "faults", faults: file.faults, warnings: [], bundle: null };
  }
  const layers: Layer[] = [];
  const envChecks: ConfigFault[] = [];
  const root = file.value;
  applyEnv(root, { inputs, layers, warnings: envChecks });
  for (const override of inputs.overrides) {
    const path = put(root, override.path, override.value, override.append ?? false);
    layers.push({ path, source: override.flag, origin: "flag" });
  }

  const locate = (
    path: SettingPath,
    part: "key" | "value" = "value",
  ): Pick<ConfigFault, "source" | "position"> => {
    const layer = layerOf(layers, path);
    if (layer !== null) return { source: layer.source, position: null };
    return file.source === null
      ? { source: "configuration", position: null }
      : { source: file.name, position: file.source.position(path, part) };
  };

  const { data, faults } = readSettings(root, knownFaults(file, layers), locate);
  if (data === null) return { kind: "faults", faults, warnings: envChecks, bundle: null };
  const unreadable = faults.map(({ path }) => path);
  const checks = new Checks((path) => locate(path), inputs.readFile, unreadable);
  const config = resolveConfig(data, checks, {
    ...inputs,
    resolveBeside: (name, path) => resolve(dirname(name), path),
  });
  const warnings = [...envChecks, ...checks.warnings];
  const bundlePath = ["policy", "bundle"];
  const { bundlePath: bundleFile } = config.policy;
  const bundle =
    bundleFile === null ? null : { ...locate(bundlePath), path: bundlePath, file: bundleFile };
  const all = [...faults, ...checks.faults];
  if (all.length > 0) return { kind: "faults", faults: all, warnings, bundle };
  const shown = showSettings(data, root, (path) => {
    const layer = layerOf(layers, path);
    if (layer !== null) return { origin: layer.origin, source: layer.source };
    return { origin: "file", source: file.name };
  });
  return { kind: "config", config, warnings, shown, bundle };
}

/** Faults of the file's values, but for those that a variable or a flag replaces. */
function knownFaults(
  file: Extract<OpenedFile, { readonly kind: "opened" }>,
  layers: readonly Layer[],
): readonly ConfigFault[] {
  const faults = file.source?.faults ?? [];
  return faults.filter(({ path }) => layerOf(layers, path) === null);
}

type OpenedFile =
  | {
      readonly kind: "opened";
      readonly name: string;
      readonly source: SourceFile | null;
      readonly value: Record<string, unknown>;
    }
  | { readonly kind: "faults"; readonly faults: readonly ConfigFault[] };

function openFile(inputs: ConfigInputs): OpenedFile {
  const name = inputs.file;
  if (name === null) return { kind: "opened", name: "", source: null, value: {} };
  const start = { source: name, position: null, path: [] };
  const checks = new Checks(() => start, inputs.readFile);
  const text = checks.read(name, []);
  if (text === null) return { kind: "faults", faults: checks.faults };
  const source = readSourceFile(text, {
    name,
    env: inputs.env,
    resolvePath: (path) => resolve(dirname(name), path),
  });
  // What is no YAML has no value; a reference that cannot be expanded is one fault among others.
  if (source.faults.some(({ path }) => path.length === 0)) {
    return { kind: "faults", faults: source.faults };
  }
  const value = source.value ?? {};
  if (typeof value !== "object" || Array.isArray(value)) {
    const fault = { source: name, position: source.position([], "value"), path: [] };
    return { kind: "faults", faults: [{ ...fault, message: "Expected a map of settings" }] };
  }
  return { kind: "opened", name, source, value: { ...value } };
}

function applyEnv(
  root: Record<string, unknown>,
  into: {
    readonly inputs: ConfigInputs;
    readonly layers: Layer[];
    readonly warnings: ConfigFault[];
  },
): void {
  const byEnv = new Map<string, SettingFacts>();
  for (const setting of listSettings(settings)) {
    if (setting.env !== null) byEnv.set(setting.env, setting);
  }
  for (const [name, text] of Object.entries(into.inputs.env)) {
    if (text === undefined || !name.startsWith("HEADGATE_")) continue;
    const setting = byEnv.get(name);
    if (setting !== undefined) {
      put(root, setting.path, coerceText(setting.schema, text), false);
      into.layers.push({ path: setting.path, source: name, origin: "env" });
      continue;
    }
    // Kubernetes adds HEADGATE_PORT and the like for a Service of that name: no fault, only a hint.
    const nearest = commandVariables.has(name) ? null : nearestName(name, [...byEnv.keys()], 2);
    if (nearest !== null) {
      const message = `Environment variable is no setting, nearest is "${nearest}"`;
      into.warnings.push({ source: name, position: null, path: [], message });
    }
  }
}

/** Sets a value in a tree of plain objects, copying what it changes; returns where it landed. */
function put(
  root: Record<string, unknown>,
  path: readonly string[],
  value: unknown,
  append: boolean,
): SettingPath {
  let node = root;
  for (const key of path.slice(0, -1)) {
    const child = node[key];
    const copy: Record<string, unknown> =
      typeof child === "object" && child !== null && !Array.isArray(child) ? { ...child } : {};
    node[key] = copy;
    node = copy;
  }
  const last = path.at(-1) ?? "";
  const old = node[last];
  if (!append) {
    node[last] = value;
    return path;
  }
  const list: readonly unknown[] = Array.isArray(old) ? old : [];
  node[last] = [...list, value];
  return [...path, list.length];
}

/** The last layer that set this path or something above it. */
function layerOf(layers: readonly Layer[], path: SettingPath): Layer | null {
  return (
    layers.findLast((layer) => layer.path.every((part, index) => path[index] === part)) ?? null
  );
}
