// The clusters as this process can reach them: which endpoint takes a request, and what is sent once
// more when it failed. Knows no placement rule and changes no answer: 3xx, 4xx and 5xx are handed up as
// they came. A retry goes to an endpoint of the same cluster only (retry.ts).

import {
  type CancelSignal,
  type Clock,
  type ClusterIdentity,
  type Meter,
  serviceIdentity,
  type Upstream,
  UpstreamError,
  type UpstreamIdentity,
  type UpstreamRequest,
  type UpstreamResponse,
} from "../placement/ports.ts";
import type { ClusterId } from "../s3/names.ts";
import { noTenant, parseBucketName, parseObjectKey } from "../s3/names.ts";
import { formatAmzDate, type SigningCredentials, SigningKeys } from "../s3/sigv4.ts";
import type { AskAdmin } from "./admin-ops.ts";
import { type CallerKeys, callerCredentials, isCallers, ownTenantOf } from "./caller-keys.ts";
import type { RenewingKeys } from "./cluster-keys.ts";
import { AttemptFailure } from "./forward.ts";
import {
  Endpoint,
  type EndpointLimits,
  type EndpointStatistics,
  type EndpointTls,
} from "./pool.ts";
import { drainEmptyBody } from "./request-body.ts";
import { type Dialect, resign } from "./resign.ts";
import { type FailedAttempt, mayRetry } from "./retry.ts";

export interface UpstreamCluster extends Dialect {
  readonly id: ClusterId;
  /** Whose keys sign callers' requests. */
  readonly identity: ClusterIdentity;
  /** Its own keys; `null`: what they would sign cannot be sent. */
  readonly credentials: SigningCredentials | null;
  /** Base URLs, `http://10.0.0.1:7480`; a path in them has no meaning. */
  readonly endpoints: readonly string[];
  readonly tls: EndpointTls;
}

export interface UpstreamOptions {
  readonly clusters: readonly UpstreamCluster[];
  readonly clock: Pick<Clock, "nowMs" | "monotonicMs">;
  readonly meter: Pick<Meter, "upstreamEnded" | "upstreamRetried">;
  /** Per endpoint. */
  readonly limits: EndpointLimits;
  /** Attempts of a request in all, 1 for no retry. */
  readonly maxAttempts: number;
  readonly callerKeys: CallerKeys;
  /** Keys of clusters that may change while this runs: they sign in place of `credentials`. */
  readonly renewing?: ReadonlyMap<ClusterId, RenewingKeys>;
  /**
   * Looks at an answer for what kind of server it is from. True: it told, and no further answer of the
   * endpoint need be looked at. Absent: nobody wants to know.
   */
  readonly lookAt?: (cluster: ClusterId, answer: UpstreamResponse) => boolean;
}

interface UpstreamStatistics extends EndpointStatistics {
  readonly cluster: ClusterId;
  /** `http://10.0.0.1:7480`. */
  readonly endpoint: string;
}

/** The adapter and its life. */
export interface UpstreamPools {
  readonly upstream: Upstream;
  /** GET of an RGW's admin API; the metrics of S3 requests do not count it. */
  readonly askAdmin: AskAdmin;
  /** The keys of a cluster that sign now; null: it has none here. */
  readonly clusterKeys: (cluster: ClusterId) => SigningCredentials | null;
  /** Replaces the clusters; connections to endpoints that stay are kept. */
  configure(clusters: readonly UpstreamCluster[]): void;
  /** One row per endpoint. */
  statistics(): readonly UpstreamStatistics[];
  /** Closes every connection; exchanges under way fail. */
  close(): Promise<void>;
}

/** Signing keys kept: one per cluster, or caller and region, and day. */
const signingKeysKept = 10_000;

export function createUpstream(options: UpstreamOptions): UpstreamPools {
  return new Pools(options);
}

interface Target {
  readonly cluster: UpstreamCluster;
  readonly endpoints: readonly Endpoint[];
}

interface Exchange {
  readonly request: UpstreamRequest;
  readonly credentials: SigningCredentials | null;
  readonly signal: CancelSignal;
  /** Whether it is an S3 request, for the metrics. */
  readonly counted: boolean;
}

class Pools implements UpstreamPools, Upstream {
  readonly upstream: Upstream = this;
  readonly #options: UpstreamOptions;
  readonly #keys = new SigningKeys(signingKeysKept);
  #targets: ReadonlyMap<ClusterId, Target> = new Map();
  #signedSecond = -1;
  #amzDate = "";
  #turn = 0;

  constructor(options: UpstreamOptions) {
    this.#options = options;
    this.configure(options.clusters);
  }

