// Drift: clusters of a bucket that do not say the same of it, because a write reached some of them only
// or somebody wrote to one directly. Shown against the cluster that readers are answered from, and healed
// by copying what that one says. What a client is writing at the moment is no drift: a difference is
// healed only when it stands at a second look.

import { clustersOf } from "../placement/candidates.ts";
import type { CancelSignal } from "../placement/ports.ts";
import type { BucketRecord } from "../placement/records.ts";
import type { Versioned } from "../placement/snapshot.ts";
import { contentMd5 } from "../s3/content-md5.ts";
import type { ClusterId } from "../s3/names.ts";
import { aclOwner } from "../s3/setting-text.ts";
import { createOn, deleteOn } from "./bucket-on-cluster.ts";
import type { OperationPorts } from "./context.ts";
import {
  comparedSettings,
  type DriftKind,
  differenceOf,
  hasBucket,
  type SettingTold,
  subresourceOf,
  tellSetting,
  whyFailed,
} from "./drift-reading.ts";
import type { BucketPlace } from "./emptiness.ts";
import { discard, ownRequest } from "./send.ts";

/** Longer than the writes of one setting to all clusters follow one another. */
const secondLookMs = 500;

interface Drift {
  /** `cors`; of a missing bucket `bucket`. */
  readonly setting: string;
  readonly cluster: ClusterId;
  readonly kind: DriftKind;
  readonly outcome: "found" | "healed" | "failed";
  /** Why it cannot be read, or was not healed. */
  readonly detail: string | null;
}

export interface DriftReport {
  /** The cluster that the others are compared with; `null`: none is known to have the bucket. */
  readonly reference: ClusterId | null;
  readonly clusters: readonly ClusterId[];
  readonly drift: readonly Drift[];
}

export interface DriftOptions {
  /** In place of the first cluster that has the bucket. */
  readonly reference: ClusterId | null;
  readonly signal: CancelSignal;
}

/** A difference with what is needed to heal it. */
interface Difference {
  readonly setting: (typeof comparedSettings)[number] | null;
  readonly cluster: ClusterId;
  readonly kind: DriftKind;
  readonly told: SettingTold | null;
  readonly wanted: SettingTold | null;
  readonly detail: string | null;
}

interface Look {
  readonly reference: ClusterId | null;
  readonly clusters: readonly ClusterId[];
  readonly differences: readonly Difference[];
}

/** How the clusters of a bucket differ. Asks 14 settings of each of them, one setting at a time. */
export async function showDrift(
  record: BucketRecord,
  ports: OperationPorts,
  options: DriftOptions,
): Promise<DriftReport> {
  const look = await lookAt(record, ports, options);
  return report(look, look.differences.map(found), { record, ports });
}

/** Makes the clusters say what the reference says, where that can be done. */
export async function healDrift(
  entry: Versioned<BucketRecord>,
  ports: OperationPorts,
  options: DriftOptions & { readonly signal: AbortSignal },
): Promise<DriftReport> {
  const { value: record } = entry;
  const healed: Drift[] = [];
  let look = await lookAt(record, ports, options);
  // A bucket made anew is copied to, never from, even on the first cluster.
  const following = { ...options, reference: look.reference };
  if (look.differences.some(({ kind }) => kind === "missing_bucket")) {
    healed.push(...(await makeMissing(entry, look, ports)));
    look = await lookAt(record, ports, following);
  }
  if (look.differences.length > 0) {
    await ports.clock.sleep(secondLookMs, options.signal);
    const again = await lookAt(record, ports, following);
    for (const difference of again.differences) {
      const stood = look.differences.some((before) => isSame(before, difference));
      if (difference.setting === null) {
        // That it could not be made is told already.
        if (healed.every(({ cluster }) => cluster !== difference.cluster)) {
          healed.push(found(difference));
        }
      } else if (stood) healed.push(await heal(difference, record, ports));
      else healed.push(found(difference));
    }
    look = again;
  }
  return report(look, healed, { record, ports });
}

async function lookAt(
  record: BucketRecord,
  ports: OperationPorts,
  { reference: asked, signal }: DriftOptions,
): Promise<Look> {
  const clusters = clustersOf(record);
  const differences: Difference[] = [];
  const there: ClusterId[] = [];
  const answers = await Promise.all(
    clusters.map((cluster) => hasBucket(placeOf(record, cluster), ports, signal)),
  );
  for (const [index, cluster] of clusters.entries()) {
    const answer = answers[index];
    if (answer === true) there.push(cluster);
    else if (answer === false) differences.push(noBucket(cluster, "missing_bucket", null));
    else differences.push(noBucket(cluster, "unreadable", answer ?? null));
  }
  // A cluster that does not answer is not passed over: readers would be answered from it.
  const first = clusters[answers.findIndex((answer) => answer !== false)];
  const reference = there.find((cluster) => cluster === (asked ?? first));
  if (reference === undefined) {
    return { reference: null, clusters, differences };
  }
  const others = there.filter((cluster) => cluster !== reference);
  for (const setting of others.length === 0 ? [] : comparedSettings) {
    const [wanted, ...rest] = await Promise.all(
      [reference, ...others].map((cluster) =>
        tellSetting(setting, placeOf(record, cluster), ports, signal),
      ),
    );
    if (wanted === undefined) continue;
    for (const [index, cluster] of others.entries()) {
      const told = rest[index];
      const kind = told === undefined ? null : differenceOf(wanted, told);
      if (told === undefined || kind === null) continue;
      const detail = whyUnreadable(wanted) ?? whyUnreadable(told);
      differences.push({ setting, cluster, kind, told, wanted, detail });
    }
  }
  return { reference, clusters, differences };
}

