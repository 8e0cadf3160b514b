// The meter of the data path and the text of `/metrics`. Counting happens on the request's turn, so it
// looks a label set up once and then only adds; gauges of the placement are read at scrape time.

import { collectDefaultMetrics, Registry as DefaultRegistry } from "prom-client";
import type {
  AuthFailure,
  Clock,
  DecisionOutcome,
  Entrypoint,
  ErrorOrigin,
  Meter,
  RequestSample,
} from "../placement/ports.ts";
import { clusterStates, type Revision } from "../placement/records.ts";
import type { PlacementSnapshot } from "../placement/snapshot.ts";
import { isS3ErrorCode } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import type { S3Operation } from "../s3/operation.ts";
import {
  type MetricName,
  metricFacts,
  policyBounds,
  propagationBounds,
  requestBounds,
} from "./metric-names.ts";
import { type Cell, Family, type HistogramCell, HistogramFamily, observe } from "./series.ts";
import { wheelShares } from "./shares.ts";

export interface MetricsOptions {
  readonly clock: Clock;
  readonly version: string;
  readonly nodeVersion: string;
  /** Add process_* and nodejs_*, which observe the whole process. */
  readonly processMetrics: boolean;
}

interface RequestCells {
  readonly requests: Cell;
  readonly duration: HistogramCell;
  readonly requestBytes: Cell;
  readonly responseBytes: Cell;
}

/** Rules a route may come from (placement.md §2); any other text is `other`. */
const routeSources = new Set([
  "bucket_policy",
  "default_wheel",
  "location",
  "pinned",
  "discovered",
  "settled",
  "fallback",
]);

function family(name: MetricName): Family {
  return new Family({ name, ...metricFacts[name] });
}

function histogram(name: MetricName, bounds: readonly number[]): HistogramFamily {
  return new HistogramFamily({ name, ...metricFacts[name] }, bounds);
}

export class Metrics implements Meter {
  readonly #clock: Clock;
  readonly #defaults = new DefaultRegistry();
  readonly #buildInfo = family("headgate_build_info");
  readonly #requests = family("headgate_requests_total");
  readonly #duration = histogram("headgate_request_duration_seconds", requestBounds);
  readonly #requestBytes = family("headgate_request_bytes_total");
  readonly #responseBytes = family("headgate_response_bytes_total");
  readonly #inFlightFamily = family("headgate_requests_in_flight");
  readonly #inFlight = this.#inFlightFamily.cell();
  readonly #errors = family("headgate_errors_total");
  readonly #authFailures = family("headgate_auth_failures_total");
  readonly #decisions = family("headgate_decisions_total");
  readonly #policyEval = histogram("headgate_policy_eval_duration_seconds", policyBounds);
  readonly #policyCache = family("headgate_policy_cache_total");
  readonly #clusterState = family("headgate_cluster_state");
  readonly #keysReloads = family("headgate_cluster_keys_reloads_total");
  readonly #clusterWeight = family("headgate_cluster_weight");
  readonly #clusterShare = family("headgate_cluster_share_ratio");
  readonly #profileMismatch = family("headgate_cluster_profile_mismatch");
  readonly #routedWrites = family("headgate_cluster_routed_writes_total");
  readonly #routedBytes = family("headgate_cluster_routed_bytes_total");
  readonly #refused = family("headgate_cluster_refused_total");
  readonly #upstreamRequests = family("headgate_upstream_requests_total");
  readonly #upstreamDuration = histogram("headgate_upstream_duration_seconds", requestBounds);
  readonly #upstreamRetries = family("headgate_upstream_retries_total");
  readonly #skipVerify = family("headgate_upstream_tls_skip_verify");
  readonly #bucketsDiscovered = family("headgate_buckets_discovered_total");
  readonly #bucketDrift = family("headgate_bucket_drift_total");
  readonly #stateRequests = family("headgate_state_requests_total");
  readonly #stateRevision = family("headgate_state_revision");
  readonly #stateLastEvent = family("headgate_state_last_event_timestamp_seconds");
  readonly #credentialLookups = family("headgate_credentials_lookups_total");
  readonly #credentialsReloads = family("headgate_credentials_reloads_total");
  readonly #watchRestarts = family("headgate_state_watch_restarts_total");
  readonly #propagation = histogram("headgate_state_propagation_seconds", propagationBounds);
  readonly #cells = new Map<string, RequestCells>();