  configure(clusters: readonly UpstreamCluster[]): void {
    const last = this.#targets;
    const next = new Map<ClusterId, Target>();
    const kept = new Set<Endpoint>();
    for (const cluster of clusters) {
      const before = last.get(cluster.id);
      const endpoints = cluster.endpoints.map((url) => {
        const same = before !== undefined && sameTls(before.cluster.tls, cluster.tls);
        const old = same
          ? before.endpoints.find((one) => one.url === new URL(url).origin)
          : undefined;
        return old ?? new Endpoint(url, cluster.tls, this.#options.limits);
      });
      for (const endpoint of endpoints) kept.add(endpoint);
      next.set(cluster.id, { cluster, endpoints });
    }
    this.#targets = next;
    for (const { endpoints } of last.values()) {
      for (const endpoint of endpoints) if (!kept.has(endpoint)) endpoint.retire();
    }
  }

  async send(
    clusterId: ClusterId,
    request: UpstreamRequest,
    signal: CancelSignal,
  ): Promise<UpstreamResponse> {
    const target = this.#reachable(clusterId);
    const signing = this.#signing(target.cluster, request.identity);
    const credentials = signing instanceof Promise ? await signing : signing;
    const exchange = { request, credentials, signal, counted: true };
    const response = await this.#exchange(target, exchange);
    const { status } = response;
    // AWS refuses keys with 400 and 403, an RGW with 403; to HEAD with nothing else.
    return status === 403 || status === 400
      ? await this.#renewed(target, exchange, response)
      : response;
  }

  readonly clusterKeys = (cluster: ClusterId): SigningCredentials | null =>
    this.#options.renewing?.get(cluster)?.current() ??
    this.#targets.get(cluster)?.cluster.credentials ??
    null;

  /**
   * The answer to the same request once more, if the keys that signed it were exchanged: the cluster may
   * have refused the old ones. Without others, or where the body is gone, what it answered.
   */
  async #renewed(
    target: Target,
    exchange: Exchange,
    response: UpstreamResponse,
  ): Promise<UpstreamResponse> {
    const { request, credentials } = exchange;
    const { id } = target.cluster;
    const renewing = this.#options.renewing?.get(id);
    // A caller's own keys are not ours to renew.
    if (
      renewing === undefined ||
      credentials === null ||
      isCallers(target.cluster, request.identity)
    ) {
      return response;
    }
    const renewed = await renewing.renew(credentials);
    if (renewed === null || request.body?.kind === "stream") return response;
    response.body.cancel();
    const again = await this.#exchange(target, { ...exchange, credentials: renewed });
    this.#options.meter.upstreamRetried(id, again.status < 400 ? "ok" : "failed");
    return again;
  }

