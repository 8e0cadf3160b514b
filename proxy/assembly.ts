// From a Config to running parts, in order, stopped in the opposite order; half a start is undone.
// The only file but main.ts that knows every part. It holds no rule of its own and reads neither
// clock nor environment: the outside world comes in as a System.

import type { OpenState } from "../bridge/open-state.ts";
import { openState } from "../bridge/open-state.ts";
import { Metrics } from "./admin/metrics.ts";
import { openAdmin } from "./assembly-admin.ts";
import {
  callerKeys,
  type OpenCredentials,
  openClusterKeys,
  openCredentials,
} from "./assembly-credentials.ts";
import {
  clusterFacts,
  clusterRecord,
  passthroughTo,
  stateDriver,
  upstreamCluster,
} from "./assembly-options.ts";
import type { Config } from "./config.ts";
import { openChecksums } from "./gateway/checksums.ts";
import { Gateway } from "./gateway/exchange.ts";
import { ExplanationBudget } from "./gateway/explanation-budget.ts";
import { TrustedProxies } from "./gateway/forwarded.ts";
import { handleKeysWhenKnown } from "./gateway/handle-keys.ts";
import type { Listener } from "./gateway/listener.ts";
import { openListener } from "./gateway/listener.ts";
import { requestIds } from "./gateway/request-ids.ts";
import { registryOverViews, Views } from "./gateway/views.ts";
import type { OperationPorts } from "./operations/context.ts";
import { Discovery } from "./operations/discovery.ts";
import { FramingProof } from "./operations/framing-proof.ts";
import { ListRoom } from "./operations/list-room.ts";
import { PartSizes } from "./operations/part-sizes.ts";
import { Resettler } from "./operations/resettle.ts";
import { ShownSettings } from "./operations/shown-settings.ts";
import { Unfinished } from "./operations/unfinished.ts";
import type { ClusterFacts } from "./placement/cluster-facts.ts";
import type { Clock, Log, Timers, Upstream } from "./placement/ports.ts";
import type { PlacementSnapshot } from "./placement/snapshot.ts";
import { readBundle } from "./policy/bundle-file.ts";
import { policyData } from "./policy/data.ts";
import { buildEngine } from "./policy/engine.ts";
import { AuthorizationCache } from "./s3/authorization.ts";
import type { BeginChecksum } from "./s3/checksum.ts";
import type { ClusterId } from "./s3/names.ts";
import { SigningKeys } from "./s3/sigv4.ts";
import type { StartOptions } from "./system.ts";
import { createUpstream } from "./upstream/upstream.ts";

/** Decisions wait this long for further changes before an engine is built. */
const coalesceMs = 20;
/** Signing keys of client credentials: one per key id and day, bounded against made-up regions. */
const clientSigningKeys = 10_000;
/** A refused signature is explained this often; beyond it the answer is the plain one. */
const explanationsPerSecond = 20;
/** How long a dead member may still act, beyond its own fence (placement.md rule 4). */
const quarantineMs = 120_000;

export interface Headgate {
  /** `http://127.0.0.1:9000`. */
  readonly s3Url: string;
  /** Null: no admin listener. */
  readonly adminUrl: string | null;
  /** Not ready any more, but still serving: what comes before `close` in an orderly stop. */
  stopAccepting(): void;
  /** Lets requests in flight end for at most `graceMs`. */
  close(graceMs: number): Promise<void>;
}

/** Starts all parts. @throws FaultError when one cannot start; what had started is stopped. */
export async function startHeadgate(config: Config, options: StartOptions): Promise<Headgate> {
  const started: (() => Promise<void> | void)[] = [];
  try {
    return await startParts(config, options, started);
  } catch (caught) {
    await stopAll(started);
    throw caught;
  }
}

async function stopAll(started: (() => Promise<void> | void)[]): Promise<void> {
  for (const stop of started.splice(0).reverse()) await stop();
}

