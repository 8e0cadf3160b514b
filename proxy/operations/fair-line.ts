// Work that few may do at a time, in turns that go round among those who ask: whoever asks for much waits
// for itself. One piece of each asker runs at once; a line that is full is told, and who leaves it is
// forgotten.

import type { CancelSignal } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";

interface Waiter {
  readonly who: string;
  readonly go: () => void;
}

export interface LineLimits {
  readonly atOnce: number;
  readonly waiting: number;
  readonly waitingOfOne: number;
}

export class FairLine {
  readonly #limits: LineLimits;
  /** Whose work runs. */
  readonly #running = new Set<string>();
  /** Who waits, longest first; who had a turn goes to the end. */
  #waiting: readonly Waiter[] = [];

  constructor(limits: LineLimits) {
    this.#limits = limits;
  }

  /**
   * Runs `work` in a turn of `who`; not at all when `signal` ends before that.
   * @throws S3Error SlowDown when the line is full.
   */
  async run<T>(who: string, signal: CancelSignal, work: () => Promise<T>): Promise<T> {
    await this.#turn(who, signal);
    try {
      return await work();
    } finally {
      this.#running.delete(who);
      this.#next();
    }
  }

  async #turn(who: string, signal: CancelSignal): Promise<void> {
    const { atOnce, waiting, waitingOfOne } = this.#limits;
    if (signal.aborted) throw new Error("Nobody waits for it any more");
    if (this.#running.size < atOnce && !this.#running.has(who)) {
      this.#running.add(who);
      return;
    }
    const own = this.#waiting.filter((waiter) => waiter.who === who).length;
    if (own >= waitingOfOne || this.#waiting.length >= waiting) {
      throw new S3Error("SlowDown", { retryAfterSeconds: 1 });
    }
    await new Promise<void>((resolve, reject) => {
      const left = {
        handleEvent: (): void => {
          this.#waiting = this.#waiting.filter((each) => each !== waiter);
          reject(new Error("Nobody waits for it any more"));
        },
      };
      const go = (): void => {
        signal.removeEventListener("abort", left);
        resolve();
      };
      const waiter: Waiter = { who, go };
      signal.addEventListener("abort", left);
      this.#waiting = [...this.#waiting, waiter];
    });
  }

  #next(): void {
    const next = this.#waiting.find(({ who }) => !this.#running.has(who));
    if (next === undefined || this.#running.size >= this.#limits.atOnce) return;
    const { who } = next;
    const others = this.#waiting.filter((each) => each !== next);
    const isOwn = (each: Waiter): boolean => each.who === who;
    this.#waiting = [...others.filter((each) => !isOwn(each)), ...others.filter(isOwn)];
    this.#running.add(who);
    next.go();
  }
}
