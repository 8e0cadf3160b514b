// S3 over TLS on both legs: what a client and a cluster see of it, and what ends in the handshake.

import { once } from "node:events";
import { Agent } from "node:https";
import { connect } from "node:net";
import { connect as connectTls, createServer as createTlsServer } from "node:tls";
import {
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  GetObjectCommand,
  PutObjectCommand,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { TestAuthority } from "../support/certificates.ts";
import { startClusters, startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";
import { openRaw, rawHead, until } from "../support/raw-http.ts";

const authority = new TestAuthority();
const { certPem, keyPem } = authority.issue();
const ca = authority.certPem;
const tls = "tls: {cert_file: cert.pem, key_file: key.pem";
const files = { "cert.pem": certPem, "key.pem": keyPem, "ca.pem": ca };

async function start(t: Test, more = "", listen = ""): Promise<TestHeadgate> {
  return await startTestHeadgate(t, {
    clusters: { only: 1 },
    listen: `${tls}${more}}${listen}`,
    files,
  });
}

/** A TLS door in front of a plain server. */
async function tlsDoor(t: Test, target: string): Promise<string> {
  const { hostname, port } = new URL(target);
  const server = createTlsServer({ cert: certPem, key: keyPem }, (outside) => {
    const inside = connect(Number(port), hostname);
    outside.on("error", () => inside.destroy());
    inside.on("error", () => outside.destroy());
    outside.pipe(inside).pipe(outside);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => server.close());
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return `https://127.0.0.1:${address.port}`;
}

const trusting = (): Agent => new Agent({ ca, keepAlive: true });

t.test("PUT and GET over https on both legs", async (t) => {
  const servers = await startClusters(t, ["only"]);
  const door = await tlsDoor(t, servers["only"]?.url ?? "");
  const headgate = await startTestHeadgate(t, {
    clusters: { only: 1 },
    servers,
    endpoints: { only: door },
    clusterSettings: "tls: {ca_file: ca.pem}",
    listen: `${tls}}`,
    files,
  });
  t.match(headgate.url, /^https:\/\/127\.0\.0\.1:\d+$/);
  const agent = trusting();
  t.teardown(() => agent.destroy());
  // With their own defaults: over https SDKs send an unsigned body with a checksum trailer.
  const s3 = headgate.client({
    requestHandler: { httpsAgent: agent },
    requestChecksumCalculation: "WHEN_SUPPORTED",
  });
  await s3.send(new CreateBucketCommand({ Bucket: "secure" }));
  const Body = Buffer.alloc(300_000, "tls");
  await s3.send(new PutObjectCommand({ Bucket: "secure", Key: "k", Body }));
  const got = await s3.send(new GetObjectCommand({ Bucket: "secure", Key: "k" }));
  t.ok(Buffer.from((await got.Body?.transformToByteArray()) ?? []).equals(Body));

  const upload = { Bucket: "secure", Key: "parts" };
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand(upload));
  const part = { ...upload, UploadId, PartNumber: 1 };
  const { ETag } = await s3.send(new UploadPartCommand({ ...part, Body: "one" }));
  const MultipartUpload = { Parts: [{ ETag, PartNumber: 1 }] };
  const complete = { ...upload, UploadId, MultipartUpload };
  const { Location } = await s3.send(new CompleteMultipartUploadCommand(complete));
  t.equal(Location, `${headgate.url}/secure/parts`);

  const { port } = new URL(headgate.adminUrl);
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  t.match(metrics, 'headgate_upstream_tls_skip_verify{cluster="only"} 0');
});

t.test("a cluster whose certificate is not trusted gets nothing", async (t) => {
  const servers = await startClusters(t, ["only"]);
  const door = await tlsDoor(t, servers["only"]?.url ?? "");
  const over = { clusters: { only: 1 }, servers, endpoints: { only: door }, files };
  const strict = await startTestHeadgate(t, over);
  const create = new CreateBucketCommand({ Bucket: "bucket" });
  await t.rejects(strict.s3.send(create), { name: "ServiceUnavailable" });
  t.strictSame(servers["only"]?.exchanges(), []);
  const careless = await startTestHeadgate(t, {
    ...over,
    clusterSettings: "tls: {insecure_skip_verify: true}",
  });
  await careless.s3.send(create);
  const metrics = await (await fetch(`${careless.adminUrl}/metrics`)).text();
  t.match(metrics, 'headgate_upstream_tls_skip_verify{cluster="only"} 1');
});

t.test("100 Continue comes over TLS as over TCP", async (t) => {
  const { url, clusters, client } = await start(t);
  const agent = trusting();
  t.teardown(() => agent.destroy());
  await client({ requestHandler: { httpsAgent: agent } }).send(
    new CreateBucketCommand({ Bucket: "waits" }),
  );
  const connection = await openRaw(url, { ca });
  const headers = [["expect", "100-continue"]] as const;
  const put = { method: "PUT", path: "/waits/k", headers, contentLength: 4 } as const;
  await connection.write(rawHead(url, put));
  t.match((await connection.answer((text) => text.includes("\r\n\r\n"))).text, /^HTTP\/1.1 100 /);
  await connection.write("body");
  const { text } = await connection.answer((text) => text.includes("HTTP/1.1 200"));
  t.match(text, "HTTP/1.1 200 OK");
  t.equal(Buffer.from(clusters["only"]?.objects("waits")[0]?.bytes ?? []).toString(), "body");
  connection.socket.destroy();
});

t.test("an upload that comes while an answer is still written arrives whole", async (t) => {
  const headgate = await start(t);
  const { url, clusters } = headgate;
  const agent = trusting();
  t.teardown(() => agent.destroy());
  const s3 = headgate.client({ requestHandler: { httpsAgent: agent } });
  await s3.send(new CreateBucketCommand({ Bucket: "turns" }));
  // More than sockets hold, so that the answer cannot be written before the client reads it.
  const Body = Buffer.alloc(16 * 1024 * 1024, 1);
  await s3.send(new PutObjectCommand({ Bucket: "turns", Key: "large", Body }));
  const connection = await openRaw(url, { ca });
  t.teardown(() => connection.socket.destroy());
  await connection.write(rawHead(url, { method: "GET", path: "/turns/large" }));
  await once(connection.socket, "data");
  connection.socket.pause();
  const sent = Buffer.alloc(300_001, 2);
  const put = { method: "PUT", path: "/turns/next", contentLength: sent.length } as const;
  // In one write, so that the records of the body lie behind the one with the head.
  connection.socket.write(Buffer.concat([Buffer.from(rawHead(url, put)), sent]));
  const logged = headgate.accessLog.length;
  await until(async () => {
    const metrics = await (await fetch(`${headgate.adminUrl}/metrics`)).text();
    return /^headgate_requests_in_flight 2$/m.test(metrics) || headgate.accessLog.length > logged;
  });
  connection.socket.resume();
  const { text } = await connection.answer((all) => /HTTP\/1.1 /.test(all.slice(Body.length)));
  t.match(text.slice(Body.length), /HTTP\/1.1 200 OK/);
  const next = clusters["only"]?.objects("turns").find(({ key }) => key === "next");
  t.ok(next !== undefined && Buffer.from(next.bytes).equals(sent));
});

async function handshake(url: string, version: "TLSv1.1" | "TLSv1.2" | "TLSv1.3") {
  const { hostname, port } = new URL(url);
  const ciphers = "DEFAULT@SECLEVEL=0";
  const versions = { minVersion: version, maxVersion: version, ciphers };
  const socket = connectTls({ host: hostname, port: Number(port), ca, ...versions });
  return await new Promise<string>((resolve) => {
    socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    socket.on("secureConnect", () => {
      resolve(socket.getProtocol() ?? "");
      socket.destroy();
    });
  });
}

t.test("old versions of TLS are refused", async (t) => {
  const { url } = await start(t);
  const [old, usual, newest] = [
    await handshake(url, "TLSv1.1"),
    await handshake(url, "TLSv1.2"),
    await handshake(url, "TLSv1.3"),
  ];
  t.match(old, /ALERT_PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL/);
  t.strictSame([usual, newest], ["TLSv1.2", "TLSv1.3"]);
  const strict = await start(t, ", min_version: TLSv1.3");
  t.match(await handshake(strict.url, "TLSv1.2"), /ALERT_PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL/);
  t.equal(await handshake(strict.url, "TLSv1.3"), "TLSv1.3");
});

t.test("what is no handshake is cut and disturbs nobody", async (t) => {
  const headgate = await start(t, "", ", header_timeout: 100ms");
  const { port } = new URL(headgate.url);
  const plain = `http://127.0.0.1:${port}`;
  const attempts = ["GET / HTTP/1.1\r\nhost: a\r\n\r\n", "\x16\x03\x01\x00\x05garbage", ""];
  for (const bytes of attempts) {
    const connection = await openRaw(plain);
    if (bytes !== "") await connection.write(bytes);
    const { text } = await connection.answer(() => false);
    t.notMatch(text, /HTTP|Error/, JSON.stringify(bytes));
  }
  const connection = await openRaw(headgate.url, { ca });
  await connection.write(rawHead(headgate.url, { method: "GET", path: "/" }));
  t.equal((await connection.answer()).status, 200);
  connection.socket.destroy();
  t.equal(headgate.accessLog.length, 1);
});
