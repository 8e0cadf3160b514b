// A cluster's own keys out of files that are exchanged while the process runs. Looks at the files in
// turn, and at once when the cluster refuses a key. Id, secret and token change together: writers write
// one file after the other, so new ones count when none has changed for a moment, before and behind
// their reading. What does not read keeps the last good keys, logged and counted.

import type { Log, Timers } from "../placement/ports.ts";
import type { ClusterId } from "../s3/names.ts";
import type { SigningCredentials } from "../s3/sigv4.ts";

/** The files of one cluster's keys. */
export interface KeyFiles {
  readonly files: readonly string[];
  readonly reloadIntervalMs: number;
  /** Reads all of them again. Never throws; `texts` hold no secret. */
  readonly read: () =>
    | { readonly kind: "keys"; readonly keys: SigningCredentials }
    | { readonly kind: "faults"; readonly texts: readonly string[] };
}

export interface RenewingOptions {
  readonly cluster: ClusterId;
  /** Tells one state of a file from another. Never rejects. */
  readonly fingerprint: (path: string) => Promise<string>;
  readonly timers: Timers;
  readonly log: Log;
  readonly reloaded: (outcome: "ok" | "failed") => void;
}

/** So long must files have stayed as they are. */
const quietMs = 100;
/** Files that never rest are left for the next look. */
const mostReadings = 20;

export class RenewingKeys {
  readonly #files: KeyFiles;
  readonly #options: RenewingOptions;
  #keys: SigningCredentials;
  /** State of the files that was dealt with; null: none, so that a change since the start is seen. */
  #seen: string | null = null;
  #told = "";
  #running: Promise<void> | null = null;
  /** A look that has not begun yet. */
  #next: Promise<void> | null = null;
  #closed = false;
  readonly #waits = new Set<() => void>();

  constructor(keys: SigningCredentials, files: KeyFiles, options: RenewingOptions) {
    this.#keys = keys;
    this.#files = files;
    this.#options = options;
    this.#turn();
  }

  current(): SigningCredentials {
    return this.#keys;
  }

  /** Keys in place of those that the cluster refused, or null while there are no others. */
  async renew(refused: SigningCredentials): Promise<SigningCredentials | null> {
    if (this.#keys === refused) await this.#look();
    return this.#keys === refused ? null : this.#keys;
  }

  close(): void {
    this.#closed = true;
    for (const end of this.#waits) end();
  }

  #turn(): void {
    void this.#wait(this.#files.reloadIntervalMs).then(async () => {
      if (this.#closed) return;
      await this.#look();
      this.#turn();
    });
  }

  /** One look that begins after the call; all who ask before it begins share it. */
  #look(): Promise<void> {
    this.#next ??= (this.#running ?? Promise.resolve()).then(() => {
      const look = this.#lookOnce();
      this.#next = null;
      this.#running = look;
      return look;
    });
    return this.#next;
  }

  async #lookOnce(): Promise<void> {
    let print = await this.#fingerprint();
    for (let readings = 0; readings < mostReadings && print !== this.#seen; readings += 1) {
      await this.#wait(quietMs);
      if (this.#closed) return;
      const quiet = (await this.#fingerprint()) === print;
      const reading = this.#files.read();
      const now = await this.#fingerprint();
      if (quiet && now === print) this.#take(reading, print);
      print = now;
    }
  }

  #take(reading: ReturnType<KeyFiles["read"]>, print: string): void {
    const { log, cluster, reloaded } = this.#options;
    this.#seen = print;
    if (reading.kind === "faults") {
      const faults = reading.texts.join("; ");
      if (faults === this.#told) return;
      this.#told = faults;
      reloaded("failed");
      log.write("error", "cluster.keys_not_reloaded", { cluster, faults });
      return;
    }
    this.#told = "";
    if (isSame(reading.keys, this.#keys)) return;
    this.#keys = reading.keys;
    reloaded("ok");
    log.write("info", "cluster.keys_reloaded", { cluster });
  }

  async #fingerprint(): Promise<string> {
    const { files } = this.#files;
    const prints = await Promise.all(files.map((file) => this.#options.fingerprint(file)));
    return prints.join("\n");
  }

  /** Ends early when closed. */
  #wait(durationMs: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        cancel();
        this.#waits.delete(end);
        resolve();
      };
      const cancel = this.#options.timers.after(durationMs, end);
      this.#waits.add(end);
    });
  }
}

function isSame(left: SigningCredentials, right: SigningCredentials): boolean {
  return (
    left.accessKeyId === right.accessKeyId &&
    left.secretAccessKey === right.secretAccessKey &&
    left.sessionToken === right.sessionToken
  );
}
