// The documents of CreateBucket, GetBucketLocation and ListBuckets, and the merge of what several
// clusters answer to ListBuckets. S3 API Reference, the operations of these names.

import { S3Error } from "./errors.ts";
import type { QueryList } from "./headers.ts";
import { compareKeys, type ListOwner } from "./listing.ts";
import { ownerElement } from "./listing-document.ts";
import { readOwner } from "./listing-page.ts";
import { queryValue } from "./query.ts";
import {
  childOf,
  childrenOf,
  childText,
  element,
  escapeText,
  group,
  optionalElement,
  readXml,
  s3Document,
  writeElement,
  type XmlElement,
  type XmlFault,
} from "./xml.ts";

// ---- CreateBucket, GetBucketLocation ----

export type BucketConfigurationReading =
  /** `null`: no body, or no constraint in it. */
  | { readonly kind: "location"; readonly location: string | null }
  | { readonly kind: "error"; readonly error: S3Error };

const maxConfigurationBytes = 16_384;
/** Of CreateBucketConfiguration, but not of general purpose buckets on RGW: never dropped silently. */
const unsupported = new Set(["Location", "Bucket", "Tags"]);

/** Reads the body of CreateBucket, which may be empty. */
export function readBucketConfiguration(body: Uint8Array): BucketConfigurationReading {
  if (body.length === 0) return { kind: "location", location: null };
  const reading = readXml(body, { maxBytes: maxConfigurationBytes });
  if (reading.kind === "error" || reading.root.name !== "CreateBucketConfiguration") {
    return { kind: "error", error: new S3Error("MalformedXML") };
  }
  for (const { name } of reading.root.children) {
    if (name === "LocationConstraint") continue;
    const error = unsupported.has(name)
      ? new S3Error("NotImplemented", { message: `CreateBucket with "${name}" is not implemented` })
      : new S3Error("MalformedXML");
    return { kind: "error", error };
  }
  return { kind: "location", location: childText(reading.root, "LocationConstraint") || null };
}

/** The body of a CreateBucket request that asks for a location. */
export function locationConstraintDocument(location: string): string {
  return s3Document("CreateBucketConfiguration", [element("LocationConstraint", location)]);
}

/** The answer to GetBucketLocation; S3 leaves it empty for us-east-1. */
export function bucketLocationDocument(location: string): string {
  return s3Document("LocationConstraint", [location === "us-east-1" ? "" : escapeText(location)]);
}

// ---- ListBuckets ----

export interface ListedBucket {
  readonly name: string;
  /** ISO 8601 in UTC, as the upstream wrote it: `2026-11-30T00:00:26.452Z`. */
  readonly creationDate: string;
  readonly extra: readonly XmlElement[];
}

export interface BucketList {
  readonly owner: ListOwner | null;
  readonly buckets: readonly ListedBucket[];
  /** Set when the upstream paged, which RGW 16 and 18 do not. */
  readonly continuationToken: string | null;
}

export type BucketListReading =
  | { readonly kind: "list"; readonly list: BucketList }
  | { readonly kind: "error"; readonly fault: XmlFault | "not_a_list" };

/** 10000 buckets with ARN and region, and room. */
const maxBucketListBytes = 8 * 1024 * 1024;

/** Reads an upstream's ListAllMyBucketsResult. */
export function readBucketList(body: string | Uint8Array): BucketListReading {
  const reading = readXml(body, { maxBytes: maxBucketListBytes });
  if (reading.kind === "error") return { kind: "error", fault: reading.fault };
  const { root } = reading;
  const list = childOf(root, "Buckets");
  if (root.name !== "ListAllMyBucketsResult" || list === null) {
    return { kind: "error", fault: "not_a_list" };
  }
  const buckets: ListedBucket[] = [];
  for (const node of childrenOf(list, "Bucket")) {
    const name = childText(node, "Name");
    if (name === null || name === "") return { kind: "error", fault: "not_a_list" };
    const creationDate = childText(node, "CreationDate") ?? "";
    const extra = node.children.filter((child) => !["Name", "CreationDate"].includes(child.name));
    buckets.push({ name, creationDate, extra });
  }
  const owner = childOf(root, "Owner");
  return {
    kind: "list",
    list: {
      owner: owner === null ? null : readOwner(owner),
      buckets,
      continuationToken: childText(root, "ContinuationToken") || null,
    },
  };
}

