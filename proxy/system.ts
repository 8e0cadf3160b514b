// What a start of Headgate is given from outside: clock, chance, sockets, files, logs.

import type { Server, ServerOptions } from "node:http";
import type { ServerTls } from "./gateway/listener.ts";
import type { AccessLog } from "./gateway/trace.ts";
import type { Clock, Log, Random, Timers } from "./placement/ports.ts";

/** The outside world. */
export interface System {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: Random;
  readonly createServer: (options: ServerOptions, tls: ServerTls | null) => Server;
  /** `v20.20.2`. */
  readonly nodeVersion: string;
  /** Tells one state of a file from another; never rejects. */
  readonly fingerprint: (path: string) => Promise<string>;
  /** Where the bundle lies that is used without `policy.bundle`. */
  readonly defaultBundle: string;
}

export interface StartOptions {
  readonly system: System;
  readonly version: string;
  readonly log: Log;
  readonly accessLog: AccessLog;
  /** Ends the start, and every wait for the state store in it. */
  readonly signal: AbortSignal;
}
