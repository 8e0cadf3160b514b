// Answers of a cluster that a proxy is led astray by: markers of deletion, refusals of our own signature,
// lengths of bodies that do not come, stored encodings.

import { gzipSync } from "node:zlib";
import t, { type Test } from "tap";
import { type FakeRgw, fakeRgw, rgwAnswer, rgwError } from "../support/fake-rgw.ts";
import { startTestHeadgate } from "../support/headgate.ts";
import { openRaw, rawExchange, rawHead } from "../support/raw-http.ts";
import { type Fields, openScene } from "../support/rgw-scene.ts";

const marker = ["x-amz-delete-marker: true", "x-amz-version-id: v9"];

/** A bucket `rep` that lies on two clusters, which are asked in order. */
async function openPair(t: Test): Promise<{ front: FakeRgw; behind: FakeRgw; url: string }> {
  const front = await fakeRgw(t);
  const behind = await fakeRgw(t);
  const { url } = await startTestHeadgate(t, {
    clusters: { a: 1, b: 1 },
    servers: {},
    endpoints: { a: front.url, b: behind.url },
    clusterSettings: "profile: rgw-pacific",
  });
  return { front, behind, url };
}

t.test("a delete marker ends the search for a key, a miss does not", async (t) => {
  // https://github.com/versity/versitygw/issues/1029
  const { front, behind, url } = await openPair(t);
  const { etag } = behind.put("/rep/k", "older");
  const reads: readonly (readonly [string, string, Fields])[] = [
    ["GET", "", []],
    ["HEAD", "", []],
    ["GET", "", [["range", "bytes=0-1"]]],
    ["GET", "", [["if-none-match", `"${etag}"`]]],
    ["GET", "partNumber=1", []],
    ["GET", "tagging=", []],
    ["GET", "acl=", []],
    ["GET", "attributes=", [["x-amz-object-attributes", "ETag"]]],
  ];
  for (const [method, query, headers] of reads) {
    const name = `${method} ${query} ${JSON.stringify(headers)}`;
    const asked = async () => {
      behind.requests.length = 0;
      const head = rawHead(url, { method, path: "/rep/k", query, headers });
      const closing = head.replace(/\r\n\r\n$/, "\r\nconnection: close\r\n\r\n");
      const { status, text } = await rawExchange(url, closing);
      return { status, text, behind: behind.requests.some(({ path }) => path === "/rep/k") };
    };
    front.intercept = ({ path }) => (path === "/rep/k" ? rgwAnswer("404 Not Found", marker) : null);
    const deleted = await asked();
    t.match(deleted, { status: 404, behind: false }, name);
    t.match(deleted.text, /x-amz-delete-marker: true\r\nx-amz-version-id: v9/i, name);
    front.intercept = null;
    t.match(await asked(), { behind: true }, `${name}, without a marker`);
  }
});

t.test(
  "the front's answer counts, but for a miss; who cannot be asked has not missed",
  async (t) => {
    // https://github.com/afreidah/s3-orchestrator/issues/224
    const { front, behind, url } = await openPair(t);
    const found = rgwAnswer("200 OK", ['ETag: "e"'], "x");
    const answers: Readonly<Record<string, string>> = {
      "200": found,
      "304": 'HTTP/1.1 304 Not Modified\r\nETag: "e"\r\n\r\n',
      "403": rgwError("403 Forbidden", "AccessDenied"),
      "404": rgwError("404 Not Found", "NoSuchKey"),
      "405": rgwError("405 Method Not Allowed", "MethodNotAllowed"),
      "412": rgwError("412 Precondition Failed", "PreconditionFailed"),
      "416": rgwError("416 Requested Range Not Satisfiable", "InvalidRange"),
      "500": rgwError("500 Internal Server Error", "InternalError"),
      // It hangs up in the midst of its answer.
      cut: "HTTP/1.1 ",
    };
    const statusOf = (at: string): string => (at === "cut" ? "503" : at);
    const play = (rgw: FakeRgw, at: string): void => {
      rgw.requests.length = 0;
      rgw.intercept = ({ path }) => (path === "/rep/k" ? (answers[at] ?? "") : null);
      rgw.cuts = at === "cut" ? "/rep/k" : null;
    };
    const count = (rgw: FakeRgw): number =>
      rgw.requests.filter(({ path }) => path === "/rep/k").length;
    for (const first of Object.keys(answers)) {
      for (const second of Object.keys(answers)) {
        play(front, first);
        play(behind, second);
        const head = rawHead(url, { method: "GET", path: "/rep/k" });
        const { status } = await rawExchange(url, head);
        const name = `${first}, then ${second}`;
        t.equal(String(status), statusOf(first === "404" ? second : first), name);
        // A hit behind the front asks the front once more.
        const again = first === "404" && second !== "404" && second !== "cut" ? 2 : 1;
        t.strictSame([count(front), count(behind)], [again, first === "404" ? 1 : 0], name);
      }
    }
  },
);

