// Header fields as an ordered list of [lower-case name, value] pairs, values as latin1 strings, one
// char a byte as node:http delivers them, so that bytes survive (RFC 9110 §5.5; s3-protocol.md 2.6).

export type HeaderField = readonly [name: string, value: string];
export type HeaderList = readonly HeaderField[];
/** A query parameter, decoded; `null` where the name stood without `=`. */
export type QueryParameter = readonly [name: string, value: string | null];
export type QueryList = readonly QueryParameter[];

/**
 * The value of a field, `null` when it is absent. Repeated lines are joined with `,` and no blank, in
 * the order they arrived, which is also what SigV4 hashes (RFC 9110 §5.3).
 */
export function fieldValue(headers: HeaderList, name: string): string | null {
  let joined: string | null = null;
  for (const [candidate, value] of headers) {
    if (candidate === name) joined = joined === null ? value : `${joined},${value}`;
  }
  return joined;
}

/** A text without the blanks and tabs around it; a pattern that does this takes time squared. */
export function trimBlanks(text: string): string {
  let from = 0;
  let to = text.length;
  while (from < to && isBlank(text.charCodeAt(from))) from += 1;
  while (to > from && isBlank(text.charCodeAt(to - 1))) to -= 1;
  return text.slice(from, to);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

/** The members of a comma-separated field, lower-case, blanks trimmed, empty ones dropped. */
export function fieldTokens(headers: HeaderList, name: string): readonly string[] {
  const value = fieldValue(headers, name);
  if (value === null) return [];
  return value
    .split(",")
    .map((token) => token.trim().toLowerCase())
    .filter((token) => token !== "");
}
