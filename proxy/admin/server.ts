// The admin listener: reads a request within limits, checks who may ask, runs its handler and writes
// the reply. S3 is never served here, nor the admin API on the S3 port.

import type { IncomingMessage, Server, ServerOptions, ServerResponse } from "node:http";
import { FaultError, type Log } from "../placement/ports.ts";
import { isLoopbackAuthority, refusal } from "./guard.ts";
import { type AdminReply, type AdminRequest, malformed, problem } from "./reply.ts";
import { type AdminPorts, matchRoute } from "./routes.ts";

export interface AdminServerOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** Null: open to this machine; main has made sure that `host` is loopback. */
  readonly token: string | null;
  readonly ports: AdminPorts;
  readonly requestId: () => string;
  /** node:http's, from main, which owns sockets. */
  readonly createServer: (options: ServerOptions) => Server;
  readonly log: Log;
}

export interface AdminServer {
  /** `http://127.0.0.1:9001`. */
  readonly url: string;
  /** Takes no new requests and cuts what is still open. */
  close(): Promise<void>;
}

const maxBodyBytes = 16 * 1024;

/** Listens. Rejects when the address is taken. @throws FaultError config: open to other machines. */
export async function openAdminServer(options: AdminServerOptions): Promise<AdminServer> {
  const authority = options.host.includes(":") ? `[${options.host}]` : options.host;
  if (options.token === null && !isLoopbackAuthority(authority)) {
    throw new FaultError("config", `Cannot open admin listener: "${options.host}" needs a token`);
  }
  const server = options.createServer({
    maxHeaderSize: 16 * 1024,
    headersTimeout: 10_000,
    requestTimeout: 30_000,
    keepAliveTimeout: 60_000,
  });
  server.maxConnections = 256;
  server.on("request", (request, response) => {
    void answer(request, response, options);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.host, () => {
      server.off("error", reject);
      server.on("error", (error) => {
        options.log.write("error", "admin.listener_failed", { error: error.message });
      });
      resolve();
    });
  });
  return {
    url: urlOf(server),
    async close() {
      const closed = new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
      server.closeAllConnections();
      await closed;
    },
  };
}

function urlOf(server: Server): string {
  const address = server.address();
  if (address === null || typeof address === "string") return "";
  const host = address.family === "IPv6" ? `[${address.address}]` : address.address;
  return `http://${host}:${address.port}`;
}

/** Never rejects. */
async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  options: AdminServerOptions,
): Promise<void> {
  const given = request.headers["x-request-id"];
  const requestId =
    typeof given === "string" && /^[\w.-]{1,128}$/.test(given) ? given : options.requestId();
  const aborted = new AbortController();
  response.once("close", () => aborted.abort());
  let reply: AdminReply;
  try {
    reply = await replyTo(request, options, { requestId, signal: aborted.signal });
  } catch (error) {
    if (aborted.signal.aborted) return;
    reply = faultReply(error, requestId, options.log);
  }
  write(request, response, { reply, requestId });
}

async function replyTo(
  request: IncomingMessage,
  options: AdminServerOptions,
  context: { readonly requestId: string; readonly signal: AbortSignal },
): Promise<AdminReply> {
  const method = request.method ?? "";
  const [path = "", ...rest] = (request.url ?? "").split("?");
  const { headers } = request;
  const fetchSite = headers["sec-fetch-site"];
  const refused = refusal(
    {
      method,
      path,
      host: headers.host,
      origin: headers.origin,
      fetchSite: typeof fetchSite === "string" ? fetchSite : undefined,
      contentType: headers["content-type"],
      authorization: headers.authorization,
    },
    options.token,
  );
  if (refused !== null) return refused;
  const match = matchRoute(method, path);
  if (match.kind === "reply") return match.reply;
  const query = new URLSearchParams(rest.join("?"));
  const dryRun = query.get("dry_run") ?? "false";
  if (dryRun !== "true" && dryRun !== "false") {
    return malformed("Query parameter dry_run needs true or false");
  }
  const body = await readBody(request);
  if (body.kind === "reply") return body.reply;
  const adminRequest: AdminRequest = {
    method,
    path,
    params: match.params,
    query,
    body: body.value,
    requestId: context.requestId,
    actor: {
      kind: "admin",
      name: options.token === null ? "local" : "token",
      remoteAddress: request.socket.remoteAddress ?? null,
    },
    ifMatch: headers["if-match"] ?? null,
    dryRun: dryRun === "true",
    signal: context.signal,
  };
  return await match.route.handle(adminRequest, options.ports);
}

type Body =
  | { readonly kind: "body"; readonly value: Readonly<Record<string, unknown>> }
  | { readonly kind: "reply"; readonly reply: AdminReply };

async function readBody(request: IncomingMessage): Promise<Body> {
  const chunks: Buffer[] = [];
  let lengthBytes = 0;
  for await (const chunk of request) {
    if (!Buffer.isBuffer(chunk)) continue;
    lengthBytes += chunk.length;
    if (lengthBytes > maxBodyBytes) {
      return { kind: "reply", reply: malformed("The body is larger than 16 KiB") };
    }
    chunks.push(chunk);
  }
  if (lengthBytes === 0) return { kind: "body", value: {} };
  const value = parseJson(Buffer.concat(chunks).toString("utf8"));
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return { kind: "reply", reply: malformed("The body is not a JSON object") };
  }
  return { kind: "body", value: Object.fromEntries(Object.entries(value)) };
}

function parseJson(source: string): unknown {
  try {
    return JSON.parse(source);
  } catch {
    return null; // answered as a malformed body
  }
}

function faultReply(error: unknown, requestId: string, log: Log): AdminReply {
  if (error instanceof FaultError && error.kind.startsWith("state_")) {
    log.write("warn", "admin.state_unavailable", { request_id: requestId, error: error.message });
    return problem(503, "StateUnavailable", "The state store cannot be asked now, try again");
  }
  const message = error instanceof Error ? (error.stack ?? error.message) : "unknown";
  log.write("error", "admin.failed", { request_id: requestId, error: message });
  return problem(500, "InternalError", "The request failed, the log tells why");
}

function write(
  request: IncomingMessage,
  response: ServerResponse,
  answered: { readonly reply: AdminReply; readonly requestId: string },
): void {
  const { reply, requestId } = answered;
  if (response.destroyed) return;
  // An unread body would be taken for the next request.
  if (!request.complete) response.setHeader("connection", "close");
  response.writeHead(reply.status, {
    ...reply.headers,
    ...(reply.body === null ? {} : { "content-length": Buffer.byteLength(reply.body) }),
    "x-request-id": requestId,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  });
  response.end(request.method === "HEAD" ? undefined : (reply.body ?? undefined));
}
