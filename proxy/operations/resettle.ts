// Moving an *empty* bucket to another route: the only placement change that needs no epoch. The
// record goes through phase `rerouting`, in which no member places bytes; when every registered
// member has acknowledged that (its mutations begun before have ended), the bucket is listed empty on
// every cluster and the route is swapped by compare-and-swap. Anything found: back to `settled`.
// This is placement.md §5 (announce, acknowledge, verify, open) with nothing to move. An attempt
// that a crash left behind is ended by the next write that meets it: gone on with, or taken back. A change
// that is made for a write to the bucket itself is opened when its cluster has taken that, or taken back.

import { clustersOf } from "../placement/candidates.ts";
import type { AuditLine, Clock, UpstreamIdentity } from "../placement/ports.ts";
import type { BucketRecord, MemberRecord, Revision } from "../placement/records.ts";
import type { Versioned } from "../placement/snapshot.ts";
import type { BucketName, ClusterId, TenantName } from "../s3/names.ts";
import { createOn, deleteOn } from "./bucket-on-cluster.ts";
import { hasSettings } from "./bucket-settings-kept.ts";
import type { Resettlement, ResettlePorts, ResettleResult, Resettling } from "./context.ts";
import type { BucketPlace } from "./emptiness.ts";
import { holdsAnything } from "./emptiness.ts";

/** Members acknowledge within a watch's delay, unless a write past its commit point is under way. */
const acknowledgeWithinMs = 3_000;
const acknowledgePollMs = 50;
/**
 * A record that has stood in a phase this long was left behind by a crash. But for rerouting: what was asked
 * of a cluster may still be carried out, so the time is Q (placement.md §1).
 */
const abandonedAfterMs = {
  settled: Number.POSITIVE_INFINITY,
  rerouting: 20_000,
  creating: 120_000,
  clearing: 120_000,
  deleting: 120_000,
} as const;
/** How long a bucket is taken for non-empty after it was seen so. */
const nonEmptyForMs = 60_000;
/** Writes do not wait for another attempt so soon after one that failed. */
const failedForMs = 5_000;
const rememberedMax = 10_000;

export class Resettler implements Resettling {
  readonly #clock: Clock;
  readonly #deadAfterMs: number;
  readonly #deadSince = new Map<string, number>();
  readonly #flights = new Map<string, Promise<ResettleResult>>();
  readonly #stayUntil = new Map<string, number>();
  readonly #phaseSeen = new Map<string, { readonly revision: Revision; readonly atMs: number }>();

  /**
   * `deadAfterMs`: a member whose lease expired may write from its last map until its own fence
   * closes; it stops being awaited that long after this process saw it dead (placement.md rule 4).
   */
  constructor(options: { readonly clock: Clock; readonly deadAfterMs: number }) {
    this.#clock = options.clock;
    this.#deadAfterMs = options.deadAfterMs;
  }

  /** The bucket was just seen to hold something, so listing it again is of no use for a while. */
  noteNonEmpty(tenant: TenantName, bucket: BucketName): void {
    remember(this.#stayUntil, `${tenant}/${bucket}`, this.#clock.monotonicMs() + nonEmptyForMs);
  }

  #noteFailed(tenant: TenantName, bucket: BucketName): void {
    remember(this.#stayUntil, `${tenant}/${bucket}`, this.#clock.monotonicMs() + failedForMs);
  }

  staysForNow(tenant: TenantName, bucket: BucketName): boolean {
    const until = this.#stayUntil.get(`${tenant}/${bucket}`);
    return until !== undefined && this.#clock.monotonicMs() < until;
  }

  /** Whether a record has stood in a phase but `settled` so long that its maker is gone. */
  abandoned(entry: Versioned<BucketRecord>): boolean {
    const id = `${entry.value.tenant}/${entry.value.name}`;
    const seen = this.#phaseSeen.get(id);
    const nowMs = this.#clock.monotonicMs();
    if (seen?.revision !== entry.modRevision) {
      remember(this.#phaseSeen, id, { revision: entry.modRevision, atMs: nowMs });
      return false;
    }
    return nowMs - seen.atMs > abandonedAfterMs[entry.value.phase];
  }

  /** Settles an empty bucket on another route. One attempt per bucket and process at a time. */
  async resettle(
    entry: Versioned<BucketRecord>,
    to: Resettlement,
    ports: ResettlePorts,
  ): Promise<ResettleResult> {
    const id = `${entry.value.tenant}/${entry.value.name}`;
    const running = this.#flights.get(id);
    if (running !== undefined) {
      // Writes want whatever policy wants, as the running attempt does; others want their own.
      const joins = to.audit.actor.kind === "system";
      return joins ? await running : { kind: "contended" };
    }
    const flight = this.#attempt(entry, to, ports).finally(() => this.#flights.delete(id));
    this.#flights.set(id, flight);
    return await flight;
  }

  async #attempt(
    entry: Versioned<BucketRecord>,
    to: Resettlement,
    ports: ResettlePorts,
  ): Promise<ResettleResult> {
    let result: ResettleResult = { kind: "unavailable" };
    try {
      result = await this.#run(entry, to, ports);
      return result;
    } finally {
      if (result.kind === "unavailable") this.#noteFailed(entry.value.tenant, entry.value.name);
    }
  }

  async #run(
    entry: Versioned<BucketRecord>,
    to: Resettlement,
    ports: ResettlePorts,
  ): Promise<ResettleResult> {
    const record = entry.value;
    // Never a client's signal: an attempt must end in a settled record whoever leaves.
    const { signal } = new AbortController();
    const old = clustersOf(record);
    const joining = [...to.route.weights.keys()].filter((cluster) => !old.includes(cluster));
    const asked = { record, old, joining, to, ports, signal };
    if (record.phase === "rerouting") return await this.#resume(entry, asked);
    if (record.frozen || record.phase !== "settled") return { kind: "busy" };
    if (!mayMove(asked)) return { kind: "unavailable" };
    if (await wouldLose(asked)) {
      this.noteNonEmpty(record.tenant, record.name);
      return { kind: "busy" };
    }
    const announced = await write({ ...record, phase: "rerouting" }, entry.modRevision, ports);
    if (announced === null) return { kind: "contended" };
    const attempt: Attempt = { ...asked, announced, stays: false };
    let result: ResettleResult = { kind: "unavailable" };
    try {
      result = await this.#swap(attempt);
      return result;
    } finally {
      if (result.kind !== "settled" && !attempt.stays) await revert(attempt);
    }
  }

