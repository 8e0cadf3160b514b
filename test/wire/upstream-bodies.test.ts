// Bodies both ways: backpressure, early answers, sources that fail, aborts at any moment.

import t from "tap";
import type { RequestBody } from "../../proxy/placement/ports.ts";
import { parseObjectKey } from "../../proxy/s3/names.ts";
import {
  adapter,
  bodyFailure,
  drained,
  put,
  rawServer,
  textOf,
  until,
} from "../support/raw-upstream.ts";

const MiB = 1024 * 1024;

async function* blocks(
  count: number,
  size: number,
  taken: number[] = [],
): AsyncGenerator<Uint8Array> {
  for (let index = 0; index < count; index += 1) {
    taken.push(size);
    yield Buffer.alloc(size, index % 251);
  }
}

t.test("a slow reader pauses the upstream's socket", async (t) => {
  const total = 64 * MiB;
  let written = 0;
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    connection.write(`HTTP/1.1 200 OK\r\ncontent-length: ${total}\r\n\r\n`);
    const block = Buffer.alloc(64 * 1024, 7);
    while (written < total && !connection.socket.destroyed) {
      written += block.length;
      if (!connection.socket.write(block)) {
        await new Promise((resolve) => connection.socket.once("drain", resolve));
      }
    }
  });
  const a = adapter(t, { endpoints: [server.url] });
  const response = await a.send();
  // Nobody reads: what the kernel holds fills up, then the writer stands still.
  let seen = -1;
  while (seen !== written) {
    seen = written;
    for (let turn = 0; turn < 200; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }
  t.ok(written < total / 2, `${written} bytes were taken without a reader`);
  let size = 0;
  for await (const chunk of response.body) size += chunk.length;
  t.equal(size, total, "every byte arrives once somebody reads");
  t.equal(a.statistics()[0]?.inFlight, 0);
});

t.test("a full sink pauses the upstream, a drained one goes on", async (t) => {
  const total = 8 * MiB;
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    connection.write(`HTTP/1.1 200 OK\r\ncontent-length: ${total}\r\n\r\n`);
    connection.write(Buffer.alloc(total, 3));
  });
  const a = adapter(t, { endpoints: [server.url] });
  const response = await a.send();
  let open = 0;
  let size = 0;
  let full = false;
  await response.body.pipe({
    write(chunk) {
      t.notOk(full, "nothing is written to a full sink");
      size += chunk.length;
      full = true;
      return false;
    },
    async drained() {
      open += 1;
      await new Promise((resolve) => setImmediate(resolve));
      full = false;
    },
  });
  t.equal(size, total);
  t.ok(open > 8, "it waited for each chunk");
});

t.test("a sink that is gone ends the pipe with its error and closes the socket", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    connection.write(`HTTP/1.1 200 OK\r\ncontent-length: ${MiB}\r\n\r\nsome`);
  });
  const a = adapter(t, { endpoints: [server.url] });
  const response = await a.send();
  const gone = new Error("gone");
  await t.rejects(
    response.body.pipe({ write: () => false, drained: () => Promise.reject(gone) }),
    gone,
  );
  await server.connections[0]?.closed();
  await drained(a);
});

t.test("a small answer is there at once, without a pause", async (t) => {
  const server = await rawServer(t, async (connection) => {
    for (;;) {
      if ((await connection.head()) === null) return;
      connection.write(`HTTP/1.1 200 OK\r\ncontent-length: 1024\r\n\r\n${"x".repeat(1024)}`);
    }
  });
  const a = adapter(t, { endpoints: [server.url] });
  const response = await a.send();
  t.equal(a.statistics()[0]?.inFlight, 0, "the exchange has ended when the head is handed up");
  const written: number[] = [];
  await response.body.pipe({
    write(chunk) {
      written.push(chunk.length);
      return true;
    },
    drained: () => Promise.reject(new Error("not full")),
  });
  t.strictSame(written, [1024]);
  t.throws(
    () => void response.body.pipe({ write: () => true, drained: () => Promise.resolve() }),
    /read already/,
  );
});

