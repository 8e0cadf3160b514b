// The source files of this package, read from the tree itself, so that a check can say how many it saw.

import { readdirSync } from "node:fs";
import { join } from "node:path";

/** Paths of all `.ts` files under a folder, relative to `root`, sorted. */
export function sourceFiles(root: string, folder: string): readonly string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .toSorted();
}
