// The end of a client's wish for its answer, handed to every upstream exchange made for it. Does what
// an AbortController does, without the cost of a DOM event target per request.

import type { CancelListener, CancelSignal } from "../placement/ports.ts";

export class Cancellation implements CancelSignal {
  #aborted = false;
  #reason: unknown = null;
  #listeners: CancelListener[] = [];

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): unknown {
    return this.#reason;
  }

  addEventListener(_type: "abort", listener: CancelListener): void {
    this.#listeners.push(listener);
  }

  removeEventListener(_type: "abort", listener: CancelListener): void {
    const at = this.#listeners.indexOf(listener);
    if (at !== -1) this.#listeners.splice(at, 1);
  }

  /** Tells every listener once; later calls do nothing. */
  abort(reason: Error): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason;
    // A listener takes itself off while it is told.
    for (const listener of this.#listeners.splice(0)) listener.handleEvent();
  }
}
