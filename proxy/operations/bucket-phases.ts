// The life of a bucket's record. Each step is a compare-and-swap; who loses it changes nothing more.
//
//   (none)    → creating  CreateBucket, where no cluster has it: the claim of its owner, with what was asked
//   creating  → settled   every cluster made it. The owner's CreateBucket of the same joins in at any time
//   creating  → clearing  a cluster refused it, the owner asks for something else, or the owner's
//                         DeleteBucket. Left behind for 120 s, anybody's CreateBucket clears it away
//   clearing  → (none), creating  nothing is left of it. Goes on at once, by CreateBucket or DeleteBucket
//   settled   → deleting  DeleteBucket, of a bucket seen empty
//   deleting  → (none)    no cluster has it. DeleteBucket goes on at once
//   deleting  → settled   a cluster kept it: the others have it again, with its settings. Left behind for
//                         120 s (`abandoned`), a write does that, or, where a cluster knows its users, the
//                         owner's CreateBucket
//   settled   → rerouting → settled  resettle.ts; left behind for 20 s, the next write goes on
//
// creating, clearing: there is no bucket, 404. rerouting, deleting: reads go on, no write begins, 503.
// clearing, deleting, rerouting are acknowledged: acted on when the mutations begun before have ended.
// Each who clears or deletes writes the record first, and what the last one asked of clusters is over then,
// but for what a cluster still carries out of a request that it gave no answer to: that is not waited for.

import { clustersOf } from "../placement/candidates.ts";
import type { CancelSignal, UpstreamIdentity } from "../placement/ports.ts";
import { serviceIdentity, UpstreamError } from "../placement/ports.ts";
import type { BucketRecord, Revision } from "../placement/records.ts";
import type { Versioned } from "../placement/snapshot.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import { deleteOn } from "./bucket-on-cluster.ts";
import type { OperationPorts, OperationRequest } from "./context.ts";
import type { BucketPlace } from "./emptiness.ts";
import { discard, ownRequest } from "./send.ts";

/** Members acknowledge within a watch's delay, unless a write past its commit point is under way. */
const acknowledgeWithinMs = 3_000;
const firstPollMs = 2;
const longestPollMs = 50;
/** A deletion that goes on beside a creation ends within milliseconds, if its clusters answer. */
const deletionSeenWithinMs = 10_000;
const deletionPollMs = 10;

export type BucketEntry = Versioned<BucketRecord>;

/** Somebody else is at it. */
export function changing(): S3Error {
  return new S3Error("SlowDown", {
    message: "The bucket is being changed by another request",
    retryAfterSeconds: 1,
  });
}

/** Whether a bucket, or the claim of one, is known to be somebody else's. */
export function isAnothers(
  { owner }: Pick<BucketRecord, "owner">,
  { caller }: Pick<OperationRequest, "caller">,
): boolean {
  return owner !== null && owner !== caller;
}

/** The bucket on each of its clusters, the first one first. */
export function placesOf(record: BucketRecord, identity: UpstreamIdentity): readonly BucketPlace[] {
  return clustersOf(record).map((cluster: ClusterId) => ({
    tenant: record.tenant,
    name: record.name,
    cluster,
    identity,
  }));
}

/** Writes the first record of a name. `null`: somebody was faster. */
export async function claim(
  record: BucketRecord,
  ports: OperationPorts,
): Promise<BucketEntry | null> {
  return await put({ record, expected: 0n }, ports);
}

/** Puts a record in the place of one that was read. `null`: that is not the one there any more. */
export async function replace(
  { modRevision }: BucketEntry,
  record: BucketRecord,
  ports: OperationPorts,
): Promise<BucketEntry | null> {
  return await put({ record, expected: modRevision }, ports);
}

async function put(
  { record, expected }: { readonly record: BucketRecord; readonly expected: Revision },
  ports: OperationPorts,
): Promise<BucketEntry | null> {
  const { tenant, name } = record;
  const result = await ports.registry.commit(
    [{ kind: "bucket", tenant, name, expected, record }],
    null,
  );
  return result.kind === "conflict" ? null : { value: record, modRevision: result.revision };
}

/** Whole, or whole again. */
export async function settle(
  entry: BucketEntry,
  ports: OperationPorts,
): Promise<BucketEntry | null> {
  return await replace(entry, { ...entry.value, phase: "settled", asked: null }, ports);
}

/** Ends a record, so that anybody can have the name. Whether it was still the one that was read. */
export async function drop(
  { value: { tenant, name }, modRevision }: BucketEntry,
  ports: OperationPorts,
): Promise<boolean> {
  const result = await ports.registry.commit(
    [{ kind: "bucket", tenant, name, expected: modRevision, record: null }],
    null,
  );
  return result.kind === "committed";
}

/** The record of that name now; `null`: there is none. */
export function entryNow(
  { tenant, name }: Pick<BucketRecord, "tenant" | "name">,
  ports: OperationPorts,
): BucketEntry | null {
  return ports.snapshots.current().buckets.find(tenant, name) ?? null;
}

/** Checks that a request may change anything, as at any commit point, and counts nothing. */
export async function passCommitPoint(request: OperationRequest): Promise<void> {
  const end = await request.commit();
  end();
}

/**
 * Counts what is asked of clusters under a record, for whoever writes the record next. Call the result when
 * all has been answered. @throws S3Error SlowDown where the record is another already.
 */
export function begin(entry: BucketEntry, ports: OperationPorts): () => void {
  const { tenant, name } = entry.value;
  const end = ports.membership.beginMutation(tenant, name);
  if (entryNow(entry.value, ports)?.modRevision === entry.modRevision) return end;
  end();
  throw changing();
}

