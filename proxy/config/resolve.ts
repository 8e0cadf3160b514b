// From settings in the file's spelling to the frozen `Config` that main maps to its parts: reads the
// files that settings name and checks what one setting means for another.

import type { HeaderList } from "../s3/headers.ts";
import type { IpNetwork } from "../s3/ip-network.ts";
import { type ClusterId, parseClusterId } from "../s3/names.ts";
import type { Checks } from "./checks.ts";
import { type ClusterConfig, clustersConfig } from "./clusters.ts";
import { type CredentialSourceConfig, credentialSources } from "./credential-sources.ts";
import { type KeyFile, keyFile } from "./key-files.ts";
import { type PassthroughConfig, passthroughConfig } from "./passthrough.ts";
import type { Settings } from "./schema.ts";
import { type ServerTlsConfig, serverTls } from "./server-tls.ts";
import type { SettingPath } from "./source-file.ts";
import { type StateConfig, stateConfig } from "./state.ts";
import { isLoopbackHost, type ListenAddress } from "./values.ts";

/** What a real run is configured with. Durations in ms, sizes in bytes, files already read. */
export interface Config {
  readonly nodeId: string;
  readonly listen: ListenConfig;
  /** Null: no admin listener. */
  readonly admin: AdminConfig | null;
  readonly shutdown: { readonly delayMs: number; readonly drainTimeoutMs: number };
  readonly auth: {
    readonly clockSkewMs: number;
    readonly presignMaxAgeMs: number;
    readonly sigv2: boolean;
    readonly requireContentSha256: boolean;
    readonly presignedQueryChecksums: "ignore" | "verify";
    /** In order. */
    readonly sources: readonly CredentialSourceConfig[];
  };
  readonly clusters: readonly ClusterConfig[];
  readonly upstream: UpstreamConfig;
  readonly policy: {
    /** Null: the bundle that is built in. */
    readonly bundlePath: string | null;
    readonly memoMaxEntries: number;
  };
  /** What GetBucketLocation tells. */
  readonly buckets: { readonly location: "region" | "cluster" };
  /** Initial storage class pins. */
  readonly classes: ReadonlyMap<string, ClusterId>;
  /** 32 bytes each, the current first, up to two previous; null: kept in the state store. */
  readonly handleKeys: readonly Uint8Array[] | null;
  /** What seals client secrets in the state store; null: this process can read none of them. */
  readonly sealKeys: KeyFile | null;
  readonly member: {
    readonly leaseTtlSeconds: number;
    /** Null: never fenced. */
    readonly fenceAfterMs: number | null;
    readonly mode: "full" | "observer";
  };
  readonly state: StateConfig;
  /** Where the last good snapshot is persisted; null: nowhere. */
  readonly snapshotFile: string | null;
  /** Null: nothing but S3 is served. */
  readonly passthrough: PassthroughConfig | null;
  readonly accessLog: { readonly format: "json" | "off"; readonly path: string };
  readonly logLevel: "debug" | "info" | "warn" | "error";
}

interface ListenConfig {
  readonly address: ListenAddress;
  /** Lower-case, no leading dot. */
  readonly baseDomains: readonly string[];
  readonly trustedProxies: readonly IpNetwork[];
  /** What clients sign in fields that a hop in front rewrites. */
  readonly rewrittenFields: HeaderList;
  /** Accepted credential-scope regions; null: any. */
  readonly regions: readonly string[] | null;
  readonly maxHeaderBytes: number;
  readonly headerTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly bodyIdleTimeoutMs: number;
  readonly maxConnections: number;
  readonly maxInFlight: number;
  readonly uploads: {
    readonly minChunkBytes: number;
    readonly unknownChecksums: "pass" | "reject";
  };
  /** Null: plain HTTP. */
  readonly tls: ServerTlsConfig | null;
}

interface AdminConfig {
  readonly address: ListenAddress;
  /** Null: open on loopback, with its guards. */
  readonly token: string | null;
}

