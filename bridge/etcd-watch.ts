// One prefix watch over etcd's Watch call, driven on the raw stream: etcd3 1.1.2's own watcher stays
// silent after a cancel or a compaction. A heartbeat tells a stalled etcd from a quiet one: a
// progress request on the open stream, whose answer (or any other message) must come in time.
// Progress answers never move the revision: etcd before 3.4.25 sends them ahead of events.

import type { IWatchResponse, WatchClient } from "etcd3";
import { FaultError } from "../proxy/placement/ports.ts";
import type { Revision } from "../proxy/placement/records.ts";
import type { StoreBatch, StoreEntry, StoreEvent } from "../proxy/placement/state-store.ts";
import { WatchCompactedError } from "../proxy/placement/state-store.ts";
import { etcdFault } from "./etcd-faults.ts";

/** Checked once a request: together they bound the notice of a stall to 4.5 s. */
const heartbeatMs = 1500;
const silenceMs = 3000;

type WatchStream = Awaited<ReturnType<WatchClient["watch"]>>;

export interface EtcdWatchOptions {
  readonly prefix: string;
  /** Exclusive. */
  readonly fromRevision: Revision;
  readonly signal: AbortSignal;
  /** Limit to open the stream, milliseconds. */
  readonly openTimeoutMs: number;
}

interface RawKeyValue {
  readonly key: Buffer;
  readonly value: Buffer;
  readonly create_revision: string;
  readonly mod_revision: string;
}

/** A key-value pair as etcd3 reads it → an entry; revisions come as decimal strings. */
export function entryOf(kv: RawKeyValue): StoreEntry {
  return {
    key: kv.key.toString("utf8"),
    value: kv.value.toString("utf8"),
    createRevision: BigInt(kv.create_revision),
    modRevision: BigInt(kv.mod_revision),
  };
}

/** The first key behind all keys with the prefix: its last byte plus one; prefixes end with `/`. */
export function rangeEnd(prefix: string): Buffer {
  const end = Buffer.from(prefix);
  for (let index = end.length - 1; index >= 0; index -= 1) {
    const byte = end[index];
    if (byte !== undefined && byte < 0xff) {
      end[index] = byte + 1;
      return end.subarray(0, index + 1);
    }
  }
  return Buffer.from([0]);
}

function batchOf(response: IWatchResponse): StoreBatch | null {
  const events = response.events.map((event): StoreEvent => {
    if (event.type === "Delete" || String(event.type).toUpperCase() === "DELETE") {
      const modRevision = BigInt(event.kv.mod_revision);
      return { kind: "delete", key: event.kv.key.toString("utf8"), modRevision };
    }
    return { kind: "put", entry: entryOf(event.kv) };
  });
  const last = events.at(-1);
  if (last === undefined) return null;
  // Not the header's revision: that may be ahead of the events sent while catching up.
  const revision = last.kind === "put" ? last.entry.modRevision : last.modRevision;
  return { revision, events };
}

/** What came off the stream and has not been taken. */
class Inbox {
  readonly #batches: StoreBatch[] = [];
  #end: Error | null = null;
  #wake: () => void = () => undefined;

  put(batch: StoreBatch): void {
    this.#batches.push(batch);
    this.#wake();
  }

  /** The first end counts. */
  finish(error: Error): void {
    this.#end ??= error;
    this.#wake();
  }

  /** @throws what ended the stream, after all that came before it. */
  async take(): Promise<StoreBatch> {
    for (;;) {
      const batch = this.#batches.shift();
      if (batch !== undefined) return batch;
      if (this.#end !== null) throw this.#end;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

function endOf(response: IWatchResponse, what: string): Error {
  const compacted = BigInt(response.compact_revision || "0");
  if (compacted > 0n) {
    return new WatchCompactedError(`Cannot ${what}: compacted up to ${compacted}`);
  }
  return etcdFault(what, new Error(response.cancel_reason || "watch canceled"));
}

async function openStream(
  client: WatchClient,
  what: string,
  openTimeoutMs: number,
): Promise<WatchStream> {
  let timer: NodeJS.Timeout | undefined;
  const opening = client.watch();
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new FaultError("state_unavailable", `Cannot ${what}: no stream in time`)),
      openTimeoutMs,
    );
  });
  try {
    return await Promise.race([opening, late]);
  } catch (error) {
    // A stream that opens later has no reader: end it, and let none of its errors go unheard.
    opening.then(
      (stream) => {
        stream.on("error", () => undefined);
        stream.cancel();
      },
      () => undefined,
    );
    throw etcdFault(what, error);
  } finally {
    clearTimeout(timer);
  }
}

/** Every event under the prefix after `fromRevision`, in whole revisions. Ends by throwing. */
export async function* watchEtcd(
  client: WatchClient,
  options: EtcdWatchOptions,
): AsyncGenerator<StoreBatch> {
  const { prefix, fromRevision, signal, openTimeoutMs } = options;
  const what = `watch "${prefix}" from revision ${fromRevision}`;
  signal.throwIfAborted();
  const stream = await openStream(client, what, openTimeoutMs);
  const inbox = new Inbox();
  let heardMs = performance.now();
  stream.on("error", (error) => inbox.finish(etcdFault(what, error)));
  stream.on("end", () => inbox.finish(etcdFault(what, new Error("stream ended"))));
  stream.on("data", (response) => {
    heardMs = performance.now();
    if (response.canceled) inbox.finish(endOf(response, what));
    const batch = batchOf(response);
    if (batch !== null) inbox.put(batch);
  });
  const heartbeat = setInterval(() => {
    if (performance.now() - heardMs > silenceMs) {
      inbox.finish(etcdFault(what, new Error(`silence for ${silenceMs} ms`)));
    } else {
      stream.write({ progress_request: {} });
    }
  }, heartbeatMs);
  const release = (): void => {
    clearInterval(heartbeat);
    stream.cancel();
  };
  // A reader that stopped taking never reaches `finally`: the abort itself lets the stream go.
  const onAbort = (): void => {
    inbox.finish(toError(signal.reason));
    release();
  };
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    if (signal.aborted) onAbort();
    stream.write({
      create_request: {
        key: Buffer.from(prefix),
        range_end: rangeEnd(prefix),
        start_revision: (fromRevision + 1n).toString(),
        progress_notify: true,
      },
    });
    for (;;) yield await inbox.take();
  } finally {
    signal.removeEventListener("abort", onAbort);
    release();
  }
}

function toError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error("aborted", { cause: reason });
}