/**
 * Takes hold of a bucket to delete it or to clear it away, from whoever had. A deletion of a settled bucket
 * does not wait for ever for writes under way: a cluster that took one keeps its bucket.
 * @throws S3Error SlowDown
 */
export async function hold(
  entry: BucketEntry,
  record: BucketRecord,
  ports: OperationPorts,
): Promise<BucketEntry> {
  const held = await replace(entry, record, ports);
  if (held === null) throw changing();
  const wasWhole = entry.value.phase === "settled" || entry.value.phase === "rerouting";
  // A single cluster judges by itself whether its bucket is empty.
  if (wasWhole && clustersOf(record).length === 1) return held;
  if (!(await acknowledged(held.modRevision, ports)) && !wasWhole) throw changing();
  return held;
}

/** Whether all that living members had begun under earlier records has ended. */
async function acknowledged(revision: Revision, ports: OperationPorts): Promise<boolean> {
  const { signal } = new AbortController();
  const untilMs = ports.clock.monotonicMs() + acknowledgeWithinMs;
  for (let pollMs = firstPollMs; ; pollMs = Math.min(2 * pollMs, longestPollMs)) {
    const members = await ports.registry.members(signal);
    const isAwaited = members.some(
      ({ record: { mode, acked }, alive }) => alive && mode === "full" && acked < revision,
    );
    if (!isAwaited) return true;
    if (ports.clock.monotonicMs() >= untilMs) return false;
    await ports.clock.sleep(pollMs, signal);
  }
}

/**
 * Takes away what a creation made; the record that is left says so, for its holder to drop or to replace.
 * Where a cluster's holds something, nobody but who went past Headgate wrote there: it is theirs, to be
 * found like any other bucket, and the claim ends.
 * @param only clusters that may have it, at least one; default: all of the record
 * @throws S3Error BucketNotEmpty, SlowDown, or what a cluster failed with
 */
export async function clearAway(
  entry: BucketEntry,
  identity: UpstreamIdentity,
  ports: OperationPorts,
  only: readonly ClusterId[] = clustersOf(entry.value),
): Promise<BucketEntry> {
  const { route } = entry.value;
  const weights = new Map([...route.weights].filter(([cluster]) => only.includes(cluster)));
  const record = { ...entry.value, phase: "clearing", route: { ...route, weights } } as const;
  const held = await hold(entry, record, ports);
  const end = begin(held, ports);
  try {
    if (await deleteAll(placesOf(record, identity), ports)) return held;
  } finally {
    end();
  }
  await drop(held, ports);
  throw new S3Error("BucketNotEmpty");
}

/** `false`: some hold something. All are asked at once, so that as little as can be is left where one fails. */
async function deleteAll(places: readonly BucketPlace[], ports: OperationPorts): Promise<boolean> {
  const { signal } = new AbortController();
  const results = await Promise.allSettled(places.map((place) => unmakeOn(place, ports, signal)));
  let isGone = true;
  for (const result of results) {
    if (result.status === "rejected") throw result.reason;
    isGone &&= result.value === "gone";
  }
  return isGone;
}

/** A bucket made with grants alone is not its owner's to delete on an RGW, who may give it another ACL. */
async function unmakeOn(
  place: BucketPlace,
  ports: OperationPorts,
  signal: CancelSignal,
): Promise<"gone" | "not_empty"> {
  try {
    return await deleteOn(place, ports, signal);
  } catch (caught) {
    if (!(caught instanceof S3Error)) throw caught;
    const acl = ownRequest(place, place.name, {
      operation: "PutBucketAcl",
      query: [["acl", null]],
      headers: [["x-amz-acl", "private"]],
    });
    await discard(await ports.upstream.send(place.cluster, acl, signal));
    return await deleteOn(place, ports, signal);
  }
}

/**
 * Ends a claim of which nothing comes. What cannot be cleared away now the record tells, for whoever creates
 * or deletes the bucket next.
 */
export async function takeBack(
  entry: BucketEntry,
  places: readonly BucketPlace[],
  ports: OperationPorts,
): Promise<void> {
  const [first] = places;
  const clusters = places.map(({ cluster }) => cluster);
  try {
    const identity = first?.identity ?? serviceIdentity;
    const left = first === undefined ? entry : await clearAway(entry, identity, ports, clusters);
    await drop(left, ports);
  } catch (caught) {
    if (!(caught instanceof S3Error || caught instanceof UpstreamError)) throw caught;
    ports.log.write("warn", "bucket.not_cleared", { bucket: entry.value.name, cause: caught.name });
  }
}

/**
 * Whether the record is the one that a bucket was made under that was there. Where it is not, the bucket is
 * taken away from where it is no longer named: a deletion, whose end is awaited, was there already.
 * @param places where it was made, or may be
 */
export async function standsStill(
  { value: record, modRevision }: BucketEntry,
  places: readonly BucketPlace[],
  ports: OperationPorts,
): Promise<boolean> {
  const { signal } = new AbortController();
  const untilMs = ports.clock.monotonicMs() + deletionSeenWithinMs;
  let now = entryNow(record, ports);
  for (; now?.value.phase === "deleting"; now = entryNow(record, ports)) {
    if (ports.clock.monotonicMs() >= untilMs) return false;
    await ports.clock.sleep(deletionPollMs, signal);
  }
  if (now?.modRevision === modRevision) return true;
  if (now === null) {
    // Under a claim of its own: what cannot be taken away now somebody will.
    const left = await claim({ ...record, phase: "clearing", asked: "" }, ports);
    if (left !== null) await takeBack(left, places, ports);
    return false;
  }
  const named = clustersOf(now.value);
  const unnamed = places.filter(({ cluster }) => !named.includes(cluster));
  await Promise.allSettled(unnamed.map((place) => deleteOn(place, ports, signal)));
  return false;
}
