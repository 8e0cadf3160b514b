// Memory for what clusters answer to lists: a list holds the documents of all its clusters at once, until
// its own answer was sent. Room is taken by bytes that have arrived, never by what may come: a cluster that
// answers nothing holds up no list of another one. Where all lists together fill the room, the next bytes
// stay at the clusters, and no new list begins. The eldest list that has more to read may go beyond it, so
// that one always comes to its end. A caller has a share of the room, and waits for itself; who waits too
// long is asked to come back.

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

/** Room that a list needs to begin, though it does not take it: what it reads of a connection at once. */
const firstBytes = 64 * 1024;

interface Waiter {
  readonly hold: ListHold;
  readonly bytes: number;
  /** It has read them. Else it has nothing yet, waits to begin, and takes none. */
  readonly arrived: boolean;
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

  /**
   * Waits until a list that holds nothing may begin.
   * @throws S3Error SlowDown after a while without room; what the signal says when it is aborted.
   */
  async begin(hold: ListHold): Promise<void> {
    if (this.#waiting.length === 0 && this.#fits(hold, firstBytes)) return;
    await this.#wait(hold, firstBytes, false);
  }

  /** For bytes that have arrived. @throws as `begin` */
  async take(hold: ListHold, bytes: number): Promise<void> {
    if (hold === this.#beyond || (this.#waiting.length === 0 && this.#fits(hold, bytes))) {
      this.#count(hold, bytes);
      return;
    }
    await this.#wait(hold, bytes, true);
  }

  /**
   * The list has read all that it asked for, and asks for more: another one that has something to read may
   * go beyond meanwhile, unless too much is held already by lists that have gone beyond so.
   */
  ask(hold: ListHold): void {
    if (this.#beyond !== hold || !this.#hasRoom(-this.#limits.mostBytesOfOne)) return;
    this.#beyond = null;
    this.#next();
  }

  async #wait(hold: ListHold, bytes: number, arrived: boolean): Promise<void> {
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
        this.#waiting = this.#waiting.toSpliced(behind, 0, { hold, bytes, arrived, go, fail });
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

  /**
   * Serves who waits, eldest first: nobody passes one that waits for the room itself with bytes that have
   * arrived. One that has not begun is passed by those that have, since they give room back.
   */
  #next(): void {
    const waiting: Waiter[] = [];
    let isFull = false;
    for (const waiter of this.#waiting) {
      const { hold, bytes, arrived } = waiter;
      const fits = !isFull && this.#fits(hold, bytes);
      if (!fits && arrived) this.#beyond ??= hold;
      if (fits || (arrived && hold === this.#beyond)) {
        if (arrived) this.#count(hold, bytes);
        waiter.go();
      } else {
        isFull ||= arrived && !this.#hasRoom(bytes);
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

  /** Waits until the list may begin. @throws S3Error SlowDown */
  async begin(): Promise<void> {
    await this.#room.begin(this);
  }

  /** To be called before clusters are asked for more. */
  ask(): void {
    this.#room.ask(this);
  }

  /** Waits for room for so many bytes that have arrived. @throws S3Error SlowDown */
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
