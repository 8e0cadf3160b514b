// What a client can make the proxy hold: bodies of callers who may nothing, answers that nobody takes,
// foreign protocols, redirects meant for somebody else.

import { createServer } from "node:http";
import { CreateBucketCommand, DeleteObjectsCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { encodeQuery } from "../../proxy/s3/query.ts";
import type { TestHeadgate } from "../support/headgate.ts";
import { clientKeys, startTestHeadgate } from "../support/headgate.ts";
import { openRaw, rawExchange, rawHead, until } from "../support/raw-http.ts";
import { smithyPresign } from "../support/s3-smithy.ts";

async function inFlight({ adminUrl }: TestHeadgate): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return Number(/^headgate_requests_in_flight(?:\{[^}]*\})? (\d+)/m.exec(text)?.[1] ?? Number.NaN);
}

t.test("nobody's body is read before they are allowed", async (t) => {
  const { url } = await startTestHeadgate(t);
  const connection = await openRaw(url);
  await connection.write(
    `PUT /nobodys-bucket HTTP/1.1\r\nhost: ${new URL(url).host}\r\ncontent-length: 1000\r\nexpect: 100-continue\r\n\r\n`,
  );
  const { status, text } = await connection.answer();
  t.equal(status, 403);
  t.notMatch(text, "100 Continue");
  connection.socket.destroy();
});

t.test("documents under way share one memory, announced ones take none of it", async (t) => {
  const { url, s3 } = await startTestHeadgate(t, { clusters: { only: 1 } });
  await s3.send(new CreateBucketCommand({ Bucket: "many" }));
  await s3.send(new PutObjectCommand({ Bucket: "many", Key: "k", Body: "x" }));
  const document = Buffer.alloc(2 * 1024 * 1024, " ");
  const open = async (sent: Uint8Array) => {
    const contentLength = document.length;
    const head = rawHead(url, { method: "POST", path: "/many", query: "delete=", contentLength });
    const connection = await openRaw(url);
    t.teardown(() => connection.socket.destroy());
    await connection.write(head);
    await connection.write(sent);
    return connection;
  };
  const idle = await Promise.all(Array.from({ length: 40 }, () => open(document.subarray(0, 1))));
  // 32 of them are 64 MiB.
  const long = await Promise.all(
    Array.from({ length: 33 }, () => open(document.subarray(0, -1000))),
  );
  const first = await Promise.race([...idle, ...long].map((each) => each.answer()));
  t.equal(first.status, 503);
  t.match(first.text, "<Code>SlowDown</Code>");
  for (const { socket } of [...idle, ...long]) socket.destroy();
  await until(async () => {
    const Delete = { Objects: [{ Key: "k" }] };
    const sent = s3.send(new DeleteObjectsCommand({ Bucket: "many", Delete }));
    return (await sent.catch(() => ({ Deleted: [] }))).Deleted?.length === 1;
  });
});

t.test("a document that comes byte by byte has an end", async (t) => {
  const { url, s3 } = await startTestHeadgate(t, {
    clusters: { only: 1 },
    listen: "body_idle_timeout: 1s",
  });
  await s3.send(new CreateBucketCommand({ Bucket: "drop" }));
  const contentLength = 100_000;
  const head = rawHead(url, { method: "POST", path: "/drop", query: "delete=", contentLength });
  const connection = await openRaw(url);
  await connection.write(head);
  const dripping = setInterval(() => connection.socket.write(" "), 100);
  t.teardown(() => clearInterval(dripping));
  const { status, text } = await connection.answer();
  t.equal(status, 400);
  t.match(text, "<Code>RequestTimeout</Code>");
  connection.socket.destroy();
});

t.test("an answer that nobody takes is given up", async (t) => {
  const headgate = await startTestHeadgate(t, {
    clusters: { only: 1 },
    listen: "body_idle_timeout: 1s",
  });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: "slow" }));
  const Body = Buffer.alloc(32 * 1024 * 1024);
  await headgate.s3.send(new PutObjectCommand({ Bucket: "slow", Key: "big", Body }));
  const connection = await openRaw(headgate.url);
  connection.socket.pause();
  await connection.write(rawHead(headgate.url, { method: "GET", path: "/slow/big" }));
  await until(async () => (await inFlight(headgate)) === 1);
  await until(async () => (await inFlight(headgate)) === 0);
  t.pass("the exchange ended though the client took nothing");
  connection.socket.destroy();
});

