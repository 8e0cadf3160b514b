// Time that passes only when a test says so: a clock, and timers that run when their time has come.

import type { Timers } from "../../proxy/placement/ports.ts";

export interface HandClock {
  readonly timers: Timers;
  monotonicMs(): number;
  /** Lets time pass, running what becomes due. */
  pass(durationMs: number): void;
}

export function handClock(): HandClock {
  let nowMs = 0;
  const due = new Map<object, { readonly atMs: number; readonly run: () => void }>();
  return {
    monotonicMs: () => nowMs,
    timers: {
      after(durationMs, run) {
        const id = {};
        due.set(id, { atMs: nowMs + durationMs, run });
        return () => due.delete(id);
      },
    },
    pass(durationMs) {
      nowMs += durationMs;
      const waiting = Array.from(due);
      for (const [id, { atMs, run }] of waiting) {
        if (atMs > nowMs) continue;
        due.delete(id);
        run();
      }
    },
  };
}
