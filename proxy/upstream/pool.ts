// One upstream endpoint and its connections. Decides how connections are kept, capped and secured, and
// for how long an endpoint that refused a connection is passed over. undici's pool does the work; its
// clients are wrapped to know whether a socket was used before (the retry rule needs that) and to cut it.

import { isIP, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { buildConnector, Client, type Dispatcher, Pool } from "undici";
import type { UpstreamResponse } from "../placement/ports.ts";
import { type ConnectionUse, Forward, type ForwardOptions } from "./forward.ts";

export interface EndpointTls {
  /** PEM text of the authority to trust instead of the system's, or `null`. */
  readonly caPem: string | null;
  readonly insecureSkipVerify: boolean;
}

export interface EndpointLimits {
  readonly maxSockets: number;
  readonly connectTimeoutMs: number;
  readonly headersTimeoutMs: number;
  /** Longest silence within an answer's body while somebody reads it. */
  readonly bodyIdleTimeoutMs: number;
  readonly keepAliveMs: number;
}

export interface EndpointStatistics {
  /** Exchanges begun and not ended, waiting ones included. */
  readonly inFlight: number;
  readonly sockets: number;
  /** Requests that wait for a free connection. */
  readonly queued: number;
}

/** An answer's head may be as long as metadata, checksums and lock fields can make it. */
const maxHeadBytes = 64 * 1024;
/** How long a refusing endpoint is passed over: first, and at most after doubling. */
const firstPauseMs = 500;
const longestPauseMs = 30_000;

/**
 * One connection of the pool. It keeps hold of its socket because undici's own abort opens a new
 * connection for the request it has just dropped.
 */
class PooledConnection extends Client implements ConnectionUse {
  served = 0;
  #socket: Socket | null = null;

  constructor(origin: URL, options: Client.Options, connect: buildConnector.connector) {
    super(origin, {
      ...options,
      connect: (target, callback) => {
        connect(target, (...result) => {
          if (result[0] === null) {
            this.#socket = result[1];
            this.served = 0;
          }
          callback(...result);
        });
      },
    });
  }

  override dispatch(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    if (handler instanceof Forward) handler.assign(this);
    return super.dispatch(options, handler);
  }

  /**
   * With a reset, since some servers take an orderly end in the middle of a body for the body's end and
   * store what they have (versitygw 1.8 does, without a checksum or hash to tell it). TLS says by itself
   * that a stream was cut.
   */
  cut(reason: Error): void {
    const socket = this.#socket;
    if (socket === null) return;
    // What node:net itself sets to reset: its resetAndDestroy() first waits until all is written, and ends
    // in order before it resets.
    if (!(socket instanceof TLSSocket)) Object.assign(socket, { resetAndClosing: true });
    socket.destroy(reason);
  }
}

export class Endpoint {
  /** `host` or `host:port` when the port is not the scheme's default: the Host field. */
  readonly authority: string;
  readonly url: string;
  /** An answer of it told what kind of server it is. */
  isKnown = false;
  readonly #servername: string | null;
  readonly #pool: Pool;
  readonly #connections = new Set<PooledConnection>();
  #inFlight = 0;
  #pauseMs = 0;
  #pausedUntilMs = 0;

  constructor(url: string, tls: EndpointTls, limits: EndpointLimits) {
    const parsed = new URL(url);
    this.url = parsed.origin;
    this.authority = parsed.host;
    const named = parsed.protocol === "https:" && isIP(bare(parsed.hostname)) === 0;
    this.#servername = named ? parsed.hostname : null;
    const options: Client.Options = {
      pipelining: 1,
      headersTimeout: limits.headersTimeoutMs,
      bodyTimeout: limits.bodyIdleTimeoutMs,
      keepAliveTimeout: limits.keepAliveMs,
      keepAliveMaxTimeout: limits.keepAliveMs,
      maxHeaderSize: maxHeadBytes,
    };
    const connect = buildConnector({
      ...(tls.caPem === null ? {} : { ca: tls.caPem }),
      rejectUnauthorized: !tls.insecureSkipVerify,
      timeout: limits.connectTimeoutMs,
    });
    this.#pool = new Pool(parsed.origin, {
      ...options,
      connections: limits.maxSockets,
      factory: (origin) => {
        for (const one of this.#connections) if (one.destroyed) this.#connections.delete(one);
        const connection = new PooledConnection(origin, options, connect);
        this.#connections.add(connection);
        return connection;
      },
    });
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Whether it refused a connection a moment ago. */
  pausedAt(nowMs: number): boolean {
    return nowMs < this.#pausedUntilMs;
  }

  /** It refused a connection: pass it over for a while, twice as long each time. */
  pause(nowMs: number): void {
    if (this.pausedAt(nowMs)) return;
    this.#pauseMs = Math.min(longestPauseMs, Math.max(firstPauseMs, this.#pauseMs * 2));
    this.#pausedUntilMs = nowMs + this.#pauseMs;
  }

  /** Sends one attempt. @throws AttemptFailure */
  async send(options: Omit<ForwardOptions, "servername">): Promise<UpstreamResponse> {
    this.#inFlight += 1;
    const response = await Forward.send(this.#pool, {
      ...options,
      // Without a Host field of its own, undici takes the name from the endpoint.
      servername: options.head.host === null ? null : this.#servername,
      onEnd: (outcome) => {
        this.#inFlight -= 1;
        options.onEnd(outcome);
      },
    });
    this.#pauseMs = 0;
    this.#pausedUntilMs = 0;
    return response;
  }

  statistics(): EndpointStatistics {
    const { connected, queued } = this.#pool.stats;
    return { inFlight: this.#inFlight, sockets: connected, queued };
  }

  /** Closes every connection now; exchanges under way fail. */
  async close(): Promise<void> {
    for (const connection of this.#connections) connection.cut(new Error("Headgate stops"));
    await this.#pool.destroy();
  }

  /** Closes connections as their exchanges end. */
  retire(): void {
    this.#pool.close().then(undefined, () => undefined);
  }
}

function bare(hostname: string): string {
  return hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
}