t.test("what a cluster has against our signature is no fault of the client's", async (t) => {
  // https://github.com/envoyproxy/envoy/issues/41047
  // https://github.com/peak/s5cmd/issues/325
  const ours = { status: 503, code: "ServiceUnavailable" };
  const theirs = (code: string) => ({ status: 403, code });
  const rows = [
    ["ExpiredToken", ours, theirs("ExpiredToken")],
    ["InvalidToken", ours, theirs("InvalidToken")],
    ["TokenRefreshRequired", ours, theirs("TokenRefreshRequired")],
    ["InvalidAccessKeyId", ours, theirs("InvalidAccessKeyId")],
    ["SignatureDoesNotMatch", ours, theirs("SignatureDoesNotMatch")],
    ["RequestTimeTooSkewed", ours, ours],
    ["AuthorizationHeaderMalformed", ours, ours],
    ["AccessDenied", theirs("AccessDenied"), theirs("AccessDenied")],
  ] as const;
  for (const [identity, at] of [
    ["service", 1],
    ["same", 2],
  ] as const) {
    const rgw = await fakeRgw(t);
    const headgate = await startTestHeadgate(t, {
      clusters: { only: 1 },
      servers: {},
      endpoints: { only: rgw.url },
      identities: { only: identity },
    });
    for (const row of rows) {
      const [code] = row;
      rgw.intercept = (request) =>
        request.path.startsWith("/rep") && request.method !== "HEAD"
          ? rgwError("403 Forbidden", code, request)
          : null;
      for (const [method, path, query, body] of [
        ["GET", "/rep/k", "", null],
        ["PUT", "/rep/k", "", "x"],
        ["DELETE", "/rep/k", "", null],
        ["GET", "/rep", "list-type=2", null],
        ["POST", "/rep/k", "uploads=", ""],
        ["POST", "/rep", "delete=", "<Delete><Object><Key>k</Key></Object></Delete>"],
      ] as const) {
        const length = body === null ? {} : { contentLength: body.length };
        const head = rawHead(headgate.url, { method, path, query, ...length });
        const { status, text } = await rawExchange(headgate.url, head, body ?? "");
        const seen = { status, code: /<Code>(\w+)</.exec(text)?.[1] };
        t.strictSame(seen, row[at], `${identity}, ${method} ${path}?${query}, ${code}`);
        if (seen.status === 503) {
          t.notMatch(text, code);
          t.match(headgate.logLines.at(-1), { event: "exchange.failed", fields: { cause: code } });
        }
      }
    }
  }
});

t.test("a key of encryption that a cluster does not know is the client's", async (t) => {
  const { rgw, ask } = await openScene(t);
  const message = "Failed to retrieve the actual key, kms-keyid: none";
  const document = `<Error><Code>InvalidAccessKeyId</Code><Message>${message}</Message></Error>`;
  rgw.intercept = ({ method, path }) =>
    method === "PUT" && path === "/rep/k"
      ? rgwAnswer("403 Forbidden", ["Content-Type: application/xml"], document)
      : null;
  rgw.put("/rep/k", "x");
  const headers = [["x-amz-server-side-encryption", "aws:kms"]] as const;
  const { status, body } = await ask("PUT", "/rep/k", { headers, body: "x" });
  t.equal(status, 403);
  t.match(body, message);
});

