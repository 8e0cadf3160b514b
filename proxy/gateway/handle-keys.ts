// The keys of upload handles and list tokens as the data path has them: from the configuration, or out
// of the state store as soon as it answers. A start without the store serves all that needs no handle.

import type { Clock, Log } from "../placement/ports.ts";
import { FaultError } from "../placement/ports.ts";
import type { HandleKeys } from "../placement/sealed-text.ts";
import { handleKeys } from "../placement/sealed-text.ts";

export interface HandleKeyOptions {
  /** 32 bytes each, the current first; null: the store has them. */
  readonly configured: readonly Uint8Array[] | null;
  readonly load: (
    signal: AbortSignal,
  ) => Promise<{ readonly current: Uint8Array; readonly previous: readonly Uint8Array[] }>;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Pause before the state store is asked again. */
const pauseMs = 1_000;

/** The result throws FaultError state_unavailable while the keys are not known. */
export function handleKeysWhenKnown(options: HandleKeyOptions): () => HandleKeys {
  let known = options.configured === null ? null : fromBytes(options.configured);
  if (known === null) {
    untilLoaded(options).then(
      (loaded) => {
        known = loaded;
      },
      (error: unknown) => {
        options.log.write("error", "handle_keys.unavailable", { error: String(error) });
      },
    );
  }
  return () => {
    if (known !== null) return known;
    const message = "Cannot read upload handles: their key is not known yet";
    throw new FaultError("state_unavailable", message);
  };
}

/** Asks until the store answers; keys that cannot be read as such end it. */
async function untilLoaded(options: HandleKeyOptions): Promise<HandleKeys | null> {
  for (;;) {
    try {
      const { current, previous } = await options.load(options.signal);
      return fromBytes([current, ...previous]);
    } catch (caught) {
      if (!(caught instanceof FaultError) || caught.kind !== "state_unavailable") throw caught;
      await options.clock.sleep(pauseMs, options.signal);
    }
  }
}

function fromBytes([current, ...previous]: readonly Uint8Array[]): HandleKeys | null {
  return current === undefined ? null : handleKeys(current, previous);
}
