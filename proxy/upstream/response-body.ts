// The body of an upstream's answer as it arrives. Decides when the parser is paused: while a sink is
// full, or when more than 64 KiB wait for a consumer. Must never copy a chunk nor hold one longer than
// its consumer needs. Invariant: after `end`, `fail` or `cancel` nothing is asked of the connection.

import type { ByteSink, ByteStream } from "../placement/ports.ts";

/** Bytes kept for a consumer that has not come yet; one socket read of node. */
const unclaimedLimitBytes = 64 * 1024;

const settled = Promise.resolve();
const empty = new Uint8Array(0);

/** What the body may ask of its exchange. */
export interface BodySource {
  /** Lets the parser go on after `receive` returned `false`. */
  resume(): void;
  /** Gives the exchange up and closes its connection. */
  abandon(reason: Error): void;
}

/** One answer's bytes. Filled by the exchange through `receive`, `end` and `fail`. */
export class ResponseBody implements ByteStream {
  readonly #source: BodySource;
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #paused = false;
  #ended = false;
  #failure: Error | null = null;
  #claimed = false;
  #sink: ByteSink | null = null;
  #sinkFull = false;
  #resolvePipe: (() => void) | null = null;
  #rejectPipe: ((reason: Error) => void) | null = null;
  #wake: (() => void) | null = null;

  constructor(source: BodySource) {
    this.#source = source;
  }

  /** Takes a chunk; `false` pauses the parser until `BodySource.resume` is called. */
  receive(chunk: Uint8Array): boolean {
    if (this.#sink !== null && !this.#sinkFull) {
      if (this.#sink.write(chunk)) return true;
      this.#waitForSink(this.#sink);
      this.#paused = true;
      return false;
    }
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.length;
    this.#wakeReader();
    if (this.#waitingBytes <= unclaimedLimitBytes) return true;
    this.#paused = true;
    return false;
  }

  /** The body is complete. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#wakeReader();
    if (!this.#sinkFull) this.#settlePipe();
  }

  /** The body breaks here; what already arrived is still handed out before the failure. */
  fail(failure: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#failure = failure;
    this.#wakeReader();
    if (!this.#sinkFull) this.#settlePipe();
    else this.#giveUpPipe(failure);
  }

  takeWhole(): Uint8Array | null {
    if (!this.#ended || this.#failure !== null || this.#waiting.length > 1) return null;
    this.#claim();
    const [only = empty] = this.#waiting;
    this.#waiting = [];
    return only;
  }

  pipe(sink: ByteSink): Promise<void> {
    this.#claim();
    this.#sink = sink;
    const taken = this.#flush(sink);
    if (this.#ended && taken && this.#failure === null) return settled;
    const done = new Promise<void>((resolve, reject) => {
      this.#resolvePipe = resolve;
      this.#rejectPipe = reject;
    });
    if (this.#ended && taken) this.#settlePipe();
    else this.#resumeSource();
    return done;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    this.#claim();
    try {
      for (;;) {
        const chunk = this.#waiting.shift();
        if (chunk !== undefined) {
          this.#waitingBytes -= chunk.length;
          this.#resumeSource();
          yield chunk;
        } else if (this.#ended) {
          if (this.#failure !== null) throw this.#failure;
          return;
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
      }
    } finally {
      this.cancel();
    }
  }

  cancel(): void {
    this.#waiting = [];
    this.#waitingBytes = 0;
    if (this.#ended) return;
    const reason = new Error("The rest of the body is not wanted");
    this.fail(reason);
    this.#source.abandon(reason);
  }

  #claim(): void {
    if (this.#claimed) throw new Error("Cannot read body: it is being read already");
    this.#claimed = true;
  }

  /** Writes what waits, as far as the sink takes it. `false`: the sink is full. */
  #flush(sink: ByteSink): boolean {
    let count = 0;
    for (const chunk of this.#waiting) {
      count += 1;
      this.#waitingBytes -= chunk.length;
      // A full sink matters only if something is still to come.
      if (!sink.write(chunk) && !(this.#ended && count === this.#waiting.length)) {
        this.#waitForSink(sink);
        break;
      }
    }
    if (count > 0) this.#waiting = this.#waiting.slice(count);
    return !this.#sinkFull;
  }

  #waitForSink(sink: ByteSink): void {
    this.#sinkFull = true;
    sink.drained().then(
      () => {
        if (this.#resolvePipe === null && this.#ended) return;
        this.#sinkFull = false;
        if (!this.#flush(sink)) return;
        if (this.#ended) this.#settlePipe();
        else this.#resumeSource();
      },
      (reason: unknown) => {
        const failure = reason instanceof Error ? reason : new Error("The sink is gone");
        if (this.#ended) {
          this.#giveUpPipe(failure);
          return;
        }
        this.fail(failure);
        this.#source.abandon(failure);
      },
    );
  }

  #resumeSource(): void {
    if (!this.#paused || this.#ended || this.#sinkFull) return;
    if (this.#waitingBytes > unclaimedLimitBytes) return;
    this.#paused = false;
    this.#source.resume();
  }

  #settlePipe(): void {
    if (this.#failure !== null) {
      this.#giveUpPipe(this.#failure);
      return;
    }
    const resolve = this.#resolvePipe;
    this.#resolvePipe = null;
    this.#rejectPipe = null;
    resolve?.();
  }

  #giveUpPipe(failure: Error): void {
    const reject = this.#rejectPipe;
    this.#resolvePipe = null;
    this.#rejectPipe = null;
    reject?.(failure);
  }

  #wakeReader(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }
}
