// Reads a YAML (or JSON, its subset) text into plain values while keeping where each came from, so
// that every fault can name file:line:column. `${VAR}` is expanded in values only, never in keys.

import {
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  type Scalar,
  type YAMLMap,
} from "yaml";
import { expandVariables } from "./values.ts";

/** Segments of a setting's path: `["clusters", 0, "weight"]`. */
export type SettingPath = readonly (string | number)[];

interface Position {
  readonly line: number;
  readonly column: number;
}

/** One thing wrong with the configuration. */
export interface ConfigFault {
  /** File name, `HEADGATE_…` or `--flag`. */
  readonly source: string;
  /** Null when the source is no file. */
  readonly position: Position | null;
  readonly path: SettingPath;
  readonly message: string;
}

/** `headgate.yaml:3:5: listen.adress: Unknown key, nearest is "address"`. */
export function faultText(fault: ConfigFault): string {
  const place =
    fault.position === null
      ? fault.source
      : `${fault.source}:${fault.position.line}:${fault.position.column}`;
  const path = pathText(fault.path);
  return path === "" ? `${place}: ${fault.message}` : `${place}: ${path}: ${fault.message}`;
}

/** `clusters[0].weight`. */
export function pathText(path: SettingPath): string {
  return path
    .map((part) => (typeof part === "number" ? `[${part}]` : `.${part}`))
    .join("")
    .replace(/^\./, "");
}

/** Whether one path stands at, above or below the other. */
export function isRelated(a: SettingPath, b: SettingPath): boolean {
  const [short, long] = a.length <= b.length ? [a, b] : [b, a];
  return short.every((part, index) => part === long[index]);
}

export interface SourceFile {
  readonly value: unknown;
  readonly faults: readonly ConfigFault[];
  /** Where a key (for unknown ones) or a value stands; the nearest known parent otherwise. */
  position(path: SettingPath, part: "key" | "value"): Position;
}

export interface SourceOptions {
  /** As faults show it. */
  readonly name: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Makes a path written in the file absolute; see `isPathKey`. */
  readonly resolvePath: (path: string) => string;
}

/** Whether the scalar under a key is a file name, to be read relative to the file that names it. */
export function isPathKey(key: string | number | undefined): boolean {
  return (
    typeof key === "string" && (key.endsWith("_file") || ["file", "bundle", "path"].includes(key))
  );
}

/** Reads one document. */
export function readSourceFile(text: string, options: SourceOptions): SourceFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, strict: true });
  const faults: ConfigFault[] = [];
  const keys = new Map<string, Position>();
  const values = new Map<string, Position>();

  const positionAt = (offset: number | undefined): Position => {
    const { line, col } = lines.linePos(offset ?? 0);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const report = (path: SettingPath, position: Position, message: string): void => {
    faults.push({ source: options.name, position, path, message });
  };

  for (const error of [...document.errors, ...document.warnings]) {
    const message = error.message.replace(/\s*\n[\s\S]*$/, "").replace(/[.:]$/, "");
    report([], positionAt(error.pos[0]), `Cannot read YAML: ${message}`);
  }

  const scalar = (node: Scalar, path: SettingPath, at: Position) => {
    if (typeof node.value !== "string") return node.value;
    const expanded = expandVariables(node.value, options.env);
    if (expanded.kind === "wrong") {
      report(path, at, expanded.message);
      return node.value;
    }
    const plain = node.type === "PLAIN" && expanded.value !== node.value;
    if (plain) return plainValue(expanded.value);
    return isPathKey(path.at(-1)) && expanded.value !== "" && expanded.value !== "-"
      ? options.resolvePath(expanded.value)
      : expanded.value;
  };

  const visitMap = (node: YAMLMap, path: SettingPath): unknown => {
    const entries: [string, unknown][] = [];
    for (const { key, value } of node.items) {
      const name = isScalar(key) ? String(key.value) : "__proto__";
      const at = positionAt(isScalar(key) ? key.range?.[0] : node.range?.[0]);
      if (name === "__proto__") {
        report(path, at, "Key is not text");
        continue;
      }
      keys.set(pathText([...path, name]), at);
      entries.push([name, visit(value, [...path, name])]);
    }
    return Object.fromEntries(entries);
  };

  const visit = (node: unknown, path: SettingPath): unknown => {
    if (!isNode(node)) return null;
    const at = positionAt(node.range?.[0]);
    values.set(pathText(path), at);
    if (isAlias(node) || path.length > 16) {
      report(path, at, "Aliases and nesting beyond 16 levels are not supported");
      return null;
    }
    if (isMap(node)) return visitMap(node, path);
    if (isSeq(node)) return node.items.map((item, index) => visit(item, [...path, index]));
    return isScalar(node) ? scalar(node, path, at) : null;
  };

  const value = faults.length > 0 ? null : visit(document.contents, []);

  const position = (path: SettingPath, part: "key" | "value"): Position => {
    for (let length = path.length; length >= 0; length -= 1) {
      const text = pathText(path.slice(0, length));
      const found = part === "key" ? (keys.get(text) ?? values.get(text)) : values.get(text);
      const fallback = found ?? keys.get(text);
      if (fallback !== undefined) return fallback;
    }
    return { line: 1, column: 1 };
  };

  return { value, faults, position };
}

/** What an unquoted expanded text means: `weight: ${W}` is a number when W is `3`. */
function plainValue(text: string): string | number | boolean {
  if (/^-?\d{1,15}$/.test(text)) return Number(text);
  if (text === "true" || text === "false") return text === "true";
  return text;
}
