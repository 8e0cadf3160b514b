// Keys out of a credentials file that may change while the process runs. Every file that the last
// reading touched is looked at in turn; a change of any of them reads the whole again. A file that does
// not read keeps the last good keys: it is logged and counted, and tried again when it changes.

import type { Log, Meter, Timers } from "../placement/ports.ts";
import type { Credential, CredentialSource } from "../policy/credential.ts";
import type { AccessKeyId } from "../s3/names.ts";
import { FixedCredentials } from "./credential-chain.ts";

/** One credentials file as the configuration read it. */
export interface CredentialsFile {
  readonly path: string;
  readonly reloadIntervalMs: number;
  readonly credentials: readonly Credential[];
  /** Every file that was read for it. */
  readonly files: readonly string[];
  /** Reads it again. Never throws; `texts` hold no secret. */
  readonly read: () => { readonly files: readonly string[] } & (
    | { readonly kind: "credentials"; readonly credentials: readonly Credential[] }
    | { readonly kind: "faults"; readonly texts: readonly string[] }
  );
}

export interface ReloadingOptions {
  /** Tells one state of a file from another. Never rejects. */
  readonly fingerprint: (path: string) => Promise<string>;
  readonly timers: Timers;
  readonly log: Log;
  readonly meter: Pick<Meter, "credentialsReloaded">;
}

export class ReloadingCredentials implements CredentialSource {
  readonly #file: CredentialsFile;
  readonly #options: ReloadingOptions;
  readonly #keys: FixedCredentials;
  #files: readonly string[];
  /** Null: never looked at, so that what changed since the start is seen. */
  #seen: string | null = null;
  #told = "";
  #cancel: () => void = () => {};
  #closed = false;

  constructor(file: CredentialsFile, options: ReloadingOptions) {
    this.#file = file;
    this.#options = options;
    this.#keys = new FixedCredentials(file.credentials);
    this.#files = file.files;
    this.#wait();
  }

  find(accessKeyId: AccessKeyId): Credential | null {
    return this.#keys.find(accessKeyId);
  }

  close(): void {
    this.#closed = true;
    this.#cancel();
  }

  #wait(): void {
    if (this.#closed) return;
    this.#cancel = this.#options.timers.after(this.#file.reloadIntervalMs, () => void this.#look());
  }

  async #look(): Promise<void> {
    const before = await this.#fingerprint();
    if (!this.#closed && before !== this.#seen) this.#reload(before);
    this.#wait();
  }

  #reload(before: string): void {
    const { log, meter } = this.#options;
    const { path } = this.#file;
    const reading = this.#file.read();
    // Of the state before the reading: a change in between is one more change. Files that were not
    // looked at before are looked at once more.
    const isFirst = this.#seen === null;
    this.#seen = sameFiles(this.#files, reading.files) ? before : null;
    this.#files = reading.files;
    if (reading.kind === "faults") {
      const faults = reading.texts.join("; ");
      if (isFirst && faults === this.#told) return;
      this.#told = faults;
      meter.credentialsReloaded("failed");
      log.write("error", "credentials.not_reloaded", { path, faults });
      return;
    }
    this.#keys.replace(reading.credentials);
    if (isFirst) return;
    meter.credentialsReloaded("ok");
    log.write("info", "credentials.reloaded", { path, keys: reading.credentials.length });
  }

  async #fingerprint(): Promise<string> {
    const prints = await Promise.all(this.#files.map((file) => this.#options.fingerprint(file)));
    return prints.join("\n");
  }
}

function sameFiles(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((file, index) => file === right[index]);
}
