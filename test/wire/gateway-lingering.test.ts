// A connection that only drops what still comes is bounded: by time, by silence, by bytes.

import { createServer } from "node:http";
import t, { type Test } from "tap";
import { openListener } from "../../proxy/gateway/listener.ts";
import { sendError } from "../../proxy/gateway/reply.ts";
import { S3Error } from "../../proxy/s3/errors.ts";
import { openRaw, type RawConnection, until } from "../support/raw-http.ts";

interface Timer {
  readonly durationMs: number;
  readonly run: () => void;
  cancelled: boolean;
}

async function refusing(t: Test): Promise<{ readonly url: string; readonly timers: Timer[] }> {
  const timers: Timer[] = [];
  const after = (durationMs: number, run: () => void): (() => void) => {
    const timer = { durationMs, run, cancelled: false };
    timers.push(timer);
    return () => {
      timer.cancelled = true;
    };
  };
  const listener = await openListener({
    host: "127.0.0.1",
    port: 0,
    maxHeaderBytes: 16_384,
    headerTimeoutMs: 60_000,
    keepAliveMs: 60_000,
    maxConnections: 8,
    tls: null,
    async exchange(request, response) {
      await Promise.resolve();
      const reply = { request, response, requestId: "1", timers: { after }, writeIdleMs: 60_000 };
      sendError(new S3Error("AccessDenied"), "/", reply);
    },
    refused: () => "1",
    createServer: (options) => createServer(options),
    timers: { after },
    log: { write: () => {} },
  });
  t.teardown(() => {
    const closed = listener.close(1);
    for (const { durationMs, run } of timers) if (durationMs === 1) run();
    return closed;
  });
  return { url: listener.url, timers };
}

/** A refused upload whose client goes on sending and whose answer is here. */
async function refusedUpload(t: Test, url: string): Promise<RawConnection> {
  const connection = await openRaw(url);
  connection.socket.allowHalfOpen = true;
  await connection.write("PUT /b/k HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\n");
  t.equal((await connection.answer()).status, 403);
  return connection;
}

/** The peer is gone for good: what is sent to it now is answered with a reset. */
async function cut({ socket }: RawConnection): Promise<void> {
  await until(() => {
    if (!socket.destroyed) socket.write("more");
    return socket.destroyed;
  });
}

const running = (timers: readonly Timer[], durationMs: number): readonly Timer[] =>
  timers.filter((timer) => timer.durationMs === durationMs && !timer.cancelled);

for (const [name, durationMs] of [
  ["time", 30_000],
  ["silence", 5_000],
] as const) {
  t.test(`a refused body is dropped no longer than its limit of ${name}`, async (t) => {
    const { url, timers } = await refusing(t);
    const connection = await refusedUpload(t, url);
    await connection.write(Buffer.alloc(100_000));
    await until(() => timers.filter((timer) => timer.durationMs === 5_000).length > 1);
    t.equal(running(timers, 5_000).length, 1, "each byte begins the silence anew");
    for (const timer of running(timers, durationMs)) timer.run();
    await cut(connection);
    await until(() => running(timers, 5_000).length + running(timers, 30_000).length === 0);
  });
}

t.test("a refused body is dropped no further than its limit of bytes", async (t) => {
  const { url, timers } = await refusing(t);
  const connection = await refusedUpload(t, url);
  const piece = Buffer.alloc(4 * 1024 * 1024);
  for (let sent = 0; sent < 66 && running(timers, 0).length === 0; sent += 1) {
    await connection.write(piece);
  }
  await until(() => running(timers, 0).length > 0);
  for (const timer of running(timers, 0)) timer.run();
  await cut(connection);
  t.pass("the next byte was answered with a reset");
});

t.test("a client that has read its answer and leaves ends it", async (t) => {
  const { url, timers } = await refusing(t);
  const connection = await refusedUpload(t, url);
  connection.socket.end();
  await until(() => running(timers, 5_000).length + running(timers, 30_000).length === 0);
});
