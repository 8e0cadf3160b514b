// One page of a list of versions over several clusters, as a machine that is fed, like ListMerge: it says
// which pages it needs, takes them in any order, and gives the page that one cluster with all of it would
// give. A key's versions are those of the first cluster that has the key; elsewhere it is shadowed. No I/O.

import { commonPrefixOf, compareKeys } from "./listing.ts";
import { isFoundAsMarker, lastKeyUnder, upstreamDelimiter } from "./rgw-list-habits.ts";
import type {
  VersionItem,
  VersionListRequest,
  VersionPage,
  VersionPosition,
  VersionQuestion,
} from "./version-list.ts";
import { versionIdOf } from "./version-list.ts";

export interface VersionMergeOptions {
  readonly request: VersionListRequest;
  /** Where each cluster goes on, the front first. */
  readonly starts: readonly VersionPosition[];
  /** A key with the version `null` has no other one: the bucket was never versioned. */
  readonly plain: boolean;
}

export interface VersionNeed extends VersionQuestion {
  readonly cursor: number;
}

export interface MergedVersions {
  readonly items: readonly VersionItem[];
  readonly truncated: boolean;
}

export class VersionMerge {
  readonly #maxKeys: number;
  readonly #cursors: readonly VersionCursor[];
  readonly #items: VersionItem[] = [];

  constructor(options: VersionMergeOptions) {
    this.#maxKeys = options.request.maxKeys;
    this.#cursors = options.starts.map((start) => new VersionCursor(start, options));
  }