  constructor(options: MetricsOptions) {
    this.#clock = options.clock;
    this.#buildInfo.cell(options.version, options.nodeVersion).value = 1;
    if (options.processMetrics) collectDefaultMetrics({ register: this.#defaults });
  }

  requestStarted(): void {
    this.#inFlight.value += 1;
  }

  requestEnded(sample: RequestSample): void {
    this.#inFlight.value -= 1;
    const key = `${sample.operation} ${sample.status} ${sample.cluster}`;
    let cells = this.#cells.get(key);
    if (cells === undefined) {
      const { operation } = sample;
      const cluster = sample.cluster ?? "";
      cells = {
        requests: this.#requests.cell(operation, String(sample.status), cluster),
        duration: this.#duration.cell(operation, `${Math.trunc(sample.status / 100)}xx`),
        requestBytes: this.#requestBytes.cell(operation, cluster),
        responseBytes: this.#responseBytes.cell(operation, cluster),
      };
      this.#cells.set(key, cells);
    }
    cells.requests.value += 1;
    observe(cells.duration, sample.durationSeconds);
    cells.requestBytes.value += sample.requestBytes;
    cells.responseBytes.value += sample.responseBytes;
  }

  errorAnswered(origin: ErrorOrigin, code: string): void {
    // Upstream codes are text from outside: the label stays a closed set.
    this.#errors.cell(origin, isS3ErrorCode(code) ? code : "Other").value += 1;
  }

  authFailed(reason: AuthFailure): void {
    this.#authFailures.cell(reason).value += 1;
  }

  decided(entrypoint: Entrypoint, outcome: DecisionOutcome): void {
    this.#decisions.cell(entrypoint, outcome).value += 1;
  }

  policyEvaluated(entrypoint: Entrypoint, durationSeconds: number): void {
    observe(this.#policyEval.cell(entrypoint), durationSeconds);
  }

  policyMemo(outcome: "hit" | "miss"): void {
    this.#policyCache.cell(outcome).value += 1;
  }

  writeRouted(cluster: ClusterId, source: string, bytes: number): void {
    const rule = routeSources.has(source) ? source : "other";
    this.#routedWrites.cell(cluster, rule).value += 1;
    this.#routedBytes.cell(cluster, rule).value += bytes;
  }

  writeRefused(
    cluster: ClusterId | null,
    reason: "drain_refused" | "policy_refused" | "no_candidate",
  ): void {
    this.#refused.cell(cluster ?? "", reason).value += 1;
  }

  upstreamEnded(sample: {
    readonly cluster: ClusterId;
    readonly operation: S3Operation;
    readonly status: number | null;
    readonly durationSeconds: number;
  }): void {
    const code = sample.status === null ? "none" : String(sample.status);
    this.#upstreamRequests.cell(sample.cluster, sample.operation, code).value += 1;
    observe(this.#upstreamDuration.cell(sample.cluster, sample.operation), sample.durationSeconds);
  }

  upstreamRetried(cluster: ClusterId, outcome: "ok" | "failed"): void {
    this.#upstreamRetries.cell(cluster, outcome).value += 1;
  }

  /** Whether the certificates of a cluster's endpoints are looked at. */
  upstreamTls(cluster: ClusterId, skipsVerify: boolean): void {
    this.#skipVerify.cell(cluster).value = skipsVerify ? 1 : 0;
  }

  /** Whether a cluster is seen to be what its profile is not. */
  profileMismatch(cluster: ClusterId, isSeen: boolean): void {
    this.#profileMismatch.cell(cluster).value = isSeen ? 1 : 0;
  }

  /** Files of a cluster's own keys had changed. */
  clusterKeysReloaded(cluster: ClusterId, outcome: "ok" | "failed"): void {
    this.#keysReloads.cell(cluster, outcome).value += 1;
  }

  storeCalled(kind: "range" | "txn" | "watch" | "lease"): void {
    this.#stateRequests.cell(kind).value += 1;
  }

  snapshotApplied(revision: Revision, propagationSeconds: number | null): void {
    // A gauge is a float; exactness beyond 2^53 is not needed to see it move.
    this.#stateRevision.cell().value = Number(revision);
    this.#stateLastEvent.cell().value = this.#clock.nowMs() / 1000;
    if (propagationSeconds !== null) observe(this.#propagation.cell(), propagationSeconds);
  }

  bucketDiscovered(outcome: "found" | "conflict" | "unclear"): void {
    this.#bucketsDiscovered.cell(outcome).value += 1;
  }

  bucketDrifted(sample: {
    readonly setting: string;
    readonly cluster: ClusterId;
    readonly outcome: "found" | "healed" | "failed";
  }): void {
    this.#bucketDrift.cell(sample.setting, sample.cluster, sample.outcome).value += 1;
  }

  credentialAsked(outcome: "user" | "unknown" | "unavailable"): void {
    this.#credentialLookups.cell(outcome).value += 1;
  }

  credentialsReloaded(outcome: "ok" | "failed"): void {
    this.#credentialsReloads.cell(outcome).value += 1;
  }

  watchRestarted(reason: "disconnect" | "compacted" | "auth"): void {
    this.#watchRestarts.cell(reason).value += 1;
  }

  /** The text of `/metrics`; `snapshot` null: no placement yet. */
  async render(snapshot: PlacementSnapshot | null): Promise<string> {
    this.#readPlacement(snapshot);
    const families = [
      this.#buildInfo,
      this.#requests,
      this.#duration,
      this.#requestBytes,
      this.#responseBytes,
      this.#inFlightFamily,
      this.#errors,
      this.#authFailures,
      this.#decisions,
      this.#policyEval,
      this.#policyCache,
      this.#clusterState,
      this.#keysReloads,
      this.#clusterWeight,
      this.#clusterShare,
      this.#profileMismatch,
      this.#routedWrites,
      this.#routedBytes,
      this.#refused,
      this.#upstreamRequests,
      this.#upstreamDuration,
      this.#upstreamRetries,
      this.#skipVerify,
      this.#bucketsDiscovered,
      this.#bucketDrift,
      this.#stateRequests,
      this.#stateRevision,
      this.#stateLastEvent,
      this.#credentialLookups,
      this.#credentialsReloads,
      this.#watchRestarts,
      this.#propagation,
    ];
    const own = families.map((each) => each.render()).join("");
    return own + (await this.#defaults.metrics());
  }

  #readPlacement(snapshot: PlacementSnapshot | null): void {
    this.#clusterState.clear();
    this.#clusterWeight.clear();
    this.#clusterShare.clear();
    if (snapshot === null) return;
    const shares = wheelShares(snapshot.clusters);
    for (const [id, { value: record }] of snapshot.clusters) {
      for (const state of clusterStates) {
        this.#clusterState.cell(id, state).value = record.state === state ? 1 : 0;
      }
      if (record.weight !== null) this.#clusterWeight.cell(id).value = record.weight;
      this.#clusterShare.cell(id).value = shares.get(id) ?? 0;
    }
  }
}
