// Loads a configuration out of texts, without a disk.

import { faultText } from "../../proxy/config/source-file.ts";
import { type ConfigInputs, type LoadedConfig, loadConfig } from "../../proxy/config.ts";

/** `files["headgate.yaml"]` is the configuration; other names are what it refers to. */
export function load(
  files: Readonly<Record<string, string>>,
  inputs: Partial<ConfigInputs> = {},
): LoadedConfig {
  return loadConfig({
    nowMs: Date.UTC(2026, 10, 30),
    file: files["headgate.yaml"] === undefined ? null : "headgate.yaml",
    env: {},
    overrides: [],
    hostname: "node-1",
    embedded: false,
    readFile: (path) => {
      const name = path.startsWith(process.cwd()) ? path.slice(process.cwd().length + 1) : path;
      const text = files[name];
      if (text === undefined) throw Object.assign(new Error("no file"), { code: "ENOENT" });
      return text;
    },
    ...inputs,
  });
}

export function faultsOf(loaded: LoadedConfig): readonly string[] {
  return loaded.kind === "faults" ? loaded.faults.map(faultText) : [];
}

export function configOf(loaded: LoadedConfig): Extract<LoadedConfig, { kind: "config" }> {
  if (loaded.kind === "config") return loaded;
  throw new Error(faultsOf(loaded).join("\n"));
}