interface UpstreamConfig {
  readonly connectTimeoutMs: number;
  readonly responseHeaderTimeoutMs: number;
  readonly bodyIdleTimeoutMs: number;
  readonly maxSocketsPerEndpoint: number;
  readonly keepaliveMs: number;
  readonly maxAttempts: number;
}

export interface ResolveOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly hostname: string;
  /** When the configuration is read: certificates must be valid then. */
  readonly nowMs: number;
  /** Embedded clusters and the demo pair stand in for clusters and credentials. */
  readonly embedded: boolean;
  readonly readFile: (path: string) => string;
  /** Resolves a path written in the named file. */
  readonly resolveBeside: (file: string, path: string) => string;
}

/** Builds the Config; it is worth something only if `checks` stays without faults. */
export function resolveConfig(data: Settings, checks: Checks, options: ResolveOptions): Config {
  if (options.embedded) checkEmbedded(data, checks);
  return Object.freeze({
    nodeId: data.node_id === "" ? options.hostname : data.node_id,
    listen: listenConfig(data, checks, options),
    admin: adminConfig(data, checks),
    shutdown: { delayMs: data.shutdown.delay, drainTimeoutMs: data.shutdown.drain_timeout },
    auth: {
      clockSkewMs: data.auth.clock_skew,
      presignMaxAgeMs: data.auth.presign_max_age,
      sigv2: data.auth.sigv2 === "on",
      requireContentSha256: data.auth.require_content_sha256 === "on",
      presignedQueryChecksums: data.auth.presigned_query_checksums,
      sources: credentialSources(data, checks, options),
    },
    clusters: clustersConfig(data, checks, options),
    upstream: {
      connectTimeoutMs: data.upstream.connect_timeout,
      responseHeaderTimeoutMs: data.upstream.response_header_timeout,
      bodyIdleTimeoutMs: data.upstream.body_idle_timeout,
      maxSocketsPerEndpoint: data.upstream.max_sockets_per_endpoint,
      keepaliveMs: data.upstream.keepalive,
      maxAttempts: data.upstream.retries.max_attempts,
    },
    policy: {
      bundlePath: data.policy.bundle === "" ? null : data.policy.bundle,
      memoMaxEntries: data.policy.memo.max_entries,
    },
    buckets: { location: data.buckets.location },
    classes: classesConfig(data, checks, options),
    handleKeys: keyFile(data, "handle_key_file", checks),
    sealKeys: keyFile(data, "seal_key_file", checks),
    member: memberConfig(data, checks),
    state: stateConfig(data, checks),
    snapshotFile: data.state.snapshot_file === "" ? null : data.state.snapshot_file,
    passthrough: passthroughConfig(data, checks),
    accessLog: { format: data.access_log.format, path: data.access_log.path },
    logLevel: data.log.level,
  });
}

/** What `--embedded` brings itself; with the loopback rule, all that tells it from another run. */
function checkEmbedded(data: Settings, checks: Checks): void {
  for (const index of data.clusters.keys()) {
    checks.fault(
      ["clusters", index],
      "Flag --embedded brings its own clusters, take this one away",
    );
  }
  for (const index of data.auth.credentials.keys()) {
    checks.fault(
      ["auth", "credentials", index],
      "Flag --embedded brings its own client key, take this source away",
    );
  }
  if (data.state.driver !== "memory") {
    checks.fault(
      ["state", "driver"],
      `Flag --embedded keeps its state in memory, so driver "${data.state.driver}" cannot be used`,
    );
  }
}

