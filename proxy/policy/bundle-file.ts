// Reads a policy bundle from the file system: a directory with `.manifest`, `policy.wasm` and
// `data.json`, or a bundle.tar.gz. A shell; what the bytes mean is bundle.ts.

import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { FaultError } from "../placement/ports.ts";
import {
  bundleMembers,
  type PolicyBundle,
  readBundleArchive,
  readBundleMembers,
} from "./bundle.ts";

/** @throws FaultError policy_load when it cannot be read or is no WASM bundle. */
export async function readBundle(path: string): Promise<PolicyBundle> {
  const members = new Map<string, Uint8Array>();
  try {
    if (!(await stat(path)).isDirectory()) {
      return await readBundleArchive(await readFile(path), path);
    }
    for (const member of bundleMembers) members.set(member, await readFile(join(path, member)));
  } catch (error) {
    if (error instanceof FaultError) throw error;
    const reason = error instanceof Error ? error.message : "it cannot be read";
    const message = `Cannot load policy bundle "${path}": ${reason}`;
    throw new FaultError("policy_load", message, error);
  }
  return await readBundleMembers(members, path);
}