  readonly askAdmin: AskAdmin = async (clusterId, question, signal) => {
    const target = this.#reachable(clusterId);
    const request: UpstreamRequest = {
      operation: "GetObject",
      method: "GET",
      tenant: noTenant,
      bucket: parseBucketName("admin"),
      key: parseObjectKey(question.resource),
      query: question.query,
      headers: [],
      body: null,
      payloadSha256: null,
      identity: serviceIdentity,
    };
    // The admin API stands at a path, whatever the addressing of buckets is.
    const cluster: UpstreamCluster = { ...target.cluster, addressing: "path" };
    const credentials = { sessionToken: null, ...question.keys };
    return await this.#exchange(
      { ...target, cluster },
      { request, credentials, signal, counted: false },
    );
  };

  async #exchange(target: Target, exchange: Exchange): Promise<UpstreamResponse> {
    const { request } = exchange;
    const { id: clusterId } = target.cluster;
    const { body } = request;
    if (body?.kind === "stream" && body.lengthBytes === 0)
      await this.#drain(clusterId, body.chunks);
    const startedMs = this.#options.clock.monotonicMs();
    const tried: Endpoint[] = [];
    for (;;) {
      const endpoint = this.#pick(target, tried);
      tried.push(endpoint);
      try {
        const response = await this.#attempt(endpoint, target.cluster, { ...exchange, startedMs });
        if (tried.length > 1) this.#options.meter.upstreamRetried(clusterId, "ok");
        this.#lookAt(endpoint, clusterId, response);
        return response;
      } catch (caught) {
        if (!(caught instanceof AttemptFailure)) throw caught;
        const { attempt } = caught;
        this.#noteRefused(endpoint, attempt);
        if (tried.length < this.#options.maxAttempts && mayRetry(request.method, attempt)) continue;
        if (tried.length > 1) this.#options.meter.upstreamRetried(clusterId, "failed");
        throw attempt.error;
      }
    }
  }

  #lookAt(endpoint: Endpoint, cluster: ClusterId, response: UpstreamResponse): void {
    if (endpoint.isKnown) return;
    endpoint.isKnown = this.#options.lookAt?.(cluster, response) ?? true;
  }

  #noteRefused(endpoint: Endpoint, { error, unsendable }: FailedAttempt): void {
    if (error.phase === "connect" && !unsendable) {
      endpoint.pause(this.#options.clock.monotonicMs());
    }
  }

  statistics(): readonly UpstreamStatistics[] {
    return [...this.#targets.values()].flatMap(({ cluster, endpoints }) =>
      endpoints.map((endpoint) => ({
        cluster: cluster.id,
        endpoint: endpoint.url,
        ...endpoint.statistics(),
      })),
    );
  }

  async close(): Promise<void> {
    const endpoints = [...this.#targets.values()].flatMap((target) => target.endpoints);
    this.#targets = new Map();
    await Promise.all(endpoints.map((endpoint) => endpoint.close()));
  }

  #reachable(id: ClusterId): Target {
    const target = this.#targets.get(id);
    if (target === undefined || target.endpoints.length === 0) {
      throw unreachable(id, "it is not configured here");
    }
    return target;
  }

  /**
   * Whose keys sign. A caller without keys of its own on a cluster that wants them is refused: it must
   * never act there as somebody else.
   * @throws S3Error AccessDenied for it; UpstreamError where the cluster's own keys are wanted and
   * there are none.
   */
  #signing(
    cluster: UpstreamCluster,
    identity: UpstreamIdentity,
  ): SigningCredentials | null | Promise<SigningCredentials> {
    if (identity.kind === "anonymous") return null;
    if (!isCallers(cluster, identity)) {
      const keys = this.clusterKeys(cluster.id);
      if (keys !== null) return keys;
      throw unreachable(cluster.id, "it has no credentials here");
    }
    const pairs = this.#options.callerKeys(identity.accessKeyId);
    return pairs instanceof Promise
      ? pairs.then((found) => callerCredentials(cluster, found))
      : callerCredentials(cluster, pairs);
  }

  /** The bytes of a body announced as empty are not sent, but its source may still refuse. */
  async #drain(id: ClusterId, chunks: AsyncIterable<Uint8Array>): Promise<void> {
    try {
      await drainEmptyBody(chunks);
    } catch (cause) {
      throw new UpstreamError("request_body", id, { cause });
    }
  }

  #attempt(
    endpoint: Endpoint,
    cluster: UpstreamCluster,
    exchange: Exchange & { readonly startedMs: number },
  ): Promise<UpstreamResponse> {
    const { request, credentials, signal, startedMs } = exchange;
    const { clock, meter } = this.#options;
    const head = resign(request, cluster, {
      secure: endpoint.url.startsWith("https:"),
      authority: endpoint.authority,
      amzDate: this.#now(),
      keys: this.#keys,
      credentials,
      ownTenant: ownTenantOf(cluster, request.identity),
    });
    return endpoint.send({
      cluster: cluster.id,
      request,
      head,
      signal,
      onEnd: ({ status }) => {
        if (!exchange.counted) return;
        meter.upstreamEnded({
          cluster: cluster.id,
          operation: request.operation,
          status,
          durationSeconds: (clock.monotonicMs() - startedMs) / 1000,
        });
      },
    });
  }

  /** The least busy endpoint that was not tried and did not just refuse; in turn among equals. */
  #pick(target: Target, tried: readonly Endpoint[]): Endpoint {
    const { endpoints } = target;
    const [only] = endpoints;
    if (only !== undefined && endpoints.length === 1) return only;
    const nowMs = this.#options.clock.monotonicMs();
    this.#turn = (this.#turn + 1) % 0x7fff_ffff;
    let best: Endpoint | null = null;
    let bestRank = Number.POSITIVE_INFINITY;
    for (let step = 0; step < endpoints.length; step += 1) {
      const endpoint = endpoints[(this.#turn + step) % endpoints.length];
      if (endpoint === undefined) continue;
      const passedOver = (tried.includes(endpoint) ? 2 : 0) + (endpoint.pausedAt(nowMs) ? 1 : 0);
      const rank = passedOver * 0x1_0000_0000 + endpoint.inFlight;
      if (rank < bestRank) {
        best = endpoint;
        bestRank = rank;
      }
    }
    if (best === null) throw unreachable(target.cluster.id, "it has no endpoints");
    return best;
  }

  #now(): string {
    const nowMs = this.#options.clock.nowMs();
    const second = Math.floor(nowMs / 1000);
    if (second !== this.#signedSecond) {
      this.#signedSecond = second;
      this.#amzDate = formatAmzDate(nowMs);
    }
    return this.#amzDate;
  }
}

function sameTls(left: EndpointTls, right: EndpointTls): boolean {
  return left.caPem === right.caPem && left.insecureSkipVerify === right.insecureSkipVerify;
}

function unreachable(id: ClusterId, state: string): UpstreamError {
  return new UpstreamError("connect", id, {
    message: `Cannot reach cluster "${id}": it is unreachable here, ${state}`,
  });
}
