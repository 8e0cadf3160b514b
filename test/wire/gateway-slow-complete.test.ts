// A Complete that takes longer than clients wait for a first byte: it gets 200 and blanks, and what came
// of it in the end, which is never success where the cluster did not say so to the end.

import t, { type Test } from "tap";
import { system } from "../../proxy/main.ts";
import type { Timers } from "../../proxy/placement/ports.ts";
import { startTestHeadgate } from "../support/headgate.ts";
import { openRaw, rawExchange, rawHead } from "../support/raw-http.ts";
import { rawServer } from "../support/raw-upstream.ts";

const initiated =
  "<InitiateMultipartUploadResult><UploadId>2~u</UploadId></InitiateMultipartUploadResult>";
const completion =
  "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag></Part></CompleteMultipartUpload>";
const result =
  "<CompleteMultipartUploadResult><ETag>&quot;e-1&quot;</ETag></CompleteMultipartUploadResult>";

const framed = (status: string, body: string, length = body.length): string =>
  `HTTP/1.1 ${status}\r\ncontent-type: application/xml\r\ncontent-length: ${length}\r\n\r\n${body}`;

/** All waits are a hundred times shorter. */
const hurried: Timers = { after: (ms, run) => system.timers.after(ms / 100, run) };

/** A cluster that answers a Complete with `answer` when it is released; `early` goes out before. */
async function slowCluster(t: Test, answer: string, early = "") {
  let release: () => void = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  let completes = 0;
  const { url } = await rawServer(t, async (connection) => {
    for (let head = await connection.head(); head !== null; head = await connection.head()) {
      const [method, target = ""] = head.split(" ", 2);
      await connection.bytes(Number(/content-length: (\d+)/i.exec(head)?.[1] ?? "0"));
      if (method !== "POST") connection.write(framed("200 OK", ""));
      else if (target.includes("uploads")) connection.write(framed("200 OK", initiated));
      else {
        completes += 1;
        connection.write(early);
        await released;
        connection.write(answer);
        if (!answer.endsWith(">")) connection.socket.end();
      }
    }
  });
  return { url, release, completes: () => completes };
}

const error = "<Error><Code>InternalError</Code><Message>m</Message></Error>";
const rows = [
  [
    "success",
    framed("200 OK", result),
    "",
    /<CompleteMultipartUploadResult .*<ETag>&quot;e-1/,
    null,
  ],
  ["an error", framed("200 OK", error), "", /<Error><Code>InternalError</, "InternalError"],
  [
    "blanks and an error",
    `  ${error}`,
    framed("200 OK", "  ", error.length + 4),
    /<Error><Code>InternalError</,
    "InternalError",
  ],
  [
    "a refusal",
    framed("503 Slow Down", "<Error><Code>SlowDown</Code><Message>m</Message></Error>"),
    "",
    /<Error><Code>SlowDown</,
    "SlowDown",
  ],
  [
    "half a result",
    framed("200 OK", result.slice(0, 50), 500),
    "",
    /<Error><Code>ServiceUnavailable</,
    "ServiceUnavailable",
  ],
  [
    "a document that ends early",
    framed("200 OK", result.slice(0, -4)),
    "",
    /<Error><Code>ServiceUnavailable</,
    "ServiceUnavailable",
  ],
] as const;

for (const [what, answer, early, expected, code] of rows) {
  t.test(`${what}, late`, async (t) => {
    // https://github.com/duckdb/duckdb-httpfs/pull/393
    const cluster = await slowCluster(t, answer, early);
    const headgate = await startTestHeadgate(t, {
      clusters: { a: 1 },
      servers: {},
      endpoints: { a: cluster.url },
      timers: hurried,
    });
    const { url } = headgate;
    const begin = { method: "POST", path: "/b/k", query: "uploads=", contentLength: 0 };
    const begun = await rawExchange(url, rawHead(url, begin));
    const uploadId = /<UploadId>(.*)<\/UploadId>/.exec(begun.text)?.[1] ?? "";
    const connection = await openRaw(url);
    t.teardown(() => connection.socket.destroy());
    const head = rawHead(url, {
      method: "POST",
      path: "/b/k",
      query: `uploadId=${uploadId}`,
      contentLength: completion.length,
    });
    await connection.write(head + completion);
    const waiting = await connection.answer((text) => /\r\n\r\n[^]*<\?xml[^>]*>[^]* /.test(text));
    t.match(waiting.text, /^HTTP\/1.1 200 OK\r\n/);
    t.notMatch(waiting.text, /content-length|<Error|Result/i, "nothing is told yet");
    cluster.release();
    const { text } = await connection.answer((all) => all.endsWith("0\r\n\r\n"));
    t.match(text, expected);
    t.equal(cluster.completes(), 1, "asked once");
    const late = headgate.logLines.filter(({ event }) => event === "answer.failed_late");
    t.strictSame(
      late.map(({ fields }) => fields["code"]),
      code === null ? [] : [code],
    );
    const metrics = await (await fetch(`${headgate.adminUrl}/metrics`)).text();
    const counted = new RegExp(`^headgate_errors_total\\{[^}]*error_code="${code}"\\} 1$`, "m");
    if (code !== null) t.match(metrics, counted);
  });
}
