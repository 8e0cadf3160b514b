// The process log: one JSON object a line, `time`, `level`, `event`, then the fields. Fields are
// written as given, so callers must never hand in a secret.

import type { Clock, Log, LogFields, LogLevel } from "../placement/ports.ts";

/** Where lines go; a stream of main's. */
export interface LineSink {
  write(line: string): unknown;
}

const logLevels = ["debug", "info", "warn", "error"] as const satisfies readonly LogLevel[];

/** Writes entries of `level` and above. */
export class JsonLog implements Log {
  readonly #sink: LineSink;
  readonly #clock: Clock;
  readonly #least: number;

  constructor(sink: LineSink, options: { readonly clock: Clock; readonly level: LogLevel }) {
    this.#sink = sink;
    this.#clock = options.clock;
    this.#least = logLevels.indexOf(options.level);
  }

  write(level: LogLevel, event: string, fields: LogFields = {}): void {
    if (logLevels.indexOf(level) < this.#least) return;
    const time = new Date(this.#clock.nowMs()).toISOString();
    this.#sink.write(`${JSON.stringify({ ...fields, time, level, event })}\n`);
  }
}
