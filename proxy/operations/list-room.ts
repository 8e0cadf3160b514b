// Memory for what clusters answer to lists: a list holds the documents of all its clusters at once, until
// its own answer was sent. A page is asked for when there is room for a usual one; where all lists together
// fill the room, the next bytes stay at the clusters. The eldest list that waits may go beyond it, so that
// one always comes to its end. A caller has a share of the room, and waits for itself; who waits too long
// is asked to come back.

import type { CancelSignal, Timers } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";

export interface ListRoomLimits {
  /** Of documents as they arrive; the process takes about twice as much, with what it makes of them. */
  readonly mostBytes: number;
  readonly mostBytesOfOne: number;
  readonly waitMs: number;
}

const defaultLimits: ListRoomLimits = {
  mostBytes: 64 * 1024 * 1024,
  mostBytesOfOne: 32 * 1024 * 1024,
  waitMs: 30_000,
};

/** An object's row with a name of a hundred characters, with its owner. */
const usualRowBytes = 512;
/** A paused connection holds about as much. */
const leastPageBytes = 64 * 1024;

interface Waiter {
  readonly hold: ListHold;
  readonly bytes: number;
  readonly go: () => void;
  readonly fail: (reason: Error) => void;
}

export class ListRoom {
  readonly #timers: Timers;
  readonly #limits: ListRoomLimits;
  readonly #takenOf = new Map<string, number>();
  #taken = 0;
  /** Eldest list first. */
  #waiting: readonly Waiter[] = [];
  /** The list that may go beyond the limits, one at a time. */
  #beyond: ListHold | null = null;
  #opened = 0;

  constructor(timers: Timers, limits: ListRoomLimits = defaultLimits) {
    this.#timers = timers;
    this.#limits = limits;
  }

  /** Bytes that lists hold now. */
  get takenBytes(): number {
    return this.#taken;
  }

  open(who: string, signal: CancelSignal): ListHold {
    this.#opened += 1;
    return new ListHold(this, { who, signal, age: this.#opened });
  }

  /** @throws S3Error SlowDown after a while without room; what the signal says when it is aborted. */
  async take(hold: ListHold, bytes: number): Promise<void> {
    if (hold === this.#beyond || (this.#waiting.length === 0 && this.#fits(hold, bytes))) {
      this.#count(hold, bytes);
      return;
    }
    const { signal } = hold;
    if (signal.aborted) throw reasonOf(signal);
    let cancelTimer = (): void => {};
    const left = { handleEvent: (): void => this.forget(hold, reasonOf(signal)) };
    signal.addEventListener("abort", left);
    try {
      await new Promise<void>((go, fail) => {
        cancelTimer = this.#timers.after(this.#limits.waitMs, () => {
          this.forget(hold, new S3Error("SlowDown", { retryAfterSeconds: 1 }));
        });
        const behind = this.#waiting.findLastIndex((waiter) => waiter.hold.age <= hold.age) + 1;
        this.#waiting = this.#waiting.toSpliced(behind, 0, { hold, bytes, go, fail });
        this.#next();
      });
    } finally {
      cancelTimer();
      signal.removeEventListener("abort", left);
    }
  }

  give(hold: ListHold, bytes: number): void {
    this.#count(hold, -bytes);
    this.#next();
  }

  /** Lets nothing of this list wait any more. */
  forget(hold: ListHold, reason: Error): void {
    const own = this.#waiting.filter((waiter) => waiter.hold === hold);
    this.#waiting = this.#waiting.filter((waiter) => waiter.hold !== hold);
    for (const { fail } of own) fail(reason);
    this.#next();
  }

  /** All that this list held is free again. */
  close(hold: ListHold, bytes: number): void {
    if (this.#beyond === hold) this.#beyond = null;
    this.#count(hold, -bytes);
    this.forget(hold, new Error("The list has ended"));
  }

  #fits({ who }: ListHold, bytes: number): boolean {
    const taken = this.#takenOf.get(who) ?? 0;
    return this.#hasRoom(bytes) && taken + bytes <= this.#limits.mostBytesOfOne;
  }

  #hasRoom(bytes: number): boolean {
    return this.#taken + bytes <= this.#limits.mostBytes;
  }

  #count(hold: ListHold, bytes: number): void {
    hold.heldBytes += bytes;
    this.#taken += bytes;
    const taken = (this.#takenOf.get(hold.who) ?? 0) + bytes;
    if (taken === 0) this.#takenOf.delete(hold.who);
    else this.#takenOf.set(hold.who, taken);
  }

  /** Serves who waits, eldest first: nobody passes one that waits for the room itself. */
  #next(): void {
    const waiting: Waiter[] = [];
    let isFull = false;
    for (const waiter of this.#waiting) {
      const { hold, bytes } = waiter;
      const fits = !isFull && this.#fits(hold, bytes);
      if (!fits) this.#beyond ??= hold;
      if (fits || hold === this.#beyond) {
        this.#count(hold, bytes);
        waiter.go();
      } else {
        isFull ||= !this.#hasRoom(bytes);
        waiting.push(waiter);
      }
    }
    this.#waiting = waiting;
  }
}

function reasonOf({ reason }: CancelSignal): Error {
  return reason instanceof Error ? reason : new Error("Nobody waits for the list any more");
}

/** What one list holds. */
export class ListHold {
  readonly who: string;
  readonly signal: CancelSignal;
  /** Smaller is elder. */
  readonly age: number;
  /** Counted by the room. */
  heldBytes = 0;
  readonly #room: ListRoom;
  #ended = false;

  constructor(
    room: ListRoom,
    list: { readonly who: string; readonly signal: CancelSignal; readonly age: number },
  ) {
    this.#room = room;
    this.who = list.who;
    this.signal = list.signal;
    this.age = list.age;
  }

  /**
   * Waits for room for a page of so many rows, before it is asked for. Gives the bytes, for `readHeld`.
   * @throws S3Error SlowDown
   */
  async expect(rows: number): Promise<number> {
    const bytes = Math.max(leastPageBytes, rows * usualRowBytes);
    await this.take(bytes);
    return bytes;
  }

  /** Waits for room for so many more bytes. @throws S3Error SlowDown */
  async take(bytes: number): Promise<void> {
    // Another cluster of the list has failed meanwhile.
    if (this.#ended) throw new Error("The list has ended");
    await this.#room.take(this, bytes);
  }

  /** So many bytes of what was read are not needed any more. */
  give(bytes: number): void {
    if (!this.#ended) this.#room.give(this, bytes);
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#room.close(this, this.heldBytes);
  }
}
