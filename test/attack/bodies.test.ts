// Bodies: refused while they are still coming, endless, huge, hostile, stalled. The client reads why,
// nothing is stored, and no memory is held for it.

import { CreateMultipartUploadCommand } from "@aws-sdk/client-s3";
import t from "tap";
import {
  bucket,
  openTarget,
  repel,
  serves,
  signed,
  type Target,
  withLines,
} from "../support/attack.ts";
import { readerKeys } from "../support/headgate.ts";
import { openRaw, type RawAnswer, rawExchange, rawHead, until } from "../support/raw-http.ts";

const mebibyte = Buffer.alloc(1024 * 1024, 7);

/** Sends a head and so many MiB without looking for an answer, then reads it. */
async function stubborn(target: Target, head: string, count: number): Promise<RawAnswer> {
  const connection = await openRaw(target.url);
  connection.socket.pause();
  await connection.write(head);
  for (let sent = 0; sent < count; sent += 1) await connection.write(mebibyte);
  connection.socket.resume();
  const answer = await connection.answer();
  connection.socket.destroy();
  return answer;
}

t.test("a client that does not listen while it sends still reads why it was refused", async (t) => {
  const target = await openTarget(t);
  const count = 64;
  const length = count * mebibyte.length;
  const put = (keys = readerKeys, method = "PUT"): string =>
    rawHead(target.url, { method, path: `/${bucket}/k`, contentLength: length, keys });
  const { host } = new URL(target.url);
  const anonymous = `PUT /${bucket}/k HTTP/1.1\r\nhost: ${host}\r\ncontent-length: ${length}\r\n\r\n`;
  const unknown = { accessKeyId: "nobody", secretAccessKey: "nothing" };
  const rows: readonly (readonly [string, string, string])[] = [
    ["anonymous", anonymous, "403 AccessDenied"],
    ["an unknown key", put(unknown), "403 InvalidAccessKeyId"],
    ["denied by policy", put(), "403 AccessDenied"],
    ["a head that does not parse", withLines(put(), "x (y): z"), "400 InvalidRequest"],
    ["a method without body", put(undefined, "TRACE"), "405 MethodNotAllowed"],
  ];
  for (const [name, head, expected] of rows) {
    const { status, text } = await stubborn(target, head, count);
    t.equal(`${status} ${/<Code>(\w+)</.exec(text)?.[1]}`, expected, name);
    t.match(text, /connection: close/i);
  }
  t.strictSame(target.reached(), []);
  t.strictSame(target.stored(), []);
  await serves(t, target);
});

t.test("behind a refused body nothing is carried out", async (t) => {
  const target = await openTarget(t);
  const { host } = new URL(target.url);
  const connection = await openRaw(target.url);
  await connection.write(
    `PUT /${bucket}/k HTTP/1.1\r\nhost: ${host}\r\ncontent-length: 10\r\n\r\n12345`,
  );
  await connection.answer();
  await connection.write(`67890${signed(target.url, "DELETE")}`);
  const { text } = await connection.answer(() => false);
  t.equal(text.split("HTTP/1.1 ").length, 2, "one answer");
  t.strictSame(target.reached(), []);
  await serves(t, target);
});

t.test("100 Continue is for those whose body is wanted", async (t) => {
  const target = await openTarget(t);
  const headers = [["expect", "100-continue"]] as const;
  const put = (path: string, keys?: typeof readerKeys): string =>
    rawHead(target.url, {
      method: "PUT",
      path,
      headers,
      contentLength: 1_000,
      ...(keys === undefined ? {} : { keys }),
    });
  const rows: readonly (readonly [string, string, string])[] = [
    ["denied by policy", put(`/${bucket}/k`, readerKeys), "403 AccessDenied"],
    [
      "a wrong signature",
      put(`/${bucket}/k`).replace("/k ", "/other "),
      "403 SignatureDoesNotMatch",
    ],
    ["no such bucket", put("/nowhere/k"), "404 NoSuchBucket"],
  ];
  for (const [name, head, expected] of rows) {
    const { status, text } = await rawExchange(target.url, head);
    t.equal(`${status} ${/<Code>(\w+)</.exec(text)?.[1]}`, expected, name);
    t.notMatch(text, "100 Continue", name);
  }
  await target.admin("POST", "/clusters/only/drain", { mode: "readonly" });
  const drained = await rawExchange(target.url, put(`/${bucket}/k`));
  t.match(drained, { status: 503, text: "DrainRefused" });
  t.notMatch(drained.text, "100 Continue", "refused by placement");
});

t.test("what is too long is refused before a byte of it is read", async (t) => {
  // https://github.com/haproxy/haproxy/issues/2076
  const target = await openTarget(t);
  const put = signed(target.url, "PUT", `/${bucket}/k`);
  const beyond = String(5 * 1024 ** 3 + 1);
  const chunked = "transfer-encoding: chunked";
  await repel(t, target, [
    {
      name: "5 GiB and a byte",
      bytes: [withLines(put, `content-length: ${beyond}`)],
      answer: "400 EntityTooLarge",
    },
    {
      name: "no length at all",
      bytes: [withLines(put, chunked)],
      answer: "411 MissingContentLength",
    },
    {
      name: "an endless body without length",
      bytes: [
        withLines(put, chunked),
        ...Array.from({ length: 8 }, () => `100000\r\n${mebibyte.toString("latin1")}\r\n`),
      ],
      answer: "411 MissingContentLength",
    },
  ]);
});