/**
 * The buckets of several clusters by name. One that lies on several shows the earliest creation date,
 * whichever cluster has it, so that the answer does not change with the order of clusters.
 */
export function mergeBuckets(lists: readonly (readonly ListedBucket[])[]): readonly ListedBucket[] {
  const byName = new Map<string, ListedBucket>();
  for (const bucket of lists.flat()) {
    const known = byName.get(bucket.name);
    if (known === undefined || isEarlier(bucket.creationDate, known.creationDate)) {
      byName.set(bucket.name, bucket);
    }
  }
  return [...byName.values()].toSorted((a, b) => compareKeys(a.name, b.name));
}

function isEarlier(date: string, other: string): boolean {
  return date !== "" && (other === "" || date < other);
}

export interface ListBucketsRequest {
  readonly prefix: string;
  /** Of `bucket-region`: only buckets there; `""`: wherever they are. */
  readonly region: string;
  /** 1–10000; `null`: all. */
  readonly maxBuckets: number | null;
  readonly continuationToken: string | null;
}

export type ListBucketsReading =
  | { readonly kind: "request"; readonly request: ListBucketsRequest }
  | { readonly kind: "error"; readonly error: S3Error };

/** Reads the query of ListBuckets. */
export function readListBucketsRequest(query: QueryList): ListBucketsReading {
  const text = queryValue(query, "max-buckets") ?? "";
  const maxBuckets = text === "" ? null : Number(text);
  if (maxBuckets !== null && (!/^\d{1,5}$/.test(text) || maxBuckets < 1 || maxBuckets > 10_000)) {
    const details = { ArgumentName: "max-buckets", ArgumentValue: text };
    const message = "Argument max-buckets must be an integer between 1 and 10000";
    return { kind: "error", error: new S3Error("InvalidArgument", { message, details }) };
  }
  return {
    kind: "request",
    request: {
      prefix: queryValue(query, "prefix") ?? "",
      region: queryValue(query, "bucket-region") ?? "",
      maxBuckets,
      continuationToken: queryValue(query, "continuation-token") || null,
    },
  };
}

export interface BucketPage {
  readonly buckets: readonly ListedBucket[];
  readonly truncated: boolean;
  /** The name behind which the next page begins. */
  readonly last: string | null;
}

/** Cuts a page out of merged buckets; `after` is exclusive, from the token. */
export function bucketPage(
  buckets: readonly ListedBucket[],
  request: ListBucketsRequest,
  after: string | null,
): BucketPage {
  const matching = buckets.filter(
    ({ name }) =>
      name.startsWith(request.prefix) && (after === null || compareKeys(name, after) > 0),
  );
  const page = matching.slice(0, request.maxBuckets ?? matching.length);
  return {
    buckets: page,
    truncated: page.length < matching.length,
    last: page.at(-1)?.name ?? null,
  };
}

/** The answer to ListBuckets. */
export function bucketListDocument(answer: {
  readonly owner: ListOwner | null;
  readonly buckets: readonly ListedBucket[];
  readonly prefix: string;
  /** Set when the page is truncated. */
  readonly continuationToken: string | null;
}): string {
  return s3Document("ListAllMyBucketsResult", [
    answer.owner === null ? "" : ownerElement(answer.owner),
    group(
      "Buckets",
      answer.buckets.map(({ name, creationDate, extra }) =>
        group("Bucket", [
          element("Name", name),
          optionalElement("CreationDate", creationDate === "" ? null : creationDate),
          ...extra.map(writeElement),
        ]),
      ),
    ),
    answer.prefix === "" ? "" : element("Prefix", answer.prefix),
    optionalElement("ContinuationToken", answer.continuationToken),
  ]);
}
