// The effective configuration for `headgate config show`: every scalar with the layer that won.
// Secrets appear as fingerprints only.

import { fingerprint, isSecretKey } from "./checks.ts";
import { type Settings, settings } from "./schema.ts";
import { listSettings } from "./setting-list.ts";
import { pathText, type SettingPath } from "./source-file.ts";

export type Origin = "default" | "file" | "env" | "flag";

export interface ShownSetting {
  /** `clusters[0].weight`. */
  readonly name: string;
  readonly path: SettingPath;
  /** As written, or the default as it would be written. */
  readonly value: unknown;
  readonly origin: Origin;
  /** File name, variable or flag; null for a default. */
  readonly source: string | null;
}

function childrenOf(node: unknown): ReadonlyMap<string, unknown> {
  return new Map(typeof node === "object" && node !== null ? Object.entries(node) : []);
}

/** Walks the settings after zod (`data`) beside what was written. */
export function showSettings(
  data: Settings,
  written: unknown,
  originOf: (path: SettingPath) => { readonly origin: Origin; readonly source: string | null },
): readonly ShownSetting[] {
  const defaults = new Map(listSettings(settings).map((s) => [s.name, s.defaultText]));
  const shown: ShownSetting[] = [];

  const leaf = (node: unknown, raw: unknown, path: SettingPath, fallback: string | null): void => {
    const plain = raw ?? fallback ?? node;
    const secret = isSecretKey(path.at(-1)) && typeof plain === "string";
    const value = secret ? `sha256:${fingerprint(plain)}` : plain;
    const origin =
      raw === undefined ? ({ origin: "default", source: null } as const) : originOf(path);
    shown.push({ name: pathText(path), path, value, ...origin });
  };

  const visit = (node: unknown, raw: unknown, path: SettingPath): void => {
    const fallback = defaults.get(pathText(path).replaceAll(/\[\d+\]/g, "[]"));
    if (fallback !== undefined || typeof node !== "object" || node === null) {
      leaf(node, raw, path, fallback ?? null);
      return;
    }
    const list = Array.isArray(node);
    const written = childrenOf(raw);
    for (const [key, child] of childrenOf(node)) {
      visit(child, written.get(key), [...path, list ? Number(key) : key]);
    }
  };

  visit(data, written, []);
  return shown;
}
