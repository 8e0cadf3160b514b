// Entity tags in If-Match, If-None-Match and If-Range: one, several, weak ones and `*` (RFC 9110 §8.8.3,
// §13.1). S3 clients also send tags without quotes, which are read as if they had them. A value that
// is neither is `null`: it is for the caller to say what a condition that cannot be read means.

import { trimBlanks } from "./headers.ts";

export interface EntityTag {
  readonly weak: boolean;
  /** Without quotes, `d41d8cd98f00b204e9800998ecf8427e-2`. */
  readonly opaque: string;
}

export type TagCondition =
  /** `*`: any present object. */
  | { readonly kind: "any" }
  /** One tag or more. */
  | { readonly kind: "tags"; readonly tags: readonly EntityTag[] };

/** One member of a list, quoted with its `W/`, or bare up to the next comma. No two parts of it overlap. */
const member = /[ \t]*(?:(W\/)?"([^"]*)"[ \t]*|([^", \t][^",]*))(?:,|$)/y;

/** Reads the value of If-Match or If-None-Match; `null` when it is empty or malformed. */
export function readTagCondition(value: string): TagCondition | null {
  if (value.trim() === "*") return { kind: "any" };
  const tags: EntityTag[] = [];
  let at = 0;
  while (at < value.length) {
    member.lastIndex = at;
    const found = member.exec(value);
    if (found === null) return null;
    const [whole, weak, quoted, text] = found;
    const bare = text === undefined ? undefined : trimBlanks(text);
    if (bare === "*" || bare?.startsWith("W/") === true) return null;
    tags.push({ weak: weak !== undefined, opaque: quoted ?? bare ?? "" });
    at += whole.length;
  }
  return tags.length === 0 ? null : { kind: "tags", tags };
}

/** Whether an object's ETag is among them, weak ones never (RFC 9110 §8.8.3.2): for If-Match. */
export function matchesStrongly(condition: TagCondition, etag: string): boolean {
  const current = readEntityTag(etag);
  if (condition.kind === "any") return true;
  return (
    current?.weak === false &&
    condition.tags.some(({ weak, opaque }) => !weak && opaque === current.opaque)
  );
}

/** Whether an object's ETag is among them, weak or not: for If-None-Match. */
export function matchesWeakly(condition: TagCondition, etag: string): boolean {
  const current = readEntityTag(etag);
  if (condition.kind === "any") return true;
  return current !== null && condition.tags.some(({ opaque }) => opaque === current.opaque);
}

/** The one tag of a condition that names exactly one. */
export function onlyTag(condition: TagCondition | null): EntityTag | null {
  if (condition?.kind !== "tags" || condition.tags.length !== 1) return null;
  return condition.tags[0] ?? null;
}

/** A single tag, as in an ETag field or If-Range. */
export function readEntityTag(value: string): EntityTag | null {
  return onlyTag(readTagCondition(value));
}

/** `"…"` around the opaque part. */
export function quoted(tag: EntityTag): string {
  return `"${tag.opaque}"`;
}

/** How many parts an ETag says its object was put in: 2 of `"<32 hex>-2"`; 1 when it says nothing. */
export function partsOf(etag: string): number {
  const count = /^"?[0-9a-fA-F]{32}-(\d{1,5})"?$/.exec(etag)?.[1];
  return count === undefined ? 1 : Number(count);
}

/** Whether an ETag is one of an object that was put in parts, be it a single one. */
export function isMultipart(etag: string): boolean {
  return /^"?[0-9a-fA-F]{32}-\d{1,5}"?$/.test(etag);
}
