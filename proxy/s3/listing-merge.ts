// One page of a list over several clusters, as a machine that is fed: it says which pages it needs,
// takes them in any order, and gives the result once nothing is missing. No I/O here.
// Result: the page that one cluster holding the union of all keys would give. Equal keys go to the
// first cursor that has them; never silently short: an answer that cannot be trusted is a fault.

import {
  commonPrefixOf,
  compareKeys,
  type ListEntry,
  type ListPage,
  type ListPosition,
  resumeText,
} from "./listing.ts";

export interface ListMergeOptions {
  /** How many streams there are. Stream 0 is the front: its entry wins over equal later ones. */
  readonly cursors: number;
  readonly prefix: string;
  /** `""`: none. */
  readonly delimiter: string;
  /** Keys and prefixes together, 0–1000. */
  readonly maxKeys: number;
  /** Where to go on, exclusive: from a token, or a marker as `{kind: "key"}`. */
  readonly after: ListPosition | null;
}

/** A page that must be fetched: with `upstreamListQuery`. */
export interface PageNeed {
  readonly cursor: number;
  /** `start-after`; `null` for the beginning. Ignored by S3 when there is a token. */
  readonly after: string | null;
  /** Set only when the cursor's last page was empty and yet truncated. */
  readonly continuationToken: string | null;
  /** What is left of the page, or this stream's share of it. */
  readonly maxKeys: number;
}

export interface MergedPage {
  readonly entries: readonly ListEntry[];
  readonly commonPrefixes: readonly string[];
  readonly truncated: boolean;
  /** The last key or prefix given: what the next token or marker carries. `null`: empty page. */
  readonly last: ListPosition | null;
}

/**
 * Why a page was not taken. `disordered`: not in byte order; `foreign`: a key without the prefix;
 * `stalled`: truncated, but the next request would be the same one; `unasked`: not needed now.
 */
type FeedFault = "disordered" | "foreign" | "stalled" | "unasked";
export type FeedResult =
  | { readonly kind: "taken" }
  | { readonly kind: "fault"; readonly fault: FeedFault };

type Item =
  | { readonly kind: "key"; readonly text: string; readonly entry: ListEntry }
  /** `folded`: rolled up here, so the upstream may go on with more keys of it. */
  | { readonly kind: "prefix"; readonly text: string; readonly folded: boolean };

interface Cursor {
  items: readonly Item[];
  at: number;
  /** Nothing follows what is in `items`. */
  exhausted: boolean;
  after: string | null;
  continuationToken: string | null;
}

const taken: FeedResult = { kind: "taken" };
/** Up to so many keys a second round costs more than the keys that are read for nothing. */
const shareFrom = 100;

export class ListMerge {
  readonly #options: ListMergeOptions;
  readonly #cursors: readonly Cursor[];
  readonly #entries: ListEntry[] = [];
  readonly #commonPrefixes: string[] = [];
  #last: ListPosition | null = null;
  /** Nothing up to and including this text is given (again). */
  #floor: string | null;

