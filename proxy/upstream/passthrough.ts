// Requests of other APIs on their way to one pinned cluster, by http-proxy-3: method, raw target, body
// and the client's own authorization as they came, hop-by-hop fields and what a client says of its
// origin taken out. Nothing is signed, retried or redirected. Which requests these are is decided in
// gateway/passthrough.ts; no other file imports the package.

import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import { createProxyServer } from "http-proxy-3";
import { type ByteSink, type ByteStream, UpstreamError } from "../placement/ports.ts";
import type { HeaderField, HeaderList } from "../s3/headers.ts";
import { fieldTokens } from "../s3/headers.ts";
import { isHopByHop } from "../s3/hop-by-hop.ts";
import type { EndpointTls } from "./pool.ts";
import type { UpstreamCluster } from "./upstream.ts";

export interface PassthroughOptions {
  /** How the cluster is reached now. */
  readonly cluster: () => Pick<
    UpstreamCluster,
    "id" | "endpoints" | "host" | "forwardedFor" | "tls"
  >;
  /** Longest silence in either direction. */
  readonly idleMs: number;
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly host: string | null;
  /** Where it came from, as X-Forwarded-For has it. */
  readonly forwardedFor: string;
  readonly received: (bytes: number) => void;
}

interface Answer {
  readonly status: number;
  readonly headers: HeaderList;
  readonly body: ByteStream | null;
  readonly cluster: UpstreamCluster["id"];
}

/** Says who asks, in words of the client or of a proxy in front; ours stand in their place, if any. */
const aboutClient = /^(?:forwarded|via|x-real-ip|x-forwarded-.*)$/;

/** A sender of requests as they are, by the cluster's endpoints in turn. */
export function createPassthrough(
  options: PassthroughOptions,
): (exchange: Exchange) => Promise<Answer> {
  let turn = 0;
  return async (exchange) => {
    const { id, endpoints, host, forwardedFor, tls } = options.cluster();
    const endpoint = endpoints[turn % Math.max(1, endpoints.length)];
    turn += 1;
    if (endpoint === undefined) throw new UpstreamError("connect", id);
    const target = new URL(endpoint);
    cleanHeaders(exchange.request, exchange.host ?? host ?? target.host);
    if (forwardedFor === "append" && exchange.forwardedFor !== "") {
      exchange.request.headers["x-forwarded-for"] = exchange.forwardedFor;
    }
    const answer = await sendOnce(exchange, { id, target, tls, idleMs: options.idleMs });
    const { statusCode: status = 502 } = answer;
    const bodiless = status === 204 || status === 304;
    if (bodiless) answer.resume();
    const body = bodiless ? null : new PassedBody(answer);
    return { status, headers: fieldsOf(answer.rawHeaders), body, cluster: id };
  };
}

/** The request's own field table is what http-proxy-3 sends. */
function cleanHeaders(request: IncomingMessage, host: string): void {
  const { headers } = request;
  const fields = Object.entries(headers).map(([name, value]): HeaderField => [name, String(value)]);
  const nominated = fieldTokens(fields, "connection");
  for (const [name] of fields) {
    const framesBody = name === "transfer-encoding";
    const ends = (isHopByHop(name) && !framesBody) || nominated.includes(name);
    if (ends || name === "expect" || aboutClient.test(name)) delete headers[name];
  }
  headers.host = host;
  const hasBody =
    headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;
  // Node would send a chunked body of nothing, which an RGW refuses with 411.
  if (!hasBody && request.method !== "GET" && request.method !== "HEAD") {
    headers["content-length"] = "0";
  }
}

function sendOnce(
  { request, response, received }: Exchange,
  to: {
    readonly id: UpstreamCluster["id"];
    readonly target: URL;
    readonly tls: EndpointTls;
    readonly idleMs: number;
  },
): Promise<IncomingMessage> {
  const { id, target, tls, idleMs } = to;
  return new Promise((resolve, reject) => {
    let outgoing: ClientRequest | null = null;
    let failed = false;
    const fail = (cause: unknown): void => {
      failed = true;
      outgoing?.destroy();
      request.unpipe();
      reject(new UpstreamError("response_head", id, { cause }));
    };
    // No agent: each request has a connection of its own and ends it (gateway/passthrough.ts says why).
    const proxy = createProxyServer({
      target,
      // The target's bytes as they came: no URL is made of them.
      toProxy: true,
      prependPath: false,
      secure: !tls.insecureSkipVerify,
      ...(tls.caPem === null ? {} : { ca: tls.caPem }),
      proxyTimeout: idleMs,
      selfHandleResponse: true,
    });
    proxy.on("proxyReq", (sent) => {
      outgoing = sent;
      if (failed) sent.destroy();
    });
    proxy.on("proxyRes", (answer) => {
      answer.once("close", () => request.unpipe());
      resolve(answer);
    });
    proxy.on("econnreset", fail);
    request.on("data", (chunk: Uint8Array) => received(chunk.length));
    proxy.web(request, response, {}, fail);
  });
}

/** The fields that go on to the client, lower-case, in order. */
function fieldsOf(raw: readonly string[]): HeaderList {
  const fields: HeaderField[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    fields.push([(raw[at] ?? "").toLowerCase(), raw[at + 1] ?? ""]);
  }
  const nominated = fieldTokens(fields, "connection");
  // Date and x-amz-request-id are written by the listener.
  const own = new Set(["date", "x-amz-request-id", ...nominated]);
  return fields.filter(([name]) => !isHopByHop(name) && !own.has(name));
}

class PassedBody implements ByteStream {
  readonly #answer: IncomingMessage;

  constructor(answer: IncomingMessage) {
    this.#answer = answer;
  }

  takeWhole(): null {
    return null;
  }

  async pipe(sink: ByteSink): Promise<void> {
    for await (const chunk of this) if (!sink.write(chunk)) await sink.drained();
  }

  cancel(): void {
    this.#answer.destroy();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for await (const chunk of this.#answer) if (chunk instanceof Uint8Array) yield chunk;
  }
}