t.test("a slow upstream pauses the source", async (t) => {
  const count = 256;
  const server = await rawServer(t, async (connection) => {
    t.match(await connection.head(), `content-length: ${count * 64 * 1024}`);
    connection.socket.pause();
  });
  const a = adapter(t, { endpoints: [server.url] });
  const taken: number[] = [];
  const sent = a.send(
    put({
      kind: "stream",
      lengthBytes: count * 64 * 1024,
      chunks: blocks(count, 64 * 1024, taken),
    }),
  );
  await until(() => taken.length > 0 && server.connections.length === 1);
  let seen = -1;
  while (seen !== taken.length) {
    seen = taken.length;
    for (let turn = 0; turn < 200; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }
  t.ok(taken.length < count, `${taken.length} of ${count} blocks were asked for`);
  const [connection] = server.connections;
  t.equal((await connection?.bytes(count * 64 * 1024))?.length, count * 64 * 1024);
  connection?.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
  t.equal((await sent).status, 200);
});

t.test("bodies in memory and streams arrive whole, with their length", async (t) => {
  const server = await rawServer(t, async (connection) => {
    for (;;) {
      const head = await connection.head();
      if (head === null) return;
      const length = Number(/^content-length: (\d+)\r$/m.exec(head)?.[1]);
      const bytes = await connection.bytes(length);
      t.notMatch(head, /transfer-encoding/);
      connection.write(`HTTP/1.1 200 OK\r\ncontent-length: ${bytes.length}\r\n\r\n`);
      connection.write(bytes);
    }
  });
  const a = adapter(t, { endpoints: [server.url] });
  const bodies: readonly [body: RequestBody | null, text: string][] = [
    [{ kind: "bytes", bytes: Buffer.from("abc") }, "abc"],
    [{ kind: "bytes", bytes: Buffer.alloc(0) }, ""],
    [null, ""],
    [{ kind: "stream", lengthBytes: 6, chunks: blocks(3, 2) }, "\0\0\u0001\u0001\u0002\u0002"],
    [{ kind: "stream", lengthBytes: 0, chunks: blocks(1, 0) }, ""],
  ];
  for (const [body, text] of bodies) {
    t.equal(await textOf(await a.send(put(body))), text);
    // undici offers a connection again one turn after its exchange.
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.equal(server.connections.length, 1);
});

const failing: readonly [name: string, chunks: () => AsyncIterable<Uint8Array>, error: RegExp][] = [
  [
    "throws midway",
    async function* () {
      yield Buffer.alloc(4);
      throw new Error("no more");
    },
    /no more/,
  ],
  [
    "throws behind its last byte",
    async function* () {
      yield Buffer.alloc(10);
      throw new Error("not verified");
    },
    /not verified/,
  ],
  ["gives too little", () => blocks(3, 3), /source gave 9 bytes, needs 10/],
  ["gives too much", () => blocks(4, 3), /source gave more bytes, needs 10/],
];

for (const [name, chunks, error] of failing) {
  t.test(`a source that ${name} never leaves a complete body`, async (t) => {
    const server = await rawServer(t, async (connection) => {
      await connection.head();
      t.ok((await connection.bytes(10)).length < 10, "the body is broken");
    });
    const a = adapter(t, { endpoints: [server.url] });
    const failure = await a.failure(put({ kind: "stream", lengthBytes: 10, chunks: chunks() }));
    t.match(failure.cause, error);
    t.match(failure.phase, /^request_(?:head|body)$/);
    await server.connections[0]?.closed();
    t.strictSame(a.retries, []);
    await drained(a);
  });
}

// Some servers take an orderly end for the body's end and store what they have.
t.test("a body that breaks under way ends with a reset", async (t) => {
  let seen: () => void = () => undefined;
  const arrived = new Promise<void>((resolve) => {
    seen = resolve;
  });
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    t.equal((await connection.bytes(3)).toString(), "abc");
    seen();
    t.equal((await connection.bytes(1)).length, 0);
  });
  const a = adapter(t, { endpoints: [server.url] });
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("abc");
    await arrived;
    throw new Error("not verified");
  }
  await a.failure(put({ kind: "stream", lengthBytes: 9, chunks: chunks() }));
  await server.connections[0]?.closed();
  t.equal(server.connections[0]?.failureCode, "ECONNRESET");
});

t.test("a stop in the middle of a body is a reset, too", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    await connection.bytes(3);
    await a.close();
  });
  const a = adapter(t, { endpoints: [server.url] });
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("abc");
    await new Promise(() => undefined);
  }
  await a.failure(put({ kind: "stream", lengthBytes: 9, chunks: chunks() }));
  await server.connections[0]?.closed();
  t.equal(server.connections[0]?.failureCode, "ECONNRESET");
});

