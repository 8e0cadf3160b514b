// Every metric of this release: name, type, labels, meaning. A contract with operators: the README's
// table is generated from here. Base units, `_total`, `_seconds`, `_bytes`; never a key, an upload id
// or a raw path in a label.

import type { FamilyFacts } from "./series.ts";

const counter = (labels: readonly string[], help: string) =>
  ({ type: "counter", labels, help }) as const;
const gauge = (labels: readonly string[], help: string) =>
  ({ type: "gauge", labels, help }) as const;
const histogram = (labels: readonly string[], help: string) =>
  ({ type: "histogram", labels, help }) as const;

export const metricFacts = {
  headgate_build_info: gauge(["version", "node"], "Always 1, with what is running"),
  headgate_requests_total: counter(["operation", "code", "cluster"], "S3 requests answered"),
  headgate_request_duration_seconds: histogram(
    ["operation", "class"],
    "From request head to the last response byte",
  ),
  headgate_request_bytes_total: counter(["operation", "cluster"], "Request body bytes read"),
  headgate_response_bytes_total: counter(["operation", "cluster"], "Response body bytes sent"),
  headgate_requests_in_flight: gauge([], "S3 requests being answered"),
  headgate_errors_total: counter(
    ["origin", "error_code"],
    "S3 errors answered, by who raised them",
  ),
  headgate_auth_failures_total: counter(["reason"], "Requests whose signature was not accepted"),
  headgate_credentials_lookups_total: counter(
    ["outcome"],
    "Questions to an RGW whose key an id is: user, unknown, unavailable",
  ),
  headgate_credentials_reloads_total: counter(
    ["outcome"],
    "Credentials files that changed: read again, or kept as they were",
  ),
  headgate_decisions_total: counter(["entrypoint", "result"], "Policy decisions"),
  headgate_policy_eval_duration_seconds: histogram(["entrypoint"], "One evaluation in WASM"),
  headgate_policy_cache_total: counter(["outcome"], "Decisions that were remembered, or not"),
  headgate_cluster_state: gauge(["cluster", "state"], "1 for the state a cluster is in, else 0"),
  headgate_cluster_keys_reloads_total: counter(
    ["cluster", "outcome"],
    "Files of a cluster's keys that changed: read again, or kept as they were",
  ),
  headgate_cluster_weight: gauge(["cluster"], "Stored weight; kept while draining"),
  headgate_cluster_share_ratio: gauge(["cluster"], "Configured share of the default wheel"),
  headgate_cluster_profile_mismatch: gauge(
    ["cluster"],
    "1 where a cluster is seen to be another kind of server than its profile says, else 0",
  ),
  headgate_cluster_routed_writes_total: counter(["cluster", "source"], "Writes placed, by rule"),
  headgate_cluster_routed_bytes_total: counter(["cluster", "source"], "Bytes placed, by rule"),
  headgate_cluster_refused_total: counter(["cluster", "reason"], "Writes refused by placement"),
  headgate_upstream_requests_total: counter(
    ["cluster", "operation", "code"],
    "Requests to clusters; code none: no complete answer",
  ),
  headgate_upstream_duration_seconds: histogram(["cluster", "operation"], "To the answer's head"),
  headgate_upstream_retries_total: counter(["cluster", "outcome"], "Requests sent again"),
  headgate_upstream_tls_skip_verify: gauge(
    ["cluster"],
    "1 where `tls.insecure_skip_verify` is set, else 0",
  ),
  headgate_buckets_discovered_total: counter(
    ["outcome"],
    "Buckets looked for on the clusters: found, conflict (on several), unclear (a cluster did not tell)",
  ),
  headgate_bucket_drift_total: counter(
    ["setting", "cluster", "outcome"],
    "Differences between the clusters of a bucket that a write or a check found, healed or failed to heal",
  ),
  headgate_state_requests_total: counter(["kind"], "Calls to the state store"),
  headgate_state_revision: gauge([], "Store revision that is applied"),
  headgate_state_last_event_timestamp_seconds: gauge([], "When a change was last applied"),
  headgate_state_watch_restarts_total: counter(["reason"], "Watches begun again"),
  headgate_state_propagation_seconds: histogram([], "From a change's write to its application"),
} as const satisfies Record<string, Omit<FamilyFacts, "name">>;

export type MetricName = keyof typeof metricFacts;

/** Upper bounds in seconds; control.md (d). */
export const requestBounds = [
  0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 300,
] as const;
export const policyBounds = [
  0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05,
] as const;
export const propagationBounds = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
] as const;
