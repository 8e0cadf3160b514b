// What policy decides, as types: the input document, the results after validation, and the decision
// that the gateway acts on. Contract: policies/README.md (input version 1).

import type { Entrypoint } from "../placement/ports.ts";
import type { BucketRecord, PlacementMode, Route } from "../placement/records.ts";
import type { PlacementSnapshot } from "../placement/snapshot.ts";
import type { BucketName, ClusterId, ObjectKey, TenantName } from "../s3/names.ts";
import type { OperationClass, S3Operation } from "../s3/operation.ts";

export interface Grant {
  readonly buckets: readonly string[];
  readonly keys: readonly string[];
  /** Operation classes or S3 operation names. */
  readonly allow: readonly string[];
}

/** How a caller proved who it is; `-v2` is Signature Version 2, `form` a POST policy. */
type PrincipalScheme =
  | "header"
  | "presigned"
  | "form"
  | "header-v2"
  | "presigned-v2"
  | "form-v2"
  | "anonymous";

/** Who asks. `anonymous` callers have no access key, no groups and no grants. */
export interface Principal {
  readonly accessKey: string | null;
  readonly account: string | null;
  readonly displayName: string | null;
  readonly tenant: TenantName;
  readonly groups: readonly string[];
  readonly grants: readonly Grant[];
  readonly scheme: PrincipalScheme;
}

/** The facts of one request that policy may look at. Never a secret or a signature. */
export interface DecisionInput {
  readonly requestId: string;
  readonly nowMs: number;
  readonly method: string;
  readonly operation: S3Operation;
  readonly operationClass: OperationClass;
  readonly tenant: TenantName;
  readonly bucket: BucketName | null;
  readonly key: ObjectKey | null;
  readonly versionId: string | null;
  readonly uploadId: string | null;
  readonly partNumber: number | null;
  /** Decoded, authentication parameters removed. */
  readonly query: Readonly<Record<string, readonly string[]>>;
  /** Allow-listed request headers, lower-case. */
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly contentLengthBytes: number | null;
  readonly payloadMode: string;
  readonly storageClass: string;
  readonly copySource: {
    readonly bucket: string;
    readonly key: string;
    readonly versionId: string | null;
  } | null;
  readonly deleteKeysCount: number | null;
  readonly locationConstraint: string | null;
  readonly principal: Principal;
  readonly clientAddress: string;
  readonly tls: boolean;
  /** The bucket's record, or null: no such record (yet). */
  readonly record: BucketRecord | null;
}

export type AuthzResult =
  | { readonly kind: "allow" }
  | { readonly kind: "deny"; readonly code: string; readonly reason: string }
  /** Undefined or malformed → 403; `trap` (the evaluation threw) → 503. */
  | {
      readonly kind: "fault";
      readonly fault: "undefined" | "malformed" | "trap";
      readonly reason: string;
    };

export interface Refusal {
  readonly code: string;
  readonly status: number;
  readonly retryAfterSeconds: number | null;
  readonly message: string;
  readonly mode: PlacementMode | null;
}

export type RouteResult =
  | {
      readonly kind: "route";
      readonly route: Route;
      /** Clusters that take no new bytes now, whatever route a bucket is settled on. */
      readonly closed: ReadonlySet<ClusterId>;
      /** How long a client waits before it tries a closed cluster again. */
      readonly retryAfterSeconds: number;
      readonly reason: string;
    }
  | { readonly kind: "refuse"; readonly refusal: Refusal }
  | {
      readonly kind: "fault";
      readonly fault: "undefined" | "malformed" | "trap";
      readonly reason: string;
    };

/** One loaded bundle with its data. Evaluation is synchronous and never throws: a trap is an outcome. */
export interface PolicyEngine {
  /** Revision of the bundle's manifest, or the hash of its wasm. */
  readonly revision: string;
  /** Absent: nothing is remembered. Dies with the engine, so results never outlive their data. */
  readonly memos?: DecisionMemos;
  /** `context: null` (the canonical input): time and chance are undefined. */
  evaluate(
    entrypoint: Entrypoint,
    input: unknown,
    context?: EvaluationContext | null,
  ): EvaluationOutcome;
  close(): void;
}

/** What non-deterministic builtins answer from, frozen for one request. */
export interface EvaluationContext {
  readonly nowMs: number;
  readonly requestId: string;
}

/** Results by exactly those fields of the input that an entrypoint can read. */
export interface DecisionMemo<Result> {
  /** `null`: this input is not remembered. */
  keyOf(input: unknown): string | null;
  find(key: string): Result | undefined;
  remember(key: string, result: Result): void;
}

export interface DecisionMemos {
  readonly authz: DecisionMemo<AuthzResult> | null;
  readonly route: DecisionMemo<RouteResult> | null;
}

export type EvaluationOutcome =
  | { readonly kind: "defined"; readonly value: unknown }
  | { readonly kind: "undefined" }
  | { readonly kind: "trap"; readonly cause: Error };

/** Everything one decision reads. Swapped as a whole; never edited. */
export interface DecisionView {
  readonly placement: PlacementSnapshot;
  /** An engine whose data is that of `placement`. */
  readonly policy: PolicyEngine;
}

export interface Decision {
  readonly authz: AuthzResult;
  /** The route entrypoint on the canonical input now; null when no route was needed. */
  readonly map: RouteResult | null;
  /** On the full input; null for requests that place nothing. */
  readonly route: RouteResult | null;
  /** Where the key's bytes belong: by the bucket's settled route, or by `map` when it has no record. */
  readonly owner: ClusterId | null;
  /** All clusters of that route in HRW order for this key. */
  readonly rank: readonly ClusterId[];
  readonly why: Why;
}

export interface Why {
  readonly policyRevision: string;
  readonly stateRevision: string;
  /** `default_wheel`, `bucket_policy`, `pinned`, `settled`, … */
  readonly source: string;
  readonly reason: string;
  readonly candidates: readonly {
    readonly cluster: ClusterId;
    readonly weight: number;
    readonly closed: boolean;
  }[];
}
