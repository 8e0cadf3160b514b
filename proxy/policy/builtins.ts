// The builtins that the host gives to policies, beside those compiled into the WASM
// (policies/capabilities.json lists both). Each is a function of its arguments and of the request
// that is being decided; on the canonical input time and chance are undefined. Never here: network,
// environment, and regular expressions outside WASM (JavaScript's can be made to run for hours).

import { createHash, createHmac } from "node:crypto";
import { rank } from "../placement/hrw.ts";
import { type ClusterId, parseClusterId } from "../s3/names.ts";
import type { EvaluationContext } from "./ports.ts";
import { clock, parseRfc3339, weekday } from "./times.ts";

/** Gives `undefined` where OPA would report an error: the expression is then undefined. */
type Builtin = (context: EvaluationContext | null, ...values: readonly unknown[]) => unknown;

/** Their answer differs from request to request, so that decisions using them are never remembered. */
const nonDeterministic: ReadonlySet<string> = new Set(["time.now_ns", "rand.intn"]);

/** Given by the SDK itself, which prefers its own. */
const sdkBuiltins: ReadonlySet<string> = new Set(["sprintf"]);

const registry: Readonly<Record<string, Builtin>> = {
  "time.now_ns": (context) => (context === null ? undefined : context.nowMs * 1_000_000),
  "time.clock": (_, moment) => clock(moment),
  "time.weekday": (_, moment) => weekday(moment),
  "time.parse_rfc3339_ns": (_, text) => parseRfc3339(text),
  "crypto.sha256": (_, text) => digest("sha256", text),
  "crypto.md5": (_, text) => digest("md5", text),
  "crypto.hmac.sha256": (_, text, secret) =>
    typeof text === "string" && typeof secret === "string"
      ? createHmac("sha256", secret).update(text).digest("hex")
      : undefined,
  "hex.encode": (_, text) =>
    typeof text === "string" ? Buffer.from(text).toString("hex") : undefined,
  "strings.any_prefix_match": (_, search, base) =>
    anyPair(search, base, (text, part) => text.startsWith(part)),
  "strings.any_suffix_match": (_, search, base) =>
    anyPair(search, base, (text, part) => text.endsWith(part)),
  "urlquery.decode": (_, text) => decodeQuery(text),
  "net.cidr_is_valid": (_, text) => (typeof text === "string" ? isCidr(text) : undefined),
  "semver.compare": (_, left, right) => compareVersions(left, right),
  "units.parse_bytes": (_, text) => parseBytes(text),
  "rand.intn": (context, name, limit) => chance(context, name, limit),
  "headgate.rank": (_, text, weights) => rankClusters(text, weights),
};

/** Names that a module may ask the host for. */
export function hostBuiltins(): readonly string[] {
  return [...Object.keys(registry), ...sdkBuiltins];
}

/** Whether a module that asks for these may be remembered. */
export function isDeterministic(names: Iterable<string>): boolean {
  for (const name of names) if (nonDeterministic.has(name)) return false;
  return true;
}

/**
 * The registry as the SDK calls it. `context` is read at each call: it is that of the request that
 * is being decided. A builtin that throws is undefined, as in OPA; it does not end the evaluation.
 */
export function bindBuiltins(
  context: () => EvaluationContext | null,
): Readonly<Record<string, (...values: never[]) => unknown>> {
  const bound: Record<string, (...values: readonly unknown[]) => unknown> = {};
  for (const [name, builtin] of Object.entries(registry)) {
    bound[name] = (...values) => {
      try {
        return builtin(context(), ...values);
      } catch {
        return undefined;
      }
    };
  }
  return bound;
}

function digest(algorithm: "sha256" | "md5", text: unknown): string | undefined {
  return typeof text === "string" ? createHash(algorithm).update(text).digest("hex") : undefined;
}

function anyPair(
  search: unknown,
  base: unknown,
  matches: (text: string, part: string) => boolean,
): boolean | undefined {
  const texts = textList(search);
  const parts = textList(base);
  if (texts === null || parts === null) return undefined;
  return texts.some((text) => parts.some((part) => matches(text, part)));
}

function textList(value: unknown): readonly string[] | null {
  if (typeof value === "string") return [value];
  if (!Array.isArray(value)) return null;
  const items: readonly unknown[] = value;
  const texts = items.filter((item) => typeof item === "string");
  return texts.length === items.length ? texts : null;
}

