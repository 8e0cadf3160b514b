// The load generator, a process of its own: sends the same bytes over N keep-alive connections, one
// request at a time each, for a given time. Spoken to over the IPC channel of child_process.fork.

import { connect, type Socket } from "node:net";
import { HttpReader } from "./http-reader.ts";

export interface LoadOrder {
  readonly port: number;
  readonly connections: number;
  readonly durationMs: number;
  /** A whole request, signed: head and base64-free text only. */
  readonly head: string;
  readonly bodyBytes: number;
}

export interface LoadReport {
  readonly requests: number;
  readonly errors: number;
  readonly firstError: string | null;
  /** Milliseconds, sorted. */
  readonly p50: number;
  readonly p99: number;
}

function quantile(sorted: readonly number[], q: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? 0;
}

interface Seen {
  readonly times: number[];
  readonly errors: string[];
}

/** One connection until the time is over; resolves with whether the other side cut it before that. */
function runConnection(
  order: LoadOrder,
  request: Buffer,
  until: number,
  seen: Seen,
): Promise<boolean> {
  return new Promise((resolve) => {
    const socket: Socket = connect(order.port, "127.0.0.1");
    const reader = new HttpReader("response");
    let began = performance.now();
    let finished = false;
    const send = (): void => {
      began = performance.now();
      socket.write(request);
    };
    socket.setNoDelay(true);
    socket.once("connect", send);
    socket.on("error", (error) => seen.errors.push(error.message));
    socket.on("close", () => resolve(!finished));
    socket.on("data", (chunk) => {
      for (const { startLine } of reader.push(chunk)) {
        const now = performance.now();
        if (startLine.startsWith("HTTP/1.1 2")) seen.times.push(now - began);
        else seen.errors.push(startLine);
        if (now < until) {
          send();
          continue;
        }
        finished = true;
        socket.end();
      }
    });
  });
}

/** Connects again whenever the other side cuts the connection, and counts that as an error. */
async function keepConnected(
  order: LoadOrder,
  request: Buffer,
  until: number,
  seen: Seen,
): Promise<void> {
  while (await runConnection(order, request, until, seen)) {
    seen.errors.push("connection cut");
    if (performance.now() >= until || seen.errors.length > 1000) return;
  }
}

async function run(order: LoadOrder): Promise<LoadReport> {
  const request = Buffer.concat([Buffer.from(order.head), Buffer.alloc(order.bodyBytes, "y")]);
  const seen: Seen = { times: [], errors: [] };
  const until = performance.now() + order.durationMs;
  await Promise.all(
    Array.from({ length: order.connections }, () => keepConnected(order, request, until, seen)),
  );
  const sorted = seen.times.toSorted((a, b) => a - b);
  return {
    requests: seen.times.length,
    errors: seen.errors.length,
    firstError: seen.errors[0] ?? null,
    p50: quantile(sorted, 0.5),
    p99: quantile(sorted, 0.99),
  };
}

process.on("message", (order: LoadOrder) => {
  void run(order).then((report) => process.send?.(report));
});
process.on("disconnect", () => process.exit(0));
