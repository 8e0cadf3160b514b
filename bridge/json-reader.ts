// Readers of untrusted JSON, for etcd values and files: each takes an `unknown` and a name for the
// message, and gives the type or throws a FaultError. The only place of the bridge with casts.

import { FaultError } from "../proxy/placement/ports.ts";
import type { Revision } from "../proxy/placement/records.ts";

/** A value has not the shape it must have. Caught by the reader's caller, never by a request. */
export function shapeFault(message: string, cause?: unknown): FaultError {
  return new FaultError("state_unavailable", message, cause);
}

export type JsonObject = Readonly<Record<string, unknown>>;

function shape(name: string, value: unknown, wanted: string): FaultError {
  const is = value === null ? "null" : Array.isArray(value) ? "an array" : typeof value;
  return shapeFault(`"${name}" is ${is}, needs ${wanted}`);
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw shapeFault("text is not JSON", error);
  }
}

export function asObject(value: unknown, name: string): JsonObject {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw shape(name, value, "an object");
  }
  return value as JsonObject;
}

export function asArray(value: unknown, name: string): readonly unknown[] {
  if (!Array.isArray(value)) throw shape(name, value, "an array");
  return value as readonly unknown[];
}

export function asString(value: unknown, name: string): string {
  if (typeof value !== "string") throw shape(name, value, "a string");
  return value;
}

export function asStringOrNull(value: unknown, name: string): string | null {
  return value === null ? null : asString(value, name);
}

export function asBoolean(value: unknown, name: string): boolean {
  if (typeof value !== "boolean") throw shape(name, value, "a boolean");
  return value;
}

/** A whole number within bounds, both inclusive. */
export function asInteger(value: unknown, name: string, bounds: readonly [number, number]): number {
  if (typeof value !== "number" || !Number.isInteger(value)) {
    throw shape(name, value, "an integer");
  }
  if (value < bounds[0] || value > bounds[1]) {
    throw shapeFault(`"${name}" is ${value}, needs ${bounds[0]} to ${bounds[1]}`);
  }
  return value;
}

/** Revisions are written as decimal strings: they go beyond 2^53. */
export function asRevision(value: unknown, name: string): Revision {
  const text = asString(value, name);
  if (!/^\d{1,19}$/.test(text)) throw shapeFault(`"${name}" is not a revision`);
  return BigInt(text);
}

export function asOneOf<T extends string>(value: unknown, name: string, allowed: readonly T[]): T {
  const found = allowed.find((one) => one === value);
  if (found === undefined) {
    throw shapeFault(`"${name}" is ${JSON.stringify(value)}, needs ${allowed.join(", ")}`);
  }
  return found;
}

/** An absolute http or https URL: anything else would fail wherever it is used. */
export function asUrl(value: unknown, name: string): string {
  const text = asString(value, name);
  if (URL.canParse(text) && /^https?:/.test(text)) return text;
  throw shapeFault(`"${name}" is no URL, needs http://host:port`);
}
