// Adoption: records for all buckets that clusters had before Headgate, at once and not at their first
// request. What is recorded is what discovery would record, by the same questions; the lists of the
// clusters only say which names to ask for. Repeating it is free, and it can begin behind any name.

import { clustersOf } from "../placement/candidates.ts";
import { discoveredRecord } from "../placement/discovery.ts";
import type { CancelSignal } from "../placement/ports.ts";
import { serviceIdentity } from "../placement/ports.ts";
import type { BucketRecord } from "../placement/records.ts";
import { isReservedBucket } from "../s3/address.ts";
import { readBucketList } from "../s3/bucket-document.ts";
import { S3Error } from "../s3/errors.ts";
import type { BucketName, ClusterId, TenantName } from "../s3/names.ts";
import { noTenant, parseBucketName, parseTenantName } from "../s3/names.ts";
import type { OperationPorts } from "./context.ts";
import { type Discovery, lookUp } from "./discovery.ts";
import { whyFailed } from "./drift-reading.ts";
import { readDocument } from "./send.ts";

/** Names that are asked for at a time, each on every cluster. */
const concurrency = 8;
/** How long the lists of a walk are kept for its next page. */
const keptForMs = 60_000;
/** Of ListBuckets, where an upstream pages: ten million buckets. */
const maxListPages = 10_000;

export interface AdoptPorts {
  readonly ports: OperationPorts;
  readonly discovery: Discovery;
  /** All buckets of an RGW as `name` or `tenant/name`; `null`: its keys may list their own only. */
  readonly listAll: (cluster: ClusterId, signal: CancelSignal) => Promise<readonly string[] | null>;
}

export interface AdoptOptions {
  /** Names behind this one only, `logs` or `acme:logs`; empty: all. */
  readonly after: string;
  /** So many new buckets at most. */
  readonly limit: number;
  readonly dryRun: boolean;
  readonly signal: CancelSignal;
}

interface AdoptedBucket {
  /** `logs` or `acme:logs`. */
  readonly bucket: string;
  /** Where it is; the first is where its new objects go. */
  readonly clusters: readonly ClusterId[];
  /**
   * `new`: would be recorded. `unclear`: a cluster did not tell. `stray`: recorded, and also on clusters
   * that its record does not name, which nobody asks. `unnameable`: its name cannot be asked for.
   */
  readonly outcome: "new" | "recorded" | "gone" | "unclear" | "stray" | "unnameable";
  /** On several clusters: readable as one, and for an operator to sort out. */
  readonly conflict: boolean;
  readonly detail: string | null;
}

export type AdoptPage =
  | {
      readonly kind: "page";
      readonly listed: readonly {
        readonly cluster: ClusterId;
        readonly buckets: number;
        /** `false`: those of its own keys' user only. */
        readonly all: boolean;
      }[];
      /** Recorded before, where they are. */
      readonly known: number;
      readonly buckets: readonly AdoptedBucket[];
      /** Where to go on; `null`: that was all. */
      readonly nextAfter: string | null;
    }
  | { readonly kind: "unavailable"; readonly cluster: ClusterId; readonly why: string };

interface Named {
  readonly full: string;
  readonly tenant: TenantName;
  readonly name: BucketName | null;
  readonly clusters: ClusterId[];
}

interface Listed {
  /** In order of their names. */
  readonly named: readonly Named[];
  readonly listed: Extract<AdoptPage, { readonly kind: "page" }>["listed"];
}

/** One walk over all buckets: the clusters list them for its first page, and the others go on with that. */
export class Adoption {
  readonly #parts: AdoptPorts;
  #kept: Listed | null = null;
  #forget: () => void = () => {};

  constructor(parts: AdoptPorts) {
    this.#parts = parts;
  }

  /** Adopts the next buckets in order of their names, or shows what would be recorded. */
  async next(options: AdoptOptions): Promise<AdoptPage> {
    const parts = this.#parts;
    const kept = options.after === "" ? null : this.#kept;
    const all = kept ?? (await listAllClusters(parts, options.signal));
    if ("kind" in all) return all;
    const { page, known, nextAfter } = pageOf(all.named, parts.ports, options);
    this.#keep(nextAfter === null ? null : all);
    const buckets = await inParallel(page, (each) => adoptOne(each, parts, options));
    return { kind: "page", listed: all.listed, known, buckets, nextAfter };
  }

  /** No longer than somebody may go on with it: it is as long as all names. */
  #keep(all: Listed | null): void {
    this.#forget();
    this.#kept = all;
    if (all === null) return;
    this.#forget = this.#parts.ports.timers.after(keptForMs, () => {
      this.#kept = null;
    });
  }
}

async function listAllClusters(
  parts: AdoptPorts,
  signal: CancelSignal,
): Promise<Listed | Extract<AdoptPage, { readonly kind: "unavailable" }>> {
  const clusters = [...parts.ports.snapshots.current().clusters.values()]
    .filter(({ value }) => value.state !== "removed")
    .map(({ value }) => value.id);
  const lists = await Promise.all(clusters.map((cluster) => listOf(cluster, parts, signal)));
  const named = new Map<string, Named>();
  const listed: { cluster: ClusterId; buckets: number; all: boolean }[] = [];
  for (const list of lists) {
    const { cluster } = list;
    if (list.kind === "failed") return { kind: "unavailable", cluster, why: list.why };
    for (const text of list.names) note(named, text, cluster);
    listed.push({ cluster, buckets: list.names.length, all: list.all });
  }
  return { named: [...named.values()].sort((a, b) => (a.full < b.full ? -1 : 1)), listed };
}

