// Attacks on a listener as bytes on a socket: what came back, what a cluster saw of it, and whether the
// next client is served as if nothing had been.

import { CreateBucketCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import type { Test } from "tap";
import { startTestHeadgate, type TestHeadgate, type TestHeadgateOptions } from "./headgate.ts";
import { openRaw, rawExchange, rawHead } from "./raw-http.ts";

export interface Target extends TestHeadgate {
  /** Requests that clusters got since the target stands. */
  reached(): readonly string[];
  /** Keys that clusters hold beside `kept`. */
  stored(): readonly string[];
}

export const bucket = "target";
/** An object that is there and must stay as it is. */
const kept = "kept";

export async function openTarget(t: Test, options: TestHeadgateOptions = {}): Promise<Target> {
  const headgate = await startTestHeadgate(t, { clusters: { only: 1 }, ...options });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
  await headgate.s3.send(new PutObjectCommand({ Bucket: bucket, Key: kept, Body: "kept" }));
  const cluster = headgate.clusters["only"];
  const before = cluster?.exchanges().length ?? 0;
  return {
    ...headgate,
    reached: () =>
      (cluster?.exchanges() ?? []).slice(before).map(({ method, target }) => `${method} ${target}`),
    stored: () =>
      (cluster?.objects(bucket) ?? []).map(({ key }) => String(key)).filter((key) => key !== kept),
  };
}

export interface Attack {
  readonly name: string;
  /** Latin1 text, or bytes, in the order they are written. */
  readonly bytes: readonly (string | Uint8Array)[];
  /** `400 InvalidRequest`. */
  readonly answer: string;
  /** The request was understood, and its connection may go on. */
  readonly goesOn?: boolean;
}

/** A signed request line with its fields, for an attack to spoil. */
export function signed(
  url: string,
  method = "GET",
  path = `/${bucket}/${kept}`,
  contentLength?: number,
): string {
  return rawHead(url, { method, path, ...(contentLength === undefined ? {} : { contentLength }) });
}

/** Puts lines behind the request line. */
export function withLines(head: string, ...lines: readonly string[]): string {
  return head.replace("\r\n", `\r\n${lines.map((line) => `${line}\r\n`).join("")}`);
}

/** Each attack gets one S3 error, and mostly a closed connection; no cluster hears of it. */
export async function repel(t: Test, target: Target, attacks: readonly Attack[]): Promise<void> {
  const before = target.reached().length;
  for (const { name, bytes, answer, goesOn = false } of attacks) {
    const connection = await openRaw(target.url);
    for (const part of bytes) {
      await connection.write(typeof part === "string" ? Buffer.from(part, "latin1") : part);
    }
    const { text } = await connection.answer(goesOn ? undefined : () => false);
    const [head = "", body = ""] = text.split("\r\n\r\n");
    const id = /^x-amz-request-id: (\S+)$/im.exec(head)?.[1];
    t.strictSame(
      {
        answer: `${head.slice(9, 12)} ${/<Code>(\w+)<\/Code>/.exec(body)?.[1]}`,
        answers: text.split("HTTP/1.1 ").length - 1,
        closes: /^connection: close$/im.test(head),
        xml: body.startsWith("<?xml") && body.endsWith("</Error>"),
        id: /<RequestId>(\S+)<\/RequestId>/.exec(body)?.[1],
        length: Number(/^content-length: (\d+)$/im.exec(head)?.[1]),
      },
      { answer, answers: 1, closes: !goesOn, xml: true, id, length: body.length },
      name,
    );
    t.equal(target.accessLog.at(-1)?.requestId, id, `${name}: in the access log`);
    connection.socket.destroy();
  }
  t.strictSame(target.reached().slice(before), [], "nothing reached a cluster");
  await serves(t, target);
}

/** The next request on a new connection is served. */
export async function serves(t: Test, target: Target): Promise<void> {
  const { status, text } = await rawExchange(target.url, signed(target.url));
  t.equal(status, 200, "the next request is served");
  t.ok(text.endsWith("\r\n\r\nkept"), "and finds what was there");
}
