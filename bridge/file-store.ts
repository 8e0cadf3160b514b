// The file store: the memory store's semantics, with every revision on disk before it is answered
// or shown to a watch. One process at a time (a lock file beside it). Keys under a lease do not
// survive a restart, revisions do; history does not, so an older watch is compacted and lists again.
// A transaction writes the whole file: made for one gateway with at most some thousand buckets.

import { FaultError } from "../proxy/placement/ports.ts";
import type { StoreEntry } from "../proxy/placement/state-store.ts";
import type { DurableFiles, FileLock } from "./durable-files.ts";
import { asArray, asObject, asRevision, asString, parseJson } from "./json-reader.ts";
import { EmbeddedStore, type EmbeddedStoreOptions } from "./memory-store.ts";
import { type StoreImage, StoreLog, type StoreWrite } from "./store-log.ts";

const schema = 1;
const defaultMaxHistory = 10_000;

export interface FileStoreOptions extends EmbeddedStoreOptions {
  /** The state file; `{path}.lock` beside it is held while the store is open. */
  readonly path: string;
  readonly files: DurableFiles;
}

function readEntry(value: unknown): StoreEntry {
  const entry = asObject(value, "entry");
  return {
    key: asString(entry["key"], "key"),
    value: asString(entry["value"], "value"),
    createRevision: asRevision(entry["create_revision"], "create_revision"),
    modRevision: asRevision(entry["mod_revision"], "mod_revision"),
  };
}

function readImage(text: string): StoreImage {
  const image = asObject(parseJson(text), "state file");
  if (image["schema"] !== schema) {
    throw new Error(`schema is ${String(image["schema"])}, needs ${schema}`);
  }
  return {
    revision: asRevision(image["revision"], "revision"),
    entries: asArray(image["entries"], "entries").map(readEntry),
  };
}

function* imageText(revision: bigint, entries: Iterable<StoreEntry>): Iterable<string> {
  yield `{"schema":${schema},"revision":"${revision}","entries":[`;
  let separator = "\n";
  for (const entry of entries) {
    yield `${separator}${JSON.stringify({
      key: entry.key,
      value: entry.value,
      create_revision: entry.createRevision.toString(),
      mod_revision: entry.modRevision.toString(),
    })}`;
    separator = ",\n";
  }
  yield "\n]}\n";
}

/** The durable entries as they will be once `writes` are applied at `revision`. */
function* after(
  log: StoreLog,
  writes: readonly StoreWrite[],
  revision: bigint,
): Iterable<StoreEntry> {
  const written = new Map(writes.map((write) => [write.key, write]));
  const created = new Map<string, bigint>();
  for (const entry of log.durable()) {
    if (written.has(entry.key)) created.set(entry.key, entry.createRevision);
    else yield entry;
  }
  for (const write of writes) {
    if (write.kind === "delete" || write.leaseId !== null) continue;
    yield {
      key: write.key,
      value: write.value,
      createRevision: created.get(write.key) ?? revision,
      modRevision: revision,
    };
  }
}

export class FileStore extends EmbeddedStore {
  readonly driver = "file";
  readonly #path: string;
  readonly #files: DurableFiles;
  readonly #lock: FileLock;

  private constructor(options: FileStoreOptions, log: StoreLog, lock: FileLock) {
    super(options, log);
    this.#path = options.path;
    this.#files = options.files;
    this.#lock = lock;
  }

  /**
   * Opens or creates the state file.
   * @throws FaultError state_unavailable: another process holds it, it does not parse, or the disk
   * refuses. A file that does not parse is left as it is.
   */
  static async open(options: FileStoreOptions): Promise<FileStore> {
    const { path, files } = options;
    const fault = (reason: string, cause?: unknown): FaultError =>
      new FaultError("state_unavailable", `Cannot open state file "${path}": ${reason}`, cause);
    let lock: FileLock | null;
    try {
      lock = await files.lock(`${path}.lock`);
    } catch (error) {
      throw fault("its lock file cannot be written", error);
    }
    if (lock === null) throw fault("another process holds it, the file driver is for one process");
    try {
      const log = new StoreLog(options.maxHistory ?? defaultMaxHistory);
      const text = await files.read(path);
      if (text !== null) log.load(readImage(text));
      return new FileStore(options, log, lock);
    } catch (error) {
      await lock.release();
      throw fault(error instanceof Error ? error.message : "it cannot be read", error);
    }
  }

  protected async keep(writes: readonly StoreWrite[]): Promise<void> {
    const revision = this.log.revision + 1n;
    try {
      await this.#files.replace(this.#path, imageText(revision, after(this.log, writes, revision)));
    } catch (error) {
      throw new FaultError(
        "state_unavailable",
        `Cannot write state file "${this.#path}": the disk refused`,
        error,
      );
    }
  }

  override async close(): Promise<void> {
    await super.close();
    await this.#lock.release();
  }
}
