// In which phase an exchange fails, and that nothing of it stays behind.

import t from "tap";
import { anonymousIdentity, UpstreamError } from "../../proxy/placement/ports.ts";
import {
  adapter,
  bodyFailure,
  clusterA,
  deadUrl,
  drained,
  idOf,
  put,
  rawServer,
  s3Request,
  textOf,
} from "../support/raw-upstream.ts";

const signal = new AbortController().signal;

t.test("a refused connection fails in connect", async (t) => {
  const a = adapter(t, { endpoints: [await deadUrl()] });
  const failure = await a.failure();
  t.match(failure, { phase: "connect", bytesSent: 0, clusterId: clusterA });
  t.match(failure.cause, { code: "ECONNREFUSED" });
  t.strictSame(a.retries, ["failed"], "it was tried once more");
  await drained(a);
});

t.test("an unknown cluster and one without credentials are unreachable here", async (t) => {
  const server = await rawServer(t, async (connection) => {
    t.notMatch(await connection.head(), /authorization|x-amz-date|x-amz-content-sha256/);
    connection.write("HTTP/1.1 204 OK\r\n\r\n");
  });
  const a = adapter(t, { endpoints: [server.url], cluster: { credentials: null } });
  t.match(await a.failure(), { phase: "connect", message: /unreachable here/ });
  await t.rejects(a.upstream.send(idOf("b"), s3Request(), signal), {
    phase: "connect",
    message: /unreachable here/,
  });
  t.equal(server.connections.length, 0);
  t.equal(
    (await a.send({ identity: anonymousIdentity })).status,
    204,
    "anonymous requests need none",
  );
});

t.test("closed before a head fails in response_head, once", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    connection.socket.end();
  });
  const a = adapter(t, { endpoints: [server.url] });
  t.match(await a.failure(), { phase: "response_head", bytesSent: 0 });
  t.equal(server.connections.length, 1, "a fresh connection that breaks is not tried again");
  await drained(a);
});

t.test("reset before a head fails in response_head with the bytes sent", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    await connection.bytes(4);
    connection.socket.resetAndDestroy();
  });
  const a = adapter(t, { endpoints: [server.url] });
  const failure = await a.failure(put({ kind: "bytes", bytes: Buffer.from("data") }));
  t.match(failure, { phase: "response_head", bytesSent: 4 });
  t.equal(server.connections.length, 1);
  await drained(a);
});

for (const [name, text] of [
  ["a head that is no HTTP", "SSH-2.0-OpenSSH\r\n\r\n"],
  ["garbage within a head", "HTTP/1.1 200 OK\r\nx-amz-id\x00: 1\r\n\r\n"],
  ["a head that ends midway", "HTTP/1.1 200 OK\r\netag: "],
] as const) {
  t.test(`${name} fails in response_head`, async (t) => {
    const server = await rawServer(t, async (connection) => {
      await connection.head();
      connection.write(text);
      connection.socket.end();
    });
    const a = adapter(t, { endpoints: [server.url] });
    t.match(await a.failure(), { phase: "response_head", bytesSent: 0 });
    t.equal(server.connections.length, 1);
    await drained(a);
  });
}

for (const [name, head] of [
  ["a body shorter than its length", "content-length: 10"],
  ["a chunked body without its end", "transfer-encoding: chunked"],
] as const) {
  t.test(`${name} fails in response_body behind what arrived`, async (t) => {
    const server = await rawServer(t, async (connection) => {
      await connection.head();
      const part = head.startsWith("transfer") ? "4\r\nhalf\r\n" : "half";
      connection.write(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n${part}`);
      connection.socket.end();
    });
    const a = adapter(t, { endpoints: [server.url] });
    const response = await a.send();
    const seen: string[] = [];
    await t.rejects(
      (async () => {
        for await (const chunk of response.body) seen.push(Buffer.from(chunk).toString());
      })(),
      { name: "UpstreamError", phase: "response_body" },
    );
    t.strictSame(seen, ["half"]);
    t.strictSame(a.ended, [200]);
    await drained(a);
  });
}

t.test("a reset within the body fails in response_body, also through pipe", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    connection.write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
    await connection.bytes(1);
    connection.socket.resetAndDestroy();
  });
  const a = adapter(t, { endpoints: [server.url] });
  const response = await a.send();
  const chunks: Uint8Array[] = [];
  const sink = {
    write(chunk: Uint8Array) {
      chunks.push(chunk);
      server.connections[0]?.socket.resetAndDestroy();
      return true;
    },
    drained: () => Promise.resolve(),
  };
  await t.rejects(response.body.pipe(sink), { name: "UpstreamError", phase: "response_body" });
  t.equal(Buffer.concat(chunks).toString(), "half");
  await drained(a);
});

t.test("an upstream that never answers times out in response_head", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
  });
  const a = adapter(t, { endpoints: [server.url], limits: { headersTimeoutMs: 50 } });
  const failure = await a.failure();
  t.match(failure, { phase: "response_head", cause: { code: "UND_ERR_HEADERS_TIMEOUT" } });
  await drained(a);
});

t.test("a body that stalls times out in response_body", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    connection.write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
  });
  const a = adapter(t, { endpoints: [server.url], limits: { bodyIdleTimeoutMs: 50 } });
  const failure = await bodyFailure(await a.send());
  t.ok(failure instanceof UpstreamError);
  t.match(failure, { phase: "response_body", cause: { code: "UND_ERR_BODY_TIMEOUT" } });
  await drained(a);
});

t.test("an upstream that stops reading the body times out in request_body", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    connection.socket.pause();
  });
  const a = adapter(t, { endpoints: [server.url], limits: { headersTimeoutMs: 50 } });
  const block = Buffer.alloc(1024 * 1024);
  const lengthBytes = 1024 * block.length;
  const failure = await a.failure(
    put({
      kind: "stream",
      lengthBytes,
      chunks: (async function* () {
        for (;;) yield block;
      })(),
    }),
  );
  t.equal(failure.phase, "request_body");
  t.ok(failure.bytesSent > 0 && failure.bytesSent < lengthBytes);
  await drained(a);
});

t.test("a field that cannot be written fails in request_head without a retry", async (t) => {
  const server = await rawServer(t, () => undefined);
  const a = adapter(t, { endpoints: [server.url] });
  const failure = await a.failure({ headers: [["x-amz-meta-a", "line\r\nbreak"]] });
  t.match(failure, { phase: "request_head", bytesSent: 0 });
  t.strictSame(a.retries, []);
  t.equal(server.connections.length, 0);
});

t.test("1xx answers are passed over, whatever stands behind them is the answer", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    connection.write("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n");
    connection.write("HTTP/1.1 102 Processing\r\n\r\n");
    connection.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\netag: "e"\r\n\r\nok');
  });
  const a = adapter(t, { endpoints: [server.url] });
  const response = await a.send();
  t.equal(response.status, 200);
  t.strictSame(response.headers, [
    ["content-length", "2"],
    ["etag", '"e"'],
  ]);
  t.equal(await textOf(response), "ok");
});
