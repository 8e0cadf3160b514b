// Where placement is kept, as settings say it: the driver with its secrets read and its files checked.

import type { Checks } from "./checks.ts";
import type { Settings } from "./schema.ts";
import type { SettingPath } from "./source-file.ts";

export type StateConfig =
  | { readonly driver: "memory" }
  | { readonly driver: "file"; readonly path: string }
  | {
      readonly driver: "etcd";
      readonly endpoints: readonly string[];
      readonly prefix: string;
      readonly username: string | null;
      readonly password: string | null;
      readonly caPem: string | null;
      readonly certPem: string | null;
      readonly keyPem: string | null;
      readonly dialTimeoutMs: number;
    };

function checkSnapshotFile({ state }: Settings, checks: Checks): void {
  const path: SettingPath = ["state", "snapshot_file"];
  const driver: SettingPath = ["state", "driver"];
  if (state.driver === "etcd" && state.snapshot_file === "") {
    checks.warn(path, "No snapshot file, so a start without etcd cannot serve reads", [driver]);
  }
  if (state.driver !== "etcd" && state.snapshot_file !== "") {
    checks.warn(path, `Snapshot file has no effect with driver ${state.driver}`, [driver]);
  }
}

/** The driver; what belongs to another one is not looked at. */
export function stateConfig(data: Settings, checks: Checks): StateConfig {
  const { state } = data;
  checkSnapshotFile(data, checks);
  switch (state.driver) {
    case "memory":
      return { driver: "memory" };
    case "file":
      if (state.file.path === "") checks.fault(["state", "file", "path"], "Path is empty");
      return { driver: "file", path: state.file.path };
    case "etcd": {
      const at: SettingPath = ["state", "etcd"];
      const password = checks.secret(state.etcd, "password", at);
      const username = state.etcd.username ?? null;
      const { password: direct, password_file: file } = state.etcd;
      const hasPassword = direct !== undefined || (file !== undefined && file !== "");
      if ((username === null) === hasPassword) {
        checks.fault(at, "Needs both username and password, or neither");
      }
      const { tls } = state.etcd;
      if ((tls.cert_file === undefined) !== (tls.key_file === undefined)) {
        checks.fault([...at, "tls"], "Needs both cert_file and key_file, or neither");
      }
      return {
        driver: "etcd",
        endpoints: state.etcd.endpoints,
        prefix: state.etcd.prefix,
        username,
        password,
        caPem: checks.read(tls.ca_file, [...at, "tls", "ca_file"]),
        certPem: checks.read(tls.cert_file, [...at, "tls", "cert_file"]),
        keyPem: checks.read(tls.key_file, [...at, "tls", "key_file"]),
        dialTimeoutMs: state.etcd.dial_timeout,
      };
    }
  }
}
