// What a request left undone because a cluster went away in the middle of it: done later, by this process
// alone and as long as it lives. One errand at a time, each again after 1 s, 2 s, … 60 s, for an hour at
// most; what was tried least goes first. It decides when; what an errand does, and whether it is still wanted, is the errand's business.

import type { CancelSignal, Clock, Log, LogFields, LogLevel, Timers } from "../placement/ports.ts";

/** Errands at once; what comes beyond them is left to the commands that look for such things. */
const maxErrands = 1000;
const firstDelayMs = 1_000;
const longestDelayMs = 60_000;
const giveUpAfterMs = 3_600_000;
/** A cluster that hangs must not keep the others waiting. */
const attemptMs = 20_000;

/** `again`: not yet. `void`: nobody wants it any more. */
type ErrandOutcome = "done" | "again" | "void";

export interface Errand {
  /** What it concerns. Another one of the same key takes its place, and begins anew. */
  readonly key: string;
  /** What the log says of it, with `errand` for its kind. */
  readonly fields: LogFields;
  run(signal: CancelSignal): Promise<ErrandOutcome>;
}

/** Where operations leave what they could not finish. */
export interface Errands {
  add(errand: Errand): void;
}

interface Entry {
  readonly errand: Errand;
  readonly sinceMs: number;
  readonly dueMs: number;
  readonly delayMs: number;
}

interface UnfinishedPorts {
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly timers: Timers;
  readonly log: Log;
}

export class Unfinished implements Errands {
  readonly #ports: UnfinishedPorts;
  readonly #entries = new Map<string, Entry>();
  #cancelTimer: () => void = () => {};
  #running: AbortController | null = null;
  #isClosed = false;

  constructor(ports: UnfinishedPorts) {
    this.#ports = ports;
  }

  add(errand: Errand): void {
    if (this.#isClosed) return;
    const isFull = this.#entries.size >= maxErrands && !this.#entries.has(errand.key);
    this.#tell("warn", isFull ? "unfinished.full" : "unfinished.added", errand);
    if (isFull) return;
    const nowMs = this.#ports.clock.monotonicMs();
    const dueMs = nowMs + firstDelayMs;
    this.#entries.set(errand.key, { errand, sinceMs: nowMs, dueMs, delayMs: firstDelayMs });
    this.#schedule();
  }

  /** What is left is told and left; an errand under way is ended. */
  close(): void {
    this.#isClosed = true;
    for (const { errand } of this.#entries.values()) this.#tell("warn", "unfinished.left", errand);
    this.#entries.clear();
    this.#cancelTimer();
    this.#running?.abort();
  }

  #schedule(): void {
    this.#cancelTimer();
    if (this.#running !== null || this.#isClosed) return;
    const nowMs = this.#ports.clock.monotonicMs();
    let next: Entry | null = null;
    for (const entry of this.#entries.values()) {
      if (next === null || isBefore(entry, next, nowMs)) next = entry;
    }
    if (next === null) return;
    const entry = next;
    const waitMs = Math.max(0, entry.dueMs - nowMs);
    this.#cancelTimer = this.#ports.timers.after(waitMs, () => void this.#attempt(entry));
  }

  async #attempt(entry: Entry): Promise<void> {
    const { errand } = entry;
    const running = new AbortController();
    this.#running = running;
    const cancelLimit = this.#ports.timers.after(attemptMs, () => running.abort());
    let outcome: ErrandOutcome = "again";
    try {
      outcome = await errand.run(running.signal);
    } catch (caught) {
      this.#tell("warn", "unfinished.failed", errand, { cause: String(caught) });
    }
    cancelLimit();
    this.#running = null;
    // Meanwhile another one may have taken its place, or the process may be ending.
    if (this.#entries.get(errand.key) === entry) this.#note(entry, outcome);
    this.#schedule();
  }

  #note(entry: Entry, outcome: ErrandOutcome): void {
    const { errand, sinceMs } = entry;
    const nowMs = this.#ports.clock.monotonicMs();
    if (outcome === "again" && nowMs - sinceMs < giveUpAfterMs) {
      const delayMs = Math.min(2 * entry.delayMs, longestDelayMs);
      this.#entries.set(errand.key, { ...entry, delayMs, dueMs: nowMs + delayMs });
      this.#tell("debug", "unfinished.again", errand, { delayMs });
      return;
    }
    this.#entries.delete(errand.key);
    if (outcome === "again") this.#tell("warn", "unfinished.given_up", errand);
    else this.#tell("info", `unfinished.${outcome}`, errand);
  }

  #tell(level: LogLevel, event: string, errand: Errand, more: LogFields = {}): void {
    this.#ports.log.write(level, event, { ...errand.fields, ...more });
  }
}

/** Of those that are due the one that was tried least: many for a cluster that hangs let others through. */
function isBefore(one: Entry, other: Entry, nowMs: number): boolean {
  const bothDue = one.dueMs <= nowMs && other.dueMs <= nowMs;
  if (bothDue && one.delayMs !== other.delayMs) return one.delayMs < other.delayMs;
  return one.dueMs < other.dueMs;
}
