// The real file system behind `DurableFiles` (a shell: the only file of the bridge that touches it).
// Durability follows POSIX: data reaches the disk by fsync of the file, its name by fsync of the
// folder. A lock file holds the owner's process id; one left by a dead process is taken over.

import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import process from "node:process";
import type { DurableFiles, FileLock } from "./durable-files.ts";

function errorCode(error: unknown): string | null {
  return error instanceof Error && "code" in error && typeof error.code === "string"
    ? error.code
    : null;
}

async function readText(path: string): Promise<string | null> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return null;
    throw error;
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it lives, under another user.
    return errorCode(error) === "EPERM";
  }
}

async function claim(path: string): Promise<FileLock | null> {
  try {
    // Mode 0600: nobody else has business here.
    const file = await open(path, "wx", 0o600);
    try {
      await file.writeFile(`${process.pid}\n`);
    } finally {
      await file.close();
    }
    return { release: () => rm(path, { force: true }) };
  } catch (error) {
    if (errorCode(error) === "EEXIST") return null;
    throw error;
  }
}

/** File effects on the real disk. */
export const nodeFiles: DurableFiles = {
  read: readText,

  async replace(path, chunks) {
    const folder = dirname(path);
    await mkdir(folder, { recursive: true });
    const temporary = `${path}.${process.pid}.tmp`;
    try {
      const file = await open(temporary, "w", 0o600);
      try {
        for await (const chunk of chunks) await file.write(chunk);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
    await syncFolder(folder);
  },

  async lock(path) {
    await mkdir(dirname(path), { recursive: true });
    const first = await claim(path);
    if (first !== null) return first;
    const owner = Number.parseInt((await readText(path)) ?? "", 10);
    // An unreadable owner is one that is writing it just now: taken as alive.
    if (!Number.isInteger(owner) || (owner !== process.pid && isAlive(owner))) return null;
    if (owner === process.pid) return null;
    await rm(path, { force: true });
    return claim(path);
  },
};
