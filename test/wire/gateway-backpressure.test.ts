// Who does not read stops who writes, through the whole proxy: what lies between them stays bounded
// by the buffers of a few sockets, and when reading goes on every byte arrives, once and in order.

import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { connect, type Socket } from "node:net";
import { CreateBucketCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { sendAnswer } from "../../proxy/gateway/reply.ts";
import { handClock } from "../support/hand-clock.ts";
import type { TestHeadgate } from "../support/headgate.ts";
import { startClusters, startTestHeadgate } from "../support/headgate.ts";
import { openRaw, rawHead, until } from "../support/raw-http.ts";
import { type SlowRelay, settledCount, slowRelay } from "../support/slow-relay.ts";

const mebibyte = 1024 * 1024;
const objectBytes = 64 * mebibyte;
/** Some 9 MiB fit into the kernel's buffers of the two hops; who reads ahead takes all 64. */
const boundBytes = 24 * mebibyte;
const bucket = "slow";

/** 64 MiB in which each 8 bytes are their own position. */
function counted(): Buffer {
  const bytes = Buffer.alloc(objectBytes);
  for (let at = 0; at < objectBytes; at += 8) bytes.writeUInt32BE(at, at);
  return bytes;
}

const content = counted();

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

async function open(
  t: Test,
): Promise<{ readonly headgate: TestHeadgate; readonly relay: SlowRelay }> {
  const servers = await startClusters(t, ["only"]);
  const relay = await slowRelay(t, servers["only"]?.port ?? 0);
  const headgate = await startTestHeadgate(t, {
    clusters: { only: 1 },
    servers,
    endpoints: { only: relay.url },
  });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
  return { headgate, relay };
}

/** A connection that reads nothing until it is told to. */
async function openUnread(t: Test, url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).pause();
  t.teardown(() => socket.destroy());
  await once(socket, "connect");
  return socket;
}

t.test("a client that does not read stops the cluster's sending, and loses no byte", async (t) => {
  const { headgate, relay } = await open(t);
  const { s3, url } = headgate;
  await s3.send(new PutObjectCommand({ Bucket: bucket, Key: "large", Body: content }));
  const before = relay.sentToProxy();
  const socket = await openUnread(t, url);
  socket.write(
    rawHead(url, { method: "GET", path: `/${bucket}/large`, headers: [["connection", "close"]] }),
  );
  const stopped = await settledCount(() => relay.sentToProxy() - before);
  t.ok(stopped > 0, "the download has begun");
  t.ok(stopped < boundBytes, `the cluster was stopped after ${stopped} bytes`);

  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  socket.resume();
  await once(socket, "end");
  const answer = Buffer.concat(chunks);
  const body = answer.subarray(answer.indexOf("\r\n\r\n") + 4);
  t.match(answer.subarray(0, 12).toString("latin1"), "HTTP/1.1 200");
  t.equal(body.length, objectBytes);
  t.equal(sha256(body), sha256(content));
});

t.test("a cluster that does not read stops the client's sending, and loses no byte", async (t) => {
  const { headgate, relay } = await open(t);
  const { url, clusters } = headgate;
  relay.hold();
  const readBefore = relay.readFromProxy();
  const connection = await openRaw(url);
  t.teardown(() => connection.socket.destroy());
  let acceptedBytes = 0;
  const path = `/${bucket}/large`;
  await connection.write(rawHead(url, { method: "PUT", path, contentLength: objectBytes }));
  const sending = (async () => {
    for (let at = 0; at < objectBytes; at += 64 * 1024) {
      const chunk = content.subarray(at, at + 64 * 1024);
      await connection.write(chunk);
      acceptedBytes += chunk.length;
    }
  })();
  const stopped = await settledCount(() => acceptedBytes);
  t.ok(stopped > 0, "the upload has begun");
  t.ok(stopped < boundBytes, `the client was stopped after ${stopped} bytes`);
  t.ok(relay.readFromProxy() - readBefore <= 128 * 1024, "the cluster has read nothing of it");
  t.strictSame(clusters["only"]?.objects(bucket), []);

  relay.read();
  await sending;
  t.equal((await connection.answer()).status, 200);
  const [stored] = clusters["only"]?.objects(bucket) ?? [];
  t.equal(stored?.key, "large");
  t.equal(sha256(stored?.bytes ?? Buffer.alloc(0)), sha256(content));
});

t.test(
  "a document is under way until its client took it, for as long as it takes any",
  async (t) => {
    const clock = handClock();
    const outcomes: (number | string)[] = [];
    let pieces = 0;
    const server = createServer((request, response) => {
      const timers: typeof clock.timers = {
        after(durationMs, run) {
          pieces += 1;
          return clock.timers.after(durationMs, run);
        },
      };
      const reply = { request, response, requestId: "1", timers, writeIdleMs: 60_000 };
      const answer = { status: 200, headers: [], body: content, cluster: null };
      sendAnswer(answer, [], reply).then(
        (bytes) => outcomes.push(bytes),
        () => outcomes.push("cut"),
      );
    });
    t.teardown(() => server.close());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const port = typeof address === "object" ? address?.port : 0;
    const whole = await openUnread(t, `http://127.0.0.1:${port}`);
    const request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    const parts: Buffer[] = [];
    whole.write(request);
    whole.on("data", (part) => parts.push(part)).resume();
    await until(() => outcomes.length > 0);
    t.strictSame(outcomes, [objectBytes]);
    await until(() => parts.reduce((sum, part) => sum + part.length, 0) > objectBytes);
    t.ok(Buffer.concat(parts).subarray(-objectBytes).equals(content));
    whole.destroy();
    const unread = await openUnread(t, `http://127.0.0.1:${port}`);
    pieces = 0;
    unread.write(request);
    await settledCount(() => pieces);
    t.equal(outcomes.length, 1, "nobody took it");
    t.ok(pieces * 64 * 1024 < boundBytes);
    clock.pass(60_000);
    await until(() => outcomes.length > 1);
    t.strictSame(outcomes, [objectBytes, "cut"]);
  },
);
