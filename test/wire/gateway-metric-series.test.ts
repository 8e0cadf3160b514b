// Metrics keep their series whatever callers send: names, methods and agents of callers are no labels.

import { CreateBucketCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";
import { openRaw, rawHead } from "../support/raw-http.ts";

async function scrape({ adminUrl }: TestHeadgate): Promise<{ text: string; series: Set<string> }> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  // Those of the runtime appear when it collects garbage of some kind for the first time.
  const lines = text.split("\n").filter((line) => !/^$|^#|^nodejs_|^process_/.test(line));
  return { text, series: new Set(lines.map((line) => line.replace(/ [^ ]+$/, ""))) };
}

/** One round of all that a caller can vary; `mark` stands in every place. */
async function round(headgate: TestHeadgate, mark: string): Promise<void> {
  const { url } = headgate;
  const bad = { accessKeyId: mark, secretAccessKey: "wrong" };
  const { host } = new URL(url);
  const heads = [
    rawHead(url, { method: "GET", path: `/series/${mark}` }),
    rawHead(url, { method: "GET", path: `/${mark}/k` }),
    rawHead(url, { method: "DELETE", path: `/series/${mark}` }),
    rawHead(url, { method: "GET", path: "/series", query: `list-type=2&prefix=${mark}` }),
    rawHead(url, { method: "GET", path: `/series/${mark}`, keys: bad }),
    rawHead(url, { method: "GET", path: "/series/k", headers: [["user-agent", mark]] }),
    rawHead(url, { method: "GET", path: "/series/k", query: `${mark}=1` }),
    rawHead(url, {
      method: "PUT",
      path: `/series/${mark}`,
      contentLength: 0,
      headers: [["x-amz-storage-class", mark.toUpperCase()]],
    }),
    `GET /${mark}/${mark} HTTP/1.1\r\nhost: ${host}\r\n\r\n`,
    `GET /${mark} HTTP/1.1\r\nhost: ${mark}.s3.test\r\n\r\n`,
    `PROPFIND /${mark} HTTP/1.1\r\nhost: ${host}\r\n\r\n`,
    `${mark.toUpperCase()} /${mark} HTTP/1.1\r\nhost: ${host}\r\n\r\n`,
    `GET /%${mark} HTTP/1.1\r\nhost: ${host}\r\n\r\n`,
  ];
  for (const head of heads) {
    const connection = await openRaw(url);
    await connection.write(head);
    await connection.answer();
    connection.socket.destroy();
  }
}

t.test("no caller makes a series", async (t) => {
  // https://github.com/authup/authup/issues/3253
  const headgate = await startTestHeadgate(t, { clusters: { a: 1 } });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: "series" }));
  await headgate.s3.send(new PutObjectCommand({ Bucket: "series", Key: "k", Body: "x" }));
  await round(headgate, "warm-up");
  const before = await scrape(headgate);
  for (let n = 0; n < 20; n += 1) await round(headgate, `mark-${n}-${"x".repeat(n)}`);
  const after = await scrape(headgate);
  t.strictSame([...after.series].toSorted(), [...before.series].toSorted());
  t.notMatch(after.text, /mark-|MARK-|warm-up/);
  t.ok(after.text.length < 200 * 1024, `${after.text.length} bytes`);
});

t.test("an error of a cluster is told in log and metrics as one of ours is", async (t) => {
  const headgate = await startTestHeadgate(t, { clusters: { a: 1 } });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: "errors" }));
  await headgate.s3.send(new PutObjectCommand({ Bucket: "errors", Key: "k", Body: "x" }));
  type Row = readonly [Parameters<typeof rawHead>[1], number, string | null];
  const rows: readonly Row[] = [
    [{ method: "GET", path: "/errors/none" }, 404, "NoSuchKey"],
    [{ method: "HEAD", path: "/errors/none" }, 404, "NoSuchKey"],
    [
      { method: "HEAD", path: "/errors/k", headers: [["if-match", '"x"']] },
      412,
      "PreconditionFailed",
    ],
    [{ method: "GET", path: "/errors/k", headers: [["range", "bytes=9-"]] }, 416, "InvalidRange"],
    [{ method: "GET", path: "/errors", query: "tagging=" }, 404, "NoSuchTagSet"],
    [{ method: "GET", path: "/errors/k" }, 200, null],
    [{ method: "GET", path: "/errors/k", headers: [["if-none-match", "*"]] }, 304, null],
  ];
  for (const [request, status, code] of rows) {
    const connection = await openRaw(headgate.url);
    await connection.write(rawHead(headgate.url, request));
    await connection.answer();
    connection.socket.destroy();
    const { status: logged, errorCode } = headgate.accessLog.at(-1) ?? {};
    t.strictSame([logged, errorCode], [status, code], `${request.method} ${status} ${code}`);
  }
  const { text } = await scrape(headgate);
  const counted = [...text.matchAll(/^headgate_errors_total\{origin="upstream",(.*)\} (\d+)$/gm)];
  t.strictSame(counted.map(([, label, times]) => `${label} ${times}`).toSorted(), [
    'error_code="InvalidRange" 1',
    'error_code="NoSuchKey" 2',
    'error_code="Other" 1',
    'error_code="PreconditionFailed" 1',
  ]);
});
