// One page of a list of versions over several clusters, as a machine that is fed, like ListMerge: it says
// which pages it needs, takes them in any order, and gives the page that one cluster with all of it would
// give. A key's versions are those of the first cluster that has the key; elsewhere it is shadowed. No I/O.

import { commonPrefixOf, compareKeys } from "./listing.ts";
import {
  isFoundAsMarker,
  keepsVersions,
  lastKeyUnder,
  upstreamDelimiter,
} from "./rgw-list-habits.ts";
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
    const isFull = this.#maxKeys > 0 && (left === 0 || this.#isAsGiven());
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

  /** The longest page cannot be asked for with more, so that one cluster's is passed a little short. */
  #isAsGiven(): boolean {
    const isLongest = this.#maxKeys === mostRows && this.#cursors.length === 1;
    return isLongest && this.#items.length * 2 >= mostRows;
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

/** What is asked next. */
type Step =
  | ({ readonly kind: "behind" } & VersionPosition)
  | SeekStep
  /** Behind the version sought, should the cluster find it; else it is sought on from there. */
  | { readonly kind: "jump"; readonly seek: SeekStep };

/**
 * Reads a key's versions, newest first, up to the one sought and on. A client that deletes what a page lists
 * goes on behind a version that is gone, which an RGW takes for the key's last one. An RGW gives a key's
 * versions behind the key alone: one question finds the version and reads on. `""` sought: all of them.
 */
interface SeekStep {
  readonly kind: "seek";
  readonly key: string;
  readonly sought: string;
  readonly from: VersionPosition;
  /** Versions of the key were seen before these. */
  readonly isOn: boolean;
  /** What comes behind the key: the cluster steps over its versions, so that they are listed alone. */
  readonly rest: VersionPage | null;
}

/** So many versions of its key stand before most versions. */
const spareRows = 8;
const mostRows = 1000;
/** How many pages without rows are read over. */
const maxEmptyPages = 10;

/** What one cluster gives, in order. */
class VersionCursor {
  readonly #request: VersionListRequest;
  readonly #plain: boolean;
  #items: VersionItem[] = [];
  #at = 0;
  /** `null`: nothing follows. */
  #step: Step | null;
  #emptyPages = 0;
  /** What comes up to and including this text is not wanted. */
  #floor = "";
  /** The last item that came, and whether it was rolled up here, so that more of it may follow. */
  #last: { readonly item: VersionItem; readonly isFolded: boolean } | null = null;

  constructor(start: VersionPosition, { request, plain }: VersionMergeOptions) {
    this.#request = request;
    this.#plain = plain;
    const { keyMarker, versionIdMarker: sought } = start;
    const isSought = sought !== "" && !(plain && sought === "null");
    this.#step = isSought ? seekIn(keyMarker, sought, "") : this.#behind(start, null);
  }

  get head(): VersionItem | null {
    return this.#items[this.#at] ?? null;
  }

  get isWaiting(): boolean {
    return this.#step !== null && this.head === null;
  }

