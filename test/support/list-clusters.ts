// Clusters in memory that answer lists in the documents of S3, and the operations over them: what the
// properties of merged lists are shown on. They differ as real ones do (ListHabits), give fewer rows than
// asked for, and know keys, versions, uploads and buckets that a test says they hold.

import type {
  ListPorts,
  OperationPorts,
  OperationRequest,
} from "../../proxy/operations/context.ts";
import { ListRoom } from "../../proxy/operations/list-room.ts";
import { bucketTableOf } from "../../proxy/placement/bucket-table.ts";
import {
  type ByteStream,
  serviceIdentity,
  type UpstreamRequest,
} from "../../proxy/placement/ports.ts";
import { profiles } from "../../proxy/placement/profiles.ts";
import type { BucketRecord, ClusterRecord } from "../../proxy/placement/records.ts";
import { handleKeys } from "../../proxy/placement/sealed-text.ts";
import type { QueryList } from "../../proxy/s3/headers.ts";
import type { ClusterId } from "../../proxy/s3/names.ts";
import { noTenant } from "../../proxy/s3/names.ts";
import type { S3Operation } from "../../proxy/s3/operation.ts";
import { encodePath } from "../../proxy/s3/percent.ts";
import { queryValue } from "../../proxy/s3/query.ts";
import { element, group, readXml, s3Document, type XmlElement } from "../../proxy/s3/xml.ts";
import { type ListHabits, listedRows } from "./list-habits.ts";
import { bucketNamed, clusterNamed } from "./placement-names.ts";
import { listPage } from "./s3-list-cluster.ts";

export interface HeldLists {
  readonly habits: ListHabits;
  /** The most rows of a page, whatever is asked for. */
  readonly limit: number;
  /** Key → its versions, newest first. Lists of objects show them as the ETag. */
  readonly versions?: ReadonlyMap<string, readonly string[]>;
  readonly uploads?: readonly { readonly key: string; readonly id: string }[];
  /** Name → creation date. */
  readonly buckets?: ReadonlyMap<string, string>;
}

export const listBucket = bucketNamed("lists");

export function clusterIdOf(index: number): ClusterId {
  return clusterNamed(`c${index}`);
}

export type ListAsk = (operation: S3Operation, query: QueryList) => OperationRequest;

/** The parts of operations over these clusters, and requests for them. */
export function overClusters(
  clusters: readonly HeldLists[],
  options: { readonly conflict?: boolean } = {},
): {
  readonly ports: ListPorts & Pick<OperationPorts, "identity" | "clock" | "facts">;
  readonly ask: ListAsk;
  /** `c0 ListObjectsV2 max-keys=3`, in order. */
  readonly asked: readonly string[];
} {
  const ids = clusters.map((_, index) => clusterIdOf(index));
  const keys = handleKeys(new Uint8Array(32).fill(7));
  if (keys === null) throw new Error("Test keys are refused");
  const record = { value: recordOf(ids, options.conflict ?? false), modRevision: 1n };
  const snapshot = {
    revision: 5n,
    origin: "live",
    clusters: new Map(ids.map((id) => [id, { value: clusterOf(id), modRevision: 1n }])),
    classes: new Map(),
    buckets: bucketTableOf([record]),
    data: new Map(),
    credentials: new Map(),
  } as const;
  const asked: string[] = [];
  return {
    asked,
    ports: {
      upstream: {
        async send(cluster, request) {
          const held = clusters[ids.indexOf(cluster)];
          if (held === undefined) throw new Error("no such cluster");
          const most = request.query.filter(([name]) => name.startsWith("max-"));
          asked.push([cluster, request.operation, ...most.map((one) => one.join("="))].join(" "));
          return { status: 200, headers: [], body: bodyOf(answerOf(held, request)) };
        },
      },
      snapshots: {
        current: () => snapshot,
        reached: async () => {},
        subscribe: () => () => {},
      },
      handleKeys: keys,
      listRoom: new ListRoom({ after: () => () => {} }),
      membership: { id: "test", mayMutate: () => true, beginMutation: () => () => {} },
      identity: () => "service",
      facts: () => profiles["s3-generic"],
      clock: { nowMs: () => 0, monotonicMs: () => 0, sleep: async () => {} },
    },
    ask: (operation, query) => ({
      operation,
      tenant: noTenant,
      bucket: operation === "ListBuckets" ? null : listBucket,
      key: null,
      query,
      headers: [],
      body: null,
      record,
      candidates: ids,
      target: null,
      route: null,
      placement: null,
      locationConstraint: null,
      source: null,
      form: null,
      deletion: null,
      caller: "test",
      identity: serviceIdentity,
      location: "http://test/lists",
      requestId: "test",
      commit: async () => () => {},
      mayShow: () => true,
      mayDelete: async () => [],
      signal: new AbortController().signal,
    }),
  };
}

function recordOf(ids: readonly ClusterId[], conflict: boolean): BucketRecord {
  return {
    tenant: noTenant,
    name: listBucket,
    origin: conflict ? "discovered" : "created",
    owner: null,
    placement: null,
    route: {
      weights: new Map(ids.map((id) => [id, 1])),
      mode: "weighted",
      spread: "object",
      source: "default_wheel",
    },
    epochs: [1],
    order: ids,
    phase: "settled",
    extra: [],
    conflict,
    frozen: false,
    asked: null,
    createdAt: "2026-11-30T00:00:00.000Z",
  };
}

