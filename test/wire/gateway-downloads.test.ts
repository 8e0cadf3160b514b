// Downloads that go wrong and answers that must be byte-true: ranges, conditions, HEAD lengths, a
// cluster or a client that leaves in the middle.

import {
  CreateBucketCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { TestHeadgate } from "../support/headgate.ts";
import { startTestHeadgate } from "../support/headgate.ts";
import { openRaw, rawExchange, rawHead, until } from "../support/raw-http.ts";

const sizeBytes = 3 * 1024 * 1024;
const content = Buffer.alloc(sizeBytes, "0123456789abcdef");

async function open(t: Test): Promise<TestHeadgate> {
  const headgate = await startTestHeadgate(t, { clusters: { only: 1 } });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: "down" }));
  await headgate.s3.send(
    new PutObjectCommand({
      Bucket: "down",
      Key: "big",
      Body: content,
      ContentType: "text/x-test",
      CacheControl: "max-age=5",
      Metadata: { note: "grüße" },
    }),
  );
  return headgate;
}

t.test("ranges, conditions and HEAD give what the cluster gives", async (t) => {
  const { s3, url } = await open(t);
  const part = await s3.send(
    new GetObjectCommand({ Bucket: "down", Key: "big", Range: "bytes=5-9" }),
  );
  t.equal(await part.Body?.transformToString(), "56789");
  t.equal(part.ContentRange, `bytes 5-9/${sizeBytes}`);
  const whole = await s3.send(new GetObjectCommand({ Bucket: "down", Key: "big" }));
  t.ok(content.equals((await whole.Body?.transformToByteArray()) ?? Buffer.alloc(0)));
  t.equal(whole.ContentType, "text/x-test");
  t.equal(whole.CacheControl, "max-age=5");
  const head = await s3.send(new HeadObjectCommand({ Bucket: "down", Key: "big" }));
  t.equal(head.ContentLength, sizeBytes);
  t.equal(head.ETag, whole.ETag);
  const raw = async (headers: readonly (readonly [string, string])[]) =>
    await rawExchange(url, rawHead(url, { method: "GET", path: "/down/big", headers }));
  t.equal((await raw([["if-none-match", head.ETag ?? ""]])).status, 304);
  t.equal((await raw([["if-match", '"other"']])).status, 412);
  t.equal((await raw([["range", `bytes=${sizeBytes}-`]])).status, 416);
  await t.rejects(s3.send(new HeadObjectCommand({ Bucket: "down", Key: "none" })), {
    $metadata: { httpStatusCode: 404 },
    name: "NotFound",
  });
});

t.test("a cluster that leaves during a download cuts the client, never ends it well", async (t) => {
  const { url, clusters, accessLog } = await open(t);
  clusters["only"]?.setFault(() => ({ cutAfterBytes: 1_000_000 }));
  const connection = await openRaw(url);
  await connection.write(rawHead(url, { method: "GET", path: "/down/big" }));
  const { status, text } = await connection.answer(() => false);
  t.equal(status, 200);
  t.ok(text.length < sizeBytes, "the connection closed before the announced length");
  t.notMatch(text.slice(-200), "<Error>");
  clusters["only"]?.setFault(null);
  await until(() => accessLog.some(({ operation }) => operation === "GetObject"));
  t.match(accessLog.at(-1), { errorCode: "ServiceUnavailable" });
});

t.test("a cluster that cannot be reached is 503, never 404", async (t) => {
  const { s3, clusters } = await open(t);
  for (const fault of ["reset", { status: 500 }] as const) {
    clusters["only"]?.setFault(() => fault);
    await t.rejects(s3.send(new GetObjectCommand({ Bucket: "down", Key: "big" })), {
      name: /./,
      $metadata: { httpStatusCode: fault === "reset" ? 503 : 500 },
    });
  }
});

t.test("a client that leaves takes its upstream exchange with it", async (t) => {
  // https://github.com/http-party/node-http-proxy/pull/1559
  const { url, clusters, adminUrl } = await open(t);
  const inFlight = async (): Promise<number> => {
    const text = await (await fetch(`${adminUrl}/metrics`)).text();
    return Number(
      /^headgate_requests_in_flight(?:\{[^}]*\})? (\d+)/m.exec(text)?.[1] ?? Number.NaN,
    );
  };
  for (let round = 0; round < 5; round += 1) {
    const connection = await openRaw(url);
    await connection.write(rawHead(url, { method: "GET", path: "/down/big" }));
    await connection.answer((text) => text.length > 1000);
    connection.socket.destroy();
  }
  clusters["only"]?.setFault(() => "stall");
  const waiting = await openRaw(url);
  await waiting.write(rawHead(url, { method: "GET", path: "/down/big" }));
  await until(async () => (await inFlight()) === 1);
  waiting.socket.destroy();
  await until(async () => (await inFlight()) === 0);
  clusters["only"]?.setFault(null);
  await until(async () => ((await clusters["only"]?.connections()) ?? 0) <= 1);
  t.pass("no exchange and no upstream connection is left behind");
});