  /**
   * Ends what a crash left behind. Where it cannot be gone on with, it is settled as its record has it: that
   * names every cluster with anything of the bucket at each step, so nobody's rights are needed for it.
   */
  async #resume(entry: Versioned<BucketRecord>, asked: Asked): Promise<ResettleResult> {
    const attempt: Attempt = { ...asked, announced: entry.modRevision, stays: false };
    let cause: unknown = null;
    if (!asked.record.frozen && mayMove(asked)) {
      try {
        const result = await this.#swap(attempt);
        if (result.kind === "settled" || result.kind === "contended") return result;
      } catch (caught) {
        cause = caught;
      }
    }
    const record = attempt.stays ? null : await revert(attempt);
    return record === null ? { kind: "contended" } : { kind: "taken_back", record, cause };
  }

  /** Nothing is taken away before the new route is committed: a loser of the race destroys nothing. */
  async #swap(attempt: Attempt): Promise<ResettleResult> {
    const { record, old, joining, to, ports, signal } = attempt;
    if (!(await this.#acknowledged(attempt.announced, ports, signal))) {
      return { kind: "unavailable" };
    }
    await Promise.all(places(record, joining).map((place) => createOn(place, ports, signal)));
    if (await wouldLose(attempt)) {
      this.noteNonEmpty(record.tenant, record.name);
      return { kind: "busy" };
    }
    // A member that registered meanwhile may have written under the old route.
    if (!(await this.#acknowledged(attempt.announced, ports, signal))) {
      return { kind: "unavailable" };
    }
    const settled: BucketRecord = {
      ...record,
      route: to.route,
      placement: to.placement,
      phase: "settled",
      extra: old.filter((cluster) => !to.route.weights.has(cluster)),
      order: [],
      conflict: false,
    };
    if (to.write !== undefined) {
      // Whoever takes up what a crash leaves here goes on to the cluster that may have taken the write.
      const noted = await write({ ...settled, phase: "rerouting" }, attempt.announced, ports);
      if (noted === null) return { kind: "contended" };
      attempt.announced = noted;
      attempt.stays = await to.write();
      if (!attempt.stays) return { kind: "unavailable" };
    }
    const revision = await write(settled, attempt.announced, ports, to.audit);
    if (revision === null) return { kind: "contended" };
    return {
      kind: "settled",
      record: await leave({ value: settled, modRevision: revision }, attempt),
    };
  }

  async #acknowledged(
    revision: Revision,
    ports: ResettlePorts,
    signal: AbortSignal,
  ): Promise<boolean> {
    const deadlineMs = this.#clock.monotonicMs() + acknowledgeWithinMs;
    for (;;) {
      const awaited: MemberState[] = [];
      for (const member of await ports.registry.members(signal)) {
        if (member.record.mode === "observer" || member.record.acked >= revision) continue;
        if (this.#isGone(member)) await ports.registry.forgetMember(member.record.id, null);
        else awaited.push(member);
      }
      if (awaited.length === 0) return true;
      // One that is dead but may still write will not acknowledge: waiting for it is of no use.
      const hopeless = awaited.some(({ alive }) => !alive);
      if (hopeless || this.#clock.monotonicMs() >= deadlineMs) return false;
      await this.#clock.sleep(acknowledgePollMs, signal);
    }
  }

  /** Dead for so long that its own fence has closed (placement.md rule 4). */
  #isGone({ record: { id }, alive }: MemberState): boolean {
    if (alive) {
      this.#deadSince.delete(id);
      return false;
    }
    const nowMs = this.#clock.monotonicMs();
    const since = this.#deadSince.get(id);
    if (since === undefined) remember(this.#deadSince, id, nowMs);
    return since !== undefined && nowMs - since > this.#deadAfterMs;
  }
}

interface MemberState {
  readonly record: MemberRecord;
  readonly alive: boolean;
}

interface Asked {
  readonly record: BucketRecord;
  readonly old: readonly ClusterId[];
  readonly joining: readonly ClusterId[];
  readonly to: Resettlement;
  readonly ports: ResettlePorts;
  readonly signal: AbortSignal;
}

interface Attempt extends Asked {
  /** Of the record as this attempt wrote it last. */
  announced: Revision;
  /** A cluster may have taken the write that the change is for: it is not taken back. */
  stays: boolean;
}

/**
 * A bucket made or deleted by us would be ours; where a cluster knows its users it is a user's, whose own
 * request can bring it onto fewer clusters. Onto more it would not have that user's ACL.
 */
function mayMove({ old, joining, to, ports }: Asked): boolean {
  const known = [...old, ...joining].some((cluster) => ports.identity(cluster) !== "service");
  return !known || (to.identity !== undefined && joining.length === 0);
}

/**
 * The clusters that must hold nothing: all old ones, but for the only cluster of a route that gathers,
 * where every key is looked for from then on.
 */
export function mustBeEmpty(
  record: BucketRecord,
  { route, gathers }: Pick<Resettlement, "route" | "gathers">,
): readonly ClusterId[] {
  const only = gathers && route.weights.size === 1;
  return clustersOf(record).filter((cluster) => !(only && route.weights.has(cluster)));
}

/** Whether anything lies where the new route does not look for it, or a setting would be left behind. */
async function wouldLose({ record, old, joining, to, ports, signal }: Asked): Promise<boolean> {
  const emptied = [...mustBeEmpty(record, to), ...joining];
  if (await holdsAnything(places(record, emptied, to.identity), ports, signal)) return true;
  // A bucket that is created anew has no settings; those that stay have them all.
  const [first] = places(record, old);
  return joining.length > 0 && first !== undefined && (await hasSettings(first, ports, signal));
}

/**
 * Removes the empty bucket from the clusters that left, lest discovery find it there after it was
 * deleted elsewhere. Where that fails the cluster stays in the record as `extra`.
 */
async function leave(
  entry: Versioned<BucketRecord>,
  { ports, signal, to }: Attempt,
): Promise<Versioned<BucketRecord>> {
  const { value: record } = entry;
  if (record.extra.length === 0) return entry;
  const extra = await remaining(places(record, record.extra, to.identity), ports, signal);
  if (extra.length === record.extra.length) return entry;
  const revision = await write({ ...record, extra }, entry.modRevision, ports);
  // Somebody else has written the record since: theirs still names the clusters.
  return revision === null ? entry : { value: { ...record, extra }, modRevision: revision };
}

/** Deletes the empty bucket there; gives the clusters where it still is, or may be. */
async function remaining(
  leaving: readonly BucketPlace[],
  ports: ResettlePorts,
  signal: AbortSignal,
): Promise<readonly ClusterId[]> {
  const results = await Promise.allSettled(leaving.map((place) => deleteOn(place, ports, signal)));
  return leaving.flatMap(({ cluster }, index) => {
    const result = results[index];
    return result?.status === "fulfilled" && result.value === "gone" ? [] : [cluster];
  });
}

/**
 * Back to the old route; a joining cluster that keeps its empty bucket stays named. `null`: somebody else
 * settled it, and theirs stands.
 */
async function revert(attempt: Attempt): Promise<Versioned<BucketRecord> | null> {
  const { record, announced, joining, ports, signal } = attempt;
  // Where a cluster knows its users nothing was made by us, and nothing is ours to delete.
  const ours = mayMove(attempt) ? joining : [];
  const kept = await remaining(places(record, ours), ports, signal);
  const settled: BucketRecord = { ...record, phase: "settled", extra: [...record.extra, ...kept] };
  const revision = await write(settled, announced, ports);
  return revision === null ? null : { value: settled, modRevision: revision };
}

async function write(
  record: BucketRecord,
  expected: Revision,
  ports: ResettlePorts,
  audit: AuditLine | null = null,
): Promise<Revision | null> {
  const result = await ports.registry.commit(
    [{ kind: "bucket", tenant: record.tenant, name: record.name, expected, record }],
    audit,
  );
  return result.kind === "committed" ? result.revision : null;
}

function places(
  { tenant, name }: BucketRecord,
  clusters: readonly ClusterId[],
  identity?: UpstreamIdentity,
): readonly BucketPlace[] {
  const owner = identity === undefined ? {} : { identity };
  return clusters.map((cluster) => ({ tenant, name, cluster, ...owner }));
}

function remember<T>(table: Map<string, T>, id: string, value: T): void {
  table.delete(id);
  if (table.size >= rememberedMax) {
    const [oldest] = table.keys();
    if (oldest !== undefined) table.delete(oldest);
  }
  table.set(id, value);
}