function decodeQuery(text: unknown): string | undefined {
  if (typeof text !== "string" || /%(?![0-9a-f]{2})/i.test(text)) return undefined;
  return decodeURIComponent(text.replaceAll("+", " "));
}

const ipv4 = /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/;

function isCidr(text: string): boolean {
  const [address = "", length = "", ...rest] = text.split("/");
  if (rest.length > 0 || !/^(?:0|[1-9]\d{0,2})$/.test(length)) return false;
  if (ipv4.test(address)) return Number(length) <= 32;
  const isIpv6 = /^[0-9a-f:.]+$/i.test(address) && URL.canParse(`http://[${address}]/`);
  return isIpv6 && Number(length) <= 128;
}

// semver.org 2.0.0, item 11
const version = /^(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$/;

function compareVersions(left: unknown, right: unknown): number | undefined {
  if (typeof left !== "string" || typeof right !== "string") return undefined;
  const [a, b] = [version.exec(left), version.exec(right)];
  if (a === null || b === null) return undefined;
  for (const index of [1, 2, 3]) {
    const order = compareNumbers(a[index] ?? "0", b[index] ?? "0");
    if (order !== 0) return order;
  }
  return comparePrereleases(a[4], b[4]);
}

function compareNumbers(left: string, right: string): number {
  const [a, b] = [BigInt(left), BigInt(right)];
  return a === b ? 0 : a < b ? -1 : 1;
}

/** A version without prerelease is the later one. */
function comparePrereleases(left: string | undefined, right: string | undefined): number {
  if (left === undefined || right === undefined) {
    return Number(left === undefined) - Number(right === undefined);
  }
  const [a, b] = [left.split("."), right.split(".")];
  for (let index = 0; index < Math.max(a.length, b.length); index++) {
    const [x, y] = [a[index], b[index]];
    if (x === undefined || y === undefined) return x === undefined ? -1 : 1;
    const [numericX, numericY] = [/^\d+$/.test(x), /^\d+$/.test(y)];
    if (numericX !== numericY) return numericX ? -1 : 1;
    const order = numericX ? compareNumbers(x, y) : x === y ? 0 : x < y ? -1 : 1;
    if (order !== 0) return order;
  }
  return 0;
}

const byteUnits: ReadonlyMap<string, number> = new Map([
  ["", 1],
  ["k", 1e3],
  ["m", 1e6],
  ["g", 1e9],
  ["t", 1e12],
  ["p", 1e15],
  ["ki", 2 ** 10],
  ["mi", 2 ** 20],
  ["gi", 2 ** 30],
  ["ti", 2 ** 40],
  ["pi", 2 ** 50],
]);

/** `10KiB` → 10240, `1.5MB` → 1500000; fractions of a byte are cut off, as in OPA. */
function parseBytes(text: unknown): number | undefined {
  if (typeof text !== "string") return undefined;
  const parts = /^"?(\d+(?:\.\d+)?)([kmgtp]?i?)b?"?$/.exec(text.toLowerCase());
  const unit = byteUnits.get(parts?.[2] ?? "-");
  return unit === undefined ? undefined : Math.trunc(Number(parts?.[1]) * unit);
}

/** A number below `limit` that is the same for one name all through one request. */
function chance(
  context: EvaluationContext | null,
  name: unknown,
  limit: unknown,
): number | undefined {
  if (context === null || typeof name !== "string") return undefined;
  if (typeof limit !== "number" || !Number.isSafeInteger(limit)) return undefined;
  if (limit === 0) return 0;
  const seed = createHash("sha256")
    .update(JSON.stringify([context.requestId, name]))
    .digest();
  return Number(seed.readBigUInt64BE() % BigInt(Math.abs(limit)));
}

/** The host's own ranking for policies that want a say: `headgate.rank("logs/a", {"a": 1})`. */
function rankClusters(text: unknown, weights: unknown): readonly ClusterId[] | undefined {
  if (typeof text !== "string" || typeof weights !== "object" || weights === null) return undefined;
  const wheel = new Map<ClusterId, number>();
  for (const [name, weight] of Object.entries(weights)) {
    const id = parseClusterId(name);
    if (id === null || typeof weight !== "number") return undefined;
    if (!Number.isInteger(weight) || weight < 0 || weight > 100) return undefined;
    wheel.set(id, weight);
  }
  return rank(wheel, text);
}
