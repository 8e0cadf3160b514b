// What a command is: its words, operands and flags, and how it is run. The usage texts, the README's
// table and the parser all come from these.

import type { Config } from "../config.ts";
import type { Clock } from "../placement/ports.ts";
import type { AdminClient, Fetch } from "./admin-client.ts";

/** The outside world of the command line. */
export interface CliIo {
  /** Data. */
  readonly stdout: (text: string) => void;
  /** Talk: faults, warnings, what was done. */
  readonly stderr: (text: string) => void;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** UTF-8 text of a file. @throws as node:fs does. */
  readonly readFile: (path: string) => string;
  readonly fetch: Fetch;
  /** Asks a person; null when there is none at the terminal. */
  readonly confirm: ((question: string) => Promise<boolean>) | null;
  readonly clock: Clock;
  readonly hostname: string;
  /** `0.1.0`. */
  readonly version: string;
  /** Folder of the policies that ship with this package. */
  readonly policies: string;
}

/** What main starts on behalf of the command line. Each resolves with the exit code. */
export interface Starters {
  run(options: { readonly config: Config; readonly embedded: boolean }, io: CliIo): Promise<number>;
  demo(options: { readonly json: boolean }, io: CliIo): Promise<number>;
}

export interface FlagFacts {
  readonly short?: string;
  /** How usage names the value; absent: the flag takes none. */
  readonly value?: string;
  readonly multiple?: boolean;
  readonly summary: string;
}

export interface Call {
  readonly operands: readonly string[];
  /** Null: not given. */
  text(flag: string): string | null;
  texts(flag: string): readonly string[];
  has(flag: string): boolean;
  readonly io: CliIo;
  readonly starters: Starters;
  /** For commands with `admin: true`. */
  readonly client: AdminClient;
  readonly json: boolean;
}

export interface Command {
  /** `cluster drain`. */
  readonly name: string;
  /** `ID`; `ID=N...` takes one or more. */
  readonly operands: string;
  readonly summary: string;
  readonly flags: Readonly<Record<string, FlagFacts>>;
  /** Speaks to the admin API, so takes its flags. */
  readonly admin: boolean;
  readonly run: (call: Call) => Promise<number>;
}

export const outputFlags = {
  output: { short: "o", value: "json|table", summary: "Form of the answer (table)" },
  json: { summary: "The same as -o json" },
} as const satisfies Record<string, FlagFacts>;

export const adminFlags = {
  "admin-url": {
    value: "URL",
    summary: "Admin API (HEADGATE_ADMIN_URL or http://127.0.0.1:9001)",
  },
  "token-file": { value: "FILE", summary: "Bearer token (HEADGATE_ADMIN_AUTH_TOKEN_FILE)" },
  timeout: { value: "DURATION", summary: "Time for an answer (10s; wait: 30s)" },
  ...outputFlags,
} as const satisfies Record<string, FlagFacts>;

export const changeFlags = {
  "dry-run": { summary: "Show the effect, change nothing" },
  "if-match": { value: "REVISION", summary: "Change only what is still at this revision" },
} as const satisfies Record<string, FlagFacts>;

/** All flags of a command. */
export function flagsOf(command: Command): Readonly<Record<string, FlagFacts>> {
  return command.admin ? { ...command.flags, ...adminFlags } : command.flags;
}
