// Work that may go on at the same time in a bounded number, the rest in a bounded line.

/** A line that is full is told by `null`, never by waiting. */
export class Lane {
  readonly #maxAtOnce: number;
  readonly #maxWaiting: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(limits: { readonly maxAtOnce: number; readonly maxWaiting: number }) {
    this.#maxAtOnce = limits.maxAtOnce;
    this.#maxWaiting = limits.maxWaiting;
  }

  /** Whether one more would have to wait. */
  get busy(): boolean {
    return this.#running >= this.#maxAtOnce;
  }

  /** Runs it now or in its turn; null: the line is full. */
  run<T>(work: () => Promise<T>): Promise<T> | null {
    if (this.busy && this.#waiting.length >= this.#maxWaiting) return null;
    return this.#inTurn(work);
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.busy) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running += 1;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }
}