function noBucket(cluster: ClusterId, kind: DriftKind, detail: string | null): Difference {
  return { setting: null, cluster, kind, told: null, wanted: null, detail };
}

function whyUnreadable(told: SettingTold): string | null {
  return told.kind === "unreadable" ? told.why : null;
}

/** Whether nothing of a difference has changed since. */
function isSame(a: Difference, b: Difference): boolean {
  const text = (told: SettingTold | null): string | null =>
    told?.kind === "set" ? told.text : (told?.kind ?? null);
  return (
    a.cluster === b.cluster &&
    a.setting?.read === b.setting?.read &&
    a.kind === b.kind &&
    text(a.told) === text(b.told) &&
    text(a.wanted) === text(b.wanted)
  );
}

/** The bucket on clusters of the record that lack it; taken away again if it was deleted meanwhile. */
async function makeMissing(
  entry: Versioned<BucketRecord>,
  look: Look,
  ports: OperationPorts,
): Promise<readonly Drift[]> {
  const { value: record, modRevision } = entry;
  const { signal } = new AbortController();
  const results: Drift[] = [];
  for (const difference of look.differences) {
    if (difference.kind !== "missing_bucket") continue;
    const { cluster } = difference;
    const place = placeOf(record, cluster);
    if (ports.identity(cluster) !== "service") {
      results.push(failed(difference, "It would belong to the service user, not to its owner"));
      continue;
    }
    try {
      await createOn(place, ports, signal);
      const now = ports.snapshots.current().buckets.find(record.tenant, record.name);
      if (now?.modRevision === modRevision) {
        results.push({ ...found(difference), outcome: "healed" });
        continue;
      }
      await deleteOn(place, ports, signal);
      results.push(failed(difference, "The bucket was changed meanwhile"));
    } catch (caught) {
      results.push(failed(difference, whyFailed(caught)));
    }
  }
  return results;
}

async function heal(
  difference: Difference,
  record: BucketRecord,
  ports: OperationPorts,
): Promise<Drift> {
  if (difference.kind === "unreadable") return found(difference);
  const { cluster } = difference;
  const write = writeOf(difference);
  if (typeof write === "string") return failed(difference, write);
  const { signal } = new AbortController();
  try {
    const request = ownRequest(record, record.name, write);
    const response = await ports.upstream.send(cluster, request, signal);
    await discard(response);
    if (response.status >= 300) return failed(difference, `answers ${response.status}`);
    return { ...found(difference), outcome: "healed" };
  } catch (caught) {
    return failed(difference, whyFailed(caught));
  }
}

type SettingWrite = Parameters<typeof ownRequest>[2];

/** The request that heals a difference; text: why there is none. */
function writeOf({ setting, kind, told, wanted }: Difference): SettingWrite | string {
  if (setting === null || told === null || wanted === null) return "There is nothing to copy";
  if (setting.never !== null) return setting.never;
  if (kind === "unsupported") return "Not every cluster of the bucket knows the setting";
  const subresource = subresourceOf(setting.read);
  const query = [[subresource, null]] as const;
  if (kind === "extra" && setting.remove !== null) return { operation: setting.remove, query };
  const document = "document" in wanted ? wanted.document : null;
  if (document === null) return "There is nothing to copy";
  const bytes = wantedThere(subresource, document, told);
  return {
    operation: setting.put,
    query,
    headers: [["content-md5", contentMd5(bytes)]],
    body: { kind: "bytes", bytes },
  };
}

/** An ACL names the owner, who is another user on another cluster. */
function wantedThere(subresource: string, document: Uint8Array, told: SettingTold): Uint8Array {
  if (subresource !== "acl" || told.kind !== "set") return document;
  const [from, to] = [aclOwner(document), aclOwner(told.document)];
  if (from === null || to === null || from === to) return document;
  const text = Buffer.from(document).toString("utf8");
  return Buffer.from(text.replaceAll(`<ID>${from}</ID>`, `<ID>${to}</ID>`), "utf8");
}

function found({ setting, cluster, kind, detail }: Difference): Drift {
  const name = setting === null ? "bucket" : subresourceOf(setting.read);
  return { setting: name, cluster, kind, outcome: "found", detail };
}

function failed(difference: Difference, detail: string): Drift {
  return { ...found(difference), outcome: "failed", detail };
}

function report(
  { reference, clusters }: Look,
  drift: readonly Drift[],
  { record, ports }: { readonly record: BucketRecord; readonly ports: OperationPorts },
): DriftReport {
  for (const { setting, cluster, kind, outcome, detail } of drift) {
    ports.meter.bucketDrifted({ setting, cluster, outcome });
    const { tenant, name: bucket } = record;
    const fields = { tenant, bucket, cluster, setting, kind, outcome, detail };
    ports.log.write(outcome === "healed" ? "info" : "warn", "bucket.drift", fields);
  }
  return { reference, clusters, drift };
}

function placeOf(record: BucketRecord, cluster: ClusterId): BucketPlace {
  return { tenant: record.tenant, name: record.name, cluster };
}
