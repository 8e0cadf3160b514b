// What a cluster carried out without an answer, or may have: it is not asked again, nor is another one,
// and the client learns that it may ask again. What nobody carried out yet goes through on a new connection.

import t, { type Test } from "tap";
import { startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";
import { openRaw, rawExchange, rawHead } from "../support/raw-http.ts";
import { type RawConnection, type RawServer, rawServer } from "../support/raw-upstream.ts";

interface Asked {
  readonly method: string;
  readonly target: string;
}

type Script = (connection: RawConnection, asked: Asked, nth: number) => Promise<void> | void;

const ok = (body = "", lines = ""): string =>
  `HTTP/1.1 200 OK\r\n${lines}content-length: ${body.length}\r\n\r\n${body}`;

/** A cluster whose buckets are there; requests below one are listed and left to a script. */
async function cluster(t: Test, script: Script): Promise<{ server: RawServer; asked: Asked[] }> {
  const asked: Asked[] = [];
  const server = await rawServer(t, async (connection) => {
    let nth = 0;
    for (let head = await connection.head(); head !== null; head = await connection.head()) {
      const [method = "", target = ""] = head.split(" ", 2);
      if (!/^\/b[/?]/.test(target)) {
        connection.write(ok());
        continue;
      }
      asked.push({ method, target });
      nth += 1;
      await connection.bytes(Number(/content-length: (\d+)/i.exec(head)?.[1] ?? "0"));
      await script(connection, { method, target }, nth);
    }
  });
  return { server, asked };
}

async function headgateOver(t: Test, server: RawServer, more = ""): Promise<TestHeadgate> {
  return await startTestHeadgate(t, {
    clusters: { a: 1 },
    servers: {},
    endpoints: { a: server.url },
    clusterSettings: "profile: rgw-pacific",
    settings: more,
  });
}

const initiated =
  "<InitiateMultipartUploadResult><UploadId>2~u</UploadId></InitiateMultipartUploadResult>";

t.test("what may have happened is asked for once", async (t) => {
  // https://github.com/Kong/developer.konghq.com/pull/5082
  const deletion = "<Delete><Object><Key>k</Key></Object></Delete>";
  const completion =
    "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag></Part></CompleteMultipartUpload>";
  let fail = false;
  const noTags = "<Tagging><TagSet></TagSet></Tagging>";
  const { server, asked } = await cluster(t, (connection, { method, target }) => {
    if (fail && method !== "GET") connection.socket.resetAndDestroy();
    else if (target.includes("tagging")) connection.write(ok(noTags));
    else connection.write(ok(target.includes("uploads") ? initiated : ""));
  });
  const { url } = await headgateOver(t, server);
  const send = async (method: string, path: string, given: { query?: string; body?: string }) => {
    const { query = "", body } = given;
    const length = body === undefined ? {} : { contentLength: body.length };
    return await rawExchange(url, rawHead(url, { method, path, query, ...length }), body);
  };
  const begun = await send("POST", "/b/k", { query: "uploads=", body: "" });
  const uploadId = /<UploadId>(.*)<\/UploadId>/.exec(begun.text)?.[1] ?? "";
  const rows = [
    ["POST", "/b/k", { query: "uploads=", body: "" }],
    ["POST", "/b/k", { query: `uploadId=${uploadId}`, body: completion }],
    ["POST", "/b", { query: "delete=", body: deletion }],
    ["PUT", "/b/k", { body: "" }],
    ["PUT", "/b/k", { body: "x" }],
    ["PUT", "/b/k", { body: "x".repeat(200_000) }],
    ["PUT", "/b/k", { query: `partNumber=1&uploadId=${uploadId}`, body: "x" }],
    ["PUT", "/b/k", { query: "tagging=", body: noTags }],
  ] as const;
  for (const [method, path, given] of rows) {
    fail = false;
    await send("GET", "/b/k", {});
    asked.length = 0;
    fail = true;
    const { status, text } = await send(method, path, given);
    const name = `${method} ${JSON.stringify(given).slice(0, 40)}`;
    t.equal(status, 503, name);
    t.match(text, /retry-after: 1\r\n/i, name);
    t.match(text, "<Code>ServiceUnavailable</Code>");
    const effects = asked.filter((one) => one.method !== "GET");
    t.equal(effects.length, 1, `${name}: one effect`);
  }
});

t.test("reads and deletes go through on a new connection when a kept one was closed", async (t) => {
  // https://github.com/s3tools/s3cmd/issues/1114
  const { server, asked } = await cluster(t, (connection, { method }, nth) => {
    if (nth > 1) connection.socket.resetAndDestroy();
    else connection.write(method === "DELETE" ? "HTTP/1.1 204 No Content\r\n\r\n" : ok());
  });
  const headgate = await headgateOver(t, server);
  const client = await openRaw(headgate.url);
  t.teardown(() => client.socket.destroy());
  const methods = ["GET", "HEAD", "DELETE"];
  const count = 150;
  for (let n = 0; n < count; n += 1) {
    const method = methods[n % methods.length] ?? "GET";
    await client.write(rawHead(headgate.url, { method, path: "/b/k" }));
    const { text } = await client.answer(
      (all) => all.split("HTTP/1.1 ").length === n + 2 && all.endsWith("\r\n\r\n"),
    );
    const last = text.slice(text.lastIndexOf("HTTP/1.1 "));
    t.equal(last.slice(9, 12), method === "DELETE" ? "204" : "200");
  }
  t.ok(asked.length > count, "some were asked for twice");
  const metrics = await (await fetch(`${headgate.adminUrl}/metrics`)).text();
  const retries = /^headgate_upstream_retries_total\{[^}]*\} (\d+)$/m.exec(metrics)?.[1];
  t.equal(Number(retries), asked.length - count, "and each repetition is counted");
});

t.test("answers that are not wanted leave connections that are", async (t) => {
  // https://github.com/lalinsky/dusty/pull/114
  const idOf = (target: string): string => /x-id=(\d+)/.exec(target)?.[1] ?? "";
  const miss = await cluster(t, (connection, { target }) => {
    const body = `<Error><Code>NoSuchKey</Code><Key>${idOf(target)}${"-".repeat(20_000)}</Key></Error>`;
    const chunk = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    connection.write(`HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n${chunk}`);
  });
  const hit = await cluster(t, (connection, { target }) => connection.write(ok(idOf(target))));
  const { url } = await startTestHeadgate(t, {
    clusters: { a: 1, b: 1 },
    servers: {},
    endpoints: { a: miss.server.url, b: hit.server.url },
    clusterSettings: "profile: rgw-pacific",
    settings: "upstream: {max_sockets_per_endpoint: 2}",
  });
  const count = 300;
  const ids = Array.from({ length: count }, (_, id) => String(id));
  const work = async (): Promise<void> => {
    const connection = await openRaw(url);
    for (let id = ids.pop(); id !== undefined; id = ids.pop()) {
      const before = (await connection.answer(() => true)).text.length;
      await connection.write(rawHead(url, { method: "GET", path: "/b/k", query: `x-id=${id}` }));
      const end = `\r\n\r\n${id}`;
      const { text } = await connection.answer((all) => all.slice(before).endsWith(end));
      t.equal(text.slice(before + 9, before + 12), "200");
      t.ok(text.endsWith(end), id);
    }
    connection.socket.destroy();
  };
  await Promise.all(Array.from({ length: 8 }, work));
  // Each hit behind a miss asks the front again.
  t.equal(miss.asked.length, 2 * count);
  t.equal(hit.asked.length, count);
  t.ok(miss.server.connections.length <= 3, `${miss.server.connections.length} connections`);
});
