// Uploads over an object that is there, broken off anywhere: the object stays as it was, the client's
// leaving is logged as its own fault, and no connection to the cluster is left behind.

import { CreateBucketCommand, GetObjectCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { startTestHeadgate } from "../support/headgate.ts";
import { openRaw, rawHead, until } from "../support/raw-http.ts";
import { rawServer } from "../support/raw-upstream.ts";
import { crc32Of, modes, written } from "../support/s3-uploads.ts";

const bucket = "streams";

t.test("an upload that breaks off leaves the object that was there", async (t) => {
  // https://github.com/aws/aws-sdk-go/issues/780
  const headgate = await startTestHeadgate(t, { clusters: { only: 1 } });
  const { url, s3, accessLog } = headgate;
  const at = { Bucket: bucket, Key: "k" };
  await s3.send(new CreateBucketCommand({ Bucket: bucket }));
  await s3.send(new PutObjectCommand({ ...at, Body: "as it was" }));
  const before = accessLog.length;
  const uploads: (readonly [string, Buffer])[] = [];
  for (const size of [100, 70_000, 600_000]) {
    const data = Buffer.alloc(size, 1);
    const path = `/${bucket}/k`;
    const plain = rawHead(url, { method: "PUT", path, contentLength: size });
    const summed = rawHead(url, {
      method: "PUT",
      path,
      contentLength: size,
      headers: [["x-amz-checksum-crc32", crc32Of(data)]],
    });
    uploads.push([plain, data], [summed, data]);
    for (const mode of modes) {
      for (const inHttpChunks of [false, true]) {
        uploads.push(written(url, mode, { key: "k", data, inHttpChunks }));
      }
    }
  }
  let count = 0;
  for (const [head, body] of uploads) {
    for (const kept of [0, 3, body.length >> 1, body.length - 1]) {
      const connection = await openRaw(url);
      await connection.write(head);
      if (kept > 0) await connection.write(body.subarray(0, kept));
      // In order, so that an answer may still be read, and not.
      if (count % 2 === 0) connection.socket.destroy();
      else connection.socket.resetAndDestroy();
      count += 1;
    }
  }
  await until(() => accessLog.length === before + count);
  const told = accessLog.slice(before).map(({ status, errorCode }) => `${status} ${errorCode}`);
  const theirs = new Set(["400 IncompleteBody", "499 null"]);
  t.strictSame(
    told.filter((one) => !theirs.has(one)),
    [],
    "none is a server's fault",
  );
  const got = await s3.send(new GetObjectCommand(at));
  t.equal(await got.Body?.transformToString(), "as it was");
  t.equal(headgate.clusters["only"]?.objects(bucket).length, 1);
  await until(async () => ((await headgate.clusters["only"]?.connections()) ?? 0) <= 2);
});

t.test(
  "a cluster's refusal in the midst of an upload reaches a client that still sends",
  async (t) => {
    // https://github.com/aws/aws-sdk-js/issues/281
    const document = "<Error><Code>RequestTimeout</Code><Message>Too slow</Message></Error>";
    let uploads = 0;
    const server = await rawServer(t, async (connection) => {
      for (let head = await connection.head(); head !== null; head = await connection.head()) {
        if (!head.startsWith("PUT")) {
          connection.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
          continue;
        }
        uploads += 1;
        await connection.bytes(100_000);
        const fields = `content-type: application/xml\r\ncontent-length: ${document.length}`;
        connection.write(
          `HTTP/1.1 400 Bad Request\r\n${fields}\r\nconnection: close\r\n\r\n${document}`,
        );
        connection.socket.end();
        connection.socket.resume();
        return;
      }
    });
    const { url } = await startTestHeadgate(t, {
      clusters: { only: 1 },
      servers: {},
      endpoints: { only: server.url },
    });
    const piece = Buffer.alloc(1024 * 1024, 1);
    const contentLength = 32 * piece.length;
    for (const headers of [[], [["expect", "100-continue"]]] as const) {
      const connection = await openRaw(url);
      t.teardown(() => connection.socket.destroy());
      const head = rawHead(url, { method: "PUT", path: "/b/k", contentLength, headers });
      await connection.write(head);
      for (let sent = 0; sent < contentLength; sent += piece.length) await connection.write(piece);
      const { text } = await connection.answer((all) => all.includes("</Error>"));
      t.match(text, "HTTP/1.1 400 ");
      t.match(text, "<Code>RequestTimeout</Code><Message>Too slow</Message>");
      t.match(text, /connection: close\r\n/i);
    }
    t.equal(uploads, 2, "and is not asked again");
  },
);

t.test("an idle connection is kept longer than balancers keep theirs", async (t) => {
  // https://github.com/growthbook/growthbook-proxy/pull/134
  for (const [listen, least, most] of [
    [undefined, 75, Number.POSITIVE_INFINITY],
    ["idle_timeout: 90s", 90, 90],
  ] as const) {
    const { url } = await startTestHeadgate(t, {
      clusters: { only: 1 },
      ...(listen === undefined ? {} : { listen }),
    });
    const connection = await openRaw(url);
    t.teardown(() => connection.socket.destroy());
    await connection.write(rawHead(url, { method: "GET", path: "/" }));
    const { text } = await connection.answer();
    const seconds = Number(/^keep-alive: timeout=(\d+)\r$/im.exec(text)?.[1]);
    t.ok(seconds >= least && seconds <= most, `${seconds} s`);
  }
});