function note(named: Map<string, Named>, text: string, cluster: ClusterId): void {
  const slash = text.indexOf("/");
  const tenant = parseTenantName(slash === -1 ? "" : text.slice(0, slash)) ?? noTenant;
  const parsed = parseBucketName(text.slice(slash + 1));
  const name = parsed === null || isReservedBucket(parsed) ? null : parsed;
  const full = tenant === noTenant ? text : `${tenant}:${text.slice(slash + 1)}`;
  const known = named.get(full);
  if (known === undefined) named.set(full, { full, tenant, name, clusters: [cluster] });
  else if (!known.clusters.includes(cluster)) known.clusters.push(cluster);
}

/** The next names that have something to tell, in order. */
function pageOf(
  named: readonly Named[],
  ports: OperationPorts,
  { after, limit }: AdoptOptions,
): { readonly page: readonly Named[]; readonly known: number; readonly nextAfter: string | null } {
  const { buckets } = ports.snapshots.current();
  const page: Named[] = [];
  let known = 0;
  for (let index = firstBehind(named, after); index < named.length; index += 1) {
    const each = named[index];
    if (each === undefined) break;
    const record = each.name === null ? undefined : buckets.find(each.tenant, each.name);
    if (record !== undefined && strayOf(each, record.value).length === 0) {
      known += 1;
      continue;
    }
    if (page.length === limit) return { page, known, nextAfter: page.at(-1)?.full ?? null };
    page.push(each);
  }
  return { page, known, nextAfter: null };
}

/** The index of the first name behind one, by halving: a walk has many pages. */
function firstBehind(named: readonly Named[], after: string): number {
  let [low, high] = [0, named.length];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if ((named[middle]?.full ?? "") <= after) low = middle + 1;
    else high = middle;
  }
  return low;
}

function strayOf({ clusters }: Named, record: BucketRecord): readonly ClusterId[] {
  const own = clustersOf(record);
  return clusters.filter((cluster) => !own.includes(cluster));
}

async function adoptOne(
  named: Named,
  { ports, discovery }: AdoptPorts,
  { dryRun }: AdoptOptions,
): Promise<AdoptedBucket> {
  const { full: bucket, tenant, name } = named;
  const about = { bucket, clusters: named.clusters, conflict: false, detail: null };
  if (name === null) return { ...about, outcome: "unnameable" };
  const record = ports.snapshots.current().buckets.find(tenant, name)?.value;
  if (record !== undefined) {
    const detail = `The record names ${clustersOf(record).join(", ")} only`;
    return { ...about, outcome: "stray", conflict: true, detail };
  }
  try {
    if (dryRun) {
      const found = await lookUp(tenant, name, ports);
      if (found.kind === "absent") return { ...about, outcome: "gone" };
      if (found.kind === "unknown") {
        const detail = `Cluster ${found.clusters.join(", ")} does not tell`;
        return { ...about, outcome: "unclear", detail };
      }
      const would = discoveredRecord({ tenant, name, createdAtMs: 0 }, found.clusters);
      return { ...about, ...placesOf(would), outcome: "new" };
    }
    discovery.forgetAbsence(tenant, name);
    const entry = await discovery.find(tenant, name, ports);
    if (entry === null) return { ...about, outcome: "gone" };
    return { ...about, ...placesOf(entry.value), outcome: "recorded" };
  } catch (caught) {
    return { ...about, outcome: "unclear", detail: whyFailed(caught) };
  }
}

function placesOf(record: BucketRecord): Pick<AdoptedBucket, "clusters" | "conflict"> {
  return { clusters: clustersOf(record), conflict: record.conflict };
}

type ClusterList =
  | {
      readonly kind: "list";
      readonly cluster: ClusterId;
      readonly names: readonly string[];
      readonly all: boolean;
    }
  | { readonly kind: "failed"; readonly cluster: ClusterId; readonly why: string };

async function listOf(
  cluster: ClusterId,
  { ports, listAll }: AdoptPorts,
  signal: CancelSignal,
): Promise<ClusterList> {
  try {
    const everybodys = await listAll(cluster, signal);
    if (everybodys !== null) return { kind: "list", cluster, names: everybodys, all: true };
    return { kind: "list", cluster, names: await ownBuckets(cluster, ports, signal), all: false };
  } catch (caught) {
    return { kind: "failed", cluster, why: whyFailed(caught) };
  }
}

/** ListBuckets with the cluster's keys, page after page where the upstream pages. */
async function ownBuckets(
  cluster: ClusterId,
  ports: Pick<OperationPorts, "upstream">,
  signal: CancelSignal,
): Promise<readonly string[]> {
  const names: string[] = [];
  let token: string | null = null;
  for (let page = 0; page < maxListPages; page += 1) {
    const response = await ports.upstream.send(
      cluster,
      {
        operation: "ListBuckets",
        method: "GET",
        tenant: noTenant,
        bucket: null,
        key: null,
        query: token === null ? [] : [["continuation-token", token]],
        headers: [],
        body: null,
        payloadSha256: null,
        identity: serviceIdentity,
      },
      signal,
    );
    const document = await readDocument(response);
    const reading = response.status === 200 ? readBucketList(document) : null;
    if (reading?.kind !== "list") {
      throw new S3Error("ServiceUnavailable", {
        message: `does not list its buckets: status ${response.status}`,
      });
    }
    for (const { name } of reading.list.buckets) names.push(name);
    const next: string | null = reading.list.continuationToken;
    if (next === null || next === token) break;
    token = next;
  }
  return names;
}

async function inParallel<T, R>(
  items: readonly T[],
  run: (item: T) => Promise<R>,
): Promise<readonly R[]> {
  const results: R[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    for (;;) {
      const index = next;
      next += 1;
      const item = items[index];
      if (item === undefined) return;
      results[index] = await run(item);
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, worker));
  return results;
}
