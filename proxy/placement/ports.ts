// The effects that operations, workers, admin and bridge work through. Instances come from main;
// the simulation hands in its own. Nothing here names a URL, a socket, etcd or a file.

import type { HeaderList, QueryList } from "../s3/headers.ts";
import type { AccessKeyId, BucketName, ClusterId, ObjectKey, TenantName } from "../s3/names.ts";
import type { S3Operation } from "../s3/operation.ts";
import type {
  BucketRecord,
  ClusterRecord,
  CredentialRecord,
  MemberRecord,
  Revision,
} from "./records.ts";
import type { PlacementSnapshot } from "./snapshot.ts";

// ---- time, chance, words ----

export interface Clock {
  /** Milliseconds since the Unix epoch. */
  nowMs(): number;
  /** Milliseconds on a clock that never jumps, for deadlines. */
  monotonicMs(): number;
  /** @throws the signal's reason when aborted. */
  sleep(durationMs: number, signal: AbortSignal): Promise<void>;
}

export interface Timers {
  /** Runs once after a delay unless the returned function is called first. */
  after(durationMs: number, run: () => void): () => void;
}

export interface Random {
  bytes(count: number): Uint8Array;
}

export type LogLevel = "debug" | "info" | "warn" | "error";
/** Fields must never hold a secret, a signature or an Authorization header. */
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;
export interface Log {
  write(level: LogLevel, event: string, fields?: LogFields): void;
}

// ---- upstream ----

/** Bytes that arrive over time. Consumed once, by iteration or by `cancel`. */
export interface ByteStream extends AsyncIterable<Uint8Array> {
  /** All of a short body if it has arrived already, else null; the stream is consumed then. */
  takeWhole(): Uint8Array | null;
  /** Hands every chunk to `sink`, waiting whenever it is full. Rejects with what ended the stream. */
  pipe(sink: ByteSink): Promise<void>;
  /** Drops the rest; the connection behind it is not used again. */
  cancel(): void;
}

export interface ByteSink {
  /** `false`: full, wait for `drained` before the next chunk. */
  write(chunk: Uint8Array): boolean;
  /** Resolves when writable again; rejects when the sink is gone. */
  drained(): Promise<void>;
}

/** A request body: all of it, or a stream of known length (upstreams always get a Content-Length). */
export type RequestBody =
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  | {
      readonly kind: "stream";
      /** Of `chunks`. */
      readonly lengthBytes: number;
      readonly chunks: AsyncIterable<Uint8Array>;
      /** Sent behind the body, for an upstream that takes a checksum there. */
      readonly trailer?: BodyTrailer;
    };

/** A checksum that is known only when a body has ended. */
export interface BodyTrailer {
  /** `x-amz-checksum-crc32`. */
  readonly field: string;
  /** Characters of its value; `null` for an algorithm that we do not know. */
  readonly valueLength: number | null;
  /** `NSRBwg==`. To be called when the body's last byte was given, not before. */
  value(): string;
}

/** An S3 request to one cluster. No URL, no host, no signature: the adapter adds those. */
export interface UpstreamRequest {
  readonly operation: S3Operation;
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE" | "OPTIONS";
  readonly tenant: TenantName;
  readonly bucket: BucketName | null;
  readonly key: ObjectKey | null;
  readonly query: QueryList;
  /** End-to-end fields only, in order. No host, authorization, x-amz-date, x-amz-content-sha256. */
  readonly headers: HeaderList;
  readonly body: RequestBody | null;
  /** Lower-case hex SHA-256 of the body if known; else it goes out as `UNSIGNED-PAYLOAD`. */
  readonly payloadSha256: string | null;
  readonly identity: UpstreamIdentity;
}

/**
 * On whose behalf a request goes to a cluster; whose keys that means is the cluster's `identity`
 * setting. `service`: our own questions (discovery, emptiness, probes), always the cluster's keys.
 * `caller`: what a verified client asked for. `anonymous`: sent without a signature.
 */
export type UpstreamIdentity =
  | { readonly kind: "service" }
  | {
      readonly kind: "caller";
      readonly accessKeyId: AccessKeyId;
      /** The tenant of bucket names that name none, when the caller's own keys sign. */
      readonly tenant: TenantName;
      readonly forwardedFor?: string;
    }
  /** `forwardedFor` is where a client's request came from, as X-Forwarded-For has it. */
  | { readonly kind: "anonymous"; readonly forwardedFor?: string };

