// Presigning SDKs move ("hoist") `x-amz-*` fields into the query, which the signature covers. S3 reads them
// there as fields; RGW takes x-amz-meta-* alone and drops tags, ACL, storage class or a lock with 200. So
// they become fields again before anything is decided: policy, placement and every cluster see one thing.

import { Buffer } from "node:buffer";
import { S3Error } from "./errors.ts";
import { isConsumedParameter } from "./forward-headers.ts";
import type { HeaderList, QueryList } from "./headers.ts";
import { fieldValue, trimBlanks } from "./headers.ts";
import { readFields } from "./request-head.ts";

export type RestoredFields =
  | { readonly kind: "fields"; readonly headers: HeaderList; readonly query: QueryList }
  | { readonly kind: "error"; readonly error: S3Error };

/**
 * Fields and query of a presigned request with its hoisted fields back among the fields, under the same
 * limits. What the URL says of its signature, and of a body that did not exist yet, stays in the query.
 */
export function restoreHoisted(headers: HeaderList, query: QueryList): RestoredFields {
  const moved = new Map<string, string>();
  const rest = query.filter(([sent]) => !isHoisted(sent));
  if (rest.length === query.length) return { kind: "fields", headers, query };
  const lines = headers.flat();
  for (const [sent, text] of query) {
    if (!isHoisted(sent)) continue;
    const name = sent.toLowerCase();
    const value = trimBlanks(Buffer.from(text ?? "", "utf8").toString("latin1"));
    if (moved.has(name)) {
      const message = `Query parameter "${name}" must be given once`;
      return { kind: "error", error: new S3Error("InvalidArgument", { message }) };
    }
    moved.set(name, value);
    const given = fieldValue(headers, name);
    if (given === null) lines.push(sent, value);
    else if (trimBlanks(given) !== value) {
      const message = `Header and query parameter "${name}" differ`;
      return { kind: "error", error: new S3Error("InvalidRequest", { message }) };
    }
  }
  const read = readFields(lines);
  return read.kind === "error" ? read : { kind: "fields", headers: read.headers, query: rest };
}

function isHoisted(name: string): boolean {
  const lower = name.toLowerCase();
  return lower.startsWith("x-amz-") && !isConsumedParameter(lower);
}