t.test("announced lengths of bodies that do not come hold nobody up", async (t) => {
  // https://github.com/dotnet/aspnetcore/issues/5878
  const { rgw, headgate } = await openScene(t, "aws");
  const answers: readonly (readonly [string, string])[] = [
    ["GET", 'HTTP/1.1 304 Not Modified\r\nETag: "e"\r\nContent-Length: 5\r\n\r\n'],
    ["GET", 'HTTP/1.1 304 Not Modified\r\nETag: "e"\r\nTransfer-Encoding: chunked\r\n\r\n'],
    ["HEAD", 'HTTP/1.1 304 Not Modified\r\nETag: "e"\r\nContent-Length: 5\r\n\r\n'],
    ["HEAD", 'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 5\r\n\r\n'],
    ["DELETE", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"],
    ["DELETE", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    ["DELETE", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"],
  ];
  const connection = await openRaw(headgate.url);
  t.teardown(() => connection.socket.destroy());
  let rest = 0;
  for (const [method, given] of [...answers, ...answers]) {
    rgw.intercept = ({ path }) => (path === "/rep/k" ? given : null);
    const headers: Fields = method === "DELETE" ? [] : [["if-none-match", '"e"']];
    await connection.write(rawHead(headgate.url, { method, path: "/rep/k", headers }));
    const { text } = await connection.answer((all) => all.slice(rest).includes("\r\n\r\n"));
    const answer = text.slice(rest);
    t.equal(answer.slice(9, 12), given.slice(9, 12), given);
    t.ok(answer.endsWith("\r\n\r\n"), "no byte of a body");
    if (given.includes(" 304 ")) t.match(answer, /etag: "e"/i);
    if (!given.includes(" 200 ")) t.notMatch(answer, /transfer-encoding|content-length/i);
    rest = text.length;
  }
});

t.test(
  "what is stored in an encoding is given in it, whatever the client would take",
  async (t) => {
    // https://github.com/localstack/localstack/issues/8139
    const { rgw, ask } = await openScene(t);
    const stored = gzipSync("a text that gets shorter ".repeat(100));
    const { etag } = rgw.put("/rep/k", stored, { lines: ["Content-Encoding: gzip"] });
    const accepts: readonly Fields[] = [
      [],
      [["accept-encoding", "identity"]],
      [["accept-encoding", "gzip, br"]],
    ];
    const ranges: readonly (readonly [Fields, Buffer])[] = [
      [[], stored],
      [[["range", "bytes=0-9"]], stored.subarray(0, 10)],
      [[["range", "bytes=-7"]], stored.subarray(-7)],
    ];
    for (const accept of accepts) {
      for (const [range, bytes] of ranges) {
        const headers = [...accept, ...range];
        const got = await ask("GET", "/rep/k", { headers });
        t.ok(bytes.equals(Buffer.from(got.body, "latin1")), JSON.stringify(headers));
        t.match(got.head, `content-length: ${bytes.length}`);
        t.match(got.head, "content-encoding: gzip");
        t.match(got.head, `etag: "${etag}"`);
        t.notMatch(got.head, "transfer-encoding");
      }
    }
  },
);

t.test("an upload id of any characters goes back to its cluster as it came", async (t) => {
  // https://github.com/oven-sh/bun/pull/42994
  const { rgw, ask } = await openScene(t);
  for (const id of ["2~XlNd+M+261dH/9J==", "2~a%2Bb%7E", "a b&c=d?e#f", "é.~_-"]) {
    const xml = id.replaceAll("&", "&amp;");
    const initiated = `<InitiateMultipartUploadResult><UploadId>${xml}</UploadId></InitiateMultipartUploadResult>`;
    const latin1 = Buffer.from(initiated, "utf8").toString("latin1");
    rgw.intercept = ({ query }) =>
      query.has("uploads") ? rgwAnswer("200 OK", ["Content-Type: application/xml"], latin1) : null;
    const begun = await ask("POST", "/rep/k", { query: "uploads=", body: "" });
    const handle = /<UploadId>(.*?)<\/UploadId>/.exec(begun.body)?.[1] ?? "";
    t.match(handle, /^[A-Za-z0-9._~-]+$/);
    const query = `uploadId=${handle}`;
    for (const [method, given] of [
      ["PUT", { query: `partNumber=1&${query}`, body: "x" }],
      ["GET", { query }],
      ["DELETE", { query }],
    ] as const) {
      await ask(method, "/rep/k", given);
      t.equal(rgw.requests.at(-1)?.query.get("uploadId"), id, `${method} ${id}`);
    }
  }
});
