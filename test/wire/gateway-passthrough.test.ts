// Other APIs of one cluster behind the S3 listener: handed on as they are where they are listed, and by
// no spelling of a path anywhere else.

import t, { type Test } from "tap";
import { configOf, faultsOf, load } from "../support/config-load.ts";
import { startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";
import { openRaw, rawExchange, until } from "../support/raw-http.ts";
import { type RawConnection, rawServer } from "../support/raw-upstream.ts";

const settings = "passthrough: {cluster: other, paths: [/swift/v1, /admin]}";
const ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

interface Passing extends TestHeadgate {
  /** Heads that the pinned cluster got. */
  readonly heads: string[];
  readonly upstreamUrl: string;
  /** What its connections got behind their heads. */
  readonly connections: readonly RawConnection[];
  ask(target: string, lines?: readonly string[], method?: string): Promise<string>;
}

/** Cluster `only` serves S3; cluster `other` answers with what `answer` writes. */
async function start(
  t: Test,
  answer: (connection: RawConnection, head: string) => Promise<void> | void = (connection) =>
    connection.write(ok),
  given: { readonly settings?: string; readonly clusterSettings?: string } = {},
): Promise<Passing> {
  const heads: string[] = [];
  const upstream = await rawServer(t, async (connection) => {
    const head = await connection.head();
    if (head === null) return;
    heads.push(head);
    await answer(connection, head);
  });
  const headgate = await startTestHeadgate(t, {
    clusters: { only: 1, other: 1 },
    endpoints: { other: upstream.url },
    states: { other: "draining_readonly" },
    listen: "body_idle_timeout: 30s",
    settings,
    ...given,
  });
  const { host } = new URL(headgate.url);
  return {
    ...headgate,
    heads,
    upstreamUrl: upstream.url,
    connections: upstream.connections,
    async ask(target, lines = [], method = "GET") {
      const fields = [`host: ${host}`, ...lines].map((line) => `${line}\r\n`).join("");
      return (await rawExchange(headgate.url, `${method} ${target} HTTP/1.1\r\n${fields}\r\n`))
        .text;
    },
  };
}

const codeOf = (text: string): string => /<Code>(\w+)</.exec(text)?.[1] ?? text.slice(9, 12);

t.test("a listed path goes to its cluster as it came", async (t) => {
  const passing = await start(t);
  const targets = [
    "/swift/v1",
    "/swift/v1/",
    "/swift/v1/c/o%20b?format=json&a=b+c&&x",
    "/swift/v1/c//a//b/",
    "/swift/v1/c/%c3%a9%2Fx'(1)!*\\",
    "/swift/v1/c?q=a?b",
    "/admin/info?format=json",
  ];
  for (const target of targets) {
    const text = await passing.ask(target, ["x-auth-token: AUTH_tk1", "authorization: AWS a:b"]);
    t.match(text, /^HTTP\/1.1 200 [^]*\r\n\r\nok$/, target);
    const head = passing.heads.at(-1) ?? "";
    t.ok(head.startsWith(`GET ${target} HTTP/1.1\r\n`), `${target}: ${head.split("\r\n")[0]}`);
    t.match(head, /\r\nx-auth-token: AUTH_tk1\r\n/i);
    t.match(head, /\r\nauthorization: AWS a:b\r\n/i, "nothing is signed anew");
    t.match(head.toLowerCase(), `\r\nhost: ${new URL(passing.url).host}\r\n`, "as it was signed");
  }
  const { operation, cluster, status, bytesSent } = passing.accessLog.at(-1) ?? {};
  t.strictSame(
    { operation, cluster, status, bytesSent },
    { operation: "Passthrough", cluster: "other", status: 200, bytesSent: 2 },
  );
  const metrics = await (await fetch(`${passing.adminUrl}/metrics`)).text();
  t.match(metrics, 'headgate_requests_total{operation="Passthrough",code="200",cluster="other"} 7');
  t.match(metrics, /headgate_requests_in_flight 0/);
});

t.test("a Host that could be a bucket's is the cluster's", async (t) => {
  const passing = await start(t);
  const rows = [
    ["s3.test", "s3.test"],
    ["S3.test:9000", "S3.test:9000"],
    ["localhost:9000", "localhost:9000"],
    ["[::1]:9000", "[::1]:9000"],
    ["bucket.rgw.internal", null],
    ["rgw", null],
    ["127.0.0.1.evil", null],
  ] as const;
  for (const [host, sent] of rows) {
    await rawExchange(passing.url, `GET /admin/info HTTP/1.1\r\nhost: ${host}\r\n\r\n`);
    const field = /\r\nhost: ([^\r]*)/i.exec(passing.heads.at(-1) ?? "")?.[1];
    t.equal(field, sent ?? new URL(passing.upstreamUrl).host, host);
  }
});

t.test(
  "actions of the service go to it where they are listed, and nothing else at that path",
  async (t) => {
    const form = ["content-type: application/x-www-form-urlencoded", "content-length: 0"];
    const passing = await start(t, undefined, {
      settings: "passthrough: {cluster: other, paths: [/]}",
    });
    t.match(await passing.ask("/", form, "POST"), /^HTTP\/1.1 200 [^]*\r\n\r\nok$/);
    t.match(await passing.ask("/?Action=ListTopics", form, "POST"), /^HTTP\/1.1 200 /);
    t.strictSame(
      passing.heads.map((head) => head.split("\r\n")[0]),
      ["POST / HTTP/1.1", "POST /?Action=ListTopics HTTP/1.1"],
    );
    for (const [method, target] of [
      ["GET", "/"],
      ["PUT", "/"],
      ["DELETE", "/"],
      ["GET", "/?Action=ListTopics"],
      ["POST", "/."],
      ["POST", "//"],
      ["POST", "/%2F"],
      ["POST", "/bucket"],
      ["GET", "/bucket/key"],
    ] as const) {
      t.notMatch(await passing.ask(target, form, method), "HTTP/1.1 200", `${method} ${target}`);
    }
    const bucketHost = "POST / HTTP/1.1\r\nhost: bucket.s3.test\r\ncontent-length: 0\r\n\r\n";
    t.notMatch((await rawExchange(passing.url, bucketHost)).text, "HTTP/1.1 200");
    t.equal(passing.heads.length, 2);
    const unlisted = await start(t);
    t.equal(codeOf(await unlisted.ask("/", form, "POST")), "NotImplemented");
    t.strictSame(unlisted.heads, []);
  },
);

t.test("no other spelling of a path reaches it", async (t) => {
  const passing = await start(t);
  const rows = [
    ["/swift/v1/../../admin/user", "InvalidURI"],
    ["/swift/v1/%2e%2e/%2E%2E/admin", "InvalidURI"],
    ["/swift/v1/./x", "InvalidURI"],
    ["/swift/v1/c/..%2f..", "InvalidURI"],
    ["/swift/v1/..\\..\\admin", "InvalidURI"],
    ["/swift/v1%2Fc", "InvalidURI"],
    ["/swift%2Fv1/c", "InvalidURI"],
    ["/%73wift/v1/c", "InvalidURI"],
    ["/%61dmin/info", "InvalidURI"],
    ["/b/../admin/info", "InvalidURI"],
    ["//admin/info", "InvalidURI"],
    ["/./admin/info", "InvalidURI"],
    ["/swift/v1/a%00b", "InvalidURI"],
    ["/swift/v2", "InvalidBucketName"],
    ["/swift", "InvalidBucketName"],
    ["/auth/v1.0", "InvalidBucketName"],
    ["/swift/v1x/c", "InvalidBucketName"],
    ["/adminx/k", "AccessDenied"],
    ["/ADMIN/info", "AccessDenied"],
    ["/%2561dmin/info", "InvalidBucketName"],
    ["http://x/admin/info", "InvalidURI"],
  ] as const;
  for (const [target, code] of rows) t.equal(codeOf(await passing.ask(target)), code, target);
  const virtual = await rawExchange(
    passing.url,
    "GET /admin/info HTTP/1.1\r\nhost: bucket.s3.test\r\n\r\n",
  );
  t.equal(codeOf(virtual.text), "AccessDenied", "under a bucket's host every path is a key");
  t.strictSame(passing.heads, []);
});

t.test("without the setting nothing but S3 is served", async (t) => {
  const passing = await start(t, undefined, { settings: "" });
  for (const target of ["/swift/v1/c", "/admin/info", "/auth/v1.0", "/swift/healthcheck"]) {
    t.equal(codeOf(await passing.ask(target)), "InvalidBucketName", target);
  }
  t.strictSame(passing.heads, []);
});

t.test("fields that end at a hop end here, in both directions", async (t) => {
  const passing = await start(t, (connection) => {
    const fields = [
      "Connection: x-private",
      "X-Private: 1",
      "Keep-Alive: timeout=5",
      "Upgrade: h2c",
      "Location: http://rgw.internal/swift/v1/c",
      "X-Storage-Url: http://rgw.internal/swift/v1",
      "X-Trans-Id: tx1",
      "Set-Cookie: a=1",
      "Set-Cookie: b=2",
    ];
    connection.write(`HTTP/1.1 201 Created\r\n${fields.join("\r\n")}\r\ncontent-length: 0\r\n\r\n`);
  });
  const text = await passing.ask(
    "/swift/v1/c",
    [
      "connection: x-mine, te",
      "x-mine: 1",
      "te: trailers",
      "keep-alive: timeout=5",
      "proxy-authorization: Basic x",
      "upgrade: websocket",
      "x-forwarded-for: 10.0.0.1",
      "x-forwarded-host: evil",
      "forwarded: for=10.0.0.1",
      "x-container-meta-a: gr\xfcn",
    ],
    "PUT",
  );
  const [head = ""] = passing.heads;
  t.notMatch(head, /x-mine|trailers|keep-alive: timeout|proxy-auth|upgrade|forwarded/i);
  t.match(head, /\r\ncontent-length: 0\r\n/i, "a PUT without a body says so");
  t.match(head, /x-container-meta-a/i);
  t.match(text, /^HTTP\/1.1 201 Created\r\n/);
  t.notMatch(text, /x-private|h2c|timeout=5\r/i);
  t.match(text, /location: http:\/\/rgw.internal\/swift\/v1\/c\r\n/i);
  t.match(text, /x-storage-url/i);
  t.equal([...text.matchAll(/set-cookie: [ab]=\d/gi)].length, 2);
});

t.test("a cluster that is told of clients is told of these, too", async (t) => {
  const passing = await start(t, undefined, { clusterSettings: "forwarded_for: append" });
  await passing.ask("/swift/v1/c", ["x-forwarded-for: 10.0.0.1", "forwarded: for=10.0.0.1"]);
  const [head = ""] = passing.heads;
  t.strictSame(head.match(/^.*forwarded.*$/gim), ["x-forwarded-for: 127.0.0.1"]);
});

t.test("bodies stream both ways, and are refused early in words", async (t) => {
  const size = 3 * 1024 * 1024;
  const passing = await start(t, async (connection, head) => {
    if (head.startsWith("POST")) {
      connection.write("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno");
      return;
    }
    const body = await connection.bytes(size);
    connection.write(
      `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n`,
    );
    connection.write(body);
    connection.write("\r\n0\r\n\r\n");
  });
  const body = Buffer.alloc(size, "swift");
  const { host } = new URL(passing.url);
  const put = await openRaw(passing.url);
  await put.write(
    `PUT /swift/v1/c/o HTTP/1.1\r\nhost: ${host}\r\ncontent-length: ${size}\r\nexpect: 100-continue\r\n\r\n`,
  );
  t.match((await put.answer((text) => text.includes("\r\n\r\n"))).text, /^HTTP\/1.1 100 /);
  await put.write(body);
  const echoed = await put.answer((text) => text.endsWith("\r\n0\r\n\r\n"));
  t.match(echoed.text, "HTTP/1.1 200 OK");
  t.ok(echoed.text.length > size);
  t.equal(passing.accessLog.at(-1)?.bytesReceived, size);
  put.socket.destroy();

  const chunked = await openRaw(passing.url);
  await chunked.write(
    `PUT /swift/v1/c/o HTTP/1.1\r\nhost: ${host}\r\ntransfer-encoding: chunked\r\n\r\n`,
  );
  await chunked.write("3\r\nabc\r\n0\r\n\r\n");
  await until(() => passing.heads.length === 2);
  t.match(passing.heads[1], /transfer-encoding: chunked/i);
  chunked.socket.destroy();

  const refused = await openRaw(passing.url);
  refused.socket.pause();
  await refused.write(
    `POST /swift/v1/c/o HTTP/1.1\r\nhost: ${host}\r\ncontent-length: ${20 * size}\r\n\r\n`,
  );
  for (let n = 0; n < 20; n += 1) await refused.write(body);
  refused.socket.resume();
  const { text } = await refused.answer();
  t.match(text, /^HTTP\/1.1 403 Forbidden[^]*connection: close[^]*no$/i);
  refused.socket.destroy();
});

t.test("a body that would be sent without its framing is refused", async (t) => {
  const passing = await start(t);
  const smuggled = "DELETE /admin/user?uid=x HTTP/1.1\r\nhost: h\r\n\r\n";
  const { host } = new URL(passing.url);
  for (const method of ["DELETE", "OPTIONS"]) {
    const { text } = await rawExchange(
      passing.url,
      `${method} /swift/v1/c/o HTTP/1.1\r\nhost: ${host}\r\ntransfer-encoding: chunked\r\n\r\n` +
        `${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`,
    );
    t.equal(codeOf(text), "MissingContentLength", method);
    t.match(text, /^HTTP\/1.1 411 /, method);
  }
  t.strictSame(passing.heads, []);
  await passing.ask("/swift/v1/c", [], "DELETE");
  t.match(passing.heads[0], /\r\nconnection: close\r\n/i, "nothing can stand behind it");
});

t.test("a client that leaves takes its exchange with it; a dead cluster is 503", async (t) => {
  let open = 0;
  let closed = 0;
  const passing = await start(t, async (connection, head) => {
    if (head.includes("/cut")) {
      connection.write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf");
      await new Promise((resolve) => setImmediate(resolve));
      connection.socket.destroy();
      return;
    }
    if (head.includes("/dead")) {
      connection.socket.destroy();
      return;
    }
    open += 1;
    await connection.closed();
    closed += 1;
  });
  const { host } = new URL(passing.url);
  const waiting = await openRaw(passing.url);
  await waiting.write(`GET /swift/v1/wait HTTP/1.1\r\nhost: ${host}\r\n\r\n`);
  const sending = await openRaw(passing.url);
  await sending.write(`PUT /swift/v1/o HTTP/1.1\r\nhost: ${host}\r\ncontent-length: 9\r\n\r\n123`);
  await until(() => open === 2);
  waiting.socket.destroy();
  sending.socket.destroy();
  await until(() => closed === 2);
  t.equal(codeOf(await passing.ask("/swift/v1/dead")), "ServiceUnavailable");
  const cut = await openRaw(passing.url);
  await cut.write(`GET /swift/v1/cut HTTP/1.1\r\nhost: ${host}\r\n\r\n`);
  const { text } = await cut.answer(() => false);
  t.match(text, /content-length: 100\r\n[^]*half$/i, "cut, and no XML behind data");
  await until(async () => {
    const metrics = await (await fetch(`${passing.adminUrl}/metrics`)).text();
    return metrics.includes("headgate_requests_in_flight 0");
  });
});

t.test("what is configured is checked", async (t) => {
  const yaml = (passthrough: string) =>
    load({
      "headgate.yaml": `clusters: [{id: a, endpoints: [http://h:1]}]\npassthrough: ${passthrough}\n`,
    });
  const good = configOf(yaml("{cluster: a, paths: [/swift/v1, /admin]}"));
  t.strictSame(good.config.passthrough, { cluster: "a", paths: ["/swift/v1", "/admin"] });
  const warned = good.warnings.map(({ message }) => message).join("\n");
  t.match(warned, 'Path "/swift/v1" is handed on without policy, and hides the key "v1"');
  t.match(warned, 'Path "/admin" is handed on without policy, and hides a bucket "admin"');
  t.equal(configOf(yaml("{}")).config.passthrough, null);
  const rows = [
    ["{cluster: a}", "Needs both cluster and paths"],
    ["{paths: [/admin]}", "Needs both cluster and paths"],
    ["{cluster: b, paths: [/admin]}", 'Cluster "b" is not under clusters'],
    ...["//", "admin", "/admin/", "/a/../b", "/.", "/a%20b", "/a?b", "//a", "/a b", '""'].map(
      (path) => [`{cluster: a, paths: [${path}]}`, "is not a plain prefix"] as const,
    ),
  ] as const;
  for (const [text, fault] of rows) t.match(faultsOf(yaml(text)).join(), fault, text);
});
