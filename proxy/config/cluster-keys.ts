// The keys that sign at a cluster, given directly or in files. Files are read here the first time, so
// that a broken one stops the start; a running process reads them again by the same function.

import { Checks } from "./checks.ts";
import type { Settings } from "./schema.ts";
import type { SettingPath } from "./source-file.ts";

export interface ClusterKeys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Null: they are no keys of a session. */
  readonly sessionToken: string | null;
}

export interface ClusterKeyFiles {
  readonly files: readonly string[];
  readonly reloadIntervalMs: number;
  /** Reads them again, with the keys that stand in the configuration itself. Never throws. */
  readonly read: () =>
    | { readonly kind: "keys"; readonly keys: ClusterKeys }
    | { readonly kind: "faults"; readonly texts: readonly string[] };
}

type KeySettings = NonNullable<Settings["clusters"][number]["credentials"]>;

/** Null: a fault. */
export function clusterKeys(
  settings: KeySettings,
  at: SettingPath,
  checks: Checks,
): ClusterKeys | null {
  const accessKeyId = checks.secret(settings, "access_key_id", at);
  const secretAccessKey = checks.secret(settings, "secret_access_key", at);
  const sessionToken = checks.secret(settings, "session_token", at);
  if (!hasBoth(settings)) {
    checks.fault(at, "Needs both access_key_id and secret_access_key, or their _file twins");
  }
  if (accessKeyId === null || secretAccessKey === null) return null;
  return { accessKeyId, secretAccessKey, sessionToken };
}

/** Null: none of them stands in a file. */
export function clusterKeyFiles(
  settings: KeySettings,
  readFile: (path: string) => string,
): ClusterKeyFiles | null {
  const { access_key_id_file, secret_access_key_file, session_token_file } = settings;
  const files = [access_key_id_file, secret_access_key_file, session_token_file].filter(
    (file): file is string => file !== undefined && file !== "",
  );
  if (files.length === 0) return null;
  return {
    files,
    reloadIntervalMs: settings.reload_interval,
    read: () => {
      const checks = new Checks(() => ({ source: "", position: null }), readFile);
      const keys = clusterKeys(settings, [], checks);
      return keys === null || checks.faults.length > 0
        ? { kind: "faults", texts: checks.faults.map(({ message }) => message) }
        : { kind: "keys", keys };
    },
  };
}

function hasBoth(keys: KeySettings): boolean {
  const id = keys.access_key_id ?? keys.access_key_id_file;
  const secret = keys.secret_access_key ?? keys.secret_access_key_file;
  return id !== undefined && secret !== undefined;
}
