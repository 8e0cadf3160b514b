// What of an upstream's answer a client gets: the object's own fields to the byte, errors with a text,
// and nothing that names the upstream.

import { GetObjectCommand, HeadObjectCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { rgwAnswer, rgwError } from "../support/fake-rgw.ts";
import { openRaw, rawHead } from "../support/raw-http.ts";
import { type Fields, openScene } from "../support/rgw-scene.ts";

t.test("metadata, encodings and names of an object travel to the byte", async (t) => {
  const { rgw, ask, headgate } = await openScene(t);
  const meta = Buffer.from("grüße 日本", "utf8").toString("latin1");
  rgw.put("/rep/k", Buffer.from([0x1f, 0x8b, 8, 0, 1, 2, 3]), {
    lines: [
      "Content-Encoding: gzip,aws-chunked",
      `x-amz-meta-u: ${meta}`,
      "x-amz-meta-two: a",
      "x-amz-meta-two: b",
      "x-amz-missing-meta: 1",
      "x-amz-delete-marker: false",
      "Via: 1.1 rgw.internal",
      "x-rgw-replicated-from: zone-a:b:1",
    ],
  });
  for (const method of ["GET", "HEAD"]) {
    const connectionText = (await ask(method, "/rep/k")).head;
    t.match(connectionText, "content-encoding: gzip\r\n");
    t.match(connectionText, "content-length: 7\r\n");
    t.match(connectionText, `x-amz-meta-u: ${meta.toLowerCase()}\r\n`);
    t.match(connectionText, "x-amz-meta-two: a\r\nx-amz-meta-two: b\r\n");
    t.match(connectionText, "x-amz-missing-meta: 1");
    t.notMatch(connectionText, /rgw\.internal|zone-a|1052-a/);
  }
  const got = await headgate.s3.send(new GetObjectCommand({ Bucket: "rep", Key: "k" }));
  t.strictSame(
    Buffer.from((await got.Body?.transformToByteArray()) ?? []),
    Buffer.from([0x1f, 0x8b, 8, 0, 1, 2, 3]),
  );
  t.equal(
    (await headgate.s3.send(new HeadObjectCommand({ Bucket: "rep", Key: "k" }))).ContentEncoding,
    "gzip",
  );
});

t.test("a delete marker is no miss that loses its fields", async (t) => {
  const { rgw, ask } = await openScene(t);
  const marker = ["x-amz-delete-marker: true", "x-amz-version-id: v9"];
  rgw.intercept = ({ query, method }) => {
    if (method !== "GET") return null;
    const error = "<Error><Code>X</Code><Message></Message><HostId>1052-a-a</HostId></Error>";
    return query.has("versionId")
      ? rgwAnswer(
          "405 Method Not Allowed",
          [...marker, "Allow: DELETE", "Content-Type: application/xml"],
          error,
        )
      : rgwAnswer("404 Not Found", [...marker, "Content-Type: application/xml"], error);
  };
  const missing = await ask("GET", "/rep/k");
  t.equal(missing.status, 404);
  t.match(missing.head, /x-amz-delete-marker: true\r\nx-amz-version-id: v9/);
  const marked = await ask("GET", "/rep/k", { query: "versionId=v9" });
  t.equal(marked.status, 405);
  t.match(marked.head, /x-amz-delete-marker: true\r\nx-amz-version-id: v9\r\nallow: delete/);
  t.notMatch(marked.body, "1052-a");
});

t.test("every error has a text, our ids, and no body on HEAD", async (t) => {
  const { rgw, ask } = await openScene(t);
  const codes = ["NoSuchKey", "AccessDenied", "QuotaExceeded", "InvalidObjectName", "MadeUpCode"];
  for (const code of codes) {
    rgw.intercept = (request) => rgwError("409 Conflict", code, request);
    const got = await ask("GET", "/rep/k");
    t.match(got, { status: 409, code });
    t.match(got.body, /<Message>[A-Z][^<]{8,}<\/Message>/, code);
    t.match(got.body, "<HostId>headgate</HostId>");
    t.notMatch(got.body, "1052-a");
    const head = await ask("HEAD", "/rep/k");
    t.match(head, { status: 409, body: "" });
    t.notMatch(head.head, "content-length");
  }
  // AWS sends errors in chunks, without a length.
  const chunk =
    "<Error><Code>Slow</Code><Message>Their text</Message><HostId>h/1</HostId><AWSAccessKeyId>cluster-key</AWSAccessKeyId></Error>";
  rgw.intercept = () =>
    `HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.length.toString(16)}\r\n${chunk}\r\n0\r\n\r\n`;
  const got = await ask("GET", "/rep/k");
  t.match(got, { status: 503, code: "Slow" });
  t.match(got.body, "<Message>Their text</Message>");
  t.notMatch(got.body, /h\/1|cluster-key/);
});

t.test("answers without a body leave their connection usable", async (t) => {
  const { rgw, headgate } = await openScene(t);
  const { etag } = rgw.put("/rep/k", "0123456789");
  const requests: readonly {
    readonly method: string;
    readonly headers: Fields;
    readonly status: string;
    readonly body?: string;
  }[] = [
    { method: "GET", headers: [["if-none-match", `"${etag}"`]], status: "304 Not Modified" },
    { method: "HEAD", headers: [], status: "200 OK" },
    { method: "HEAD", headers: [["if-match", '"other"']], status: "412 Precondition Failed" },
    { method: "HEAD", headers: [["range", "bytes=10-"]], status: "416 Range Not Satisfiable" },
    { method: "GET", headers: [["range", "bytes=8-"]], status: "206 Partial Content", body: "89" },
    { method: "HEAD", headers: [["range", "bytes=8-"]], status: "206 Partial Content" },
    { method: "DELETE", headers: [], status: "204 No Content" },
    { method: "HEAD", headers: [], status: "404 Not Found" },
  ];
  const connection = await openRaw(headgate.url);
  t.teardown(() => connection.socket.destroy());
  let rest = "";
  for (const { method, headers, status, body = "" } of requests) {
    await connection.write(rawHead(headgate.url, { method, path: "/rep/k", headers }));
    const { text } = await connection.answer((so) =>
      so.slice(rest.length).endsWith(`\r\n\r\n${body}`),
    );
    const answer = text.slice(rest.length);
    t.equal(answer.slice(9, 9 + status.length), status);
    t.equal(answer.slice(answer.indexOf("\r\n\r\n") + 4), body, "no byte behind it");
    if (status.startsWith("304") || status.startsWith("204")) {
      t.notMatch(answer, /content-length|transfer-encoding/i);
    }
    rest = text;
  }
});

t.test(
  "a new upload is named as the client named it, and the upstream's id is logged",
  async (t) => {
    const { rgw, ask, headgate } = await openScene(t);
    const result =
      "<InitiateMultipartUploadResult><Bucket>zone:rep</Bucket><Key>K</Key><UploadId>2~up</UploadId></InitiateMultipartUploadResult>";
    rgw.intercept = () => rgwAnswer("200 OK", ["Content-Type: application/xml"], result);
    const { body, head } = await ask("POST", "/rep/a%2Bb", { query: "uploads=", body: "" });
    t.match(body, "<Bucket>rep</Bucket><Key>a+b</Key><UploadId>");
    t.notMatch(body, /zone|2~up/);
    t.notMatch(head, "1052-a");
    const logged = headgate.accessLog.at(-1);
    t.match(logged, { operation: "CreateMultipartUpload", upstreamRequestId: /1052-a$/ });
  },
);
