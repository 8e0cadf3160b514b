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

/** A memo of at most `maxEntries` results; the least recently used one leaves first. */
export class FieldMemo<Result> implements DecisionMemo<Result> {
  readonly #fields: readonly (readonly string[])[];
  readonly #maxEntries: number;
  readonly #results = new Map<string, Result>();

  /** `fields`: paths below `input`, `["request", "storage_class"]`; `[]` is the whole input. */
  constructor(fields: readonly (readonly string[])[], maxEntries: number) {
    this.#fields = fields;
    this.#maxEntries = maxEntries;
  }

  get size(): number {
    return this.#results.size;
  }

  keyOf(input: unknown): string | null {
    let key = "";
    for (const path of this.#fields) {
      let value = input;
      for (const name of path) {
        if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) {
          value = undefined;
          break;
        }
        value = (value as Readonly<Record<string, unknown>>)[name];
      }
      key += encode(value);
      if (key.length > maxKeyLength) return null;
    }
    return key;
  }

  find(key: string): Result | undefined {
    const result = this.#results.get(key);
    if (result === undefined) return undefined;
    // Only a full memo has to know what was used last.
    if (this.#results.size >= this.#maxEntries) {
      this.#results.delete(key);
      this.#results.set(key, result);
    }
    return result;
  }

  remember(key: string, result: Result): void {
    if (this.#results.size >= this.#maxEntries) {
      const oldest = this.#results.keys().next();
      if (oldest.done !== true) this.#results.delete(oldest.value);
    }
    this.#results.set(key, result);
  }
}
