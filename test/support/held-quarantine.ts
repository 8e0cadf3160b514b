// Waits for the time in which a cluster may still carry out what it gave no answer to (Q), which end only when
// a test says so; all other waits are the machine's.

import { system } from "../../proxy/main.ts";
import type { Timers } from "../../proxy/placement/ports.ts";

const quarantineMs = 120_000;

export interface HeldQuarantine {
  readonly timers: Timers;
  /** As if the time had passed for all that wait now. */
  pass(): void;
}

export function heldQuarantine(): HeldQuarantine {
  const waiting = new Map<object, () => void>();
  return {
    timers: {
      after(durationMs, run) {
        if (durationMs !== quarantineMs) return system.timers.after(durationMs, run);
        const id = {};
        waiting.set(id, run);
        return () => waiting.delete(id);
      },
    },
    pass() {
      const due = Array.from(waiting.values());
      waiting.clear();
      for (const run of due) run();
    },
  };
}
