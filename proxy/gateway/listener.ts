// The S3 listener: a node:http server (made by main, which owns sockets) with limits on everything a client controls, S3 XML where Node
// would answer a bare 400 or 431, and an orderly stop. What a request means is exchange.ts.

import type { IncomingMessage, Server, ServerOptions, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Log, Timers } from "../placement/ports.ts";
import { errorDocument } from "../s3/error-document.ts";
import { S3Error } from "../s3/errors.ts";
import { breakBody } from "./client-body.ts";
import { isLingering, lingerOverSocket } from "./lingering.ts";

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
  /** Told of what never became a request; gives the id to answer it with. */
  readonly refused: (error: S3Error, remoteAddress: string) => string;
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
  const running = new WeakMap<Socket, Running>();
  const run = (request: IncomingMessage, response: ServerResponse, waits: boolean): void => {
    // A request behind a last answer must not be carried out.
    if (isLingering(request.socket)) return;
    if (closing) response.setHeader("connection", "close");
    running.set(request.socket, { request, response });
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
  // Node would drop the lines beyond 2000 without a word; request-head.ts refuses them.
  server.maxHeadersCount = 0;
  server.on("request", (request, response) => run(request, response, false));
  server.on("checkContinue", (request, response) => run(request, response, true));
  // Any other expectation is passed over: RFC 9110 §10.1.1 asks for a 417 from none, and nothing of it
  // goes upstream.
  server.on("checkExpectation", (request, response) => run(request, response, false));
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    onClientError(error, socket, { running: running.get(socket) ?? null, options });
  });
  // Node lets its parser read a TLS socket past the stream, and then pauses the parser alone: when a
  // request comes before the write of the last answer is known to be done, the record behind its head
  // ends as HPE_PAUSED. Where somebody listens for data the stream is read, and what is paused waits.
  server.on("secureConnection", (socket: Socket) => socket.on("data", () => undefined));
  server.on("connect", (_request, socket: Socket) => {
    const message = "The proxy opens no tunnels";
    refuse(new S3Error("MethodNotAllowed", { message }), socket, options);
  });
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

/** The last exchange of a connection. */
interface Running {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** What the parser, the handshake or the socket complains of; nothing can be read any more. */
function onClientError(
  error: NodeJS.ErrnoException,
  socket: Socket,
  at: { readonly running: Running | null; readonly options: ListenerOptions },
): void {
  const { running, options } = at;
  if (isLingering(socket)) return;
  const code = error.code ?? "";
  if (/^ERR_(?:SSL|TLS)_/.test(code)) {
    options.log.write("debug", "listener.handshake_failed", { code });
    socket.destroy();
    return;
  }
  if (!socket.writable || !refusals.some(({ codes }) => codes.test(code))) {
    socket.destroy();
    return;
  }
  if (running === null || running.response.writableEnded) {
    refuse(refusalOf(code), socket, options);
    return;
  }
  const { request, response } = running;
  if (request.complete) {
    // What is wrong stands behind a request that is being answered.
    response.shouldKeepAlive = false;
  } else if (!response.headersSent) {
    // The exchange ends with it, and gives the answer.
    breakBody(request);
  } else socket.destroy();
}

interface Refusal {
  /** Codes of llhttp and of Node. */
  readonly codes: RegExp;
  readonly error: () => S3Error;
}

/** In this order: the first that fits. */
const refusals: readonly Refusal[] = [
  { codes: /^HPE_HEADER_OVERFLOW$/, error: () => new S3Error("RequestHeaderSectionTooLarge") },
  {
    codes: /^ERR_HTTP_REQUEST_TIMEOUT$/,
    error: () =>
      new S3Error("RequestTimeout", { message: "The request head took longer than the limit" }),
  },
  {
    codes: /^HPE_INVALID_URL$/,
    error: () =>
      new S3Error("InvalidURI", {
        message: "The request target holds a character that must be percent-encoded",
      }),
  },
  {
    codes: /^HPE_/,
    error: () => new S3Error("InvalidRequest", { message: "The request head is malformed" }),
  },
];

function refusalOf(code: string): S3Error {
  const refusal = refusals.find(({ codes }) => codes.test(code));
  return refusal === undefined ? new S3Error("InvalidRequest") : refusal.error();
}

/** Answers what never became a request as S3 would, then closes (RFC 9112 §2.2 leaves no choice). */
function refuse(error: S3Error, socket: Socket, options: ListenerOptions): void {
  const requestId = options.refused(error, socket.remoteAddress ?? "");
  const body = errorDocument(error, { resource: "/", requestId, hostId: "headgate" });
  socket.write(
    `HTTP/1.1 ${error.status} ${error.status === 405 ? "Method Not Allowed" : "Bad Request"}\r\n` +
      `x-amz-request-id: ${requestId}\r\ncontent-type: application/xml\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
  // A client that is too slow gets no more time.
  if (error.code === "RequestTimeout") socket.destroySoon();
  else lingerOverSocket(socket, options.timers);
}