function listenConfig(
  data: Settings,
  checks: Checks,
  { nowMs }: Pick<ResolveOptions, "nowMs">,
): ListenConfig {
  const { listen } = data;
  for (const [index, domain] of listen.base_domains.entries()) {
    if (!/^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/i.test(domain)) {
      checks.fault(["listen", "base_domains", index], `Domain "${domain}" is not a DNS name`);
    }
  }
  const regions = typeof listen.region === "string" ? listen.region.split(",") : listen.region;
  return {
    address: listen.address,
    baseDomains: listen.base_domains.map((domain) => domain.toLowerCase()),
    trustedProxies: listen.trusted_proxies,
    rewrittenFields: Object.entries(listen.rewritten_headers),
    regions: regions.includes("*") ? null : regions.map((region) => region.trim()),
    maxHeaderBytes: listen.max_header_bytes,
    headerTimeoutMs: listen.header_timeout,
    idleTimeoutMs: listen.idle_timeout,
    bodyIdleTimeoutMs: listen.body_idle_timeout,
    maxConnections: listen.max_connections,
    maxInFlight: listen.max_in_flight,
    uploads: {
      minChunkBytes: listen.min_chunk_size,
      unknownChecksums: listen.unknown_checksums,
    },
    tls: serverTls(listen.tls, ["listen", "tls"], { checks, nowMs }),
  };
}

function adminConfig(data: Settings, checks: Checks): AdminConfig | null {
  const { listen, admin } = data;
  const { address } = admin;
  if (address === null) return null;
  if (
    address.port !== 0 &&
    address.port === listen.address.port &&
    address.host === listen.address.host
  ) {
    checks.fault(["admin", "address"], "Address is that of listen.address, needs another port", [
      ["listen", "address"],
    ]);
  }
  return { address, token: adminToken(data, address, checks) };
}

function adminToken(data: Settings, address: ListenAddress, checks: Checks): string | null {
  const { auth } = data.admin;
  const path: SettingPath = ["admin", "auth", "token_file"];
  const hasToken = auth.token_file !== undefined && auth.token_file !== "";
  const mode = auth.mode ?? (hasToken ? "token" : "none");
  if (mode === "none") {
    if (!isLoopbackHost(address.host)) {
      checks.fault(
        ["admin", "address"],
        `Address "${address.host}" is reachable from other machines, needs admin.auth.token_file`,
        [["admin", "auth"]],
      );
    }
    if (hasToken) checks.warn(path, "Token file has no effect beside mode none");
    return null;
  }
  if (!hasToken) {
    checks.fault(["admin", "auth", "mode"], "Mode token needs admin.auth.token_file", [path]);
    return null;
  }
  const token = checks.read(auth.token_file, path)?.trim() ?? null;
  if (token !== null && token.length < 16) {
    checks.fault(path, "Token is shorter than 16 characters");
  }
  return token;
}

function classesConfig(
  data: Settings,
  checks: Checks,
  options: ResolveOptions,
): ReadonlyMap<string, ClusterId> {
  const classes = new Map<string, ClusterId>();
  const known = new Set(data.clusters.map(({ id }) => id));
  for (const [name, text] of Object.entries(data.classes)) {
    const id = parseClusterId(text);
    if (!/^[A-Z0-9_-]{1,64}$/.test(name)) {
      checks.fault(["classes", name], "Storage class needs 1 to 64 of A-Z, 0-9, _ and -");
    }
    if (id === null) checks.fault(["classes", name], `"${text}" is not a cluster id`);
    else classes.set(name, id);
    if (id !== null && !known.has(id) && !options.embedded) {
      checks.warn(["classes", name], `Cluster "${id}" is not under clusters`, [["clusters"]]);
    }
  }
  return classes;
}

function memberConfig(data: Settings, checks: Checks): Config["member"] {
  const { member } = data;
  if (member.lease_ttl < 2000 || member.lease_ttl % 1000 !== 0) {
    checks.fault(["member", "lease_ttl"], "Lease needs whole seconds, 2s or more");
  }
  if (member.fence_after !== null && member.fence_after < member.lease_ttl) {
    checks.fault(
      ["member", "fence_after"],
      "Fence comes before the lease ends, needs lease_ttl or more",
      [["member", "lease_ttl"]],
    );
  }
  return {
    leaseTtlSeconds: member.lease_ttl / 1000,
    fenceAfterMs: member.fence_after,
    mode: member.mode,
  };
}
