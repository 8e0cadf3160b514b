// Collects what is wrong while settings are resolved, so that all of it is reported at once, and
// reads the files that settings name. A secret never enters a message.

import { createHash } from "node:crypto";
import { type ConfigFault, isPathKey, isRelated, type SettingPath } from "./source-file.ts";

export class Checks {
  readonly faults: ConfigFault[] = [];
  readonly warnings: ConfigFault[] = [];
  readonly #locate: (path: SettingPath) => Pick<ConfigFault, "source" | "position">;
  readonly #readFile: (path: string) => string;
  readonly #unreadable: readonly SettingPath[];

  /** `unreadable`: settings that have a fault already; what only follows from them is not told. */
  constructor(
    locate: (path: SettingPath) => Pick<ConfigFault, "source" | "position">,
    readFile: (path: string) => string,
    unreadable: readonly SettingPath[] = [],
  ) {
    this.#locate = locate;
    this.#readFile = readFile;
    this.#unreadable = unreadable;
  }

  /** `uses`: the other settings that the fault depends on. */
  fault(path: SettingPath, message: string, uses: readonly SettingPath[] = []): void {
    if (!this.#areReadable([path, ...uses])) return;
    this.faults.push({ ...this.#locate(path), path, message });
  }

  warn(path: SettingPath, message: string, uses: readonly SettingPath[] = []): void {
    if (!this.#areReadable([path, ...uses])) return;
    this.warnings.push({ ...this.#locate(path), path, message });
  }

  #areReadable(paths: readonly SettingPath[]): boolean {
    return !paths.some((path) => this.#unreadable.some((other) => isRelated(path, other)));
  }

  /** The text of a file, or null after a fault. An empty name is an unset one. */
  read(file: string | undefined, path: SettingPath): string | null {
    if (file === undefined || file === "") return null;
    try {
      return this.#readFile(file);
    } catch (error) {
      this.fault(path, `Cannot read file "${file}": ${reasonOf(error)}`);
      return null;
    }
  }

  /** A secret given directly or by its `_file` twin; a trailing line end is not part of it. */
  secret(group: Readonly<Record<string, unknown>>, key: string, path: SettingPath): string | null {
    const direct = group[key];
    const file = group[`${key}_file`];
    const filePath = [...path, `${key}_file`];
    if (typeof direct === "string" && typeof file === "string" && file !== "") {
      this.fault(filePath, `Both ${key} and ${key}_file are set, keep one`);
      return null;
    }
    if (typeof direct === "string") return direct;
    if (typeof file !== "string") return null;
    const text = this.read(file, filePath)?.replace(/\r?\n$/, "") ?? null;
    if (text === "") {
      this.fault(filePath, `File "${file}" is empty`);
      return null;
    }
    return text;
  }
}

/** Why a file cannot be read, for people: `it does not exist`. */
export function reasonOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : null;
  switch (code) {
    case "ENOENT":
      return "it does not exist";
    case "EACCES":
      return "permission is denied";
    case "EISDIR":
      return "it is a directory";
    default:
      return typeof code === "string" ? code : "it is not readable";
  }
}

/** Eight hex digits that tell two secrets apart without telling either. */
export function fingerprint(secret: string): string {
  return createHash("sha256").update(secret).digest("hex").slice(0, 8);
}

/** Whether the scalar under a key must not be shown. */
export function isSecretKey(key: string | number | undefined): boolean {
  return (
    typeof key === "string" &&
    !isPathKey(key) &&
    /^(?:access_key_id|secret_access_key|password|secret_key|session_token)$/.test(key)
  );
}
