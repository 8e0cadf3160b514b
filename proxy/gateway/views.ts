// The view that requests decide on: a placement snapshot together with a policy engine whose data is
// that snapshot's. A change of clusters, classes or data builds a new engine off the hot path and
// swaps both at once; a change of buckets alone swaps at once (policy.md §3). If an engine cannot be
// built, no view is given out: fail closed.

import type { Log, Registry, Snapshots, Timers } from "../placement/ports.ts";
import { FaultError } from "../placement/ports.ts";
import type { Revision } from "../placement/records.ts";
import type { PlacementSnapshot } from "../placement/snapshot.ts";
import type { DecisionView, PolicyEngine } from "../policy/ports.ts";

export interface ViewsOptions {
  readonly snapshots: Snapshots;
  readonly buildEngine: (placement: PlacementSnapshot) => Promise<PolicyEngine>;
  readonly timers: Timers;
  readonly log: Log;
  /** Changes that come within this time are built once. */
  readonly coalesceMs: number;
}

interface Waiter {
  readonly revision: Revision;
  readonly done: () => void;
  readonly fail: (reason: Error) => void;
}

export class Views {
  readonly #options: ViewsOptions;
  #view: DecisionView | null = null;
  #failure: Error | null = null;
  #building = false;
  #cancelTimer: (() => void) | null = null;
  #waiters: Waiter[] = [];
  #stop: () => void = () => {};
  #closed = false;

  private constructor(options: ViewsOptions) {
    this.#options = options;
  }

  /** Builds the first view. @throws FaultError policy_load when the policy cannot be built. */
  static async open(options: ViewsOptions): Promise<Views> {
    const views = new Views(options);
    const placement = options.snapshots.current();
    views.#view = { placement, policy: await options.buildEngine(placement) };
    views.#stop = options.snapshots.subscribe((next) => views.#changed(next));
    views.#changed(options.snapshots.current());
    return views;
  }

  /** @throws FaultError policy_load while the policy cannot be built over the newest data. */
  current(): DecisionView {
    if (this.#view === null || this.#failure !== null) {
      throw this.#fault();
    }
    return this.#view;
  }

  /**
   * Resolves once requests decide on a placement at least this new.
   * @throws FaultError policy_load when the policy does not load over it.
   */
  async reached(revision: Revision): Promise<void> {
    if (this.#closed || (this.#view !== null && this.#view.placement.revision >= revision)) return;
    if (this.#failure !== null) throw this.#fault();
    await new Promise<void>((done, fail) => this.#waiters.push({ revision, done, fail }));
  }

  #fault(): FaultError {
    return new FaultError("policy_load", "Cannot decide: the policy does not load", this.#failure);
  }

  close(): void {
    this.#closed = true;
    this.#stop();
    this.#cancelTimer?.();
    this.#view?.policy.close();
    for (const waiter of this.#waiters.splice(0)) waiter.done();
  }

  #changed(next: PlacementSnapshot): void {
    const view = this.#view;
    if (view === null || this.#closed) return;
    const waiting = this.#building || this.#cancelTimer !== null;
    if (samePolicyData(view.placement, next) && this.#failure === null && !waiting) {
      this.#swap({ ...view, placement: next });
      return;
    }
    // Bucket records are never older than what this member acknowledges (placement.md rule 3), even
    // while an engine is built; the view's revision stays that of its clusters.
    this.#view = { ...view, placement: { ...view.placement, buckets: next.buckets } };
    if (waiting) return;
    this.#cancelTimer = this.#options.timers.after(this.#options.coalesceMs, () => {
      this.#cancelTimer = null;
      void this.#rebuild();
    });
  }

  async #rebuild(): Promise<void> {
    this.#building = true;
    const placement = this.#options.snapshots.current();
    try {
      const policy = await this.#options.buildEngine(placement);
      const last = this.#view;
      this.#failure = null;
      this.#swap({ placement, policy });
      last?.policy.close();
    } catch (caught) {
      this.#failure = caught instanceof Error ? caught : new Error(String(caught));
      this.#options.log.write("error", "policy.rebuild_failed", { error: this.#failure.message });
      for (const waiter of this.#waiters.splice(0)) waiter.fail(this.#fault());
    } finally {
      this.#building = false;
    }
    if (this.#failure === null) this.#changed(this.#options.snapshots.current());
  }

  #swap(view: DecisionView): void {
    this.#view = view;
    const waiting = this.#waiters;
    this.#waiters = waiting.filter((waiter) => waiter.revision > view.placement.revision);
    for (const waiter of waiting) {
      if (waiter.revision <= view.placement.revision) waiter.done();
    }
  }
}

function samePolicyData(a: PlacementSnapshot, b: PlacementSnapshot): boolean {
  return a.clusters === b.clusters && a.classes === b.classes && a.data === b.data;
}

/** A registry whose commits resolve when this process decides on their result, not only holds it. */
export function registryOverViews(registry: Registry, views: Views): Registry {
  return {
    async commit(changes, audit) {
      const result = await registry.commit(changes, audit);
      if (result.kind === "committed") await views.reached(result.revision);
      return result;
    },
    members: (signal) => registry.members(signal),
    forgetMember: (id, audit) => registry.forgetMember(id, audit),
  };
}