async function startParts(
  config: Config,
  options: StartOptions,
  started: (() => Promise<void> | void)[],
): Promise<Headgate> {
  const { log, signal, version, system } = options;
  const { clock, random } = system;
  const meter = new Metrics({
    clock,
    version,
    nodeVersion: system.nodeVersion,
    processMetrics: true,
  });
  for (const { id, tls } of config.clusters) meter.upstreamTls(id, tls.insecureSkipVerify);
  const bundle = await readBundle(config.policy.bundlePath ?? system.defaultBundle);
  const credentials = openCredentials(config, {
    ...system,
    log,
    meter,
    // Both come later and are asked only by requests.
    askAdmin: (cluster, question, ended) => pools.askAdmin(cluster, question, ended),
    clusterKeys: (cluster) => pools.clusterKeys(cluster),
    snapshots: { current: () => state.snapshots.current() },
  });
  started.push(() => credentials.close());
  const facts = clusterFacts(config, {
    current: () => state.snapshots.current(),
    meter,
    log,
  });
  const renewing = openClusterKeys(config, { ...system, log }, meter);
  started.push(() => {
    for (const keys of renewing.values()) keys.close();
  });
  const pools = createUpstream({
    clusters: config.clusters.map((cluster) => upstreamCluster(cluster, null)),
    clock,
    meter,
    limits: {
      maxSockets: config.upstream.maxSocketsPerEndpoint,
      connectTimeoutMs: config.upstream.connectTimeoutMs,
      headersTimeoutMs: config.upstream.responseHeaderTimeoutMs,
      bodyIdleTimeoutMs: config.upstream.bodyIdleTimeoutMs,
      keepAliveMs: config.upstream.keepaliveMs,
    },
    maxAttempts: config.upstream.maxAttempts,
    callerKeys: callerKeys(credentials.source),
    renewing,
    lookAt: (cluster, answer) => facts.note(cluster, answer),
  });
  started.push(() => pools.close());
  const state = await openState(
    {
      store: stateDriver(config),
      prefix: config.state.driver === "etcd" ? config.state.prefix : "/headgate/v1/",
      member: { nodeId: config.nodeId, version, ...config.member },
      clock,
      random,
      log,
      meter,
    },
    signal,
  );
  started.push(() => state.close());
  await seed(config, state, options);
  const reach = (placement: PlacementSnapshot): void => {
    pools.configure(config.clusters.map((cluster) => upstreamCluster(cluster, placement)));
  };
  reach(state.snapshots.current());
  started.push(
    state.snapshots.subscribe((next, last) => {
      if (next.clusters !== last?.clusters) reach(next);
    }),
  );
  const views = await Views.open({
    snapshots: state.snapshots,
    buildEngine: (placement) =>
      buildEngine(bundle, policyData(placement), {
        measure: { clock, meter },
        memoEntries: config.policy.memoMaxEntries,
      }),
    timers: system.timers,
    log,
    coalesceMs,
  });
  started.push(() => views.close());
  const unfinished = new Unfinished({ clock, timers: system.timers, log });
  started.push(() => unfinished.close());
  const ports = operationPorts({
    config,
    unfinished,
    state,
    facts,
    views,
    meter,
    log,
    upstream: pools.upstream,
    clock,
    timers: system.timers,
    beginChecksum: await openChecksums(),
    signal,
  });
  const discovery = new Discovery();
  const s3 = await openS3(config, { ports, views, meter, options, credentials, discovery });
  started.push(() => s3.close(0));
  const lifecycle = { accepting: true };
  const admin = await openAdmin(config, {
    ports,
    state,
    views,
    meter,
    options,
    credentials,
    discovery,
    pools,
    facts,
    lifecycle,
  });
  if (admin !== null) started.push(() => admin.close());
  log.write("info", "headgate.started", { s3: s3.url, admin: admin?.url ?? null, version });
  return {
    s3Url: s3.url,
    adminUrl: admin?.url ?? null,
    stopAccepting() {
      lifecycle.accepting = false;
    },
    async close(graceMs) {
      await s3.close(graceMs);
      await stopAll(started);
    },
  };
}

/** Records for what the configuration names and the store does not know yet. */
async function seed(config: Config, state: OpenState, options: StartOptions): Promise<void> {
  const run = async (): Promise<void> => {
    await state.seedClusters(config.clusters.map(clusterRecord), options.signal);
    for (const [storageClass, cluster] of config.classes) {
      if (state.snapshots.current().classes.has(storageClass)) continue;
      const change = { kind: "class", storageClass, expected: 0n, cluster } as const;
      const audit = {
        action: "system:SeedClass",
        resource: storageClass,
        actor: { kind: "system", name: "configuration", remoteAddress: null },
        requestId: "",
        detail: `pinned to ${cluster}`,
      } as const;
      // A conflict means that another member was first.
      await state.registry.commit([change], audit);
    }
  };
  if (state.snapshots.current().origin === "live") return await run();
  run().catch((error: unknown) => {
    options.log.write("warn", "state.not_seeded", { error: String(error) });
  });
}

