// Which connection takes a request: reuse, retry, choice among endpoints, change of configuration.

import t from "tap";
import { parseObjectKey } from "../../proxy/s3/names.ts";
import {
  adapter,
  clusterA,
  deadUrl,
  idOf,
  put,
  type RawConnection,
  rawServer,
  textOf,
  until,
} from "../support/raw-upstream.ts";

const ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/** Answers every request on a connection. */
async function answer(connection: RawConnection): Promise<void> {
  while ((await connection.head()) !== null) connection.write(ok);
}

/** undici offers a connection again one turn after its exchange. */
async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

t.test("one connection serves many requests, HEAD included", async (t) => {
  const server = await rawServer(t, async (connection) => {
    for (let head = await connection.head(); head !== null; head = await connection.head()) {
      connection.write(
        head.startsWith("HEAD") ? "HTTP/1.1 200 OK\r\ncontent-length: 77\r\n\r\n" : ok,
      );
    }
  });
  const a = adapter(t, { endpoints: [server.url] });
  for (const method of ["GET", "HEAD", "HEAD", "DELETE", "GET"] as const) {
    const response = await a.send({ method });
    t.equal(await textOf(response), method === "HEAD" ? "" : "ok");
    if (method === "HEAD") t.strictSame(response.headers, [["content-length", "77"]]);
    await turn();
  }
  t.equal(server.connections.length, 1);
  t.match(a.statistics(), [{ cluster: clusterA, endpoint: server.url, inFlight: 0, sockets: 1 }]);
  t.strictSame(a.ended, [200, 200, 200, 200, 200]);
});

t.test("answers without a body keep what they say about it", async (t) => {
  const answers = [
    'HTTP/1.1 304 Not Modified\r\ncontent-length: 99\r\netag: "e"\r\n\r\n',
    "HTTP/1.1 304 Not Modified\r\n\r\n",
    "HTTP/1.1 204 No Content\r\nx-amz-id: 1\r\n\r\n",
  ];
  const server = await rawServer(t, async (connection) => {
    while ((await connection.head()) !== null) connection.write(answers.shift() ?? ok);
  });
  const a = adapter(t, { endpoints: [server.url] });
  const expected = [
    [
      ["content-length", "99"],
      ["etag", '"e"'],
    ],
    [],
    [["x-amz-id", "1"]],
  ];
  for (const headers of expected) {
    const response = await a.send();
    t.strictSame(response.headers, headers);
    t.equal(await textOf(response), "");
    await turn();
  }
});

t.test("a kept connection that was closed meanwhile costs a retry, not a failure", async (t) => {
  const server = await rawServer(t, async (connection, index) => {
    if (index > 0) return await answer(connection);
    await connection.head();
    connection.write(ok);
    await connection.head();
    connection.socket.resetAndDestroy();
  });
  const a = adapter(t, { endpoints: [server.url] });
  await textOf(await a.send());
  await turn();
  t.equal(await textOf(await a.send()), "ok");
  t.strictSame(a.retries, ["ok"]);
  t.equal(server.connections.length, 2);
});

for (const [name, request, bytesSent] of [
  ["a POST without a body", { operation: "CreateMultipartUpload", method: "POST" }, 0],
  ["a body in memory", put({ kind: "bytes", bytes: Buffer.from("x") }), 1],
] as const) {
  t.test(`${name} on a closed connection is not sent twice`, async (t) => {
    const server = await rawServer(t, async (connection) => {
      await connection.head();
      connection.write(ok);
      await connection.head();
      connection.socket.resetAndDestroy();
    });
    const a = adapter(t, { endpoints: [server.url] });
    await textOf(await a.send());
    await turn();
    t.match(await a.failure(request), { bytesSent });
    t.strictSame(a.retries, []);
    t.equal(server.connections.length, 1);
  });
}

t.test("a half answer on a kept connection is not asked for again", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    connection.write(ok);
    await connection.head();
    connection.write("HTTP/1.1 200");
    connection.socket.end();
  });
  const a = adapter(t, { endpoints: [server.url] });
  await textOf(await a.send());
  await turn();
  t.match(await a.failure(), { phase: "response_head" });
  t.equal(server.connections.length, 1);
});

