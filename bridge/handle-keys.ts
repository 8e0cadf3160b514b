// The 32-byte keys that bind upload handles and list tokens (placement.md §11): one current, up to
// two previous that still verify. From a file if configured; else created in the store by the first
// process to start, by a transaction that only one of them wins.

import type { Clock, Log, Random } from "../proxy/placement/ports.ts";
import { FaultError } from "../proxy/placement/ports.ts";
import type { StateStore } from "../proxy/placement/state-store.ts";
import { recordSchema } from "./codec.ts";
import { asArray, asInteger, asObject, asString, parseJson, shapeFault } from "./json-reader.ts";
import type { Keyspace } from "./keyspace.ts";

const keyBytes = 32;
const maxKeys = 3;

export interface HandleKeys {
  readonly current: Uint8Array;
  /** Newest first, at most two. */
  readonly previous: readonly Uint8Array[];
}

function handleKeysOf(texts: readonly string[]): HandleKeys {
  const keys = texts.map((text) => new Uint8Array(Buffer.from(text, "base64")));
  const [current, ...previous] = keys;
  if (
    current === undefined ||
    keys.length > maxKeys ||
    keys.some((key) => key.length !== keyBytes)
  ) {
    throw shapeFault(
      `handle keys are malformed: needs 1 to ${maxKeys} keys of ${keyBytes} bytes in base64`,
    );
  }
  return { current, previous };
}

export interface HandleKeyOptions {
  readonly store: StateStore;
  readonly keys: Keyspace;
  readonly random: Random;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Reads the installation's handle keys from the store, creating them at the first start.
 * They stand there unsealed, readable by whoever may read the store: with etcd that is a warning.
 * @throws FaultError state_unavailable
 */
export async function loadHandleKeys(
  options: HandleKeyOptions,
  signal: AbortSignal,
): Promise<HandleKeys> {
  const { store, keys, random, clock, log } = options;
  const key = keys.handleKeys();
  const found = await readHandleKeys(options, signal);
  if (store.driver === "etcd") {
    log.write("warn", "handle_keys_unsealed", {
      key,
      advice: "set keys.handle_key_file on every process to keep them out of etcd",
    });
  }
  if (found !== null) return found;
  const value = JSON.stringify({
    schema: recordSchema,
    updated_at: new Date(clock.nowMs()).toISOString(),
    updated_by: "system:headgate",
    keys: [Buffer.from(random.bytes(keyBytes)).toString("base64")],
  });
  await store.txn([{ kind: "mod_revision", key, revision: 0n }], [{ kind: "put", key, value }], []);
  // Read back: another process may have won, and everybody must hold the same key.
  const created = await readHandleKeys(options, signal);
  if (created === null) throw new FaultError("state_unavailable", "Cannot create handle keys");
  return created;
}

async function readHandleKeys(
  options: HandleKeyOptions,
  signal: AbortSignal,
): Promise<HandleKeys | null> {
  const key = options.keys.handleKeys();
  const { entries } = await options.store.range(key, { limit: 1, signal });
  const entry = entries.find((one) => one.key === key);
  if (entry === undefined) return null;
  const value = asObject(parseJson(entry.value), "handle keys");
  asInteger(value["schema"], "schema", [1, recordSchema]);
  return handleKeysOf(asArray(value["keys"], "keys").map((text) => asString(text, "keys")));
}
