// Random questions to lists of odd keys, from a seed: asked of a server page by page and compared with what
// a list is by definition; and single pages of a bare RGW compared with the fakes that have its habits.

import { encodePath } from "../../../proxy/s3/percent.ts";
import { encodeQuery } from "../../../proxy/s3/query.ts";
import { keepsVersions } from "../../../proxy/s3/rgw-list-habits.ts";
import type { VersionItem, VersionPage } from "../../../proxy/s3/version-list.ts";
import { readVersionPage, versionIdOf } from "../../../proxy/s3/version-list.ts";
import { childText, type XmlElement } from "../../../proxy/s3/xml.ts";
import { rootOf } from "../../support/list-clusters.ts";
import {
  defined,
  encodedText,
  type Page,
  pagesOf,
  type Query,
  readPage,
} from "../../support/list-definition.ts";
import { type ListedRow, listedRows, rgwHabits } from "../../support/list-habits.ts";
import { askRaw, type RawAnswer } from "./raw-request.ts";
import type { Pair } from "./s3.ts";
import type { Dice } from "./wire-changes.ts";

export interface Server {
  readonly url: string;
  readonly pair: Pair;
}

/** Key → versions, newest first; of a bucket without versions `null`. */
export type Held = ReadonlyMap<string, readonly string[]>;

const common = ["a", "b", "a", "/", "/", "_", "_", "__"];
const odd = '- % %2F + & < " ^ ` ~ \u0001 \u0002 \u007f \u0080 é ÿ \ue000 \ufffd \uffff 😀'
  .split(" ")
  .concat(" ", "\n", "\t", "\r", "\u{10ffff}");
const letters = [...common, ...odd];

export function oddKeys(dice: Dice, count: number): readonly string[] {
  const keys = new Set<string>();
  while (keys.size < count) {
    const word = Array.from({ length: 1 + dice.below(5) }, () =>
      dice.one(dice.maybe(60) ? common : letters),
    );
    keys.add(word.join(""));
  }
  return [...keys];
}

export async function ask(
  server: Server,
  method: string,
  target: { readonly bucket: string; readonly key?: string; readonly query?: Query },
  body = "",
): Promise<RawAnswer> {
  const { bucket, key, query = [] } = target;
  const answer = await askRaw(server.url, {
    method,
    path: `/${bucket}${key === undefined ? "" : `/${encodePath(key)}`}`,
    query: encodeQuery(query),
    ...(body === "" ? {} : { body: Buffer.from(body) }),
    pair: server.pair,
  });
  if (answer.status < 300) return answer;
  const { status, code } = answer;
  throw new Error(`${method} ${JSON.stringify(target)} is ${status} ${code}`);
}

/** All that one cluster has of a bucket, which is less than a page. */
export async function heldBy(server: Server, bucket: string): Promise<Held> {
  const { body } = await ask(server, "GET", { bucket, query: [["versions", ""]] });
  const reading = readVersionPage(body);
  if (reading.kind === "error" || reading.page.truncated) throw new Error(`${bucket} is not whole`);
  const held = new Map<string, readonly string[]>();
  for (const item of reading.page.items) {
    held.set(item.text, [...(held.get(item.text) ?? []), versionIdOf(item)]);
  }
  return held;
}

export interface Question {
  readonly prefix: string;
  readonly delimiter: string;
  readonly marker: string;
  readonly size: number;
  readonly url: boolean;
}

function cut(text: string, dice: Dice): string {
  return Array.from(text)
    .slice(0, 1 + dice.below(3))
    .join("");
}

export function questionOf(keys: readonly string[], dice: Dice): Question {
  const key = (): string => dice.one(keys);
  const part = (): string => cut(key(), dice);
  return {
    prefix: dice.one(["", "", part(), dice.one(letters)]),
    delimiter: dice.one(["", "/", "/", "_", "__", "_/", "//", "/_", part(), dice.one(letters)]),
    marker: dice.one(["", key(), key(), part(), key() + dice.one(letters), "_"]),
    size: dice.one([1, 2, 3, 7, 1000]),
    url: dice.maybe(50),
  };
}

export interface ListKind {
  readonly name: string;
  readonly fixed: Query;
  readonly start: string;
  readonly size: string;
  readonly rows: readonly string[];
  readonly next: (root: XmlElement, page: Page) => Query;
}

const byKey = (root: XmlElement): string => encodedText(root, "NextKeyMarker") ?? "";

