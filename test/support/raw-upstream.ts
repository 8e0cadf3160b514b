// A server made of bare sockets, and an adapter pointed at it: tests of the wire say what each byte is.

import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import type { Test } from "tap";
import type { UpstreamRequest, UpstreamResponse } from "../../proxy/placement/ports.ts";
import { serviceIdentity, UpstreamError } from "../../proxy/placement/ports.ts";
import {
  type ClusterId,
  noTenant,
  parseBucketName,
  parseClusterId,
  parseObjectKey,
} from "../../proxy/s3/names.ts";
import {
  createUpstream,
  type UpstreamCluster,
  type UpstreamOptions,
  type UpstreamPools,
} from "../../proxy/upstream/upstream.ts";

export function idOf(text: string): ClusterId {
  const id = parseClusterId(text);
  if (id === null) throw new Error(`"${text}" is no cluster id`);
  return id;
}

export const clusterA = idOf("a");

/** One connection as a script sees it. */
export class RawConnection {
  readonly socket: Socket;
  /** `ECONNRESET` of a peer that did not end in order. */
  failureCode: string | null = null;
  #received = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("error", (error: NodeJS.ErrnoException) => {
      this.failureCode = error.code ?? null;
    });
  }

  /** All bytes so far that no `head` or `bytes` call took. */
  get received(): Buffer {
    return this.#received;
  }

  /** The next request head, blank line included, as latin1 text; `null` when the client ended. */
  async head(): Promise<string | null> {
    for (;;) {
      const end = this.#received.indexOf("\r\n\r\n");
      if (end !== -1) return this.#take(end + 4).toString("latin1");
      if (!(await this.#more())) return null;
    }
  }

  /** The next so many bytes, or as many as came before the client ended. */
  async bytes(count: number): Promise<Buffer> {
    while (this.#received.length < count) {
      if (!(await this.#more())) break;
    }
    return this.#take(count);
  }

  write(text: string | Uint8Array): void {
    this.socket.write(typeof text === "string" ? Buffer.from(text, "latin1") : text);
  }

  async closed(): Promise<void> {
    this.socket.resume();
    if (!this.socket.closed) {
      await new Promise<void>((resolve) => {
        this.socket.once("close", () => resolve());
      });
    }
  }

  #take(count: number): Buffer {
    const taken = this.#received.subarray(0, count);
    this.#received = this.#received.subarray(count);
    return taken;
  }

  async #more(): Promise<boolean> {
    for (;;) {
      const chunk: unknown = this.socket.read();
      if (chunk instanceof Uint8Array) {
        this.#received = Buffer.concat([this.#received, chunk]);
        return true;
      }
      if (this.socket.readableEnded || this.socket.destroyed) return false;
      await new Promise<void>((resolve) => {
        const done = (): void => {
          this.socket.off("readable", done).off("end", done).off("close", done);
          resolve();
        };
        this.socket.on("readable", done).on("end", done).on("close", done);
      });
    }
  }
}

export interface RawServer {
  readonly url: string;
  readonly port: number;
  /** Connections taken so far, oldest first. */
  readonly connections: readonly RawConnection[];
}

/** Serves each connection by `script(connection, index)`. */
export async function rawServer(
  t: Test,
  script: (connection: RawConnection, index: number) => Promise<void> | void,
): Promise<RawServer> {
  const connections: RawConnection[] = [];
  const server = createServer({ noDelay: true }, (socket) => {
    const connection = new RawConnection(socket);
    connections.push(connection);
    Promise.resolve(script(connection, connections.length - 1)).catch((caught: unknown) => {
      t.fail("the script failed", { caught });
    });
  });
  const port = await listenOn(server);
  t.teardown(async () => {
    for (const { socket } of connections) socket.destroy();
    server.close();
    await once(server, "close");
  });
  return { url: `http://127.0.0.1:${port}`, port, connections };
}

async function listenOn(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("No port");
  return address.port;
}

/** A port of 127.0.0.1 where nobody listens. */
export async function deadUrl(): Promise<string> {
  const server = createServer();
  const port = await listenOn(server);
  server.close();
  await once(server, "close");
  return `http://127.0.0.1:${port}`;
}

export interface AdapterOptions extends Partial<Omit<UpstreamOptions, "limits">> {
  readonly endpoints?: readonly string[];
  readonly cluster?: Partial<UpstreamCluster>;
  readonly limits?: Partial<UpstreamOptions["limits"]>;
}

export interface Adapter extends UpstreamPools {
  /** `ok` and `failed` of retries, in order. */
  readonly retries: string[];
  /** Statuses of ended exchanges, in order. */
  readonly ended: (number | null)[];
  send(
    request?: Partial<UpstreamRequest>,
    signal?: AbortSignal,
    cluster?: ClusterId,
  ): Promise<UpstreamResponse>;
  /** What `send` failed with. */
  failure(request?: Partial<UpstreamRequest>, signal?: AbortSignal): Promise<UpstreamError>;
}

/** An adapter with short limits for cluster `a`; closed with the test. */
export function adapter(t: Test, options: AdapterOptions): Adapter {
  const retries: string[] = [];
  const ended: (number | null)[] = [];
  const { endpoints = [], cluster = {}, limits = {}, ...rest } = options;
  const pools = createUpstream({
    clusters: [
      {
        id: clusterA,
        endpoints,
        region: "us-east-1",
        addressing: "path",
        host: null,
        identity: "service",
        credentials: { accessKeyId: "ak", secretAccessKey: "sk", sessionToken: null },
        tls: { caPem: null, insecureSkipVerify: false },
        ...cluster,
      },
    ],
    clock: { nowMs: () => Date.UTC(2026, 10, 29, 12), monotonicMs: () => performance.now() },
    meter: {
      upstreamEnded: ({ status }) => ended.push(status),
      upstreamRetried: (_cluster, outcome) => retries.push(outcome),
    },
    maxAttempts: 2,
    callerKeys: () => null,
    ...rest,
    limits: {
      maxSockets: 8,
      connectTimeoutMs: 2_000,
      headersTimeoutMs: 20_000,
      bodyIdleTimeoutMs: 20_000,
      keepAliveMs: 20_000,
      ...limits,
    },
  });
  t.teardown(() => pools.close());
  const never = new AbortController().signal;
  const send: Adapter["send"] = (request = {}, signal = never, id = clusterA) =>
    pools.upstream.send(id, s3Request(request), signal);
  return {
    ...pools,
    statistics: () => pools.statistics(),
    configure: (clusters) => pools.configure(clusters),
    close: () => pools.close(),
    retries,
    ended,
    send,
    async failure(request, signal) {
      try {
        const response = await send(request, signal);
        t.fail("send resolved", { status: response.status });
      } catch (caught) {
        if (caught instanceof UpstreamError) return caught;
        throw caught;
      }
      throw new Error("send resolved");
    },
  };
}

/** GetObject of `bucket/key` unless said otherwise. */
export function s3Request(request: Partial<UpstreamRequest> = {}): UpstreamRequest {
  return {
    operation: "GetObject",
    method: "GET",
    tenant: noTenant,
    bucket: parseBucketName("bucket"),
    key: parseObjectKey("key"),
    query: [],
    headers: [],
    body: null,
    payloadSha256: null,
    identity: serviceIdentity,
    ...request,
  };
}

/** PutObject with a body. */
export function put(body: UpstreamRequest["body"]): Partial<UpstreamRequest> {
  return { operation: "PutObject", method: "PUT", body };
}

export async function textOf(response: UpstreamResponse): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of response.body) chunks.push(chunk);
  return Buffer.concat(chunks).toString("latin1");
}

/** What reading the body fails with. */
export async function bodyFailure(response: UpstreamResponse): Promise<unknown> {
  try {
    await textOf(response);
  } catch (caught) {
    return caught;
  }
  return null;
}

/** Resolves once `holds()`; looked at in every turn of the event loop. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve));
}

/** No exchange and no socket is left. */
export async function drained(adapter: Pick<Adapter, "statistics">): Promise<void> {
  await until(() =>
    adapter
      .statistics()
      .every((row) => row.inFlight === 0 && row.sockets === 0 && row.queued === 0),
  );
}
