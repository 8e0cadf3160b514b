// How the etcd client is set up, and why each figure: etcd3 1.1.2 on grpc-js. Retries inside etcd3
// are off: its default repeats a transaction whose answer was lost, which turns a success into a
// conflict. Endpoints that failed are left alone for a while if another one may be tried.

import { rootCertificates } from "node:tls";
import type { IOptions } from "etcd3";
import { isRecoverableError } from "etcd3";

/** What the operator configures under `state.etcd`. */
export interface EtcdOptions {
  /** `http://127.0.0.1:2379`; all `http` or all `https`. */
  readonly endpoints: readonly string[];
  readonly username: string | null;
  readonly password: string | null;
  /** PEM texts. `ca: null`: Node's own root certificates; `null`: these too, or plain HTTP. */
  readonly tls: {
    readonly ca: string | null;
    readonly cert: string | null;
    readonly key: string | null;
  } | null;
  /** Limit to connect, default 3000. */
  readonly dialTimeoutMs: number;
  /** Pause before an endpoint that failed is dialled again, default 300. */
  readonly dialRetryMs: number;
  /** Limit of one call, default 5000. Shortened by tests. */
  readonly callTimeoutMs?: number;
}

type HostPolicy = ReturnType<NonNullable<NonNullable<IOptions["faultHandling"]>["host"]>>;

/** Longer than a reconnect, shorter than an operator's patience. */
const endpointPauseMs = 2000;
const neverFires = (): { dispose(): void } => ({ dispose: () => undefined });

/** An error thrown instead of a call: etcd3 then tries the next endpoint. */
class EndpointPaused extends Error {}

class Endpoints {
  readonly #pausedUntilMs = new Map<string, number>();
  readonly #count: number;

  constructor(count: number) {
    this.#count = count;
  }

  policy(endpoint: string): HostPolicy {
    return {
      get _altReturn(): never {
        throw new Error("never read");
      },
      onSuccess: neverFires,
      onFailure: neverFires,
      execute: async (call) => {
        if (this.#isPaused(endpoint)) throw new EndpointPaused(endpoint);
        try {
          const result = await call({ signal: new AbortController().signal });
          this.#pausedUntilMs.delete(endpoint);
          return result;
        } catch (error) {
          if (error instanceof Error && isRecoverableError(error)) {
            this.#pausedUntilMs.set(endpoint, performance.now() + endpointPauseMs);
          }
          throw error;
        }
      },
    };
  }

  /** With all paused, none is: trying beats refusing. */
  #isPaused(endpoint: string): boolean {
    const nowMs = performance.now();
    const paused = [...this.#pausedUntilMs].filter(([, untilMs]) => untilMs > nowMs);
    return paused.length < this.#count && paused.some(([one]) => one === endpoint);
  }
}

/** grpc-js's words for a call that never left: the one failure that is safe to repeat elsewhere. */
const unsentText = "No connection established";

/** Repeats unsent calls on the other endpoints, and nothing else. */
function acrossEndpoints(count: number): HostPolicy {
  return {
    get _altReturn(): never {
      throw new Error("never read");
    },
    onSuccess: neverFires,
    onFailure: neverFires,
    execute: async (call) => {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await call({ signal: new AbortController().signal });
        } catch (error) {
          const isUnsent = error instanceof Error && error.message.includes(unsentText);
          if (!isUnsent || attempt >= count) throw error;
        }
      }
    },
  };
}

/** Options for etcd3's client. */
export function etcdClientOptions(options: EtcdOptions): IOptions {
  const endpoints = new Endpoints(options.endpoints.length);
  const { tls, username, password } = options;
  return {
    hosts: [...options.endpoints],
    faultHandling: {
      host: (endpoint) => endpoints.policy(endpoint),
      global: acrossEndpoints(options.endpoints.length),
    },
    grpcOptions: {
      // Stalls are noticed by the watch's own heartbeat (etcd-watch.ts). HTTP/2 pings back it up;
      // etcd cuts a connection that pings more often than its grpc-keepalive-min-time of 5 s (seen
      // with 2 s: "excess pings" and RESOURCE_EXHAUSTED after 8 s of idle watch).
      "grpc.keepalive_time_ms": 10_000,
      "grpc.keepalive_timeout_ms": 2000,
      "grpc.keepalive_permit_without_calls": 0,
      // After an outage grpc-js otherwise comes back up to 16.8 s late (performance.md).
      "grpc.initial_reconnect_backoff_ms": options.dialRetryMs,
      "grpc.min_reconnect_backoff_ms": options.dialRetryMs,
      "grpc.max_reconnect_backoff_ms": Math.max(1000, options.dialRetryMs),
      "grpc.client_idle_timeout_ms": 600_000,
      // A page of 5000 values may pass grpc-js's default of 4 MiB; etcd itself sends any size.
      "grpc.max_receive_message_length": 256 * 1024 * 1024,
      "grpc.max_send_message_length": 16 * 1024 * 1024,
    },
    defaultCallOptions: (context) =>
      context.isStream ? {} : { deadline: Date.now() + (options.callTimeoutMs ?? 5000) },
    ...(tls === null
      ? {}
      : {
          credentials: {
            // etcd3 wants roots beside a client certificate.
            rootCertificate: Buffer.from(tls.ca ?? rootCertificates.join("\n")),
            ...(tls.key === null || tls.cert === null
              ? {}
              : { privateKey: Buffer.from(tls.key), certChain: Buffer.from(tls.cert) }),
          },
        }),
    ...(username === null
      ? {}
      : {
          auth: {
            username,
            password: password ?? "",
            callOptions: () => ({ deadline: Date.now() + options.dialTimeoutMs }),
          },
        }),
  };
}