export const listKinds = {
  ListObjects: {
    name: "ListObjects",
    fixed: [],
    start: "marker",
    size: "max-keys",
    rows: ["Contents"],
    next: (root: XmlElement) => [["marker", encodedText(root, "NextMarker") ?? ""]],
  },
  ListObjectsV2: {
    name: "ListObjectsV2",
    fixed: [["list-type", "2"]],
    start: "start-after",
    size: "max-keys",
    rows: ["Contents"],
    next: (root: XmlElement) => [
      ["continuation-token", childText(root, "NextContinuationToken") ?? ""],
    ],
  },
  ListObjectVersions: {
    name: "ListObjectVersions",
    fixed: [["versions", ""]],
    start: "key-marker",
    size: "max-keys",
    rows: ["Version", "DeleteMarker"],
    next: (root: XmlElement) => [
      ["key-marker", byKey(root)],
      ["version-id-marker", childText(root, "NextVersionIdMarker") ?? ""],
    ],
  },
  ListMultipartUploads: {
    name: "ListMultipartUploads",
    fixed: [["uploads", ""]],
    start: "key-marker",
    size: "max-uploads",
    rows: ["Upload"],
    next: (root: XmlElement) => [
      ["key-marker", byKey(root)],
      ["upload-id-marker", childText(root, "NextUploadIdMarker") ?? ""],
    ],
  },
} as const satisfies Record<string, ListKind>;

/** So many pages of each question are read. */
const mostPages = 3;

/** Asks, and says where the pages are not those of the definition; `null`: nowhere. */
export async function differenceOf(
  kind: ListKind,
  question: Question,
  of: { readonly server: Server; readonly bucket: string; readonly held: Held },
): Promise<string | null> {
  const { prefix, delimiter, marker, size, url } = question;
  const fixed: Query = [
    ...kind.fixed,
    ["prefix", prefix],
    ["delimiter", delimiter],
    [kind.size, String(size)],
    ...(url ? ([["encoding-type", "url"]] as const) : []),
  ];
  const pages: Page[] = [];
  let more: Query = [[kind.start, marker]];
  while (pages.length < mostPages) {
    const query = [...fixed, ...more];
    const root = rootOf((await ask(of.server, "GET", { bucket: of.bucket, query })).body);
    const page = readPage(root, {
      names: kind.rows,
      mark: (node) => childText(node, "VersionId") ?? "",
    });
    pages.push(page);
    if (!page.truncated) break;
    more = kind.next(root, page);
  }
  const hasVersions = kind.rows.includes("Version");
  const rows = [...of.held].flatMap(([key, versions]) =>
    versions.map((version) => [key, hasVersions ? version : ""] as const),
  );
  const wanted = pagesOf(defined(rows, { prefix, delimiter, after: marker }), size);
  const [got, should] = [pages, wanted.slice(0, mostPages)].map((all) => JSON.stringify(all));
  const asked = JSON.stringify(question);
  return got === should ? null : `${kind.name} ${of.bucket} ${asked}: ${got} and not ${should}`;
}

/** Whether an RGW is known by this page: by no page of delete markers alone. */
function hasMark(page: VersionPage): boolean {
  const isMarker = (item: VersionItem): boolean =>
    item.kind === "version" && item.node.name === "DeleteMarker";
  return (
    keepsVersions(page) || page.items.every((item) => item.kind === "prefix" || isMarker(item))
  );
}

/** One page of versions of a bare RGW; where it is not what a fake with RGW's habits gives: what was asked. */
export async function habitDifference(
  question: Question,
  of: { readonly server: Server; readonly bucket: string; readonly held: Held },
): Promise<string | null> {
  const { prefix, delimiter, marker, size } = question;
  const versions = of.held.get(marker) ?? [];
  // Whether RGW finds `null` depends on how it came about.
  const versionMarker = versions.findLast((version) => version !== "null") ?? "";
  const given = [
    ["prefix", prefix],
    ["delimiter", delimiter],
    ["key-marker", marker],
    ["version-id-marker", versionMarker],
  ] as const;
  const query = [
    ["versions", ""] as const,
    ["max-keys", String(size)] as const,
    ...given.filter(([, text]) => text !== ""),
  ];
  const { body } = await ask(of.server, "GET", { bucket: of.bucket, query });
  const reading = readVersionPage(body);
  if (reading.kind === "error") return `${reading.fault}: ${body.toString()}`;
  const { items, truncated } = reading.page;
  const wanted = listedRows(of.held, { prefix, delimiter, marker, versionMarker }, rgwHabits);
  // With a delimiter a page may have less than was asked for.
  const isLong = items.length === Math.min(size, wanted.length) || items.length > size / 2;
  const order = (rows: readonly ListedRow[]): string =>
    JSON.stringify(
      rows
        .map((row) => [row.kind, row.key, row.kind === "row" ? row.version : ""].join(" "))
        .toSorted(),
    );
  const got = items.map(
    (item): ListedRow =>
      item.kind === "prefix"
        ? { kind: "prefix", key: item.text }
        : { kind: "row", key: item.text, version: versionIdOf(item) },
  );
  const should = wanted.slice(0, items.length);
  const isSame = order(got) === order(should) && truncated === items.length < wanted.length;
  const isMarked = hasMark(reading.page);
  return isSame && isLong && isMarked
    ? null
    : `${of.bucket} ${JSON.stringify(query)}: ${order(got)} and not ${order(should)}`;
}
