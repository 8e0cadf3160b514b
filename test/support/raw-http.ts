// Requests written byte by byte on a socket, signed by our signer over exactly what is sent: for
// uploads that stall, break off or lie, which no SDK can be made to send.

import { connect, type Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { formatAmzDate, SigningKeys, signRequest } from "../../proxy/s3/sigv4.ts";
import { clientKeys } from "./headgate.ts";

export interface RawRequest {
  readonly method: string;
  /** Canonical path, `/b/a%20b`. */
  readonly path: string;
  readonly query?: string;
  readonly headers?: readonly (readonly [string, string])[];
  readonly payloadHash?: string;
  readonly contentLength?: number;
  readonly keys?: { readonly accessKeyId: string; readonly secretAccessKey: string };
  readonly atMs?: number;
}

const signing = new SigningKeys(16);

/** The signed request head, ready to be written. */
export function rawHead(url: string, request: RawRequest): string {
  const host = new URL(url).host;
  const { method, path, query = "", headers = [] } = request;
  const signed = signRequest(
    {
      method,
      path,
      query,
      host,
      headers,
      payloadHash: request.payloadHash ?? "UNSIGNED-PAYLOAD",
      region: "us-east-1",
      credentials: { ...(request.keys ?? clientKeys), sessionToken: null },
      amzDate: formatAmzDate(request.atMs ?? Date.now()),
    },
    signing,
  );
  const lines = [...headers, ...signed].map(([name, value]) => `${name}: ${value}\r\n`);
  const length = request.contentLength;
  const framing = length === undefined ? "" : `content-length: ${length}\r\n`;
  const target = query === "" ? path : `${path}?${query}`;
  return `${method} ${target} HTTP/1.1\r\nhost: ${host}\r\n${framing}${lines.join("")}\r\n`;
}

export interface RawAnswer {
  readonly status: number;
  readonly text: string;
}

export interface RawConnection {
  readonly socket: Socket;
  /** Resolves when written out, so that a slow reader slows the writer. */
  write(bytes: string | Uint8Array): Promise<void>;
  /** What came until the peer closed, or until `enough` says so. */
  answer(enough?: (text: string) => boolean): Promise<RawAnswer>;
}

/** @param tls for an https URL: whom to trust. */
export async function openRaw(url: string, tls: ConnectionOptions = {}): Promise<RawConnection> {
  const { protocol, hostname, port } = new URL(url);
  const secure = protocol === "https:";
  const socket: Socket = secure
    ? connectTls({ ...tls, port: Number(port), host: hostname })
    : connect(Number(port), hostname);
  await new Promise<void>((resolve, reject) => {
    socket.once(secure ? "secureConnect" : "connect", resolve);
    socket.once("error", reject);
  });
  let text = "";
  let check: () => void = () => {};
  let closed = false;
  socket.on("data", (chunk: Buffer) => {
    text += chunk.toString("latin1");
    check();
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    closed = true;
    check();
  });
  return {
    socket,
    async write(bytes) {
      await new Promise<void>((resolve) => socket.write(bytes, () => resolve()));
    },
    async answer(enough = wholeAnswer) {
      await new Promise<void>((resolve) => {
        check = () => {
          if (closed || enough(text)) resolve();
        };
        check();
      });
      return { status: Number(text.slice(9, 12)), text };
    },
  };
}

/** One complete answer with a Content-Length. */
function wholeAnswer(text: string): boolean {
  const end = text.indexOf("\r\n\r\n");
  if (end === -1) return false;
  const length = /content-length: (\d+)/i.exec(text.slice(0, end))?.[1] ?? "0";
  return text.length >= end + 4 + Number(length);
}

/** Sends one request whole and reads its answer. */
export async function rawExchange(
  url: string,
  head: string,
  body: string | Uint8Array = "",
): Promise<RawAnswer> {
  const connection = await openRaw(url);
  await connection.write(head);
  if (body.length > 0) await connection.write(body);
  const answer = await connection.answer();
  connection.socket.destroy();
  return answer;
}

/** Waits until something is true, turning the event loop in between. */
export async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await what())) await new Promise((resolve) => setTimeout(resolve, 5));
}
