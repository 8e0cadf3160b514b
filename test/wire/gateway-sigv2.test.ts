// Signature Version 2 over the wire: refused by name unless it is switched on; then header and presigned
// requests do what their caller may do, and nothing of the signature goes on to a cluster.

import { createHmac } from "node:crypto";
import { CreateBucketCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import {
  clientKeys,
  readerKeys,
  startTestHeadgate,
  type TestHeadgate,
} from "../support/headgate.ts";
import { rawExchange } from "../support/raw-http.ts";

/** Base64 of the HMAC-SHA1 over a string to sign, by node:crypto alone. */
function sign(text: string, keys: typeof clientKeys = clientKeys): string {
  return createHmac("sha1", keys.secretAccessKey).update(text).digest("base64");
}

interface Sent {
  readonly method?: string;
  readonly target: string;
  readonly signed?: string;
  readonly headers?: readonly string[];
  readonly body?: string;
  readonly keys?: typeof clientKeys;
  readonly host?: string;
  readonly date?: string;
}

/** Sends a header-signed request; `signed` is the resource where it is not the target. */
async function send({ url }: TestHeadgate, sent: Sent) {
  const {
    method = "GET",
    target,
    signed = target,
    headers = [],
    body = "",
    keys = clientKeys,
  } = sent;
  const date = sent.date ?? new Date().toUTCString();
  const amz = headers.filter((line) => line.startsWith("x-amz-")).toSorted();
  const fields = amz.map((line) => `${line.replace(": ", ":")}\n`).join("");
  const value = sign(`${method}\n\n\n${date}\n${fields}${signed}`, keys);
  const lines = [
    `${method} ${target} HTTP/1.1`,
    `host: ${sent.host ?? new URL(url).host}`,
    `date: ${date}`,
    `authorization: AWS ${keys.accessKeyId}:${value}`,
    ...(method === "PUT" ? [`content-length: ${body.length}`] : []),
    ...headers,
  ];
  return await rawExchange(url, `${lines.join("\r\n")}\r\n\r\n`, body);
}

function presigned(method: string, path: string, seconds: number, keys = clientKeys): string {
  const expires = Math.floor(Date.now() / 1000) + seconds;
  const signature = encodeURIComponent(sign(`${method}\n\n\n${expires}\n${path}`, keys));
  return `${path}?AWSAccessKeyId=${keys.accessKeyId}&Expires=${expires}&Signature=${signature}`;
}

const code = (text: string): string | undefined => /<Code>(\w+)<\/Code>/.exec(text)?.[1];

async function bucketWithKey(t: Test, settings?: string): Promise<TestHeadgate> {
  const headgate = await startTestHeadgate(t, settings === undefined ? {} : { auth: settings });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: "shown-old" }));
  await headgate.s3.send(new PutObjectCommand({ Bucket: "shown-old", Key: "k", Body: "x" }));
  return headgate;
}

t.test("it is refused by name where it is not switched on", async (t) => {
  const headgate = await bucketWithKey(t);
  const header = await send(headgate, { target: "/shown-old/k" });
  t.equal(code(header.text), "InvalidRequest");
  t.match(header.text, "AWS4-HMAC-SHA256");
  for (const method of ["GET", "PUT"]) {
    const answer = await fetch(headgate.url + presigned(method, "/shown-old/k", 60), { method });
    t.equal(code(await answer.text()), "InvalidRequest", `${method} presigned`);
  }
});

