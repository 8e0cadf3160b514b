// Walks the schema of schema.ts: which scalar settings there are, what their environment variables
// are called, which keys are valid at a path. Nothing here knows a setting by name.

import { z } from "zod";
import type { SettingPath } from "./source-file.ts";

/** One scalar setting. */
export interface SettingFacts {
  /** `clusters[].weight`, `upstream.connect_timeout`. */
  readonly name: string;
  readonly path: readonly string[];
  /** Null inside lists and free maps, which have no environment name. */
  readonly env: string | null;
  /** As an operator would write it; null: unset. */
  readonly defaultText: string | null;
  readonly description: string;
  readonly schema: z.core.$ZodType;
}

/** The schema below defaults, optionals and transforms. */
function innerSchema(schema: z.core.$ZodType): z.core.$ZodType {
  if (
    schema instanceof z.ZodPrefault ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodOptional
  ) {
    return innerSchema(schema.def.innerType);
  }
  return schema instanceof z.ZodPipe ? innerSchema(schema.def.in) : schema;
}

function defaultOf(schema: z.core.$ZodType): unknown {
  return schema instanceof z.ZodPrefault ? schema.def.defaultValue : undefined;
}

/** Environment name of a path: `upstream.connect_timeout` → `HEADGATE_UPSTREAM_CONNECT_TIMEOUT`. */
function envName(path: readonly string[]): string {
  return `HEADGATE_${path.join("_").toUpperCase()}`;
}

/** Every scalar setting, in the order of the schema. */
export function listSettings(root: z.core.$ZodType): readonly SettingFacts[] {
  const list: SettingFacts[] = [];
  const visit = (schema: z.core.$ZodType, path: readonly string[], inList: boolean): void => {
    const inner = innerSchema(schema);
    if (inner instanceof z.ZodObject) {
      for (const [key, child] of Object.entries(inner.shape)) visit(child, [...path, key], inList);
      return;
    }
    const element = inner instanceof z.ZodArray ? innerSchema(inner.element) : null;
    if (inner instanceof z.ZodArray && element instanceof z.ZodObject) {
      visit(inner.element, [...path.slice(0, -1), `${path.at(-1)}[]`], true);
      return;
    }
    const fallback = defaultOf(schema);
    list.push({
      name: path.join("."),
      path,
      env: inList || inner instanceof z.ZodRecord ? null : envName(path),
      defaultText: fallback === undefined ? null : defaultText(fallback),
      description: (schema instanceof z.ZodType ? schema.description : undefined) ?? "",
      schema,
    });
  };
  visit(root, [], false);
  return list;
}

function defaultText(fallback: unknown): string {
  return typeof fallback === "string" ? fallback : JSON.stringify(fallback);
}

/** The keys that are valid at a path; empty where any key is, or none. */
export function validKeys(root: z.core.$ZodType, path: SettingPath): readonly string[] {
  let schema = innerSchema(root);
  for (const part of path) {
    if (schema instanceof z.ZodObject) {
      const next: z.core.$ZodType | undefined = schema.shape[String(part)];
      if (next === undefined) return [];
      schema = innerSchema(next);
    } else if (schema instanceof z.ZodArray) {
      schema = innerSchema(schema.element);
    } else {
      return [];
    }
  }
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
}

/** Gives an environment variable's text the type its setting wants; a wrong one stays text. */
export function coerceText(schema: z.core.$ZodType, text: string): unknown {
  const inner = innerSchema(schema);
  if (inner instanceof z.ZodNumber || inner instanceof z.ZodLiteral) {
    return /^-?\d{1,15}$/.test(text) ? Number(text) : text;
  }
  if (inner instanceof z.ZodBoolean) {
    return text === "true" ? true : text === "false" ? false : text;
  }
  if (inner instanceof z.ZodArray) {
    return text
      .split(",")
      .map((part) => part.trim())
      .filter((part) => part !== "");
  }
  return text;
}