/** Whose keys sign what a caller asked for: the cluster's own, the caller's, or a pair mapped to it. */
export type ClusterIdentity = "service" | "same" | "mapped";

export const serviceIdentity: UpstreamIdentity = { kind: "service" };
export const anonymousIdentity = { kind: "anonymous" } as const satisfies UpstreamIdentity;

export interface UpstreamResponse {
  readonly status: number;
  /** As received, hop-by-hop fields removed. */
  readonly headers: HeaderList;
  readonly body: ByteStream;
}

/**
 * How an exchange learns that nobody wants it any more. An AbortSignal is one; the data path uses its
 * own (gateway/cancellation.ts), because a signal made and listened to costs a twentieth of a request.
 */
export interface CancelSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: CancelListener): void;
  removeEventListener(type: "abort", listener: CancelListener): void;
}

export interface CancelListener {
  handleEvent(): void;
}

export interface Upstream {
  /**
   * Sends one request and resolves with the head of its answer, whatever its status.
   * @throws UpstreamError when no complete head was received, and from `body` when it breaks later.
   */
  send(
    cluster: ClusterId,
    request: UpstreamRequest,
    signal: CancelSignal,
  ): Promise<UpstreamResponse>;
}

export type UpstreamPhase =
  | "connect"
  | "request_head"
  | "request_body"
  | "response_head"
  | "response_body"
  | "trailer";

/** An exchange with a cluster that did not complete. Phase, not text, drives retry and mapping. */
export class UpstreamError extends Error {
  override readonly name = "UpstreamError";
  readonly phase: UpstreamPhase;
  /** Request body bytes handed to the connection. */
  readonly bytesSent: number;
  readonly clusterId: ClusterId;

  constructor(
    phase: UpstreamPhase,
    clusterId: ClusterId,
    options: {
      readonly bytesSent?: number;
      readonly cause?: unknown;
      readonly message?: string;
    } = {},
  ) {
    super(
      options.message ?? `Cannot complete exchange with cluster "${clusterId}": failed in ${phase}`,
      {
        cause: options.cause,
      },
    );
    this.phase = phase;
    this.clusterId = clusterId;
    this.bytesSent = options.bytesSent ?? 0;
  }
}

export type FaultKind =
  | "config"
  | "policy_load"
  | "policy_eval"
  | "policy_shape"
  | "state_stale"
  | "state_unavailable"
  | "state_conflict"
  | "bug";

/** Our own wrong state. Logged with its cause; a client sees 500 or 503 only. */
export class FaultError extends Error {
  override readonly name = "FaultError";
  readonly kind: FaultKind;

  constructor(kind: FaultKind, message: string, cause?: unknown) {
    super(message, { cause });
    this.kind = kind;
  }
}

// ---- domain state, above the store ----

export interface Snapshots {
  /** The newest view. @throws FaultError state_unavailable before the first one. */
  current(): PlacementSnapshot;
  /** Resolves once `current().revision >= revision`. */
  reached(revision: Revision, signal: AbortSignal): Promise<void>;
  /** Called after each swap, with the old and the new view. Returns how to stop. */
  subscribe(
    listener: (next: PlacementSnapshot, last: PlacementSnapshot | null) => void,
  ): () => void;
}

/** `expected`: the record's mod revision, 0n for absent. `record: null` deletes. */
export type RegistryChange =
  | {
      readonly kind: "cluster";
      readonly id: ClusterId;
      readonly expected: Revision;
      readonly record: ClusterRecord | null;
    }
  | {
      readonly kind: "class";
      readonly storageClass: string;
      readonly expected: Revision;
      readonly cluster: ClusterId | null;
    }
  | {
      readonly kind: "bucket";
      readonly tenant: TenantName;
      readonly name: BucketName;
      readonly expected: Revision;
      readonly record: BucketRecord | null;
    }
  | {
      readonly kind: "credential";
      readonly accessKeyId: AccessKeyId;
      readonly expected: Revision;
      readonly record: CredentialRecord | null;
    };

/** Who did something at the admin surface. */
export interface Actor {
  readonly kind: "admin" | "client" | "system";
  /** `token`, an access key id, or a worker's name. */
  readonly name: string;
  readonly remoteAddress: string | null;
}

