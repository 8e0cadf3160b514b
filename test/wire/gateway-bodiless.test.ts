// Requests without a body, however they say so, and fields that only one hop understands: each is served,
// and what is signed for the cluster is what is sent to it.

import t from "tap";
import { rawExchange, rawHead } from "../support/raw-http.ts";
import { type Fields, openScene } from "../support/rgw-scene.ts";

const requests = [
  ["GET", "/rep/k", "", "200"],
  ["HEAD", "/rep/k", "", "200"],
  ["DELETE", "/rep/gone", "", "204"],
  ["GET", "/rep/k", "acl=", "200"],
  ["DELETE", "/rep/gone", "tagging=", "204"],
] as const;

t.test("a length of 0 where no body belongs is neither signed nor sent on", async (t) => {
  // https://github.com/nodejs/undici/issues/649
  const { rgw, headgate } = await openScene(t);
  rgw.put("/rep/k", "<AccessControlPolicy></AccessControlPolicy>");
  for (const [method, path, query, status] of requests) {
    for (const lines of ["", "content-length: 0\r\n", "Content-Length: 0\r\n"]) {
      const head = rawHead(headgate.url, { method, path, query });
      const sent = head.replace("\r\n", `\r\n${lines}connection: close\r\n`);
      const { text } = await rawExchange(headgate.url, sent);
      const name = `${method} ${query} ${lines.trim()}`;
      t.equal(text.slice(9, 12), status, name);
      const last = rgw.requests.at(-1);
      t.equal(last?.method, method, name);
      t.notMatch(last?.headers.get("authorization"), /content-length/, name);
      t.equal(last?.headers.has("transfer-encoding"), false, name);
      if (method !== "DELETE") t.equal(last?.headers.has("content-length"), false, name);
    }
  }
});

t.test("fields of one hop are taken off, and the request is served", async (t) => {
  // https://github.com/fastify/fast-proxy/issues/49
  const { rgw, headgate } = await openScene(t);
  rgw.put("/rep/k", "x");
  const rows: readonly Fields[] = [
    [["keep-alive", "timeout=5"]],
    [["connection", "keep-alive"]],
    [["connection", "upgrade"]],
    [["upgrade", "h2c"]],
    [
      ["connection", "upgrade, http2-settings"],
      ["upgrade", "h2c"],
      ["http2-settings", "AAMAAABkAAQAAP__"],
    ],
    [["expect", "100-continue"]],
    [["te", "trailers"]],
    [["trailer", "x-a"]],
    [["proxy-connection", "keep-alive"]],
    [["proxy-authorization", "Basic eA=="]],
  ];
  for (const fields of rows) {
    // What Expect means where there is a body is gateway-uploads.test.ts.
    const expects = fields.some(([name]) => name === "expect");
    for (const method of expects ? ["GET"] : ["GET", "PUT"]) {
      const length = method === "PUT" ? { contentLength: 1 } : {};
      const head = rawHead(headgate.url, { method, path: "/rep/k", ...length });
      const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
      const ended = head.replace("\r\n", `\r\n${lines}`);
      const { text } = await rawExchange(headgate.url, ended, method === "PUT" ? "x" : "");
      const name = `${method} ${JSON.stringify(fields)}`;
      t.equal(text.slice(9, 12), "200", name);
      const sent = rgw.requests.at(-1)?.headers;
      for (const [field] of fields) {
        const value = sent?.get(field);
        if (field === "connection") t.notMatch(value ?? "", /upgrade|settings/, name);
        else t.equal(value, undefined, name);
      }
    }
  }
});

t.test("an empty body in HTTP chunks is refused in words, and nothing is asked", async (t) => {
  const { rgw, headgate } = await openScene(t);
  const before = rgw.requests.length;
  for (const method of ["GET", "HEAD", "DELETE", "PUT", "POST"]) {
    const query = method === "POST" ? "uploads=" : "";
    const head = rawHead(headgate.url, { method, path: "/rep/k", query });
    const sent = head.replace("\r\n", "\r\ntransfer-encoding: chunked\r\n");
    const { status, text } = await rawExchange(headgate.url, `${sent}0\r\n\r\n`);
    t.equal(status, 411, method);
    if (method !== "HEAD") t.match(text, "<Code>MissingContentLength</Code>");
  }
  t.equal(rgw.requests.length, before);
});
