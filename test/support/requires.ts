// What a suite needs beside Node. At the desk a missing command skips the suite with the reason and
// the line that installs it; where CI is `true` the same skip is a failure, so that a green run has
// run everything.

import { accessSync, constants, statSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";
import type { Test } from "tap";

/** Directories beside PATH where `go install` and Debian put commands. */
const moreDirectories = [join(homedir(), "go", "bin"), "/usr/sbin", "/usr/local/go/bin"];

/** Full path of a command, or null. The name may be a full path itself. */
export function findCommand(name: string): string | null {
  const searched = [...(process.env["PATH"] ?? "").split(delimiter), ...moreDirectories];
  const directories = isAbsolute(name) ? ["/"] : searched;
  for (const directory of directories) {
    const path = join(directory, name);
    try {
      accessSync(path, constants.X_OK);
      if (statSync(path).isFile()) return path;
    } catch {
      continue;
    }
  }
  return null;
}

/**
 * Options for `t.test`: `{ skip: false }` when every command is there, else the reason. Under
 * `CI=true` a missing command is a failed assertion of `t` as well.
 */
export function requireCommands(
  t: Test,
  commands: readonly string[],
  installLine: string,
): { readonly skip: string | false } {
  const missing = commands.filter((name) => findCommand(name) === null);
  if (missing.length === 0) return { skip: false };
  const reason = `needs ${missing.join(", ")}: ${installLine}`;
  if (process.env["CI"] === "true") t.fail(reason);
  return { skip: reason };
}
