// How buckets are addressed on clusters that are reached over TLS: a certificate for `*.host` covers one
// label in front of it, so that a bucket with dots goes by path, and the certificate stays checked.

import { once } from "node:events";
import { createServer, type TLSSocket } from "node:tls";
import t from "tap";
import { parseBucketName } from "../../proxy/s3/names.ts";
import { TestAuthority } from "../support/certificates.ts";
import { adapter } from "../support/raw-upstream.ts";

const authority = new TestAuthority();
const answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

t.test("a bucket with dots is addressed by path over TLS", async (t) => {
  // https://github.com/strapi/strapi/issues/19494
  const { certPem: cert, keyPem: key } = authority.issue({
    dnsNames: ["localhost", "*.localhost"],
  });
  const heads: string[] = [];
  const names: unknown[] = [];
  const server = createServer({ cert, key }, (socket: TLSSocket) => {
    names.push(socket.servername);
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      heads.push(bytes.toString("latin1"));
      socket.write(answer);
    });
  });
  t.teardown(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const host = `localhost:${address.port}`;
  const a = adapter(t, {
    endpoints: [`https://${host}`],
    cluster: {
      addressing: "virtual",
      tls: { caPem: authority.certPem, insecureSkipVerify: false },
    },
  });
  const rows = [
    ["plain", "GET /key HTTP/1.1", `plain.${host}`],
    ["my.bucket", "GET /my.bucket/key HTTP/1.1", host],
    ["a.b.c", "GET /a.b.c/key HTTP/1.1", host],
  ] as const;
  for (const [bucket, line, field] of rows) {
    t.equal((await a.send({ bucket: parseBucketName(bucket) })).status, 200, bucket);
    const head = heads.at(-1) ?? "";
    t.ok(head.startsWith(`${line}\r\n`), line);
    t.match(head.toLowerCase(), `host: ${field}\r\n`, bucket);
  }
  t.ok(
    names.every((name) => name === "localhost"),
    "the handshake names the endpoint",
  );
  await a.close();
});

t.test("a certificate for another host or another time is refused", async (t) => {
  const old = new Date(Date.now() - 86_400_000);
  const rows = [
    [{ dnsNames: ["other.example"], addresses: [] }, "ERR_TLS_CERT_ALTNAME_INVALID"],
    [{ notBefore: new Date(0), notAfter: old }, "CERT_HAS_EXPIRED"],
  ] as const;
  for (const [options, code] of rows) {
    const { certPem: cert, keyPem: key } = authority.issue(options);
    const server = createServer({ cert, key }, (socket) => socket.end(answer));
    server.on("tlsClientError", () => {});
    t.teardown(() => server.close());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    const a = adapter(t, {
      endpoints: [`https://localhost:${address.port}`],
      cluster: { tls: { caPem: authority.certPem, insecureSkipVerify: false } },
    });
    t.match(await a.failure(), { phase: "connect", cause: { code } }, code);
    await a.close();
  }
});
