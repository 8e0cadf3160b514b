// Uploads that go wrong: whatever happens before the commit point, the object does not exist on any
// cluster, the client gets a clear answer or a closed connection, and no upstream exchange is stuck.

import { createHash } from "node:crypto";
import { CreateBucketCommand, GetObjectCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { TestHeadgate } from "../support/headgate.ts";
import { startTestHeadgate } from "../support/headgate.ts";
import { openRaw, rawExchange, rawHead, until } from "../support/raw-http.ts";

const bucket = "uploads";

async function open(test: Test): Promise<TestHeadgate> {
  const headgate = await startTestHeadgate(test);
  await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
  return headgate;
}

function stored(headgate: TestHeadgate): readonly string[] {
  return Object.values(headgate.clusters).flatMap((cluster) =>
    cluster.objects(bucket).map(({ key }) => key),
  );
}

async function idle(headgate: TestHeadgate): Promise<void> {
  await until(async () => (await inFlight(headgate)) === 0);
}

async function inFlight(headgate: TestHeadgate): Promise<number> {
  const text = await (await fetch(`${headgate.adminUrl}/metrics`)).text();
  return Number(/^headgate_requests_in_flight(?:\{[^}]*\})? (\d+)/m.exec(text)?.[1] ?? Number.NaN);
}

const sizes = [1, 8191, 64 * 1024, 64 * 1024 + 1, 1024 * 1024];

t.test("a body of another hash than signed is refused and never stored", async (t) => {
  // https://github.com/faiscadev/fakecloud/pull/2294
  const headgate = await open(t);
  for (const size of sizes) {
    const right = Buffer.alloc(size, 1);
    const wrong = Buffer.alloc(size, 2);
    const head = rawHead(headgate.url, {
      method: "PUT",
      path: `/${bucket}/wrong-${size}`,
      payloadHash: createHash("sha256").update(right).digest("hex"),
      contentLength: size,
    });
    const answer = await rawExchange(headgate.url, head, wrong);
    t.equal(answer.status, 400, `${size} bytes`);
    t.match(answer.text, "<Code>XAmzContentSHA256Mismatch</Code>");
  }
  t.strictSame(stored(headgate), []);
  await idle(headgate);
  const received = headgate.accessLog
    .slice(-sizes.length)
    .map(({ bytesReceived }) => bytesReceived);
  t.strictSame(received, sizes, "what was refused was received all the same");
});

t.test("a body that breaks off is never stored", async (t) => {
  const headgate = await open(t);
  for (const size of [10, 64 * 1024 + 10, 512 * 1024]) {
    const connection = await openRaw(headgate.url);
    const path = `/${bucket}/short-${size}`;
    await connection.write(rawHead(headgate.url, { method: "PUT", path, contentLength: size + 1 }));
    await connection.write(Buffer.alloc(size, 1));
    connection.socket.destroy();
  }
  await idle(headgate);
  t.strictSame(stored(headgate), []);
});

t.test("a body that stalls is answered RequestTimeout and never stored", async (t) => {
  const headgate = await startTestHeadgate(t);
  await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
  const short = await startTestHeadgate(t, {
    servers: headgate.clusters,
    listen: "body_idle_timeout: 50ms",
  });
  const connection = await openRaw(short.url);
  const path = `/${bucket}/stalled`;
  await connection.write(rawHead(short.url, { method: "PUT", path, contentLength: 200_000 }));
  await connection.write(Buffer.alloc(100_000, 1));
  const answer = await connection.answer();
  t.equal(answer.status, 400);
  t.match(answer.text, "<Code>RequestTimeout</Code>");
  t.match(answer.text, /connection: close/i);
  await idle(short);
  t.strictSame(stored(headgate), []);
});

t.test("a drain during a slow upload refuses it at its commit point", async (t) => {
  const headgate = await startTestHeadgate(t, { clusters: { only: 1 } });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
  await headgate.s3.send(new PutObjectCommand({ Bucket: bucket, Key: "first", Body: "x" }));
  for (const size of [1000, 300_000]) {
    const connection = await openRaw(headgate.url);
    const path = `/${bucket}/slow-${size}`;
    await connection.write(rawHead(headgate.url, { method: "PUT", path, contentLength: size }));
    await connection.write(Buffer.alloc(size - 1, 1));
    const drained = await headgate.admin("POST", "/clusters/only/drain", { mode: "readonly" });
    t.equal(drained.status, 204);
    await connection.write(Buffer.alloc(1, 1));
    const answer = await connection.answer();
    t.equal(answer.status, 503);
    t.match(answer.text, "<Code>DrainRefused</Code>");
    t.match(answer.text, /retry-after: 300/i);
    t.notMatch(answer.text, "only", "no cluster is named");
    t.equal((await headgate.admin("POST", "/clusters/only/undrain", {})).status, 204);
  }
  t.strictSame(stored(headgate), ["first"]);
  const got = await headgate.s3.send(new GetObjectCommand({ Bucket: bucket, Key: "first" }));
  t.equal(await got.Body?.transformToString(), "x");
});

t.test("the upstream has the first byte long before the client has sent the last", async (t) => {
  // https://github.com/afreidah/s3-orchestrator/issues/972
  const headgate = await startTestHeadgate(t, { clusters: { only: 1 } });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
  const total = 256 * 1024 * 1024;
  const connection = await openRaw(headgate.url);
  const path = `/${bucket}/large`;
  await connection.write(rawHead(headgate.url, { method: "PUT", path, contentLength: total }));
  let sent = 0;
  const begun = (): boolean =>
    headgate.clusters["only"]?.exchanges().some(({ target }) => target.startsWith(path)) ?? false;
  while (!begun() && sent < total / 100) {
    await connection.write(Buffer.alloc(16 * 1024, 1));
    sent += 16 * 1024;
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.ok(begun(), `upstream saw the request after ${sent} bytes`);
  t.ok(sent < total / 100);
  connection.socket.destroy();
  await idle(headgate);
  t.strictSame(stored(headgate), []);
});

t.test("100 Continue comes only after the request was allowed", async (t) => {
  const headgate = await open(t);
  const allowed = await openRaw(headgate.url);
  const expect = [["expect", "100-continue"]] as const;
  const path = `/${bucket}/expected`;
  await allowed.write(
    rawHead(headgate.url, { method: "PUT", path, contentLength: 5, headers: expect }),
  );
  await allowed.answer((text) => text.startsWith("HTTP/1.1 100 Continue"));
  await allowed.write("hello");
  const answer = await allowed.answer((text) => text.includes("HTTP/1.1 200"));
  t.match(answer.text, "HTTP/1.1 100 Continue");
  allowed.socket.destroy();
  t.strictSame(stored(headgate), ["expected"]);

  const denied = await openRaw(headgate.url);
  await denied.write(
    rawHead(headgate.url, {
      method: "PUT",
      path: `/${bucket}/denied`,
      contentLength: 5,
      headers: expect,
      keys: { accessKeyId: "test-client", secretAccessKey: "wrong" },
    }),
  );
  const refused = await denied.answer();
  t.equal(refused.status, 403);
  t.notMatch(refused.text, "100 Continue");
  denied.socket.destroy();
});
