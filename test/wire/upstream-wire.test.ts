// What an upstream request looks like on the wire, byte for byte, and that a verifying server agrees.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:tls";
import t, { type Test } from "tap";
import type { UpstreamRequest } from "../../proxy/placement/ports.ts";
import {
  noTenant,
  parseAccessKeyId,
  parseBucketName,
  parseObjectKey,
  parseTenantName,
  type TenantName,
} from "../../proxy/s3/names.ts";
import { emptyPayloadHash, SigningKeys, signRequest } from "../../proxy/s3/sigv4.ts";
import { demoCluster, demoCredentials } from "../support/demo-cluster.ts";
import {
  type Adapter,
  adapter,
  put,
  type RawConnection,
  rawServer,
  textOf,
} from "../support/raw-upstream.ts";

const empty = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

interface Echo {
  readonly url: string;
  /** The head that one request was. */
  headOf(adapter: Adapter, request: Partial<UpstreamRequest>): Promise<readonly string[]>;
}

async function echo(t: Test): Promise<Echo> {
  const heads: string[] = [];
  const serve = async (connection: RawConnection): Promise<void> => {
    for (let head = await connection.head(); head !== null; head = await connection.head()) {
      heads.push(head);
      await connection.bytes(Number(/^content-length: (\d+)/m.exec(head)?.[1] ?? "0"));
      connection.write(empty);
    }
  };
  const server = await rawServer(t, serve);
  return {
    url: server.url,
    async headOf(a, request) {
      await textOf(await a.send(request));
      return heads.pop()?.split("\r\n") ?? [];
    },
  };
}

t.test("keys stand in the target as they are, percent-encoded once", async (t) => {
  const server = await echo(t);
  const a = adapter(t, { endpoints: [server.url] });
  const targets: readonly [key: string, target: string][] = [
    ["a//b", "/bucket/a//b"],
    ["/lead", "/bucket//lead"],
    ["a/../c", "/bucket/a/../c"],
    ["./x/.", "/bucket/./x/."],
    ["a%2Fb", "/bucket/a%252Fb"],
    ["a b+c", "/bucket/a%20b%2Bc"],
    ["100%", "/bucket/100%25"],
    ["x?y#z&=", "/bucket/x%3Fy%23z%26%3D"],
    ["é😀", "/bucket/%C3%A9%F0%9F%98%80"],
    ["(x)'!*:@,", "/bucket/%28x%29%27%21%2A%3A%40%2C"],
    ["a\\b\t", "/bucket/a%5Cb%09"],
  ];
  for (const [key, target] of targets) {
    const [line] = await server.headOf(a, { key: parseObjectKey(key) });
    t.equal(line, `GET ${target} HTTP/1.1`);
  }
});

t.test("bucket, tenant, service and query have one spelling", async (t) => {
  const server = await echo(t);
  const a = adapter(t, { endpoints: [server.url] });
  const cases: readonly [Partial<UpstreamRequest>, string][] = [
    [{ bucket: null, key: null }, "/"],
    [{ key: null }, "/bucket"],
    [{ tenant: parseTenantName("team") ?? noTenant }, "/team%3Abucket/key"],
    [{ key: null, query: [["uploads", null]] }, "/bucket?uploads="],
    [
      {
        query: [
          ["versionId", "a+b/c"],
          ["A", "é"],
        ],
      },
      "/bucket/key?A=%C3%A9&versionId=a%2Bb%2Fc",
    ],
  ];
  for (const [request, target] of cases) {
    t.equal((await server.headOf(a, request))[0], `GET ${target} HTTP/1.1`);
  }
});

t.test("a bucket in no tenant is named so where the signing user is in one", async (t) => {
  const server = await echo(t);
  const team = parseTenantName("team") ?? noTenant;
  const accessKeyId = parseAccessKeyId("caller");
  if (accessKeyId === null) throw new Error("No key id");
  const asked = (tenant: TenantName): Partial<UpstreamRequest> => ({
    tenant,
    identity: { kind: "caller", accessKeyId, tenant: team },
  });
  const own = { accessKeyId: "caller", secretAccessKey: "sk" };
  const callerKeys = () => ({ own, clusters: new Map() });
  const of = (identity: "same" | "service") =>
    adapter(t, {
      endpoints: [server.url],
      callerKeys,
      cluster: { identity, addressing: "virtual" },
    });
  const same = of("same");
  t.equal((await server.headOf(same, asked(noTenant)))[0], "GET /%3Abucket/key HTTP/1.1");
  t.equal((await server.headOf(same, asked(team)))[0], "GET /team%3Abucket/key HTTP/1.1");
  const service = of("service");
  t.equal((await server.headOf(service, asked(noTenant)))[0], "GET /key HTTP/1.1");
});