t.test("documents have a limit, and no entities", async (t) => {
  // https://github.com/minio/minio/pull/6033
  const target = await openTarget(t);
  const bomb =
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>';
  const external = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>';
  const deep = `${"<a>".repeat(100_000)}`;
  const upload = { Bucket: bucket, Key: "k" };
  const { UploadId = "" } = await target.s3.send(new CreateMultipartUploadCommand(upload));
  const documents = [
    ["PUT", "/another", "CreateBucketConfiguration", "LocationConstraint"],
    [
      "POST",
      `/${bucket}/k?uploadId=${encodeURIComponent(UploadId)}`,
      "CompleteMultipartUpload",
      "Part",
    ],
    ["POST", `/${bucket}?delete=`, "Delete", "Object"],
  ] as const;
  for (const [method, path, root, child] of documents) {
    const [plain = "", query = ""] = path.split("?");
    const bodies = [
      ["entities", `${bomb}<${root}><${child}>&b;</${child}></${root}>`],
      ["a file", `${external}<${root}><${child}>&a;</${child}></${root}>`],
      ["an undeclared entity", `<${root}><${child}>&a;</${child}></${root}>`],
      ["a hundred thousand levels", `<${root}>${deep}`],
      ["no end", `<${root}><${child}>`],
      ["another root", `<Evil/>`],
      ["no XML", "\0\x01\x02"],
    ] as const;
    for (const [name, body] of bodies) {
      const head = rawHead(target.url, { method, path: plain, query, contentLength: body.length });
      const { status, text } = await rawExchange(target.url, head, body);
      const code = /<Code>(\w+)</.exec(text)?.[1] ?? "";
      const isRefused = Math.trunc(status / 100) === 4 && !/passwd|root:|aaaaaaaaaa/.test(text);
      t.ok(isRefused, `${root}, ${name}: ${status} ${code}`);
    }
    const count = 100;
    const head = rawHead(target.url, {
      method,
      path: plain,
      query,
      contentLength: count * mebibyte.length,
    });
    const before = process.memoryUsage().rss;
    const { status } = await stubborn(target, head, count);
    t.equal(status, 400, `${root} of ${count} MiB`);
    const grown = process.memoryUsage().rss - before;
    t.ok(grown < 80 * 1024 * 1024, `${root}: memory grew by ${grown >> 20} MiB`);
  }
  t.strictSame(target.clusters["only"]?.buckets().map(String), [bucket]);
  t.equal(target.clusters["only"]?.objects(bucket).length, 1);
  await serves(t, target);
});

t.test("slow clients are cut, and told", async (t) => {
  const target = await openTarget(t, {
    listen: "header_timeout: 300ms, body_idle_timeout: 300ms, idle_timeout: 300ms",
  });
  const slow = await openRaw(target.url);
  await slow.write(signed(target.url).slice(0, -2));
  const late = await slow.answer(() => false);
  t.match(late.text, /^HTTP\/1.1 400 [^]*<Code>RequestTimeout<[^]*request head/);
  const silent = await openRaw(target.url);
  await silent.answer(() => false);
  t.pass("a connection without a byte is closed");
  const stalled = await openRaw(target.url);
  await stalled.write(`${signed(target.url, "PUT", `/${bucket}/k`, 10)}12345`);
  const body = await stalled.answer(() => false);
  t.match(body.text, /^HTTP\/1.1 400 [^]*<Code>RequestTimeout</);
  const idle = await openRaw(target.url);
  await idle.write(signed(target.url));
  const answers = await idle.answer(() => false);
  t.equal(answers.status, 200, "and an idle one after its answer");
  t.strictSame(target.stored(), []);
  await serves(t, target);
});

t.test("connections and requests have a limit", async (t) => {
  const target = await openTarget(t, { listen: "max_connections: 4, max_in_flight: 1" });
  target.s3.destroy();
  const held = [];
  for (let n = 0; n < 3; n += 1) held.push(await openRaw(target.url));
  const [first] = held;
  await first?.write(`${signed(target.url, "PUT", `/${bucket}/k`, 10)}12345`);
  const busy = await rawExchange(target.url, signed(target.url));
  t.match(busy, { status: 503, text: /<Code>SlowDown<[^]*/ });
  t.match(busy.text, /retry-after: 1/i);
  const more = await Promise.all(Array.from({ length: 6 }, () => openRaw(target.url)));
  await until(() => more.filter(({ socket }) => socket.destroyed).length === 5);
  for (const { socket } of [...held, ...more]) socket.destroy();
  await until(async () => (await rawExchange(target.url, signed(target.url))).status === 200);
  await serves(t, target);
});

t.test("pipelined requests are answered in their order, HTTP/1.0 once", async (t) => {
  const target = await openTarget(t);
  const connection = await openRaw(target.url);
  const missing = signed(target.url, "GET", `/${bucket}/missing`);
  await connection.write(signed(target.url) + missing + signed(target.url));
  const { text } = await connection.answer(
    (all) => all.split("HTTP/1.1 ").length === 4 && all.endsWith("kept"),
  );
  const statuses = [...text.matchAll(/HTTP\/1.1 (\d+)/g)].map((match) => match[1]);
  t.strictSame(statuses, ["200", "404", "200"]);
  connection.socket.destroy();
  const old = await openRaw(target.url);
  await old.write(signed(target.url).replace("HTTP/1.1", "HTTP/1.0"));
  const answer = await old.answer(() => false);
  t.ok(answer.text.endsWith("\r\n\r\nkept"));
  t.notMatch(answer.text, /transfer-encoding/i);
  const garbage = await openRaw(target.url);
  await garbage.write(`${signed(target.url)}\x01\x02 garbage\r\n\r\n`);
  const last = await garbage.answer(() => false);
  t.match(last.text, /^HTTP\/1.1 200 [^]*kept/, "what stands in front of garbage is answered");
});
