// Promises that wait for a condition over someone else's state: `until` registers one, `check` is
// called after each change. No polling, no timer; an abort or a settled wait leaves nothing behind.

interface Waiter {
  readonly isMet: () => boolean;
  readonly resolve: () => void;
}

export class Waiters {
  readonly #waiting = new Set<Waiter>();

  /** Rejects with the signal's reason when aborted first. */
  until(isMet: () => boolean, signal: AbortSignal): Promise<void> {
    if (isMet()) return Promise.resolve();
    return new Promise<void>((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(waiter);
        const reason: unknown = signal.reason;
        reject(reason instanceof Error ? reason : new Error("aborted", { cause: reason }));
      };
      const waiter: Waiter = {
        isMet,
        resolve: () => {
          signal.removeEventListener("abort", onAbort);
          resolve();
        },
      };
      if (signal.aborted) {
        onAbort();
        return;
      }
      signal.addEventListener("abort", onAbort, { once: true });
      this.#waiting.add(waiter);
    });
  }

  /** Resolves those whose condition now holds. */
  check(): void {
    for (const waiter of this.#waiting) {
      if (!waiter.isMet()) continue;
      this.#waiting.delete(waiter);
      waiter.resolve();
    }
  }
}
