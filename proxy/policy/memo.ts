// Remembers results of one entrypoint of one engine, by exactly the input fields that the entrypoint
// can read (policy.md §4; the fields come from the bundle's metadata). Wrong keys would hand one
// caller another one's answer: every field is written with its type and length, so that no two
// different inputs share a key.

import type { DecisionMemo } from "./ports.ts";

/** Longer keys are not kept: a memo of long keys would be memory without hits. */
const maxKeyLength = 4096;

/** JSON of the objects that come again and again (grants, placements), while they live. */
const texts = new WeakMap<object, string>();

function textOf(value: object): string {
  const known = texts.get(value);
  if (known !== undefined) return known;
  const text = JSON.stringify(value);
  texts.set(value, text);
  return text;
}

function encode(value: unknown): string {
  if (typeof value === "string") return `s${value.length}:${value}`;
  if (typeof value === "number") return `d${value};`;
  if (typeof value === "boolean") return value ? "t" : "f";
  if (value === null) return "n";
  if (typeof value !== "object") return "u";
  const text = textOf(value);
  return `o${text.length}:${text}`;
}

/**
 * A memo of at most `maxEntries` results. It keeps two generations: when the young one is full the
 * old one is dropped, so what was asked lately stays and nothing is ever searched for the oldest
 * entry (a Map finds its first key slowly after many deletions).
 */
export class FieldMemo<Result> implements DecisionMemo<Result> {
  readonly #fields: readonly (readonly string[])[];
  readonly #maxYoung: number;
  #young = new Map<string, Result>();
  #old: ReadonlyMap<string, Result> = new Map();

  /** `fields`: paths below `input`, `["request", "storage_class"]`; `[]` is the whole input. */
  constructor(fields: readonly (readonly string[])[], maxEntries: number) {
    this.#fields = fields;
    this.#maxYoung = Math.max(1, Math.floor(maxEntries / 2));
  }

  keyOf(input: unknown): string | null {
    let key = "";
    for (const path of this.#fields) {
      key += encode(valueAt(input, path));
      if (key.length > maxKeyLength) return null;
    }
    return key;
  }

  find(key: string): Result | undefined {
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const old = this.#old.get(key);
    if (old !== undefined) this.remember(key, old);
    return old;
  }

  remember(key: string, result: Result): void {
    if (this.#young.size >= this.#maxYoung) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, result);
  }
}

function valueAt(input: unknown, path: readonly string[]): unknown {
  let value = input;
  for (const name of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name))
      return undefined;
    value = (value as Readonly<Record<string, unknown>>)[name];
  }
  return value;
}
