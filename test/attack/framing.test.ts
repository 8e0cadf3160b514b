// Request smuggling: where two readers could see the end of a message in two places, there is one
// answer, the connection ends, and nothing behind it is read (RFC 9112 §6.3, §11.2).

import { CreateBucketCommand } from "@aws-sdk/client-s3";
import t from "tap";
import {
  type Attack,
  bucket,
  openTarget,
  repel,
  serves,
  signed,
  withLines,
} from "../support/attack.ts";
import { openRaw } from "../support/raw-http.ts";
import { modes, bucket as uploads, written } from "../support/s3-uploads.ts";

t.test("ambiguous framing ends the connection", async (t) => {
  // https://github.com/litespeedtech/openlitespeed/issues/392
  const target = await openTarget(t);
  const put = signed(target.url, "PUT", `/${bucket}/k`);
  const smuggled = signed(target.url, "DELETE");
  const chunked = "transfer-encoding: chunked";
  const rows: readonly (readonly [string, readonly string[], string])[] = [
    ["length, then chunked", ["content-length: 5", chunked], "InvalidRequest"],
    ["chunked, then length", [chunked, "content-length: 5"], "InvalidRequest"],
    ["two lengths", ["content-length: 0", "content-length: 5"], "InvalidRequest"],
    ["one length twice", ["content-length: 5", "content-length: 5"], "InvalidRequest"],
    ["a list of lengths", ["content-length: 5, 5"], "InvalidRequest"],
    ["a signed length", ["content-length: +5"], "InvalidRequest"],
    ["a negative length", ["content-length: -5"], "InvalidRequest"],
    ["a hexadecimal length", ["content-length: 0x5"], "InvalidRequest"],
    ["a fractional length", ["content-length: 5.0"], "InvalidRequest"],
    ["an empty length", ["content-length:"], "InvalidRequest"],
    ["a length beyond 64 bits", ["content-length: 18446744073709551616"], "InvalidRequest"],
    ["an unknown coding", ["transfer-encoding: xchunked"], "InvalidRequest"],
    ["identity", ["transfer-encoding: identity"], "InvalidRequest"],
    ["gzip", ["transfer-encoding: gzip"], "InvalidRequest"],
    ["chunked behind gzip", ["transfer-encoding: gzip, chunked"], "InvalidRequest"],
    ["chunked, not last", ["transfer-encoding: chunked, identity"], "InvalidRequest"],
    ["chunked twice in a line", ["transfer-encoding: chunked, chunked"], "InvalidRequest"],
    ["chunked twice", [chunked, chunked], "InvalidRequest"],
    ["a quoted coding", ['transfer-encoding: "chunked"'], "InvalidRequest"],
    ["a coding with a parameter", ["transfer-encoding: chunked;a=b"], "InvalidRequest"],
    ["a vertical tab before it", ["transfer-encoding:\vchunked"], "InvalidRequest"],
    ["an empty coding", ["transfer-encoding:"], "InvalidRequest"],
    ["a blank before the colon", ["transfer-encoding : chunked"], "InvalidRequest"],
    ["a folded line", ["x-fold: a\r\n b"], "InvalidRequest"],
    ["a fold that hides a coding", ["x-fold: a\r\n transfer-encoding: chunked"], "InvalidRequest"],
    ["a line that ends in LF", [`x-lf: a\n${chunked}`], "InvalidRequest"],
    ["a lone CR", [`x-cr: a\r${chunked}`], "InvalidRequest"],
    ["CR CR LF", ["x-crcr: a\r"], "InvalidRequest"],
    ["NUL in a value", ["x-nul: a\0b"], "InvalidRequest"],
    ["a line without colon", ["nothing"], "InvalidRequest"],
    ["a line without name", [": a"], "InvalidRequest"],
    ["a blank before the first line", [" x-first: a"], "InvalidRequest"],
    ["a name with brackets", ["x-amz-meta-(x): a"], "InvalidRequest"],
    ["a name with 8 bits", ["x-amz-meta-\xe9: a"], "InvalidRequest"],
    ["Connection takes the coding away", [chunked, "connection: content-length"], "InvalidRequest"],
  ];
  const attacks = rows.map(([name, lines, code]): Attack => {
    return {
      name,
      bytes: [`${withLines(put, ...lines)}0\r\n\r\n${smuggled}`],
      answer: `400 ${code}`,
    };
  });
  await repel(t, target, attacks);
  t.strictSame(target.stored(), []);
});