t.test("virtual-hosted style puts the bucket in front of the host where it can", async (t) => {
  const server = await echo(t);
  const authority = server.url.slice("http://".length);
  const a = adapter(t, { endpoints: [server.url], cluster: { addressing: "virtual" } });
  const cases: readonly [bucket: string, key: string | null, line: string, host: string][] = [
    ["logs", "a/b", "/a/b", `logs.${authority}`],
    ["logs", null, "/", `logs.${authority}`],
    ["Logs_2", "k", "/Logs_2/k", authority],
  ];
  for (const [bucket, key, target, host] of cases) {
    const head = await server.headOf(a, {
      bucket: parseBucketName(bucket),
      key: key === null ? null : parseObjectKey(key),
    });
    t.equal(head[0], `GET ${target} HTTP/1.1`);
    t.strictSame(
      head.filter((line) => line.startsWith("host:")),
      [`host: ${host}`],
    );
  }
});

t.test("a host of its own is sent and signed in place of the endpoint's", async (t) => {
  const server = await echo(t);
  for (const [addressing, host] of [
    ["path", "s3.example:7480"],
    ["virtual", "logs.s3.example:7480"],
  ] as const) {
    const a = adapter(t, {
      endpoints: [server.url],
      cluster: { addressing, host: "s3.example:7480" },
    });
    const head = await server.headOf(a, { bucket: parseBucketName("logs"), key: null });
    t.strictSame(
      head.filter((line) => line.startsWith("host:")),
      [`host: ${host}`],
    );
    const signed = signRequest(
      {
        method: "GET",
        path: addressing === "path" ? "/logs" : "/",
        query: "",
        host,
        headers: [],
        payloadHash: emptyPayloadHash,
        region: "us-east-1",
        credentials: { accessKeyId: "ak", secretAccessKey: "sk", sessionToken: null },
        amzDate: "20261129T120000Z",
      },
      new SigningKeys(1),
    );
    for (const [name, value] of signed) t.ok(head.includes(`${name}: ${value}`), name);
  }
});

t.test("fields go out byte-true, ours once, the connection's own never", async (t) => {
  const server = await echo(t);
  const a = adapter(t, { endpoints: [server.url] });
  const metadata = Buffer.from("grün", "utf8").toString("latin1");
  const head = await server.headOf(a, {
    ...put({ kind: "bytes", bytes: Buffer.from("abc") }),
    payloadSha256: createHash("sha256").update("abc").digest("hex"),
    headers: [
      ["host", "evil"],
      ["connection", "close"],
      ["te", "trailers"],
      ["transfer-encoding", "chunked"],
      ["content-length", "99"],
      ["expect", "100-continue"],
      ["authorization", "Basic x"],
      ["x-amz-security-token", "client's"],
      ["content-type", "text/plain"],
      ["x-amz-meta-a", "1"],
      ["x-amz-meta-name", metadata],
      ["x-amz-meta-a", "2"],
      ["range", "bytes=0-"],
    ],
  });
  const names = head.slice(1, -2).map((line) => line.slice(0, line.indexOf(":")));
  t.strictSame(names, [
    "host",
    "connection",
    "content-type",
    "x-amz-meta-a",
    "x-amz-meta-name",
    "range",
    "x-amz-date",
    "x-amz-content-sha256",
    "authorization",
    "content-length",
  ]);
  t.ok(head.includes("x-amz-meta-a: 1,2"));
  t.ok(head.includes(`x-amz-meta-name: ${metadata}`));
  t.ok(head.includes("connection: keep-alive"));
  t.ok(head.includes("content-length: 3"));
  t.ok(head.includes("x-amz-date: 20261129T120000Z"));
  t.match(
    head.find((line) => line.startsWith("authorization")),
    /^authorization: AWS4-HMAC-SHA256 /,
  );
});

t.test("a Content-Type with a tab is sent as it is, and not signed", async (t) => {
  const server = await echo(t);
  const a = adapter(t, { endpoints: [server.url] });
  for (const [type, isSigned] of [
    ["a\tb", false],
    ["a b", true],
  ] as const) {
    const head = await server.headOf(a, { headers: [["content-type", type]] });
    t.ok(head.includes(`content-type: ${type}`));
    const signed = /SignedHeaders=([^,]*)/.exec(head.join("\n"))?.[1]?.split(";") ?? [];
    t.equal(signed.includes("content-type"), isSigned, "RGW signs a tab as it is, AWS as a blank");
    t.ok(signed.includes("host"));
  }
});

