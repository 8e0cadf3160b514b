// Files of 32-byte keys, one a line in hex, the newest first: those that bind upload handles and those
// that seal secrets in the state store. The first is used, all still open what was made with them.

import type { Checks } from "./checks.ts";
import type { Settings } from "./schema.ts";
import type { SettingPath } from "./source-file.ts";

export type KeyFile = readonly [Uint8Array, ...Uint8Array[]];

/** Null: not configured, or a fault. */
export function keyFile(
  data: Settings,
  name: keyof Settings["keys"],
  checks: Checks,
): KeyFile | null {
  const path: SettingPath = ["keys", name];
  const text = checks.read(data.keys[name], path);
  if (text === null) return null;
  const lines = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const keys = lines.filter((line) => /^[0-9a-fA-F]{64}$/.test(line));
  const [first, ...others] = keys.map((line) => Buffer.from(line, "hex"));
  if (first !== undefined && keys.length <= 3 && keys.length === lines.length) {
    return [first, ...others];
  }
  checks.fault(
    path,
    "File needs one to three lines of 64 hex digits, as openssl rand -hex 32 prints them",
  );
  return null;
}
