// The S3 listener: a node:http server (made by main, which owns sockets) with limits on everything a client controls, S3 XML where Node
// would answer a bare 400 or 431, and an orderly stop. What a request means is exchange.ts.

import type { IncomingMessage, Server, ServerOptions, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Log, Timers } from "../placement/ports.ts";
import { errorDocument } from "../s3/error-document.ts";
import { S3Error } from "../s3/errors.ts";

/** What a server needs to speak TLS; null in its place: plain HTTP. */
export interface ServerTls {
  /** PEM text, the server's own certificate first. */
  readonly certPem: string;
  readonly keyPem: string;
  readonly minVersion: "TLSv1.2" | "TLSv1.3";
  readonly handshakeTimeoutMs: number;
}

export interface ListenerOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  readonly maxHeaderBytes: number;
  readonly headerTimeoutMs: number;
  readonly keepAliveMs: number;
  readonly maxConnections: number;
  readonly tls: Omit<ServerTls, "handshakeTimeoutMs"> | null;
  /** Never rejects. `expectsContinue`: the client waits for `100 Continue` before its body. */
  readonly exchange: (
    request: IncomingMessage,
    response: ServerResponse,
    expectsContinue: boolean,
  ) => Promise<void>;
  readonly requestId: () => string;
  readonly createServer: (options: ServerOptions, tls: ServerTls | null) => Server;
  readonly timers: Timers;
  readonly log: Log;
}

export interface Listener {
  /** `http://127.0.0.1:9000` or `https://…`. */
  readonly url: string;
  /** Takes no new connections, lets running exchanges end for at most `graceMs`, then cuts. */
  close(graceMs: number): Promise<void>;
}

export async function openListener(options: ListenerOptions): Promise<Listener> {
  let closing = false;
  const run = (request: IncomingMessage, response: ServerResponse, waits: boolean): void => {
    if (closing) response.setHeader("connection", "close");
    void options.exchange(request, response, waits);
  };
  const { tls } = options;
  const secure = tls === null ? null : { ...tls, handshakeTimeoutMs: options.headerTimeoutMs };
  const server = options.createServer(
    {
      maxHeaderSize: options.maxHeaderBytes,
      headersTimeout: options.headerTimeoutMs,
      // Uploads of terabytes are legal: a stalled body is cut by its own idle limit.
      requestTimeout: 0,
      keepAliveTimeout: options.keepAliveMs,
      connectionsCheckingInterval: Math.min(options.headerTimeoutMs, 5_000),
      noDelay: true,
      insecureHTTPParser: false,
      // Two Host lines and a missing one get an S3 error of ours.
      requireHostHeader: false,
    },
    secure,
  );
  server.maxConnections = options.maxConnections;
  server.on("request", (request, response) => run(request, response, false));
  server.on("checkContinue", (request, response) => run(request, response, true));
  // Any other expectation cannot be met (RFC 9110 §10.1.1).
  server.on("checkExpectation", (_request, response) => {
    response.writeHead(417, { connection: "close" }).end();
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    answerClientError(error, socket, options.requestId());
  });
  server.on("connect", (_request, socket) => socket.destroy());
  // Without a listener an Upgrade is ignored and served as HTTP/1.1, as RFC 9110 §7.8 allows.
  await listen(server, options);
  return {
    url: urlOf(server, tls === null ? "http" : "https"),
    async close(graceMs) {
      closing = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      const cancelCut = options.timers.after(graceMs, () => server.closeAllConnections());
      await closed;
      cancelCut();
    },
  };
}

async function listen(server: Server, options: ListenerOptions): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.host, () => {
      server.off("error", reject);
      server.on("error", (error) => {
        options.log.write("error", "listener.failed", { error: error.message });
      });
      resolve();
    });
  });
}

function urlOf(server: Server, scheme: "http" | "https"): string {
  const address = server.address() as AddressInfo;
  const host = address.family === "IPv6" ? `[${address.address}]` : address.address;
  return `${scheme}://${host}:${address.port}`;
}

/** What Node's parser refuses: answered as S3 would, then closed (RFC 9112 §2.2 leaves no choice). */
function answerClientError(error: NodeJS.ErrnoException, socket: Socket, requestId: string): void {
  if (error.code === "ECONNRESET" || !socket.writable || socket.bytesWritten > 0) {
    socket.destroy();
    return;
  }
  const fault =
    error.code === "HPE_HEADER_OVERFLOW"
      ? new S3Error("RequestHeaderSectionTooLarge")
      : error.code === "ERR_HTTP_REQUEST_TIMEOUT"
        ? new S3Error("RequestTimeout")
        : new S3Error("InvalidRequest", { message: "The request head is malformed" });
  const body = errorDocument(fault, { resource: "/", requestId, hostId: "headgate" });
  socket.end(
    `HTTP/1.1 ${fault.status} Bad Request\r\nconnection: close\r\ncontent-type: application/xml\r\n` +
      `x-amz-request-id: ${requestId}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}