export interface AuditLine {
  /** `admin:DrainCluster`. */
  readonly action: string;
  readonly resource: string;
  readonly actor: Actor;
  readonly requestId: string;
  readonly detail: string;
}

export type CommitResult =
  | { readonly kind: "committed"; readonly revision: Revision }
  | { readonly kind: "conflict" };

export interface Registry {
  /**
   * Writes all changes in one transaction if every `expected` still holds, with an audit line if
   * given, and resolves when this process applies the result.
   * @throws FaultError state_unavailable when the outcome is unknown.
   */
  commit(changes: readonly RegistryChange[], audit: AuditLine | null): Promise<CommitResult>;
  /**
   * Declares a process gone: nobody awaits it any more (placement.md rule 4). Only for one whose lease
   * has ended; an operator must know that it will not come back to life.
   */
  forgetMember(id: string, audit: AuditLine | null): Promise<"forgotten" | "alive" | "unknown">;
  /** Registered processes and whether their lease is alive. Read from the store at each call. */
  members(
    signal: AbortSignal,
  ): Promise<readonly { readonly record: MemberRecord; readonly alive: boolean }[]>;
}

/** This process's place among the members (placement.md §5). */
export interface Membership {
  readonly id: string;
  /** Whether this process may mutate what several clusters may hold (rule 8). */
  mayMutate(): boolean;
  /**
   * Counts a mutation of a bucket that passed its commit point; call the result when it has ended.
   * A revision is acknowledged only when every mutation begun under an older view has ended.
   */
  beginMutation(tenant: TenantName, bucket: BucketName): () => void;
}

// ---- measuring ----

export type AuthFailure =
  | "SignatureDoesNotMatch"
  | "InvalidAccessKeyId"
  | "RequestTimeTooSkewed"
  | "expired"
  | "malformed";
export type Entrypoint = "authz" | "route";
export type DecisionOutcome =
  | "route"
  | "allow"
  | "deny"
  | "refuse"
  | "undefined"
  | "error"
  | "malformed";
export type ErrorOrigin = "client" | "auth" | "policy" | "proxy" | "upstream";

export interface RequestSample {
  /** `Passthrough`: not S3, handed on to a cluster unread. */
  readonly operation: S3Operation | "Other" | "Passthrough";
  readonly status: number;
  readonly cluster: ClusterId | null;
  readonly durationSeconds: number;
  readonly requestBytes: number;
  readonly responseBytes: number;
}

/** Counters and histograms of the data path; names and labels are in admin/metrics.ts. */
export interface Meter {
  requestStarted(): void;
  requestEnded(sample: RequestSample): void;
  errorAnswered(origin: ErrorOrigin, code: string): void;
  authFailed(reason: AuthFailure): void;
  decided(entrypoint: Entrypoint, outcome: DecisionOutcome): void;
  policyEvaluated(entrypoint: Entrypoint, durationSeconds: number): void;
  policyMemo(outcome: "hit" | "miss"): void;
  writeRouted(cluster: ClusterId, source: string, bytes: number): void;
  writeRefused(
    cluster: ClusterId | null,
    reason: "drain_refused" | "policy_refused" | "no_candidate",
  ): void;
  upstreamEnded(sample: {
    readonly cluster: ClusterId;
    readonly operation: S3Operation;
    /** `null`: no complete head. */
    readonly status: number | null;
    readonly durationSeconds: number;
  }): void;
  upstreamRetried(cluster: ClusterId, outcome: "ok" | "failed"): void;
  storeCalled(kind: "range" | "txn" | "watch" | "lease"): void;
  snapshotApplied(revision: Revision, propagationSeconds: number | null): void;
  /** A bucket without a record was looked for on the clusters; `conflict`: found on several. */
  bucketDiscovered(outcome: "found" | "conflict" | "unclear"): void;
  /** A cluster of a bucket says something else of it than the others. */
  bucketDrifted(sample: {
    readonly setting: string;
    readonly cluster: ClusterId;
    readonly outcome: "found" | "healed" | "failed";
  }): void;
  /** An RGW was asked whose key an id is. */
  credentialAsked(outcome: "user" | "unknown" | "unavailable"): void;
  credentialsReloaded(outcome: "ok" | "failed"): void;
  watchRestarted(reason: "disconnect" | "compacted" | "auth"): void;
}