  /** The pages without which nothing more can be given; none when `result` is ready. */
  needs(): readonly VersionNeed[] {
    const left = this.#maxKeys - this.#items.length;
    const waiting = [...this.#cursors.entries()].filter(([, cursor]) => cursor.isWaiting);
    const isFull = left === 0 && this.#maxKeys > 0;
    // A full page asks on only where it is not known whether anything new follows.
    const isKnown = ({ head, isWaiting, mayEnd }: VersionCursor): boolean =>
      head !== null || (isWaiting && !mayEnd);
    if (isFull && this.#cursors.some(isKnown)) return [];
    return waiting.map(([index, cursor]) => ({
      ...cursor.question(isFull ? 1 : left),
      cursor: index,
    }));
  }

  /** Takes the page that answers a need. `stalled`: the cluster goes on where it began. */
  feed(cursor: number, page: VersionPage): "taken" | "stalled" {
    const fed = this.#cursors[cursor]?.feed(page) ?? "stalled";
    this.#give();
    return fed;
  }

  /** The merged page; `null` while `needs` is not empty. */
  result(): MergedVersions | null {
    if (this.needs().length > 0) return null;
    const more = this.#cursors.some(({ head, isWaiting }) => head !== null || isWaiting);
    return { items: this.#items, truncated: this.#maxKeys > 0 && more };
  }

  #give(): void {
    while (this.#items.length < this.#maxKeys) {
      let front: { readonly cursor: VersionCursor; readonly item: VersionItem } | null = null;
      for (const cursor of this.#cursors) {
        const item = cursor.head;
        if (item === null) {
          if (cursor.isWaiting) return;
        } else if (front === null || compareKeys(item.text, front.item.text) < 0) {
          front = { cursor, item };
        }
      }
      if (front === null) return;
      this.#items.push(front.item);
      front.cursor.take();
      for (const cursor of this.#cursors)
        if (cursor !== front.cursor) cursor.dropTo(front.item.text);
    }
  }
}

/** Goes on behind a position; or reads a key's own versions first, up to the one of the marker and on. */
type Step =
  | ({ readonly kind: "behind" } & VersionPosition)
  | {
      readonly kind: "own";
      readonly key: string;
      readonly sought: string;
      /** The version behind which to ask; `""`: from the newest. */
      readonly behind: string;
    };

type OwnStep = Extract<Step, { kind: "own" }>;

// Versions of one key that are looked through in one go. Where `null` ends a page, the next one begins behind the
// version before it; and most keys have few, but many that begin like them.
const fewestOwn = 2;
const mostOwn = 100;

/** What one cluster gives, in order. */
class VersionCursor {
  readonly #request: VersionListRequest;
  readonly #plain: boolean;
  #items: VersionItem[] = [];
  #at = 0;
  /** `null`: nothing follows. */
  #step: Step | null;
  /** What comes up to and including this text is not wanted. */
  #floor = "";
  /** The last item that came, and whether it was rolled up here, so that more of it may follow. */
  #last: { readonly item: VersionItem; readonly isFolded: boolean } | null = null;

  constructor(start: VersionPosition, { request, plain }: VersionMergeOptions) {
    this.#request = request;
    this.#plain = plain;
    const { keyMarker: key, versionIdMarker: sought } = start;
    const isOwn = sought !== "" && !(plain && sought === "null");
    // A client that deletes what a page lists goes on behind a version that is gone, which an RGW takes for
    // the key's last one.
    this.#step = isOwn ? { kind: "own", key, sought, behind: "" } : this.#behind(start, null);
  }

  get head(): VersionItem | null {
    return this.#items[this.#at] ?? null;
  }

  get isWaiting(): boolean {
    return this.#step !== null && this.head === null;
  }

  /** Whether what follows may be nothing but what was given already, here or by another cluster. */
  get mayEnd(): boolean {
    if (this.#last === null || this.#step?.kind === "own") return true;
    const { item, isFolded } = this.#last;
    return isFolded || (item.kind === "version" && compareKeys(item.text, this.#floor) <= 0);
  }

  question(maxKeys: number): VersionQuestion {
    const { prefix, delimiter } = this.#request;
    const step = this.#step;
    if (step?.kind !== "own") {
      const { keyMarker = "", versionIdMarker = "" } = step ?? {};
      const asked = upstreamDelimiter(prefix, delimiter);
      return { prefix, delimiter: asked, keyMarker, versionIdMarker, maxKeys };
    }
    const marker = step.behind === "" ? "" : step.key;
    const most = Math.min(Math.max(fewestOwn, maxKeys), mostOwn);
    const position = { keyMarker: marker, versionIdMarker: step.behind };
    return { prefix: step.key, delimiter: "", ...position, maxKeys: most };
  }

  take(): void {
    this.#at += 1;
  }

  /** Another cluster gave this key or prefix. */
  dropTo(text: string): void {
    this.#raise(text);
    while (this.head !== null && compareKeys(this.head.text, text) <= 0) this.#at += 1;
  }

  feed(page: VersionPage): "taken" | "stalled" {
    const step = this.#step;
    if (step === null || this.#request.maxKeys === 0) {
      this.#step = null;
      return "taken";
    }
    this.#items = this.#items.slice(this.#at);
    this.#at = 0;
    this.#step = step.kind === "own" ? this.#feedOwn(step, page) : this.#feedBehind(step, page);
    return JSON.stringify(step) === JSON.stringify(this.#step) ? "stalled" : "taken";
  }

  #feedOwn(step: OwnStep, page: VersionPage): Step {
    const { key, sought } = step;
    const end = page.items.findIndex(({ text }) => text !== key);
    const own = end === -1 ? page.items : page.items.slice(0, end);
    const at = own.findIndex((item) => versionIdOf(item) === sought);
    const last = own.at(-1);
    if (page.truncated && end === -1 && last !== undefined) {
      const position = { keyMarker: key, versionIdMarker: versionIdOf(last) };
      if (at === -1) {
        return isFoundAsMarker(sought)
          ? { kind: "behind", keyMarker: key, versionIdMarker: sought }
          : { ...step, behind: position.versionIdMarker };
      }
      for (const item of own.slice(at + 1)) this.#push(item, false);
      // Alone on its page nothing stands before it: the cluster's own reading of it is all there is.
      return own.length === 1 ? { kind: "behind", ...position } : this.#behind(position, page);
    }
    // Where the version is gone, so is all that a client wanted of those before it, or it comes twice.
    if (at !== -1 || step.behind === "") {
      for (const item of own.slice(at + 1)) this.#push(item, false);
    }
    return this.#behind({ keyMarker: key, versionIdMarker: "" }, page);
  }

  #feedBehind(step: Step, page: VersionPage): Step | null {
    const { prefix, delimiter } = this.#request;
    for (const item of page.items) {
      const rolled = commonPrefixOf(item.text, prefix, delimiter);
      this.#push(rolled === null ? item : { kind: "prefix", text: rolled }, rolled !== null);
    }
    if (!page.truncated) return null;
    if (page.items.length === 0)
      return page.next === null ? step : { kind: "behind", ...page.next };
    const { item } = this.#last ?? {};
    if (item === undefined) return step;
    return item.kind === "prefix"
      ? this.#behind({ keyMarker: lastKeyUnder(item.text), versionIdMarker: "" }, page)
      : this.#behind({ keyMarker: item.text, versionIdMarker: versionIdOf(item) }, page);
  }

  /** The step that goes on there, at the end of that page. */
  #behind({ keyMarker, versionIdMarker }: VersionPosition, page: VersionPage | null): Step {
    const isFound = isFoundAsMarker(versionIdMarker);
    if (versionIdMarker !== "" && isFound) return { kind: "behind", keyMarker, versionIdMarker };
    // Nothing follows behind the only version of a key.
    if (versionIdMarker === "" || this.#plain) {
      this.#raise(keyMarker);
      return { kind: "behind", keyMarker, versionIdMarker: "" };
    }
    const before = page === null ? "" : lastFound(page);
    const isWanted = compareKeys(keyMarker, this.#floor) > 0;
    if (isWanted) return { kind: "own", key: keyMarker, sought: "null", behind: before };
    return { kind: "behind", keyMarker, versionIdMarker: before || versionIdMarker };
  }

  #raise(text: string): void {
    if (compareKeys(text, this.#floor) > 0) this.#floor = text;
  }

  #push(item: VersionItem, isFolded: boolean): void {
    this.#last = { item, isFolded };
    if (compareKeys(item.text, this.#floor) <= 0) return;
    const before = this.#items.at(-1);
    if (item.kind === "prefix" && before?.kind === "prefix" && before.text === item.text) return;
    this.#items.push(item);
  }
}

/** The last version of the page's last key that can be a marker; `""`: none of them. */
function lastFound({ items }: VersionPage): string {
  const key = items.at(-1)?.text;
  const own = items.filter((item) => item.text === key).map(versionIdOf);
  return own.findLast((id) => id !== "" && isFoundAsMarker(id)) ?? "";
}