  /** Whether what follows may be nothing but what was given already, here or by another cluster. */
  get mayEnd(): boolean {
    if (this.#last === null) return true;
    const { item, isFolded } = this.#last;
    return isFolded || (item.kind === "version" && compareKeys(item.text, this.#floor) <= 0);
  }

  question(maxKeys: number): VersionQuestion {
    const { prefix, delimiter } = this.#request;
    const step = this.#step;
    const asked = { prefix, delimiter: upstreamDelimiter(prefix, delimiter), maxKeys };
    if (step === null || maxKeys === 0) return { ...asked, keyMarker: "", versionIdMarker: "" };
    if (step.kind === "behind") {
      const { keyMarker, versionIdMarker } = step;
      return { ...asked, keyMarker, versionIdMarker };
    }
    if (step.kind === "jump") {
      const { key, sought } = step.seek;
      return { ...asked, keyMarker: key, versionIdMarker: sought };
    }
    const rows = step.isOn ? mostRows : Math.min(maxKeys + spareRows, mostRows);
    if (step.rest === null) return { ...asked, ...step.from, maxKeys: rows };
    return { prefix: step.key, delimiter: "", ...step.from, maxKeys: rows };
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
    const asked = JSON.stringify(this.question(1));
    this.#items = this.#items.slice(this.#at);
    this.#at = 0;
    this.#step = this.#stepAfter(step, page);
    const isSame = this.#step !== null && JSON.stringify(this.question(1)) === asked;
    return isSame || this.#emptyPages > maxEmptyPages ? "stalled" : "taken";
  }

  #stepAfter(step: Step, page: VersionPage): Step | null {
    const { items, truncated, next } = page;
    if (truncated && items.length === 0) {
      this.#emptyPages += 1;
      if (next === null) return step;
      return step.kind === "seek" ? { ...step, from: next } : { kind: "behind", ...next };
    }
    if (step.kind === "seek") return this.#feedSeek(step, page);
    // A version that the cluster does not find: all that is left of the key would be stepped over.
    if (step.kind === "jump" && items[0]?.text !== step.seek.key) return step.seek;
    return this.#feedBehind(page);
  }

  #feedSeek(step: SeekStep, page: VersionPage): Step | null {
    const { key, sought, rest } = step;
    const end = page.items.findIndex((item) => !isVersionOf(item, key));
    const own = end === -1 ? page.items : page.items.slice(0, end);
    const isWhole = end !== -1 || !page.truncated;
    const at = own.findIndex((item) => versionIdOf(item) === sought);
    const isFirst = !step.isOn && step.from.versionIdMarker === "";
    if (rest === null && own.length === 0 && isFirst && !keepsVersions(page)) {
      const from = { keyMarker: "", versionIdMarker: "" };
      return { ...step, from, rest: page };
    }
    if (at === -1 && sought !== "") {
      if (!isWhole) return seekOn(step, own);
      // It is gone, and nobody knows what stood behind it: rather twice than not at all.
      if (step.isOn) return { ...seekIn(key, "", ""), rest, from: startOf(step) };
    }
    if (rest === null) return this.#feedBehind({ ...page, items: page.items.slice(at + 1) }, page);
    const left = { ...page, items: own.slice(at + 1), truncated: !isWhole };
    const next = this.#feedBehind(left, { ...page, items: own });
    return isWhole ? this.#feedBehind(rest) : next;
  }

  /** Takes the items of a page; `whole`: with those before them, which were given or not wanted. */
  #feedBehind(page: VersionPage, whole = page): Step | null {
    const { prefix, delimiter } = this.#request;
    for (const item of page.items) {
      const rolled = commonPrefixOf(item.text, prefix, delimiter);
      this.#push(rolled === null ? item : { kind: "prefix", text: rolled }, rolled !== null);
    }
    if (!page.truncated) return null;
    const item = page.items.length === 0 ? whole.items.at(-1) : this.#last?.item;
    if (item === undefined) return this.#step;
    return item.kind === "prefix"
      ? this.#behind({ keyMarker: lastKeyUnder(item.text), versionIdMarker: "" }, whole)
      : this.#behind({ keyMarker: item.text, versionIdMarker: versionIdOf(item) }, whole);
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
    // Alone on its page nothing stands before it: the cluster's own reading of it is all there is.
    const before = page === null ? "" : lastFound(page.items);
    const isAlone = before === "" && page?.items.length === 1;
    if (isAlone && this.#step?.kind === "seek")
      return { kind: "behind", keyMarker, versionIdMarker };
    const isWanted = compareKeys(keyMarker, this.#floor) > 0;
    if (isWanted) return seekIn(keyMarker, versionIdMarker, before);
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

function seekIn(key: string, sought: string, behind: string): SeekStep {
  const from = { keyMarker: key, versionIdMarker: behind };
  return { kind: "seek", key, sought, from, isOn: false, rest: null };
}

/** From where a key's versions come from the newest on. */
function startOf({ key, rest }: SeekStep): VersionPosition {
  return { keyMarker: rest === null ? key : "", versionIdMarker: "" };
}

/** The version is not among these of its key, and more follow. */
function seekOn(step: SeekStep, own: readonly VersionItem[]): Step {
  const last = own.at(-1);
  const versionIdMarker = lastFound(own) || (last === undefined ? "" : versionIdOf(last));
  const seek = { ...step, from: { keyMarker: step.key, versionIdMarker }, isOn: true };
  // Only an RGW got here without `rest`: others may refuse a version that they do not have.
  const mayJump = !step.isOn && step.rest === null && isFoundAsMarker(step.sought);
  return mayJump ? { kind: "jump", seek } : seek;
}

function isVersionOf(item: VersionItem, key: string): boolean {
  return item.kind === "version" && item.text === key;
}

/** The last version of the last key that can be a marker; `""`: none of them. */
function lastFound(items: readonly VersionItem[]): string {
  const key = items.at(-1)?.text;
  const own = items.filter((item) => item.text === key).map(versionIdOf);
  return own.findLast((id) => id !== "" && isFoundAsMarker(id)) ?? "";
}
