// Query strings: reading them into decoded parameters and writing the canonical form that SigV4 signs
// and that is sent upstream (s3-protocol.md 2.5). A raw `+` is ambiguous on arrival, so the caller says
// how to read it; on the way out a plus is always `%2B` and a blank `%20`.

import type { QueryList, QueryParameter } from "./headers.ts";
import { decodeOnce, encodeComponent } from "./percent.ts";

/** What a raw `+` means: a blank, as HTML forms and RGW have it, or itself, as RFC 3986 has it. */
export type PlusReading = "blank" | "plus";

/**
 * Reads `list-type=2&acl&prefix=a%2Bb`. Empty pieces (`&&`) are dropped, order is kept. `null` when a
 * piece has a malformed escape, is not UTF-8 or holds NUL.
 */
export function parseQuery(rawQuery: string, plus: PlusReading = "blank"): QueryList | null {
  if (rawQuery === "") return [];
  const query: QueryParameter[] = [];
  for (const piece of rawQuery.split("&")) {
    if (piece === "") continue;
    const at = piece.indexOf("=");
    const name = decodePiece(at === -1 ? piece : piece.slice(0, at), plus);
    const value = at === -1 ? null : decodePiece(piece.slice(at + 1), plus);
    if (name === null || (at !== -1 && value === null)) return null;
    query.push([name, value]);
  }
  return query;
}

/**
 * Writes the canonical query: each name and value encoded, `acl` as `acl=`, sorted by encoded name and
 * then encoded value in byte order (on the name alone: `a` stands before `a-b`).
 */
export function encodeQuery(query: QueryList): string {
  if (query.length === 0) return "";
  const pairs = query.map(([name, value]): readonly [string, string] => [
    encodeComponent(name),
    value === null ? "" : encodeComponent(value),
  ]);
  // Encoded text is ASCII, so comparing UTF-16 units is comparing bytes; never localeCompare here.
  pairs.sort((left, right) => compareText(left[0], right[0]) || compareText(left[1], right[1]));
  return pairs.map(([name, value]) => `${name}=${value}`).join("&");
}

/** The decoded value of a parameter, `""` where it stood without `=`, `null` when it is absent. */
export function queryValue(query: QueryList, name: string): string | null {
  for (const [candidate, value] of query) if (candidate === name) return value ?? "";
  return null;
}

export function hasParameter(query: QueryList, name: string): boolean {
  return query.some(([candidate]) => candidate === name);
}

function compareText(left: string, right: string): number {
  return left < right ? -1 : Number(left > right);
}

function decodePiece(raw: string, plus: PlusReading): string | null {
  const text = decodeOnce(plus === "blank" ? raw.replaceAll("+", " ") : raw);
  return text === null || text.includes("\0") ? null : text;
}