  constructor(options: ListMergeOptions) {
    this.#options = options;
    const { after, prefix, delimiter } = options;
    this.#floor = after === null ? null : resumeText(after, prefix, delimiter);
    const start = { at: 0, exhausted: false, after: this.#floor, continuationToken: null };
    this.#cursors = Array.from({ length: options.cursors }, () => ({ ...start, items: [] }));
  }

  /** The pages without which nothing more can be given; none when `result` is ready. */
  needs(): readonly PageNeed[] {
    const left = this.#left();
    const waiting = [...this.#cursors.entries()].filter(
      ([, cursor]) => !cursor.exhausted && cursor.at >= cursor.items.length,
    );
    const isFull = left === 0 && this.#options.maxKeys > 0;
    if (isFull && !this.#mayBeAll(waiting.map(([, cursor]) => cursor))) return [];
    // With max-keys=0 each cluster is asked once all the same: it may refuse, or not have the bucket.
    const maxKeys = isFull ? 1 : this.#share(left, waiting.length);
    return waiting.map(([cursor, { after, continuationToken }]) => ({
      cursor,
      after,
      continuationToken,
      maxKeys,
    }));
  }

  /** Takes the page that answers the need of that cursor, and gives all that is certain by now. */
  feed(cursorIndex: number, page: ListPage): FeedResult {
    const cursor = this.#cursors[cursorIndex];
    if (cursor === undefined || cursor.exhausted || cursor.at < cursor.items.length) {
      return { kind: "fault", fault: "unasked" };
    }
    const items = itemsOf(page, this.#options);
    if (typeof items === "string") return { kind: "fault", fault: items };
    const goesOn = page.truncated && this.#options.maxKeys > 0;
    if (goesOn && !this.#advance(cursor, items.at(-1) ?? null, page)) {
      return { kind: "fault", fault: "stalled" };
    }
    cursor.items = items;
    cursor.at = 0;
    cursor.exhausted = !goesOn;
    this.#skipGiven(cursor);
    this.#give();
    return taken;
  }

  /** The merged page; `null` while `needs` is not empty. */
  result(): MergedPage | null {
    if (this.needs().length > 0) return null;
    const more = this.#cursors.some(({ items, at, exhausted }) => !exhausted || at < items.length);
    return {
      entries: this.#entries,
      commonPrefixes: this.#commonPrefixes,
      // A page of no keys is never called truncated, whatever there is: S3 and RGW agree on that.
      truncated: this.#options.maxKeys > 0 && more,
      last: this.#last,
    };
  }

  /**
   * How many keys to ask each of the waiting streams for. All that are left from each would read every
   * key once for each stream; a spread bucket's next keys come from all streams in about equal numbers,
   * and where they do not, whoever runs out is asked again. Prefixes are often the same everywhere.
   */
  #share(left: number, waiting: number): number {
    if (waiting < 2 || left <= shareFrom || this.#options.delimiter !== "") return left;
    return Math.min(left, Math.ceil((left / waiting) * 1.2) + 8);
  }

  /** Whether a full page has all there is, should nothing but keys of its last prefix follow. */
  #mayBeAll(waiting: readonly Cursor[]): boolean {
    const isFolded = ({ items }: Cursor): boolean => {
      const last = items.at(-1);
      return last?.kind === "prefix" && last.folded;
    };
    const rest = this.#cursors.some(({ items, at }) => at < items.length);
    return !rest && waiting.every(isFolded);
  }

  #left(): number {
    return this.#options.maxKeys - this.#entries.length - this.#commonPrefixes.length;
  }

  /** Sets where the cursor goes on behind this page; `false` when that is where it stood already. */
  #advance(cursor: Cursor, last: Item | null, page: ListPage): boolean {
    const { prefix, delimiter } = this.#options;
    if (last !== null) {
      const after = resumeText(last, prefix, delimiter);
      if (cursor.after === null || compareKeys(after, cursor.after) > 0) {
        cursor.after = after;
        cursor.continuationToken = null;
        return true;
      }
    }
    const token = page.nextContinuationToken;
    if (token === null || token === "" || token === cursor.continuationToken) return false;
    cursor.continuationToken = token;
    return true;
  }

  #skipGiven(cursor: Cursor): void {
    if (this.#floor === null) return;
    for (let item = cursor.items[cursor.at]; item !== undefined; item = cursor.items[cursor.at]) {
      if (compareKeys(item.text, this.#floor) > 0) return;
      cursor.at += 1;
    }
  }

  /** Gives item after item as long as every stream that goes on has one to compare. */
  #give(): void {
    while (this.#left() > 0) {
      let least: Item | null = null;
      for (const cursor of this.#cursors) {
        const item = cursor.items[cursor.at];
        if (item === undefined) {
          if (!cursor.exhausted) return;
        } else if (least === null || compareKeys(item.text, least.text) < 0) {
          least = item;
        }
      }
      if (least === null) return;
      if (least.kind === "key") this.#entries.push(least.entry);
      else this.#commonPrefixes.push(least.text);
      this.#last = { kind: least.kind, text: least.text };
      this.#floor = least.text;
      for (const cursor of this.#cursors) this.#skipGiven(cursor);
    }
  }
}

/**
 * The keys and prefixes of a page in one ascending row. Keys that an upstream should have rolled up
 * are rolled up here, since `upstreamDelimiter` leaves the delimiter out where RGW would lose keys.
 */
function itemsOf(page: ListPage, options: ListMergeOptions): readonly Item[] | FeedFault {
  const { prefix, delimiter } = options;
  const { entries, commonPrefixes } = page;
  if (!ascending(entries.map((entry) => entry.key)) || !ascending(commonPrefixes)) {
    return "disordered";
  }
  const items: Item[] = [];
  let prefixAt = 0;
  const takePrefixes = (before: string | null): void => {
    for (let text = commonPrefixes[prefixAt]; text !== undefined; text = commonPrefixes[prefixAt]) {
      if (before !== null && compareKeys(text, before) > 0) return;
      items.push({ kind: "prefix", text, folded: false });
      prefixAt += 1;
    }
  };
  for (const entry of entries) {
    if (!entry.key.startsWith(prefix)) return "foreign";
    const group = commonPrefixOf(entry.key, prefix, delimiter);
    const text = group ?? entry.key;
    takePrefixes(text);
    items.push(
      group === null ? { kind: "key", text, entry } : { kind: "prefix", text, folded: true },
    );
  }
  takePrefixes(null);
  if (commonPrefixes.some((text) => !text.startsWith(prefix))) return "foreign";
  return items;
}

function ascending(texts: readonly string[]): boolean {
  let last: string | null = null;
  for (const text of texts) {
    if (last !== null && compareKeys(last, text) >= 0) return false;
    last = text;
  }
  return true;
}
