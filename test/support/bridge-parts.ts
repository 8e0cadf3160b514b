// Parts the bridge's tests hand in: a real clock for real stores, a hand-driven one for leases, and
// recorders for log and meter.

import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type {
  Clock,
  Log,
  LogFields,
  LogLevel,
  Meter,
  Random,
} from "../../proxy/placement/ports.ts";
import { FaultError } from "../../proxy/placement/ports.ts";

export const realClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: async (durationMs, signal) => {
    try {
      await delay(durationMs, undefined, { signal });
    } catch {
      signal.throwIfAborted();
    }
  },
};

/** A clock that stands still until `advance`. Sleeps of 0 ms do not wait. */
export class HandClock implements Clock {
  #atMs = 1_700_000_000_000;
  #sleepers: { readonly untilMs: number; readonly wake: () => void }[] = [];

  nowMs(): number {
    return this.#atMs;
  }

  monotonicMs(): number {
    return this.#atMs;
  }

  sleep(durationMs: number, signal: AbortSignal): Promise<void> {
    if (durationMs <= 0) return Promise.resolve();
    const untilMs = this.#atMs + durationMs;
    return new Promise((resolve, reject) => {
      const sleeper = { untilMs, wake: resolve };
      this.#sleepers.push(sleeper);
      signal.addEventListener("abort", () => {
        this.#sleepers = this.#sleepers.filter((one) => one !== sleeper);
        reject(signal.reason instanceof Error ? signal.reason : new Error("aborted"));
      });
    });
  }

  async advance(durationMs: number): Promise<void> {
    this.#atMs += durationMs;
    const due = this.#sleepers.filter((one) => one.untilMs <= this.#atMs);
    this.#sleepers = this.#sleepers.filter((one) => one.untilMs > this.#atMs);
    for (const sleeper of due) sleeper.wake();
    await turns();
  }
}

/** Lets promise chains that are ready run to their end. */
export async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

export const realRandom: Random = { bytes: (count) => new Uint8Array(randomBytes(count)) };

export interface LogRecord {
  readonly level: LogLevel;
  readonly event: string;
  readonly fields: LogFields;
}

export class RecordingLog implements Log {
  readonly records: LogRecord[] = [];

  write(level: LogLevel, event: string, fields: LogFields = {}): void {
    this.records.push({ level, event, fields });
  }

  events(event: string): readonly LogRecord[] {
    return this.records.filter((record) => record.event === event);
  }
}

type StoreCall = Parameters<Meter["storeCalled"]>[0];

/** Counts what the bridge reports; everything else of the port does nothing. */
export class CountingMeter implements Meter {
  readonly calls: Record<StoreCall, number> = { range: 0, txn: 0, watch: 0, lease: 0 };
  readonly restarts: string[] = [];
  readonly propagationSeconds: number[] = [];

  storeCalled(kind: StoreCall): void {
    this.calls[kind] += 1;
  }
  snapshotApplied(_revision: bigint, propagationSeconds: number | null): void {
    if (propagationSeconds !== null) this.propagationSeconds.push(propagationSeconds);
  }
  bucketDiscovered(): void {}
  bucketDrifted(): void {}
  credentialAsked(): void {}
  credentialsReloaded(): void {}
  watchRestarted(reason: string): void {
    this.restarts.push(reason);
  }
  requestStarted(): void {}
  requestEnded(): void {}
  errorAnswered(): void {}
  authFailed(): void {}
  decided(): void {}
  policyEvaluated(): void {}
  policyMemo(): void {}
  writeRouted(): void {}
  writeRefused(): void {}
  upstreamEnded(): void {}
  upstreamRetried(): void {}
}

export const never = new AbortController().signal;

/** Waits until `isMet`, looking after each turn of the event loop; fails after `limitMs`. */
export async function eventually(isMet: () => boolean, limitMs = 20_000): Promise<void> {
  const endMs = performance.now() + limitMs;
  while (!isMet()) {
    if (performance.now() > endMs) throw new Error("condition was not met in time");
    await delay(10);
  }
}

/** The `kind` of the FaultError a promise rejects with; what else it did, in words. */
export async function faultKind(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return "resolved";
  } catch (error) {
    return error instanceof FaultError ? error.kind : String(error);
  }
}