t.test("answers lose hop-by-hop fields and nothing else", async (t) => {
  const server = await rawServer(t, async (connection) => {
    await connection.head();
    connection.write(
      "HTTP/1.1 307 Go\r\nConnection: X-Gone, keep-alive\r\nX-Gone: 1\r\nKeep-Alive: timeout=9\r\n" +
        "Trailer: x\r\nTransfer-Encoding: chunked\r\nLocation: http://elsewhere/\r\n" +
        "x-amz-meta-n: gr\xc3\xbcn\r\nX-Twice: a\r\nx-twice: b\r\n\r\n0\r\n\r\n",
    );
  });
  const a = adapter(t, { endpoints: [server.url] });
  const response = await a.send();
  t.equal(response.status, 307, "a redirect is handed up");
  t.strictSame(response.headers, [
    ["location", "http://elsewhere/"],
    ["x-amz-meta-n", "gr\xc3\xbcn"],
    ["x-twice", "a"],
    ["x-twice", "b"],
  ]);
});

t.test("a verifying server takes every form of request", async (t) => {
  const server = await demoCluster(t);
  const a = adapter(t, {
    endpoints: [server.url],
    cluster: { credentials: demoCredentials },
    clock: { nowMs: () => Date.now(), monotonicMs: () => performance.now() },
  });
  const bucket = { bucket: parseBucketName("bucket"), key: null };
  t.equal((await a.send({ ...bucket, operation: "CreateBucket", method: "PUT" })).status, 200);
  const value = Buffer.from("value");
  const sha256 = createHash("sha256").update(value).digest("hex");
  for (const name of ["a b+c/é", "x//../y", "q?&=#%", "😀 (1)'!*", "a%2Fb"]) {
    const key = parseObjectKey(name);
    const stored = await a.send({
      ...put({ kind: "bytes", bytes: value }),
      key,
      payloadSha256: sha256,
      headers: [
        ["content-type", "text/x;  a=b"],
        ["x-amz-meta-a", " 1  2 "],
        ["x-amz-meta-n", "gr\xc3\xbcn"],
      ],
    });
    t.equal(stored.status, 200, `PUT ${name}`);
    const got = await a.send({ key, query: [["response-content-language", "a b+c"]] });
    t.equal(got.status, 200, `GET ${name}`);
    t.equal(await textOf(got), "value");
    t.ok(got.headers.some(([field, text]) => field === "x-amz-meta-n" && text === "gr\xc3\xbcn"));
  }
  const wrong = await a.send({
    ...put({ kind: "bytes", bytes: Buffer.from("other") }),
    key: parseObjectKey("wrong"),
    payloadSha256: sha256,
  });
  t.equal(wrong.status, 400);
  t.match(await textOf(wrong), /XAmzContentSHA256Mismatch/);
  t.notOk(server.objects("bucket").some(({ key }) => key === "wrong"));
  const list = await a.send({
    ...bucket,
    operation: "ListObjectsV2",
    query: [
      ["list-type", "2"],
      ["prefix", "a b+"],
    ],
  });
  t.match(await textOf(list), "<Key>a b+c/é</Key>".replace("é", "\xc3\xa9"));
});

t.test("https upstreams are verified against the given authority", async (t) => {
  const dir = t.testdir();
  const made = spawnSync(
    "openssl",
    [
      ..."req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split(" "),
      ..."-subj /CN=localhost -addext subjectAltName=DNS:localhost,DNS:*.localhost".split(" "),
      ..."-keyout key.pem -out cert.pem".split(" "),
    ],
    { cwd: dir, encoding: "utf8" },
  );
  if (made.error !== undefined) {
    t.pass("skipped: needs openssl, apt-get install openssl");
    return;
  }
  t.equal(made.status, 0, made.stderr);
  const cert = readFileSync(`${dir}/cert.pem`, "utf8");
  const names: (string | false | null)[] = [];
  const server: Server = createServer({ key: readFileSync(`${dir}/key.pem`), cert }, (socket) => {
    names.push(socket.servername);
    socket.on("error", () => undefined);
    socket.on("data", () => socket.write(empty));
  });
  server.on("tlsClientError", () => undefined);
  t.teardown(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("No port");
  const endpoints = [`https://localhost:${address.port}`];

  const trusted = { caPem: cert, insecureSkipVerify: false };
  const a = adapter(t, { endpoints, cluster: { tls: trusted } });
  t.equal((await a.send()).status, 200);
  await a.close();
  const virtual = adapter(t, { endpoints, cluster: { tls: trusted, addressing: "virtual" } });
  for (const bucket of ["one", "two"]) {
    t.equal((await virtual.send({ bucket: parseBucketName(bucket) })).status, 200);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await virtual.close();
  t.strictSame(names, ["localhost", "localhost"], "one connection serves all buckets");

  const stranger = adapter(t, { endpoints });
  t.match(await stranger.failure(), { phase: "connect", cause: { code: /SELF_SIGNED/ } });
  const careless = adapter(t, {
    endpoints,
    cluster: { tls: { caPem: null, insecureSkipVerify: true } },
  });
  t.equal((await careless.send()).status, 200);
  await careless.close();
});
