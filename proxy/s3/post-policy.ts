// The policy of a form upload: what its signer allows to be sent. A JSON document in base64 with an
// expiration and conditions; every field of the form must be named by a condition, so that a holder
// adds nothing (S3 "Creating a POST policy"). The bucket must be named too, as RGW has it: without, a
// signed form would be good for any bucket. Names compare without case, values with.

import { Buffer, isUtf8 } from "node:buffer";
import { S3Error } from "./errors.ts";
import type { FormField } from "./form-data.ts";

interface Condition {
  readonly kind: "eq" | "starts-with";
  /** Lower-case, without `$`. */
  readonly field: string;
  readonly value: string;
}

export interface PostPolicy {
  readonly expiresAtMs: number;
  readonly conditions: readonly Condition[];
  /** Bytes of the file, both inclusive. */
  readonly minBytes: number;
  readonly maxBytes: number;
}

export type PostPolicyResult =
  | { readonly kind: "policy"; readonly policy: PostPolicy }
  | { readonly kind: "error"; readonly error: S3Error };

/** Reads the `policy` field of a form. */
export function readPostPolicy(base64: string): PostPolicyResult {
  const document = parseDocument(base64);
  if (document === null) return refusal("The policy is not a JSON document in base64");
  const { expiration, conditions } = document;
  const expiresAtMs = typeof expiration === "string" ? parseExpiration(expiration) : null;
  if (expiresAtMs === null) {
    return refusal('"expiration" must be a time such as 2026-11-29T12:00:00.000Z');
  }
  if (!Array.isArray(conditions)) return refusal('"conditions" must be a list');
  const found: Condition[] = [];
  let [minBytes, maxBytes] = [0, Number.MAX_SAFE_INTEGER];
  for (const condition of conditions as readonly unknown[]) {
    const range = lengthRange(condition);
    if (range !== null) {
      if (range === "invalid") {
        return refusal('"content-length-range" needs two numbers of bytes');
      }
      minBytes = Math.max(minBytes, range[0]);
      maxBytes = Math.min(maxBytes, range[1]);
      continue;
    }
    const read = readCondition(condition);
    if (read === null) return refusal("A condition has a form that is not known");
    found.push(...read);
  }
  return { kind: "policy", policy: { expiresAtMs, conditions: found, minBytes, maxBytes } };
}

function parseDocument(base64: string): Readonly<Record<string, unknown>> | null {
  const text = base64.replace(/[\r\n]/g, "");
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return null;
  const bytes = Buffer.from(text, "base64");
  if (!isUtf8(bytes)) return null;
  try {
    const value: unknown = JSON.parse(bytes.toString("utf8"));
    if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
    return value as Readonly<Record<string, unknown>>;
  } catch {
    return null;
  }
}

function parseExpiration(text: string): number | null {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z$/.test(text)) return null;
  const ms = Date.parse(text);
  if (!Number.isFinite(ms)) return null;
  // Parsing rolls over: 30 February becomes 2 March.
  return new Date(ms).toISOString().slice(0, 10) === text.slice(0, 10) ? ms : null;
}

/** The bounds of `["content-length-range", 0, 1024]`; `null` for any other condition. */
function lengthRange(condition: unknown): readonly [number, number] | "invalid" | null {
  if (!Array.isArray(condition)) return null;
  const [name, min, max, ...more] = condition as readonly unknown[];
  if (typeof name !== "string" || name.toLowerCase() !== "content-length-range") return null;
  const [minBytes, maxBytes] = [byteCount(min), byteCount(max)];
  return minBytes === null || maxBytes === null || more.length > 0
    ? "invalid"
    : [minBytes, maxBytes];
}

function byteCount(value: unknown): number | null {
  if (typeof value === "string" && /^\d{1,15}$/.test(value)) return Number(value);
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** `{"acl": "private"}`, `["eq", "$acl", "private"]`, `["starts-with", "$key", "user/"]`. */
function readCondition(condition: unknown): readonly Condition[] | null {
  if (typeof condition !== "object" || condition === null) return null;
  if (!Array.isArray(condition)) {
    const entries = Object.entries(condition);
    const read = entries.map(([name, value]) => conditionOf("eq", name, value));
    return entries.length === 0 || read.includes(null) ? null : read.filter((c) => c !== null);
  }
  const [kind, name, value, ...more] = condition as readonly unknown[];
  if (typeof kind !== "string" || typeof name !== "string" || more.length > 0) return null;
  const lower = kind.toLowerCase();
  if ((lower !== "eq" && lower !== "starts-with") || !name.startsWith("$")) return null;
  const read = conditionOf(lower, name.slice(1), value);
  return read === null ? null : [read];
}

function conditionOf(kind: Condition["kind"], name: string, value: unknown): Condition | null {
  if (typeof value !== "string" || name === "") return null;
  return { kind, field: name.toLowerCase(), value };
}

// ---- what a form may send ----

export interface PolicyQuestion {
  /** By lower-case name. */
  readonly fields: ReadonlyMap<string, FormField>;
  /** As addressed, whatever a field of that name says. */
  readonly bucket: string;
  /** With `${filename}` filled in. */
  readonly key: string;
  readonly nowMs: number;
}

/** Why a policy does not allow a form, the file aside; `null` when it does. */
export function policyRefusal(policy: PostPolicy, question: PolicyQuestion): S3Error | null {
  if (question.nowMs > policy.expiresAtMs) return denied("Policy expired");
  const values = new Map<string, string>();
  for (const [name, { value }] of question.fields) values.set(name, value);
  values.set("bucket", question.bucket);
  values.set("key", question.key);
  for (const condition of policy.conditions) {
    const value = values.get(condition.field) ?? "";
    if (!holds(condition, value)) {
      return denied(`Policy Condition failed: ${describe(condition)}`);
    }
  }
  const named = new Set(policy.conditions.map(({ field }) => field));
  const extra = [...values.keys()].filter((name) => !named.has(name) && !isExempt(name));
  return extra.length === 0 ? null : denied(`Extra input fields: ${extra.join(", ")}`);
}

function holds({ kind, field, value: wanted }: Condition, value: string): boolean {
  if (kind === "eq") return value === wanted;
  // A list of types is allowed only if each of them is.
  if (field !== "content-type") return value.startsWith(wanted);
  return value.split(",").every((type) => type.trimStart().startsWith(wanted));
}

/** Fields that need no condition: they are the proof itself, or only say more of the file's bytes. */
function isExempt(name: string): boolean {
  return exempt.has(name) || name.startsWith("x-ignore-") || name.startsWith("x-amz-checksum-");
}

const exempt: ReadonlySet<string> = new Set([
  "awsaccesskeyid",
  "file",
  "policy",
  "signature",
  "x-amz-sdk-checksum-algorithm",
  "x-amz-signature",
]);

function describe({ kind, field, value }: Condition): string {
  const shown = /customer-key|security-token/.test(field) ? "(not shown)" : value;
  return JSON.stringify([kind, `$${field}`, shown]);
}

function denied(why: string): S3Error {
  return new S3Error("AccessDenied", { message: `Invalid according to Policy: ${why}` });
}

function refusal(why: string): PostPolicyResult {
  const message = `Invalid Policy: ${why}`;
  return { kind: "error", error: new S3Error("InvalidPolicyDocument", { message }) };
}