t.test("what a source throws is the very cause, also when it is no Error", async (t) => {
  const server = await rawServer(t, () => undefined);
  const a = adapter(t, { endpoints: [server.url] });
  const thrown = { odd: true };
  for (const lengthBytes of [0, 8]) {
    const chunks: AsyncIterable<Uint8Array> = {
      [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(thrown) }),
    };
    t.equal((await a.failure(put({ kind: "stream", lengthBytes, chunks }))).cause, thrown);
  }
});

t.test("a refusal during the upload arrives, the source stops, the socket closes", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    await connection.bytes(1);
    connection.write("HTTP/1.1 403 Forbidden\r\ncontent-length: 6\r\n\r\n");
    await until(() => answered);
    connection.write("denied");
  });
  let answered = false;
  let stopped = false;
  let given = 0;
  const a = adapter(t, { endpoints: [server.url] });
  const chunks = (async function* () {
    try {
      for (;;) {
        given += 1;
        yield Buffer.alloc(1024);
        await new Promise((resolve) => setImmediate(resolve));
      }
    } finally {
      stopped = true;
    }
  })();
  const response = await a.send(put({ kind: "stream", lengthBytes: 1024 * MiB, chunks }));
  t.equal(response.status, 403);
  await until(() => stopped);
  const before = given;
  answered = true;
  t.equal(await textOf(response), "denied");
  t.equal(given, before);
  await server.connections[0]?.closed();
  await drained(a);
});

t.test("success before the whole body was sent is no success", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    await connection.bytes(1);
    connection.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
  });
  const a = adapter(t, { endpoints: [server.url] });
  const chunks = (async function* () {
    yield Buffer.alloc(5);
    await new Promise(() => undefined);
  })();
  const failure = await a.failure(put({ kind: "stream", lengthBytes: 10, chunks }));
  t.match(failure, { phase: "response_head", bytesSent: 5, cause: /success before/ });
  await drained(a);
});

t.test("cancel drops the rest and closes the connection", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    connection.write(`HTTP/1.1 200 OK\r\ncontent-length: ${MiB}\r\n\r\nsome`);
  });
  const a = adapter(t, { endpoints: [server.url] });
  const first = await a.send();
  first.body.cancel();
  first.body.cancel();
  await server.connections[0]?.closed();
  const second = await a.send();
  for await (const _chunk of second.body) break;
  await server.connections[1]?.closed();
  await drained(a);
});

t.test("an abort ends the exchange in every phase", async (t) => {
  const reason = new Error("left");
  const server = await rawServer(t, async (connection) => {
    if ((await connection.head())?.startsWith("GET /bucket/body")) {
      connection.write(`HTTP/1.1 200 OK\r\ncontent-length: ${MiB}\r\n\r\nsome`);
    }
  });
  const a = adapter(t, { endpoints: [server.url], limits: { maxSockets: 1 } });

  const before = await a.failure({}, AbortSignal.abort(reason));
  t.match(before, { phase: "connect", cause: reason });
  t.equal(server.connections.length, 0);

  const waiting = new AbortController();
  const failed = a.failure({}, waiting.signal);
  const queued = new AbortController();
  const queuedFailed = a.failure({}, queued.signal);
  await until(() => server.connections.length === 1);
  queued.abort(reason);
  t.match(await queuedFailed, { phase: "connect", cause: reason }, "while it waits for a socket");
  waiting.abort(reason);
  t.match(await failed, { phase: "response_head", cause: reason }, "while the head is awaited");
  await server.connections[0]?.closed();

  const uploading = new AbortController();
  let stopped = false;
  const chunks = (async function* () {
    try {
      for (;;) {
        yield Buffer.alloc(64 * 1024);
        await new Promise((resolve) => setImmediate(resolve));
      }
    } finally {
      stopped = true;
    }
  })();
  const upload = a.failure(
    put({ kind: "stream", lengthBytes: 1024 * MiB, chunks }),
    uploading.signal,
  );
  await until(() => server.connections.length === 2);
  await until(() => (server.connections[1]?.socket.bytesRead ?? 0) > 64 * 1024);
  uploading.abort(reason);
  t.match(await upload, { phase: "request_body", cause: reason });
  await until(() => stopped);
  await server.connections[1]?.closed();

  const reading = new AbortController();
  const response = await a.send({ key: parseObjectKey("body") }, reading.signal);
  reading.abort(reason);
  t.match(await bodyFailure(response), { phase: "response_body", cause: reason });
  await server.connections[2]?.closed();
  await drained(a);
  t.strictSame(a.retries, []);
});