t.test("what is no HTTP/1.1 request line is refused", async (t) => {
  const target = await openTarget(t);
  const head = signed(target.url);
  const line = (text: string): string => head.replace(/^[^\r]*/, text);
  const path = `/${bucket}/kept`;
  const rows = [
    ["HTTP/0.9", `GET ${path}\r\n\r\n`],
    ["HTTP/0.9 with fields", line(`GET ${path} HTTP/0.9`)],
    ["HTTP/1.2", line(`GET ${path} HTTP/1.2`)],
    ["HTTP/2 by prior knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"],
    ["lower-case protocol", line(`GET ${path} http/1.1`)],
    ["a blank at the end", line(`GET ${path} HTTP/1.1 `)],
    ["a blank in the target", line("GET /target/a b HTTP/1.1")],
    ["a tab for a blank", line(`GET\t${path} HTTP/1.1`)],
    ["a lone LF", head.replace("\r\n", "\n")],
    ["an unknown method", line(`STEAL ${path} HTTP/1.1`)],
    ["a lower-case method", line(`get ${path} HTTP/1.1`)],
    ["a TLS hello", "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"],
    ["chunked in HTTP/1.0", withLines(head, "transfer-encoding: chunked").replace("1.1", "1.0")],
  ] as const;
  const attacks = rows.map(([name, bytes]) => ({
    name,
    bytes: [bytes],
    answer: "400 InvalidRequest",
  }));
  await repel(t, target, attacks);
});

t.test("a body whose HTTP chunks do not parse is never stored", async (t) => {
  const target = await openTarget(t);
  await target.s3.send(new CreateBucketCommand({ Bucket: uploads }));
  const [mode] = modes.filter(({ name }) => name === "unsigned with trailer");
  if (mode === undefined) throw new Error("no such mode");
  const upload = { key: "k", data: Buffer.alloc(100_000, 7), inHttpChunks: true };
  const [, body] = written(target.url, mode, upload);
  const text = body.toString("latin1");
  const first = /^[0-9a-f]+\r\n/i.exec(text)?.[0].trim() ?? "";
  t.not(first, "");
  const rows = [
    ["a size with a blank", text.replace(first, `${first} `)],
    ["a negative size", text.replace(first, `-${first}`)],
    ["a size with 0x", text.replace(first, `0x${first}`)],
    ["a size beyond 64 bits", text.replace(first, `1${"0".repeat(16)}${first}`)],
    ["a size that ends in LF", text.replace("\r\n", "\n")],
    ["an extension that ends in LF", text.replace("\r\n", ";a=b\n")],
    ["an endless extension", text.replace("\r\n", `;${"a".repeat(40_000)}\r\n`)],
    ["a size too small", text.replace(first, "1")],
    ["endless trailers", `${text.slice(0, -2)}${"a: b\r\n".repeat(20_000)}\r\n`],
  ] as const;
  for (const [name, spoiled] of rows) {
    const connection = await openRaw(target.url);
    const [head] = written(target.url, mode, upload);
    await connection.write(Buffer.from(head + spoiled, "latin1"));
    const answer = await connection.answer(() => false);
    t.match(answer.text, /^HTTP\/1.1 400 [^]*<Code>IncompleteBody</, name);
    t.equal(answer.text.split("HTTP/1.1 ").length, 2, name);
    connection.socket.destroy();
  }
  t.strictSame(target.clusters["only"]?.objects(uploads), []);
  await serves(t, target);
});

t.test("a trailer of HTTP is no field of the request", async (t) => {
  const target = await openTarget(t);
  const head = withLines(signed(target.url, "GET"), "transfer-encoding: chunked");
  const connection = await openRaw(target.url);
  await connection.write(`${head}0\r\nx-amz-acl: public-read\r\nhost: evil\r\n\r\n`);
  await connection.answer();
  for (const { rawHeaders } of target.clusters["only"]?.exchanges() ?? []) {
    t.notMatch(rawHeaders.join("\n"), /x-amz-acl|evil/);
  }
  connection.socket.destroy();
});
