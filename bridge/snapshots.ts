// The snapshot every request reads, kept up to date by one list at a pinned revision and one prefix
// watch from there (control.md "House decisions"). Whatever ends the watch (compaction, cancel,
// disconnect) leads to a new list that replaces the view, deletes included, after a jittered pause.
// Never more than `entriesPerTurn` values are decoded in one turn of the event loop.

import type { Clock, Log, Meter, Random, Snapshots } from "../proxy/placement/ports.ts";
import { FaultError } from "../proxy/placement/ports.ts";
import type { Revision } from "../proxy/placement/records.ts";
import type { PlacementSnapshot } from "../proxy/placement/snapshot.ts";
import type { StateStore } from "../proxy/placement/state-store.ts";
import { WatchCompactedError } from "../proxy/placement/state-store.ts";
import type { DurableFiles } from "./durable-files.ts";
import { type Keyspace, snapshotFolders } from "./keyspace.ts";
import { readSnapshotText, snapshotText } from "./persisted-snapshot.ts";
import { type BucketId, Reducer, type Reduction, type StateView } from "./reduce.ts";
import { Waiters } from "./waiters.ts";

/** A page is decoded by gRPC in one go: 1000 records, about 360 kB, take some 10 ms. */
const pageSize = 1000;
/** Records between two copies of the bucket table while listing: its cost is the whole table. */
const entriesPerSettle = 10_000;
/** 250 values decode in about 3 ms. */
const entriesPerTurn = 250;
const firstPauseMs = 100;
const maxPauseMs = 5000;

export interface SnapshotsOptions {
  readonly store: StateStore;
  readonly keys: Keyspace;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly meter: Pick<Meter, "snapshotApplied" | "watchRestarted">;
  /** Where the last good snapshot is kept, `null`: nowhere. */
  readonly persist: {
    readonly path: string;
    readonly files: DurableFiles;
    /** Pause after a change before the file is written, so that a burst writes once. */
    readonly debounceMs: number;
  } | null;
}

export interface SnapshotsStatus {
  /** `null` before the first view. */
  readonly revision: Revision | null;
  readonly origin: PlacementSnapshot["origin"] | null;
  /** A live list was read and the watch behind it has not ended. */
  readonly connected: boolean;
  readonly lastEventMs: number | null;
  readonly watchRestarts: number;
  readonly unreadable: number;
}

type Page = Awaited<ReturnType<StateStore["range"]>>;
type Listener = (next: PlacementSnapshot, last: PlacementSnapshot | null) => void;
type AnnouncedListener = (buckets: readonly BucketId[], revision: Revision) => void;

export class LiveSnapshots implements Snapshots {
  readonly #options: SnapshotsOptions;
  readonly #reducer: Reducer;
  readonly #listeners = new Set<Listener>();
  readonly #announced = new Set<AnnouncedListener>();
  readonly #closing = new AbortController();
  readonly #waiters = new Waiters();
  readonly #dirty = new Waiters();
  #view: StateView | null = null;
  #connected = false;
  #watching = new AbortController();
  #lastEventMs: number | null = null;
  #watchRestarts = 0;
  #isUnsaved = false;
  #loop: Promise<void> = Promise.resolve();
  #saver: Promise<void> = Promise.resolve();

  constructor(options: SnapshotsOptions) {
    this.#options = options;
    this.#reducer = new Reducer(options.keys);
  }

  /**
   * Resolves with the first view: live; or, when the store cannot be read at the first try, the
   * persisted one if there is one. Goes on trying until then.
   */
  async start(signal: AbortSignal): Promise<void> {
    this.#loop = this.#run();
    if (this.#options.persist !== null) this.#saver = this.#saveLoop();
    await this.#waiters.until(() => this.#view !== null, signal);
  }

  current(): PlacementSnapshot {
    if (this.#view === null) {
      throw new FaultError("state_unavailable", "Cannot read placement: no snapshot was read yet");
    }
    return this.#view.snapshot;
  }

  reached(revision: Revision, signal: AbortSignal): Promise<void> {
    return this.#waiters.until(
      () => this.#view !== null && this.#view.snapshot.revision >= revision,
      signal,
    );
  }

