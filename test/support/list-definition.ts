// What a list is, by definition: rows in the byte order of their keys, rolled up, cut into pages; and a
// client that reads a list's pages to their end.

import { childrenOf, childText, type XmlElement } from "../../proxy/s3/xml.ts";

const compare = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

export interface Piece {
  readonly kind: "row" | "prefix";
  readonly text: string;
  /** What tells a row from another one of the same key. */
  readonly mark: string;
}

/** The definition: rows in key order, rolled up, behind the marker. */
export function defined(
  rows: readonly (readonly [key: string, mark: string])[],
  asked: { readonly prefix: string; readonly delimiter: string; readonly after: string },
): readonly Piece[] {
  const pieces: Piece[] = [];
  for (const [text, mark] of rows.toSorted(([a], [b]) => compare(a, b))) {
    if (!text.startsWith(asked.prefix)) continue;
    const at = asked.delimiter === "" ? -1 : text.indexOf(asked.delimiter, asked.prefix.length);
    const rolled = at === -1 ? null : text.slice(0, at + asked.delimiter.length);
    if (asked.after !== "" && compare(rolled ?? text, asked.after) <= 0) continue;
    if (rolled === null) pieces.push({ kind: "row", text, mark });
    else if (pieces.at(-1)?.text !== rolled)
      pieces.push({ kind: "prefix", text: rolled, mark: "" });
  }
  return pieces;
}

export interface Page {
  /** Rows, then prefixes, as a document has them. */
  readonly pieces: readonly Piece[];
  readonly truncated: boolean;
}

export function pagesOf(pieces: readonly Piece[], size: number): readonly Page[] {
  const most = Math.min(size, 1000);
  if (most === 0) return [{ pieces: [], truncated: false }];
  const pages: Page[] = [];
  for (let at = 0; at === 0 || at < pieces.length; at += most) {
    const page = pieces.slice(at, at + most);
    pages.push({
      pieces: [
        ...page.filter(({ kind }) => kind === "row"),
        ...page.filter(({ kind }) => kind === "prefix"),
      ],
      truncated: at + most < pieces.length,
    });
  }
  return pages;
}

export function readPage(
  root: XmlElement,
  row: {
    readonly names: readonly string[];
    readonly mark: (node: XmlElement, key: string) => string;
  },
): Page {
  const encoded = childText(root, "EncodingType") === "url";
  const read = (text: string | null): string =>
    encoded ? decodeURIComponent(text ?? "") : (text ?? "");
  return {
    pieces: [
      ...root.children
        .filter(({ name }) => row.names.includes(name))
        .map((node): Piece => {
          const text = read(childText(node, "Key"));
          return { kind: "row", text, mark: row.mark(node, text) };
        }),
      ...childrenOf(root, "CommonPrefixes").map((node): Piece => {
        return { kind: "prefix", text: read(childText(node, "Prefix")), mark: "" };
      }),
    ],
    truncated: childText(root, "IsTruncated") === "true",
  };
}

export function encodedText(root: XmlElement, name: string): string | null {
  const text = childText(root, name);
  return text !== null && childText(root, "EncodingType") === "url"
    ? decodeURIComponent(text)
    : text;
}

export type Query = readonly (readonly [string, string])[];

/** Follows a list to its end. `next`: what the page says to send; it must say so when truncated. */
export async function walk(
  ask: (more: Query) => Promise<XmlElement>,
  read: (root: XmlElement) => Page,
  next: (root: XmlElement, page: Page) => Query,
): Promise<readonly Page[]> {
  const pages: Page[] = [];
  let more: Query = [];
  for (let turn = 0; turn < 400; turn += 1) {
    const root = await ask(more);
    const page = read(root);
    pages.push(page);
    if (!page.truncated) return pages;
    more = next(root, page);
  }
  throw new Error("the list does not end");
}

export function same(actual: readonly Page[], wanted: readonly Page[]): void {
  const shown = (pages: readonly Page[]): string => JSON.stringify(pages, null, 1);
  if (shown(actual) !== shown(wanted)) {
    throw new Error(`got ${shown(actual)} wanted ${shown(wanted)}`);
  }
}