t.test(
  "an endpoint that refuses is passed over, streams that did not begin included",
  async (t) => {
    const server = await rawServer(t, async (connection) => {
      for (let head = await connection.head(); head !== null; head = await connection.head()) {
        await connection.bytes(Number(/content-length: (\d+)/.exec(head)?.[1] ?? "0"));
        connection.write(ok);
      }
    });
    const a = adapter(t, { endpoints: [await deadUrl(), server.url] });
    const chunks = (): AsyncIterable<Uint8Array> =>
      (async function* () {
        yield Buffer.from("body");
      })();
    for (let round = 0; round < 6; round += 1) {
      const body = { kind: "stream", lengthBytes: 4, chunks: chunks() } as const;
      t.equal(await textOf(await a.send(put(body))), "ok");
    }
    t.strictSame(a.retries, ["ok"], "only the first one met the dead endpoint");
  },
);

t.test("a cluster never sends to another cluster's endpoint", async (t) => {
  const server = await rawServer(t, answer);
  const a = adapter(t, { endpoints: [await deadUrl()], maxAttempts: 5 });
  a.configure(
    [clusterA, idOf("b")].map((id) => ({
      id,
      endpoints: [id === clusterA ? "http://127.0.0.1:9" : server.url],
      region: "us-east-1",
      addressing: "path",
      host: null,
      identity: "service",
      credentials: { accessKeyId: "ak", secretAccessKey: "sk", sessionToken: null },
      tls: { caPem: null, insecureSkipVerify: false },
    })),
  );
  t.match(await a.failure(), { phase: "connect", clusterId: clusterA });
  t.equal(server.connections.length, 0);
});

t.test("the least busy endpoint takes the next request", async (t) => {
  const held: RawConnection[] = [];
  const slow = async (connection: RawConnection): Promise<void> => {
    while ((await connection.head()) !== null) held.push(connection);
  };
  const one = await rawServer(t, slow);
  const two = await rawServer(t, slow);
  const a = adapter(t, { endpoints: [one.url, two.url] });
  const sent = Array.from({ length: 6 }, () => a.send());
  await until(() => held.length === 6);
  t.strictSame([one.connections.length, two.connections.length], [3, 3]);
  for (const connection of one.connections) connection.write(ok);
  await until(() => a.statistics()[0]?.inFlight === 0);
  const more = [a.send(), a.send(), a.send()];
  await until(() => held.length === 9);
  t.match(a.statistics(), [{ inFlight: 3 }, { inFlight: 3 }], "all three went to the idle one");
  for (const connection of [...one.connections, ...two.connections]) connection.write(ok);
  for (const response of await Promise.all([...sent, ...more])) t.equal(response.status, 200);
});

t.test("requests beyond the cap wait for a connection", async (t) => {
  const server = await rawServer(t, answer);
  const a = adapter(t, { endpoints: [server.url], limits: { maxSockets: 2 } });
  const sent = Array.from({ length: 20 }, () => a.send());
  t.equal(a.statistics()[0]?.inFlight, 20);
  t.ok((a.statistics()[0]?.queued ?? 0) > 0);
  for (const response of await Promise.all(sent)) t.equal(await textOf(response), "ok");
  t.equal(server.connections.length, 2);
});

t.test("a change of endpoints keeps connections that stay and ends the others", async (t) => {
  const one = await rawServer(t, answer);
  const two = await rawServer(t, answer);
  const a = adapter(t, { endpoints: [one.url] });
  const cluster = {
    id: clusterA,
    region: "us-east-1",
    addressing: "path",
    host: null,
    identity: "service",
    credentials: { accessKeyId: "ak", secretAccessKey: "sk", sessionToken: null },
    tls: { caPem: null, insecureSkipVerify: false },
  } as const;
  await textOf(await a.send());
  await turn();
  a.configure([{ ...cluster, endpoints: [one.url, two.url] }]);
  t.match(a.statistics(), [{ sockets: 1 }, { sockets: 0 }]);
  a.configure([{ ...cluster, endpoints: [two.url] }]);
  await one.connections[0]?.closed();
  t.equal(await textOf(await a.send({ key: parseObjectKey("other") })), "ok");
  t.equal(two.connections.length, 1);
  a.configure([]);
  t.match(await a.failure(), { phase: "connect" });
});

t.test("close ends what is under way", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
  });
  const a = adapter(t, { endpoints: [server.url] });
  const failed = a.failure();
  await until(() => server.connections.length === 1);
  await a.close();
  t.match(await failed, { name: "UpstreamError", clusterId: clusterA });
  await server.connections[0]?.closed();
});