  /** Resolves once the view is live and watched. */
  connected(signal: AbortSignal): Promise<void> {
    return this.#waiters.until(() => this.#connected, signal);
  }

  /** Drops the watch and lists anew; resolves when that list is applied. */
  async refresh(signal: AbortSignal): Promise<void> {
    this.#connected = false;
    this.#watching.abort(new FaultError("state_unavailable", "Watch ended: refresh was asked for"));
    await this.connected(signal);
  }

  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Called before `subscribe`'s listeners with buckets whose record came to a phase that members acknowledge. */
  subscribeAnnounced(listener: AnnouncedListener): () => void {
    this.#announced.add(listener);
    return () => this.#announced.delete(listener);
  }

  /** Why a key's value is not in the snapshot although the store has one; `null`: it is, or none. */
  unreadable(key: string): string | null {
    return this.#view?.unreadable.get(key)?.reason ?? null;
  }

  status(): SnapshotsStatus {
    return {
      revision: this.#view?.snapshot.revision ?? null,
      origin: this.#view?.snapshot.origin ?? null,
      connected: this.#connected,
      lastEventMs: this.#lastEventMs,
      watchRestarts: this.#watchRestarts,
      unreadable: this.#view?.unreadable.size ?? 0,
    };
  }

  async #run(): Promise<void> {
    const { clock, log, meter } = this.#options;
    let failures = 0;
    while (!this.#isClosed()) {
      this.#watching = new AbortController();
      const signal = AbortSignal.any([this.#watching.signal, this.#closing.signal]);
      try {
        const revision = await this.#list(signal);
        failures = 0;
        await this.#follow(revision, signal);
      } catch (error) {
        if (this.#isClosed()) return;
        this.#connected = false;
        // Only `refresh` aborts this one: it wants the list now.
        if (this.#watching.signal.aborted) continue;
        const reason = endReason(error);
        failures = reason === "compacted" ? 0 : failures + 1;
        this.#watchRestarts += 1;
        meter.watchRestarted(reason);
        log.write("warn", "state_watch_ended", { reason, failures, error: messageOf(error) });
        if (this.#view === null) await this.#usePersisted();
        await clock.sleep(this.#pauseMs(failures), this.#closing.signal).catch(() => undefined);
      }
    }
  }

  #isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  #pauseMs(failures: number): number {
    if (failures === 0) return 0;
    const ceiling = Math.min(maxPauseMs, firstPauseMs * 2 ** Math.min(failures - 1, 10));
    const byte = this.#options.random.bytes(1)[0] ?? 0;
    return ceiling / 2 + (ceiling / 2) * (byte / 255);
  }

  async #list(signal: AbortSignal): Promise<Revision> {
    let draft = this.#reducer.list(this.#view, "live");
    let pinned: Revision | null = null;
    let unsettled = 0;
    for (const folder of snapshotFolders) {
      let fetching: Promise<Page> | null = this.#page(folder, { pinned, after: null, signal });
      while (fetching !== null) {
        const page: Page = await fetching;
        if (pinned === null) {
          pinned = page.revision;
          // A store that lost data counts its revisions anew: nothing known may be reused.
          if (this.#isBehind(pinned)) draft = this.#reducer.list(null, "live");
        }
        const after = page.entries.at(-1)?.key ?? null;
        // The next page travels while this one is decoded; its failure is met at the next await.
        fetching = page.more ? this.#page(folder, { pinned, after, signal }) : null;
        fetching?.catch(() => undefined);
        for (let index = 0; index < page.entries.length; index += entriesPerTurn) {
          draft.add(page.entries.slice(index, index + entriesPerTurn));
          await this.#options.clock.sleep(0, signal);
        }
        unsettled += page.entries.length;
        if (unsettled < entriesPerSettle) continue;
        draft.settle();
        unsettled = 0;
        await this.#options.clock.sleep(0, signal);
      }
    }
    const revision: Revision = pinned ?? 0n;
    if (this.#isBehind(revision)) {
      this.#options.log.write("error", "state_revision_went_back", { to: revision.toString() });
    }
    this.#connected = true;
    this.#apply(draft.finish(revision), false);
    return revision;
  }

  #isBehind(revision: Revision): boolean {
    return this.#view !== null && revision < this.#view.snapshot.revision;
  }

  #page(
    folder: (typeof snapshotFolders)[number],
    at: {
      readonly pinned: Revision | null;
      readonly after: string | null;
      readonly signal: AbortSignal;
    },
  ): Promise<Page> {
    const { store, keys } = this.#options;
    return store.range(keys.folder(folder), {
      limit: pageSize,
      signal: at.signal,
      ...(at.pinned === null ? {} : { revision: at.pinned }),
      ...(at.after === null ? {} : { after: at.after }),
    });
  }

  async #follow(revision: Revision, signal: AbortSignal): Promise<void> {
    const { store, keys } = this.#options;
    for await (const batch of store.watch(keys.prefix, revision, signal)) {
      if (this.#view !== null) this.#apply(this.#reducer.batch(this.#view, batch), true);
    }
    throw new FaultError("state_unavailable", "Watch ended without a reason");
  }

  #apply(reduction: Reduction, isEvent: boolean): void {
    const { clock, log, meter } = this.#options;
    const last = this.#view?.snapshot ?? null;
    const next = reduction.view.snapshot;
    if (last === next) return;
    this.#view = reduction.view;
    for (const { key, newer, reason } of reduction.unreadable) {
      log.write("error", "state_value_unreadable", { key, newer, reason });
    }
    const nowMs = clock.nowMs();
    if (isEvent) this.#lastEventMs = nowMs;
    const delayMs =
      isEvent && reduction.updatedAtMs !== null ? Math.max(0, nowMs - reduction.updatedAtMs) : null;
    meter.snapshotApplied(next.revision, delayMs === null ? null : delayMs / 1000);
    if (reduction.announced.length > 0) {
      for (const listener of this.#announced) listener(reduction.announced, next.revision);
    }
    for (const listener of this.#listeners) listener(next, last);
    this.#waiters.check();
    if (next.origin === "live" && (reduction.changed || !isEvent)) {
      this.#isUnsaved = true;
      this.#dirty.check();
    }
  }

  async #usePersisted(): Promise<void> {
    const { persist, log, keys } = this.#options;
    if (persist === null) return;
    try {
      const text = await persist.files.read(persist.path);
      if (text === null) return;
      const { revision, entries } = readSnapshotText(text, keys);
      const draft = this.#reducer.list(null, "persisted");
      for (let index = 0; index < entries.length; index += entriesPerTurn) {
        draft.add(entries.slice(index, index + entriesPerTurn));
        await this.#options.clock.sleep(0, this.#closing.signal);
      }
      this.#apply(draft.finish(revision), false);
      log.write("warn", "state_persisted_snapshot_used", { revision: revision.toString() });
    } catch (error) {
      log.write("error", "state_persisted_snapshot_refused", { error: messageOf(error) });
    }
  }

  async #saveLoop(): Promise<void> {
    const { persist, clock } = this.#options;
    if (persist === null) return;
    try {
      for (;;) {
        await this.#dirty.until(() => this.#isUnsaved, this.#closing.signal);
        await clock.sleep(persist.debounceMs, this.#closing.signal);
        await this.#save();
      }
    } catch {
      // Closing: `close` saves what is left.
    }
  }

  async #save(): Promise<void> {
    const { persist, clock, keys, log } = this.#options;
    if (persist === null || this.#view === null || !this.#isUnsaved) return;
    const { snapshot } = this.#view;
    this.#isUnsaved = false;
    const savedAt = new Date(clock.nowMs()).toISOString();
    try {
      await persist.files.replace(persist.path, snapshotText(snapshot, keys, savedAt));
    } catch (error) {
      log.write("error", "state_snapshot_not_saved", {
        path: persist.path,
        error: messageOf(error),
      });
    }
  }

  async close(): Promise<void> {
    this.#closing.abort(new FaultError("state_unavailable", "Snapshots are closed"));
    await this.#loop;
    await this.#saver;
    await this.#save();
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function endReason(error: unknown): Parameters<Meter["watchRestarted"]>[0] {
  if (error instanceof WatchCompactedError) return "compacted";
  const cause = error instanceof FaultError ? error.cause : null;
  const isAuth =
    cause instanceof Error &&
    /Authentic|AuthToken|PermissionDenied|Unauthenticated/.test(cause.constructor.name);
  return isAuth ? "auth" : "disconnect";
}