interface PortParts {
  readonly config: Config;
  readonly unfinished: Unfinished;
  readonly state: OpenState;
  readonly facts: ClusterFacts;
  readonly views: Views;
  readonly meter: Metrics;
  readonly log: Log;
  readonly upstream: Upstream;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly beginChecksum: BeginChecksum;
  readonly signal: AbortSignal;
}

function operationPorts(parts: PortParts): OperationPorts {
  const { config, state, facts, views, meter, log, upstream, clock, timers } = parts;
  const { fenceAfterMs } = config.member;
  const deadAfterMs =
    fenceAfterMs === null ? Number.POSITIVE_INFINITY : fenceAfterMs + quarantineMs;
  const keys = handleKeysWhenKnown({
    configured: config.handleKeys,
    load: (signal) => state.handleKeys(signal),
    clock,
    log,
    signal: parts.signal,
  });
  const identities = new Map(config.clusters.map(({ id, identity }) => [id, identity]));
  const clusterOf = (id: ClusterId) => state.snapshots.current().clusters.get(id)?.value;
  return {
    upstream,
    snapshots: state.snapshots,
    registry: registryOverViews(state.registry, views),
    membership: state.membership,
    resettler: new Resettler({ clock, deadAfterMs }),
    facts: (id) => facts.of(id),
    isShown: (id) => facts.isShown(id),
    isRgw: (id) => facts.isRgw(id),
    framing: new FramingProof({
      isShown: (id) => facts.framingIsShown(id),
      note: (id, takesTrailers) => facts.noteFraming(id, takesTrailers),
    }),
    shownSettings: new ShownSettings(),
    beginChecksum: parts.beginChecksum,
    identity: (id) => identities.get(id) ?? "service",
    region: (id) => clusterOf(id)?.region ?? "us-east-1",
    bucketLocation: config.buckets.location,
    get handleKeys() {
      return keys();
    },
    partSizes: new PartSizes(),
    listRoom: new ListRoom(timers),
    unfinished: parts.unfinished,
    clock,
    timers,
    quarantineMs,
    meter,
    log,
  };
}

interface ServingParts {
  readonly ports: OperationPorts;
  readonly views: Views;
  readonly meter: Metrics;
  readonly options: StartOptions;
  readonly credentials: OpenCredentials;
  readonly discovery: Discovery;
}

async function openS3(config: Config, parts: ServingParts): Promise<Listener> {
  const { ports, views, meter, options } = parts;
  const { listen, auth } = config;
  const { system } = options;
  const requestId = requestIds(system.random);
  const gateway = new Gateway({
    views,
    ports,
    discovery: parts.discovery,
    authentication: {
      credentials: parts.credentials.source,
      keys: new SigningKeys(clientSigningKeys),
      cache: new AuthorizationCache(),
      explanations: new ExplanationBudget(explanationsPerSecond),
      regions: listen.regions ?? [],
      baseDomains: listen.baseDomains,
      sigv2: auth.sigv2,
      requireContentSha256: auth.requireContentSha256,
      limits: {
        maxSkewMs: auth.clockSkewMs,
        maxPresignSeconds: Math.floor(auth.presignMaxAgeMs / 1000),
      },
    },
    baseDomains: listen.baseDomains,
    passthrough: passthroughTo(config, ports.snapshots),
    trustedProxies: new TrustedProxies(listen.trustedProxies),
    rewrittenFields: listen.rewrittenFields,
    secure: listen.tls !== null,
    bodyIdleMs: listen.bodyIdleTimeoutMs,
    headerTimeoutMs: listen.headerTimeoutMs,
    beginChecksum: ports.beginChecksum,
    maxInFlight: listen.maxInFlight,
    uploads: {
      ...listen.uploads,
      presignedQueryChecksums: auth.presignedQueryChecksums,
    },
    clock: system.clock,
    timers: system.timers,
    requestId,
    meter,
    log: options.log,
    accessLog: options.accessLog,
  });
  return await openListener({
    ...listen.address,
    maxHeaderBytes: listen.maxHeaderBytes,
    headerTimeoutMs: listen.headerTimeoutMs,
    keepAliveMs: listen.idleTimeoutMs,
    maxConnections: listen.maxConnections,
    tls: listen.tls,
    exchange: (request, response, waits) => gateway.exchange(request, response, waits),
    refused: (error, remoteAddress) => gateway.refused(error, remoteAddress),
    createServer: system.createServer,
    timers: system.timers,
    log: options.log,
  });
}