t.test("an upgrade is ignored and the request served", async (t) => {
  const { url, s3 } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "upgrade" }));
  await s3.send(new PutObjectCommand({ Bucket: "upgrade", Key: "k", Body: "x" }));
  const head = rawHead(url, { method: "GET", path: "/upgrade/k" });
  const upgrade =
    "\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n\r\n";
  const { status } = await rawExchange(url, head.replace("\r\n\r\n", upgrade));
  t.equal(status, 200);
});

t.test("an error of a cluster keeps its code, gets a message and loses the zone", async (t) => {
  const server = createServer((request, response) => {
    if ((request.url ?? "").split("/").length < 3) response.writeHead(200).end();
    else {
      const text =
        "<?xml version='1.0'?><Error><Code>NoSuchKey</Code><Message></Message><BucketName>there</BucketName>" +
        "<RequestId>tx0001-zone-b</RequestId><HostId>1071-b-b</HostId></Error>";
      response.writeHead(404, { "content-type": "application/xml", "content-length": text.length });
      response.end(text);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => server.close());
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const { url, accessLog } = await startTestHeadgate(t, {
    clusters: { only: 1 },
    endpoints: { only: `http://127.0.0.1:${address.port}` },
  });
  const { status, text } = await rawExchange(
    url,
    rawHead(url, { method: "GET", path: "/there/k" }),
  );
  t.equal(status, 404);
  t.match(text, "<Code>NoSuchKey</Code><Message>The key does not exist</Message>");
  t.match(text, "<BucketName>there</BucketName>");
  t.match(text, "<Resource>/there/k</Resource>");
  t.match(text, `<RequestId>${accessLog.at(-1)?.requestId}</RequestId>`);
  t.notMatch(text, /zone-b|1071-b-b/);
});

t.test("a redirect of a cluster stays between it and us", async (t) => {
  const server = createServer((request, response) => {
    const isBucket = (request.url ?? "").split("/").length < 3;
    if (isBucket) response.writeHead(200).end();
    else {
      const location = "http://internal.example/elsewhere";
      response.writeHead(307, { location }).end(`<Error><Endpoint>${location}</Endpoint></Error>`);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => server.close());
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const { url } = await startTestHeadgate(t, {
    clusters: { only: 1 },
    endpoints: { only: `http://127.0.0.1:${address.port}` },
  });
  const answer = await rawExchange(url, rawHead(url, { method: "GET", path: "/there/k" }));
  t.equal(answer.status, 503);
  t.notMatch(answer.text, "internal.example");
});

t.test("a storage class in a presigned URL is placed like one in a header", async (t) => {
  const headgate = await startTestHeadgate(t, {
    clusters: { a: 1, b: 1 },
    settings: "classes: {GLACIER: b}",
  });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: "hoisted" }));
  await headgate.s3.send(new PutObjectCommand({ Bucket: "hoisted", Key: "first", Body: "x" }));
  const statuses = new Map<string, number>();
  for (let n = 0; n < 8; n += 1) {
    const path = `/hoisted/k-${n}`;
    const query = await smithyPresign(
      {
        method: "PUT",
        path,
        query: { "x-amz-storage-class": "GLACIER" },
        headers: { host: new URL(headgate.url).host },
        epochMs: Date.now(),
        region: "us-east-1",
        credentials: { ...clientKeys, sessionToken: null },
      },
      60,
    );
    const put = await fetch(`${headgate.url}${path}?${encodeQuery(query)}`, {
      method: "PUT",
      body: "x",
    });
    statuses.set(`k-${n}`, put.status);
  }
  const onA = headgate.clusters["a"]?.objects("hoisted").map(({ key }) => String(key)) ?? [];
  for (const [key, status] of statuses) {
    t.ok(status === 200 || status === 501, `${key}: ${status}`);
    t.notOk(onA.includes(key), `${key} is not where its class may not be`);
  }
  t.ok([...statuses.values()].includes(501) && [...statuses.values()].includes(200));
});
