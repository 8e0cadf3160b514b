// What a GET or HEAD asks on condition (RFC 9110 §13), for upstreams that do not read all of it. RGW
// compares If-Match and If-None-Match as one text: a list, a weak tag or `*` never matches, and If-Range
// is not read at all, so that a resumed download mixes two objects. Pure: what to send, whether the
// object must be looked at first, and what its present state makes of the conditions.

import { parseHttpDate } from "./amz-date.ts";
import { canonicalRange } from "./byte-range.ts";
import type { EntityTag } from "./entity-tags.ts";
import {
  matchesStrongly,
  matchesWeakly,
  onlyTag,
  quoted,
  readEntityTag,
  readTagCondition,
} from "./entity-tags.ts";
import { fieldValue, type HeaderList } from "./headers.ts";

const conditionNames: ReadonlySet<string> = new Set([
  "if-match",
  "if-modified-since",
  "if-none-match",
  "if-range",
  "if-unmodified-since",
]);

/** The fields without anything that makes them conditional. */
export function unconditional(headers: HeaderList): HeaderList {
  return headers.filter(([name]) => !conditionNames.has(name));
}

/** The fields without Range. */
export function unranged(headers: HeaderList): HeaderList {
  return headers.filter(([name]) => name !== "range");
}

export interface ConditionPlan {
  /** What can be sent and is then judged right by an upstream that knows single strong tags. */
  readonly headers: HeaderList;
  /** The conditions must be judged by us, on the state that a HEAD shows. */
  readonly judge: boolean;
}

/** How to ask an upstream that reads one strong tag, dates, and one well-formed range. */
export function planConditions(headers: HeaderList): ConditionPlan {
  if (!headers.some(([name]) => name === "range" || conditionNames.has(name))) {
    return { headers, judge: false };
  }
  const ranged = withRange(headers);
  const match = conditionOf(ranged, "if-match");
  const noneMatch = conditionOf(ranged, "if-none-match");
  const judge =
    fieldValue(ranged, "if-range") !== null ||
    noneMatch?.kind === "any" ||
    isList(match) ||
    isList(noneMatch);
  if (judge) return { headers: ranged, judge };
  return { headers: singleTags(ranged, match?.kind === "any", onlyTag(noneMatch)), judge };
}

/** Range in its one form or gone; If-Range means nothing without it. */
function withRange(headers: HeaderList): HeaderList {
  const value = fieldValue(headers, "range");
  const range = value === null ? null : canonicalRange(value);
  const rest = unranged(headers);
  if (range === null) return rest.filter(([name]) => name !== "if-range");
  return [...rest, ["range", range]];
}

/** `If-Match: *` asks for what any answer but 404 shows, and sets If-Unmodified-Since aside. */
function singleTags(headers: HeaderList, any: boolean, noneMatch: EntityTag | null): HeaderList {
  return headers
    .filter(([name]) => !any || (name !== "if-match" && name !== "if-unmodified-since"))
    .map(([name, value]) =>
      name === "if-none-match" && noneMatch?.weak === true
        ? [name, quoted(noneMatch)]
        : [name, value],
    );
}

function conditionOf(headers: HeaderList, name: string): ReturnType<typeof readTagCondition> {
  const value = fieldValue(headers, name);
  return value === null ? null : readTagCondition(value);
}

function isList(condition: ReturnType<typeof readTagCondition>): boolean {
  return condition?.kind === "tags" && condition.tags.length > 1;
}

export type Judgement =
  | { readonly kind: "failed"; readonly condition: string }
  | { readonly kind: "not_modified" }
  /** `range`: the bytes asked for may be sent; without, all of them must. */
  | { readonly kind: "send"; readonly range: boolean };

/** Judges the conditions on an object's fields, in the order of RFC 9110 §13.2.2. */
export function judgeConditions(headers: HeaderList, object: HeaderList): Judgement {
  const etag = fieldValue(object, "etag") ?? "";
  const modifiedMs = Date.parse(fieldValue(object, "last-modified") ?? "");
  const match = conditionOf(headers, "if-match");
  if (match !== null) {
    if (!matchesStrongly(match, etag)) return { kind: "failed", condition: "If-Match" };
  } else if (modifiedMs > dateOf(headers, "if-unmodified-since")) {
    return { kind: "failed", condition: "If-Unmodified-Since" };
  }
  const noneMatch = conditionOf(headers, "if-none-match");
  if (noneMatch !== null) {
    if (matchesWeakly(noneMatch, etag)) return { kind: "not_modified" };
  } else if (modifiedMs <= dateOf(headers, "if-modified-since")) {
    return { kind: "not_modified" };
  }
  return { kind: "send", range: rangeHolds(headers, etag, modifiedMs) };
}

/** NaN, which no comparison holds for, where the date is absent or cannot be read. */
function dateOf(headers: HeaderList, name: string): number {
  return Date.parse(fieldValue(headers, name) ?? "");
}

function rangeHolds(headers: HeaderList, etag: string, modifiedMs: number): boolean {
  const value = fieldValue(headers, "if-range");
  if (value === null) return true;
  const dateMs = value.includes('"') ? null : parseHttpDate(value);
  if (dateMs !== null) return dateMs === modifiedMs;
  const tag = readEntityTag(value);
  return tag !== null && matchesStrongly({ kind: "tags", tags: [tag] }, etag);
}
