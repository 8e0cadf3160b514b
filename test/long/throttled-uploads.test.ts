// Ten clients at 1 MiB/s each send 256 MiB through one process: every upload reaches the upstream before
// a hundredth of it was sent, and the process does not grow with what passes through it.

import { createServer } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import t, { type Test } from "tap";
import { residentBytes, startBareProcess } from "../support/bare-process.ts";
import { openRaw, rawExchange, rawHead } from "../support/raw-http.ts";

const sizeBytes = 256 * 1024 * 1024;
const clients = 10;
const growthLimitBytes = 32 * 1024 * 1024;
/** A twentieth of a second's worth at 1 MiB/s. */
const stepBytes = 51 * 1024;
const stepMs = (stepBytes / (1024 * 1024)) * 1000;

interface Sink {
  readonly url: string;
  /** Key → body bytes that arrived. */
  readonly received: Map<string, number>;
}

/** An S3 cluster that has every bucket it was given and keeps no byte. */
async function openSink(t: Test): Promise<Sink> {
  const received = new Map<string, number>();
  const buckets = new Set<string>();
  const server = createServer((request, response) => {
    const [, bucket = "", key = ""] = (request.url ?? "").split("?", 1)[0]?.split("/") ?? [];
    if (key === "") {
      if (request.method === "PUT") buckets.add(bucket);
      response.writeHead(buckets.has(bucket) ? 200 : 404).end();
      return;
    }
    request.on("data", (chunk: Buffer) => {
      received.set(key, (received.get(key) ?? 0) + chunk.length);
    });
    request.on("end", () => response.writeHead(200, { etag: '"sunk"' }).end());
    request.on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return { url: `http://127.0.0.1:${address.port}`, received };
}

/** Sends an upload at 1 MiB/s; resolves with how much was sent when the sink had its first byte. */
async function sendSlowly(url: string, key: string, sink: Sink): Promise<number> {
  const connection = await openRaw(url);
  const path = `/slow/${key}`;
  await connection.write(rawHead(url, { method: "PUT", path, contentLength: sizeBytes }));
  const step = Buffer.alloc(stepBytes, 1);
  let sentAtFirst = sizeBytes;
  for (let sent = 0; sent < sizeBytes; sent += stepBytes) {
    await connection.write(step.subarray(0, Math.min(stepBytes, sizeBytes - sent)));
    await delay(stepMs);
    if (sentAtFirst === sizeBytes && sink.received.has(key)) sentAtFirst = sent + stepBytes;
  }
  const { status } = await connection.answer();
  connection.socket.destroy();
  if (status !== 200) throw new Error(`the upload was answered ${status}`);
  return sentAtFirst;
}

t.test("slow uploads stream through and leave no memory behind", async (t) => {
  const sink = await openSink(t);
  const { url, pid } = await startBareProcess(t, { sink: sink.url });
  const created = await rawExchange(
    url,
    rawHead(url, { method: "PUT", path: "/slow", contentLength: 0 }),
  );
  t.equal(created.status, 200);
  // Code is compiled and pools are open before the first figure.
  for (let n = 0; n < 200; n += 1) {
    const head = rawHead(url, { method: "PUT", path: `/slow/warm-${n}`, contentLength: 100_000 });
    t.equal((await rawExchange(url, head, Buffer.alloc(100_000))).status, 200);
  }
  const before = residentBytes(pid);
  let most = before;
  const watching = setInterval(() => {
    most = Math.max(most, residentBytes(pid));
  }, 500);
  t.teardown(() => clearInterval(watching));
  const names = Array.from({ length: clients }, (_, n) => `upload-${n}`);
  const firsts = await Promise.all(names.map((name) => sendSlowly(url, name, sink)));
  for (const [n, sent] of firsts.entries()) {
    t.ok(sent < sizeBytes / 100, `upload ${n}: ${sent} bytes sent before the upstream had one`);
  }
  for (const name of names) t.equal(sink.received.get(name), sizeBytes);
  const growth = most - before;
  t.comment(`resident ${before} bytes before, at most ${most}`);
  t.ok(growth < growthLimitBytes, `grew by ${Math.round(growth / 1024 / 1024)} MiB`);
});
