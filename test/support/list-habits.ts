// How clusters list a bucket: the order that S3 defines, and a table of the ways in which real ones leave
// it. Every habit was seen by asking bare RGWs and this model the same random questions; the real suite
// does so again (test/real/support/list-questions.ts).

/** Each with the releases of RGW that have it; of none: what other servers do. */
const listHabits = {
  /** Knows no delimiter. */
  flat: [],
  /** Gives no prefix that the marker lies in, and goes on behind all of it. AWS gives it again. */
  skipsMarkersPrefix: [16, 18],
  /** A marker that ends in the delimiter counts as one that lies in it, even if it began in the prefix. */
  skipsMarkersEnd: [16, 18],
  /** Keeps `_x` as `__x` and seeks the delimiter in that: `_` and `__` are found where they are not. */
  doublesUnderscore: [16, 18],
  /** `key-marker` alone leaves out no versions of its key, where the bucket was ever versioned. */
  keyMarkerKeepsVersions: [16, 18],
  /** Behind a version that it does not find it goes on behind `key\u0001`: that key is lost. */
  stepsOverAbsentVersion: [16, 18],
  /** Does not find the version `null` where it is a delete marker, or was there before versioning. */
  losesNullVersion: [16, 18],
  /** Lists uploads in the order of `key.id`, not of keys. */
  ordersUploadsByName: [16, 18],
} as const satisfies Readonly<Record<string, readonly number[]>>;

type ListHabit = keyof typeof listHabits;
export type ListHabits = ReadonlySet<ListHabit>;

export const listHabitNames = Object.keys(listHabits) as readonly ListHabit[];
export const noHabits: ListHabits = new Set();
export const rgwHabits: ListHabits = new Set(
  listHabitNames.filter((name) => listHabits[name].length > 0),
);

export interface AskedRows {
  readonly prefix: string;
  readonly delimiter: string;
  /** `""`: from the beginning. */
  readonly marker: string;
  /** Of the key of the marker; `""`: none. */
  readonly versionMarker: string;
}

export type ListedRow =
  | { readonly kind: "row"; readonly key: string; readonly version: string }
  | { readonly kind: "prefix"; readonly key: string };

// Names are strings of bytes here, one character each, so that `<` is the order of bytes.

const bytesOf = (text: string): string => Buffer.from(text).toString("latin1");
const textOf = (bytes: string): string => Buffer.from(bytes, "latin1").toString();

interface IndexRow {
  /** Where it stands in the cluster's index. */
  readonly at: string;
  readonly name: string;
  readonly version: string;
}

/** How an index is looked through. Names, prefix and delimiter as they are stored. */
interface Search {
  readonly prefix: string;
  readonly delimiter: string;
  /** Where the delimiter is in a name, behind the prefix; -1: nowhere. */
  readonly seek: (name: string) => number;
}

/** Behind a name that was given, or from one on that may be there. */
interface Place {
  readonly name: string;
  readonly isGiven: boolean;
}

/** All that a cluster gives behind the marker, with no end. `held`: keys, their versions newest first. */
export function listedRows(
  held: ReadonlyMap<string, readonly string[]>,
  asked: AskedRows,
  habits: ListHabits,
): readonly ListedRow[] {
  const prefix = storedName(asked.prefix, habits);
  const delimiter = habits.has("flat") ? "" : bytesOf(asked.delimiter);
  const seek = (name: string): number =>
    delimiter === "" ? -1 : name.indexOf(delimiter, prefix.length);
  const index = [...held]
    .flatMap(([key, versions]) => indexRows(storedName(key, habits), versions))
    .toSorted((a, b) => (a.at < b.at ? -1 : 1));
  let from = jumpedFrom(startOf(index, asked, habits), { prefix, delimiter, seek }, habits);
  const listed: ListedRow[] = [];
  for (const { at, name, version } of index) {
    if (at < from.name || (from.isGiven && at === from.name)) continue;
    if (!name.startsWith(prefix)) continue;
    const end = seek(name);
    const text = end === -1 ? name : name.slice(0, end + delimiter.length);
    if (end !== -1) from = placeBehind(text);
    const shown = shownName(text, habits);
    if (shown === null) continue;
    const key = textOf(shown);
    // RGW looks once more into the name that it shows.
    const isPrefix = end !== -1 && shown.includes(delimiter, bytesOf(asked.prefix).length);
    if (isPrefix) listed.push({ kind: "prefix", key });
    else listed.push({ kind: "row", key, version: end === -1 ? version : "null" });
  }
  return listed;
}

function jumpedFrom(name: string, search: Search, habits: ListHabits): Place {
  const { prefix, delimiter, seek } = search;
  const end = seek(name);
  const isInside = habits.has("skipsMarkersPrefix") && end !== -1;
  const from = isInside ? placeBehind(name.slice(0, end + delimiter.length)) : given(name);
  const ends = delimiter !== "" && from.name > prefix && from.name.endsWith(delimiter);
  return habits.has("skipsMarkersEnd") && ends ? placeBehind(from.name) : from;
}

function given(name: string): Place {
  return { name, isGiven: true };
}

/** Behind all names that begin with this one. */
function placeBehind(name: string): Place {
  const last = String.fromCharCode(name.charCodeAt(name.length - 1) + 1);
  return { name: name.slice(0, -1) + last, isGiven: false };
}

function storedName(text: string, habits: ListHabits): string {
  const name = bytesOf(text);
  return habits.has("doublesUnderscore") && name.startsWith("_") ? `_${name}` : name;
}

function shownName(name: string, habits: ListHabits): string | null {
  if (!habits.has("doublesUnderscore") || !name.startsWith("_")) return name;
  return name.startsWith("__") ? name.slice(1) : null;
}

/** A key that was never versioned stands under its name, versions behind it. */
function indexRows(name: string, versions: readonly string[]): readonly IndexRow[] {
  if (versions.join() === "null") return [{ at: name, name, version: "null" }];
  return versions.map((version, age) => ({
    at: `${name}\0${String(age).padStart(6, "0")}`,
    name,
    version,
  }));
}

function startOf(index: readonly IndexRow[], asked: AskedRows, habits: ListHabits): string {
  const { versionMarker } = asked;
  const marker = storedName(asked.marker, habits);
  if (versionMarker === "") {
    return marker === "" || habits.has("keyMarkerKeepsVersions") ? marker : `${marker}\0~`;
  }
  const row = index.find(({ name, version }) => name === marker && version === versionMarker);
  const isLost = versionMarker === "null" && habits.has("losesNullVersion");
  if (row !== undefined && !isLost) return row.at;
  if (habits.has("stepsOverAbsentVersion")) return `${marker}\u0001`;
  if (row !== undefined) return row.at;
  throw new Error(`version ${versionMarker} is not one of ${asked.marker} here`);
}