function clusterOf(id: ClusterId): ClusterRecord {
  return {
    id,
    state: "live",
    weight: 1,
    endpoints: [],
    profile: "s3-generic",
    region: "us-east-1",
    addressing: "path",
    labels: {},
  };
}

function bodyOf(document: string): ByteStream {
  const bytes = Buffer.from(document);
  return {
    takeWhole: () => bytes,
    pipe: async (sink) => void sink.write(bytes),
    cancel: () => {},
    async *[Symbol.asyncIterator]() {
      yield bytes;
    },
  };
}

const documents: Readonly<
  Partial<Record<S3Operation, (held: HeldLists, text: Parameter) => string>>
> = {
  ListObjectsV2: objectsDocument,
  ListObjectVersions: versionsDocument,
  ListMultipartUploads: uploadsDocument,
  ListBuckets: bucketsDocument,
};

function answerOf(held: HeldLists, request: UpstreamRequest): string {
  const document = documents[request.operation];
  if (document === undefined) throw new Error(`${request.operation} is no list`);
  return document(held, (name) => queryValue(request.query, name) ?? "");
}

type Parameter = (name: string) => string;

function objectsDocument(held: HeldLists, text: Parameter): string {
  const after = text("start-after");
  const page = listPage(
    [...(held.versions?.keys() ?? [])],
    {
      prefix: text("prefix"),
      delimiter: text("delimiter"),
      after: after === "" ? null : after,
      maxKeys: Math.min(Number(text("max-keys")), held.limit),
    },
    { habits: held.habits, etag: "" },
  );
  return s3Document("ListBucketResult", [
    element("EncodingType", "url"),
    element("IsTruncated", String(page.truncated)),
    ...page.entries.map(({ key }) =>
      group("Contents", [
        element("Key", encodePath(key)),
        element("ETag", held.versions?.get(key)?.join() ?? ""),
        text("fetch-owner") === "true"
          ? group("Owner", [element("ID", "o"), element("DisplayName", "O")])
          : "",
      ]),
    ),
    ...page.commonPrefixes.map((prefix) =>
      group("CommonPrefixes", [element("Prefix", encodePath(prefix))]),
    ),
  ]);
}

function versionsDocument(held: HeldLists, text: Parameter): string {
  const asked = {
    prefix: text("prefix"),
    delimiter: text("delimiter"),
    marker: text("key-marker"),
    versionMarker: text("version-id-marker"),
  };
  const rows = listedRows(held.versions ?? new Map(), asked, held.habits);
  const page = rows.slice(0, Math.min(Number(text("max-keys")), held.limit));
  const truncated = page.length > 0 && page.length < rows.length;
  const last = truncated ? page.at(-1) : undefined;
  return s3Document("ListVersionsResult", [
    element("IsTruncated", String(truncated)),
    element("NextKeyMarker", last?.key ?? ""),
    element("NextVersionIdMarker", last?.kind === "row" ? last.version : ""),
    ...page.map((row) =>
      row.kind === "prefix"
        ? group("CommonPrefixes", [element("Prefix", row.key)])
        : group("Version", [
            element("Key", row.key),
            element("VersionId", row.version),
            held.habits.has("keyMarkerKeepsVersions") ? element("Type", "Normal") : "",
          ]),
    ),
  ]);
}

function uploadsDocument(held: HeldLists, text: Parameter): string {
  const marker = text("key-marker");
  // A key ends before every longer one, in the order of keys.
  const end = held.habits.has("ordersUploadsByName") ? "." : "\0";
  const placeOf = (key: string, id: string): Buffer => Buffer.from(key + end + id);
  const after = placeOf(marker, text("upload-id-marker"));
  const behind = (held.uploads ?? [])
    .map((upload) => ({ ...upload, place: placeOf(upload.key, upload.id) }))
    .filter(({ key }) => key.startsWith(text("prefix")))
    .filter(({ place }) => marker === "" || Buffer.compare(place, after) > 0)
    .toSorted((a, b) => Buffer.compare(a.place, b.place));
  const page = behind.slice(0, Math.min(Number(text("max-uploads")), held.limit));
  const last = page.at(-1);
  return s3Document("ListMultipartUploadsResult", [
    element("NextKeyMarker", last?.key ?? ""),
    element("NextUploadIdMarker", last?.id ?? ""),
    element("IsTruncated", String(page.length < behind.length)),
    ...page.map(({ key, id }) =>
      group("Upload", [element("Key", key), element("UploadId", id), element("Initiated", "t")]),
    ),
  ]);
}

function bucketsDocument(held: HeldLists, text: Parameter): string {
  const names = [...(held.buckets ?? [])].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const behind = names.filter(([name]) => name > text("continuation-token"));
  const page = behind.slice(0, held.limit);
  return s3Document("ListAllMyBucketsResult", [
    group("Owner", [element("ID", "service")]),
    group(
      "Buckets",
      page.map(([name, date]) =>
        group("Bucket", [element("Name", name), element("CreationDate", date)]),
      ),
    ),
    page.length < behind.length ? element("ContinuationToken", page.at(-1)?.[0] ?? "") : "",
  ]);
}

/** The root of an answer's document. */
export function rootOf(body: ByteStream | Uint8Array | null): XmlElement {
  if (!(body instanceof Uint8Array)) throw new Error("the answer is no document");
  const reading = readXml(body, { maxBytes: 64 * 1024 * 1024 });
  if (reading.kind === "error") throw new Error(reading.fault);
  return reading.root;
}