t.test("header requests are verified, authorised and signed anew", async (t) => {
  const headgate = await bucketWithKey(t, "sigv2: on");
  const put = await send(headgate, {
    method: "PUT",
    target: "/shown-old/a%20b",
    headers: ["x-amz-meta-b: 2", "x-amz-meta-a: 1"],
    body: "hello",
  });
  t.equal(put.status, 200);
  const got = await send(headgate, { target: "/shown-old/a%20b" });
  t.match(got.text, /x-amz-meta-a: 1[^]*\r\n\r\nhello$/i);
  const { port } = new URL(headgate.url);
  const host = `shown-old.s3.test:${port}`;
  const virtual = await send(headgate, { target: "/k", signed: "/shown-old/k", host });
  t.match(virtual.text, /\r\n\r\nx$/, "virtual-hosted-style");
  const listed = await send(headgate, { target: "/shown-old?prefix=k", signed: "/shown-old" });
  t.match(listed.text, "<Key>k</Key>");
  const reader = await send(headgate, { target: "/shown-old/k", keys: readerKeys });
  t.equal(reader.status, 200);
  const above = await send(headgate, {
    method: "DELETE",
    target: "/shown-old/k",
    keys: readerKeys,
  });
  t.equal(code(above.text), "AccessDenied", "grants are those of the key");
});

t.test("wrong ones are refused and change nothing", async (t) => {
  const headgate = await bucketWithKey(t, "sigv2: on");
  const put = { method: "PUT", target: "/shown-old/new", body: "x" } as const;
  const wrong = { ...clientKeys, secretAccessKey: "other" };
  const old = new Date(Date.now() - 16 * 60_000).toUTCString();
  const streaming = "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
  const rows: readonly (readonly [Sent, string])[] = [
    [{ ...put, keys: wrong }, "SignatureDoesNotMatch"],
    [{ ...put, keys: { ...wrong, accessKeyId: "nobody" } }, "InvalidAccessKeyId"],
    [{ ...put, date: old }, "RequestTimeTooSkewed"],
    [{ ...put, date: "yesterday" }, "AccessDenied"],
    [{ ...put, signed: "/shown-old/other" }, "SignatureDoesNotMatch"],
    [
      { ...put, target: "/shown-old/new?x-amz-acl=public-read", signed: put.target },
      "AccessDenied",
    ],
    [{ ...put, headers: [streaming, "x-amz-decoded-content-length: 1"] }, "InvalidRequest"],
    [{ ...put, headers: ["x-amz-security-token: t"] }, "InvalidToken"],
    [{ ...put, headers: [`x-amz-content-sha256: ${"0".repeat(64)}`] }, "XAmzContentSHA256Mismatch"],
    [{ method: "PUT", target: "/shown-old?acl", signed: "/shown-old" }, "SignatureDoesNotMatch"],
  ];
  for (const [sent, expected] of rows) {
    const answer = await send(headgate, sent);
    t.equal(code(answer.text), expected, JSON.stringify(sent));
    t.notMatch(answer.text, clientKeys.secretAccessKey);
  }
  const keys = Object.values(headgate.clusters).flatMap((one) => one.objects("shown-old"));
  t.strictSame(
    keys.map(({ key }) => key),
    ["k"],
  );
});

t.test("presigned URLs write and read until they expire", async (t) => {
  const headgate = await bucketWithKey(t, "sigv2: on");
  const put = await fetch(headgate.url + presigned("PUT", "/shown-old/p", 60), {
    method: "PUT",
    body: Buffer.from("hi"),
  });
  t.equal(put.status, 200);
  const url = headgate.url + presigned("GET", "/shown-old/p", 60);
  t.equal(await (await fetch(url)).text(), "hi");
  const rows: readonly (readonly [string, string, string])[] = [
    ["GET", presigned("GET", "/shown-old/p", -1), "AccessDenied"],
    ["GET", presigned("GET", "/shown-old/p", 8 * 86_400), "AccessDenied"],
    ["DELETE", presigned("GET", "/shown-old/p", 60), "SignatureDoesNotMatch"],
    ["GET", presigned("GET", "/shown-old/k", 60).replace("/k?", "/p?"), "SignatureDoesNotMatch"],
    ["GET", `${presigned("GET", "/shown-old/p", 60)}&X-Amz-Signature=1`, "InvalidArgument"],
  ];
  for (const [method, target, expected] of rows) {
    const answer = await fetch(headgate.url + target, { method });
    t.equal(code(await answer.text()), expected, `${method} ${target}`);
  }
});
