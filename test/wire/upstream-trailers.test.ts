// A checksum behind a body: the framing that an upstream gets is ours, byte for byte.

import t from "tap";
import { adapter, put, rawServer } from "../support/raw-upstream.ts";

const trailer = { field: "x-amz-checksum-crc32", valueLength: 8, value: () => "NSRBwg==" };

t.test("a trailer goes out behind the body, in one chunk whose length is announced", async (t) => {
  const framed = "12\r\nabcdefghijklmnopqr\r\n0\r\nx-amz-checksum-crc32:NSRBwg==\r\n\r\n";
  const server = await rawServer(t, async (connection) => {
    const head = (await connection.head()) ?? "";
    const lines = head.toLowerCase().split("\r\n");
    t.ok(lines.includes(`content-length: ${framed.length}`), "the framed length");
    t.ok(lines.includes("x-amz-content-sha256: streaming-unsigned-payload-trailer"));
    t.ok(lines.includes("x-amz-decoded-content-length: 18"));
    t.ok(lines.includes("x-amz-trailer: x-amz-checksum-crc32"));
    t.match(head, /SignedHeaders=[^,]*x-amz-decoded-content-length;x-amz-trailer/);
    t.equal((await connection.bytes(framed.length)).toString(), framed);
    connection.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
  });
  const a = adapter(t, { endpoints: [server.url] });
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("abcdefghi");
    yield await Promise.resolve(Buffer.from("jklmnopqr"));
  }
  const body = { kind: "stream", lengthBytes: 18, chunks: chunks(), trailer } as const;
  t.equal((await a.send(put(body))).status, 200);
});

t.test("a body whose trailer cannot be had is cut", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    await connection.bytes(1000);
    t.notMatch(connection.received.toString(), "\r\n0\r\n");
  });
  const a = adapter(t, { endpoints: [server.url] });
  const error = new Error("The trailer has not arrived");
  const value = (): string => {
    throw error;
  };
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(Buffer.from("abcdefghi"));
  }
  const body = { kind: "stream", lengthBytes: 9, chunks: chunks() } as const;
  const failure = await a.failure(put({ ...body, trailer: { ...trailer, value } }));
  t.equal(failure.cause, error);
  await server.connections[0]?.closed();
});
