// The file effects the bridge needs, as a port: the file store and the persisted snapshot are
// written through it, so both run in tests against memory. `node-files.ts` is the real one.

export interface FileLock {
  release(): Promise<void>;
}

export interface DurableFiles {
  /** The text of a file; `null` if there is none. Rejects with the system error otherwise. */
  read(path: string): Promise<string | null>;
  /**
   * Replaces a file so that after a crash it holds the old or the new text, never a mixture:
   * temporary file beside it, fsync, rename, fsync of the folder. Resolves when it is durable.
   */
  replace(path: string, chunks: Iterable<string> | AsyncIterable<string>): Promise<void>;
  /** Claims a path for this process alone; `null`: a live process holds it. */
  lock(path: string): Promise<FileLock | null>;
}
