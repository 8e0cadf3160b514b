import t from "tap";
import { type MetricName, metricFacts } from "../../proxy/admin/metric-names.ts";
import { Metrics } from "../../proxy/admin/metrics.ts";
import { Family, HistogramFamily, observe } from "../../proxy/admin/series.ts";
import type { ClusterRecord } from "../../proxy/placement/records.ts";
import { adminCluster, adminSnapshot, fixedClock } from "../support/admin-state.ts";

function open() {
  return new Metrics({
    clock: fixedClock,
    version: "1.2.3",
    nodeVersion: "v20",
    processMetrics: false,
  });
}

t.test("a histogram counts each value once, at its bound or below", async (t) => {
  const facts = { name: "x_seconds", type: "histogram", labels: ["a"], help: "X" } as const;
  const family = new HistogramFamily(facts, [1, 2]);
  for (const value of [0, 1, 1.5, 3]) observe(family.cell("q"), value);
  t.equal(
    family.render(),
    [
      "# HELP x_seconds X",
      "# TYPE x_seconds histogram",
      'x_seconds_bucket{a="q",le="1"} 2',
      'x_seconds_bucket{a="q",le="2"} 3',
      'x_seconds_bucket{a="q",le="+Inf"} 4',
      'x_seconds_sum{a="q"} 5.5',
      'x_seconds_count{a="q"} 4',
      "",
    ].join("\n"),
  );
});

t.test("label values are escaped and told apart", async (t) => {
  const family = new Family({ name: "x_total", type: "counter", labels: ["a", "b"], help: "X" });
  family.cell('q"\\\n', "").value += 1;
  family.cell("1", "2").value += 2;
  family.cell("1", "2").value += 2;
  t.match(family.render(), 'x_total{a="q\\"\\\\\\n",b=""} 1\nx_total{a="1",b="2"} 4\n');
});

t.test("every listed metric is rendered, and nothing else", async (t) => {
  const text = await open().render(null);
  const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(
    (match) => `${match[1]} ${match[2]}`,
  );
  t.strictSame(
    types.toSorted(),
    Object.entries(metricFacts)
      .map(([name, facts]) => `${name} ${facts.type}`)
      .toSorted(),
  );
  for (const [name, { type, labels }] of Object.entries(metricFacts)) {
    t.match(name, /^headgate_[a-z_]+$/);
    t.ok(labels.length <= (type === "histogram" ? 2 : 3), `${name}: as many as a cell can have`);
  }
});

t.test("a request shows in its metrics", async (t) => {
  const metrics = open();
  const { id } = adminCluster("a");
  metrics.requestStarted();
  t.match(await metrics.render(null), "headgate_requests_in_flight 1\n");
  metrics.requestEnded({
    operation: "PutObject",
    status: 200,
    cluster: id,
    durationSeconds: 0.02,
    requestBytes: 10,
    responseBytes: 3,
  });
  metrics.requestStarted();
  metrics.requestEnded({
    operation: "Other",
    status: 501,
    cluster: null,
    durationSeconds: 0,
    requestBytes: 0,
    responseBytes: 7,
  });
  const text = await metrics.render(null);
  for (const line of [
    "headgate_requests_in_flight 0",
    'headgate_requests_total{operation="PutObject",code="200",cluster="a"} 1',
    'headgate_requests_total{operation="Other",code="501",cluster=""} 1',
    'headgate_request_bytes_total{operation="PutObject",cluster="a"} 10',
    'headgate_response_bytes_total{operation="Other",cluster=""} 7',
    'headgate_request_duration_seconds_bucket{operation="PutObject",class="2xx",le="0.01"} 0',
    'headgate_request_duration_seconds_bucket{operation="PutObject",class="2xx",le="0.025"} 1',
    'headgate_build_info{version="1.2.3",node="v20"} 1',
  ]) {
    t.ok(text.split("\n").includes(line), line);
  }
});

t.test("labels from outside stay closed sets", async (t) => {
  const metrics = open();
  const { id } = adminCluster("a");
  metrics.errorAnswered("upstream", "Some\nThing");
  metrics.errorAnswered("client", "NoSuchKey");
  metrics.writeRouted(id, "rule of an operator", 5);
  metrics.writeRouted(id, "pinned", 6);
  const text = await metrics.render(null);
  t.match(text, 'headgate_errors_total{origin="upstream",error_code="Other"} 1');
  t.match(text, 'headgate_errors_total{origin="client",error_code="NoSuchKey"} 1');
  t.match(text, 'headgate_cluster_routed_bytes_total{cluster="a",source="other"} 5');
  t.match(text, 'headgate_cluster_routed_writes_total{cluster="a",source="pinned"} 1');
});

t.test("clusters show state, kept weight and share", async (t) => {
  const metrics = open();
  const view = (state: ClusterRecord["state"]) =>
    adminSnapshot({
      clusters: [adminCluster("a", { state, weight: 1 }), adminCluster("b", { weight: 3 })],
    });
  const live = await metrics.render(view("live"));
  t.match(live, 'headgate_cluster_share_ratio{cluster="a"} 0.25');
  const drained = await metrics.render(view("draining_readonly"));
  t.match(drained, 'headgate_cluster_state{cluster="a",state="draining_readonly"} 1');
  t.match(drained, 'headgate_cluster_state{cluster="a",state="live"} 0');
  t.match(drained, 'headgate_cluster_weight{cluster="a"} 1');
  t.match(drained, 'headgate_cluster_share_ratio{cluster="a"} 0\n');
  t.match(drained, 'headgate_cluster_share_ratio{cluster="b"} 1\n');
  t.notMatch(await metrics.render(null), 'cluster="a"', "gone with the snapshot");
});

t.test("the rest of the meter", async (t) => {
  const metrics = open();
  const { id } = adminCluster("a");
  metrics.authFailed("expired");
  metrics.decided("authz", "deny");
  metrics.policyEvaluated("route", 0.00002);
  metrics.policyMemo("hit");
  metrics.writeRefused(null, "drain_refused");
  metrics.upstreamEnded({ cluster: id, operation: "GetObject", status: null, durationSeconds: 1 });
  metrics.upstreamRetried(id, "ok");
  metrics.storeCalled("range");
  metrics.snapshotApplied(12n, 0.002);
  metrics.watchRestarted("compacted");
  const text = await metrics.render(null);
  const samples: readonly (readonly [MetricName, string])[] = [
    ["headgate_auth_failures_total", '{reason="expired"} 1'],
    ["headgate_decisions_total", '{entrypoint="authz",result="deny"} 1'],
    ["headgate_policy_cache_total", '{outcome="hit"} 1'],
    ["headgate_cluster_refused_total", '{cluster="",reason="drain_refused"} 1'],
    ["headgate_upstream_requests_total", '{cluster="a",operation="GetObject",code="none"} 1'],
    ["headgate_upstream_retries_total", '{cluster="a",outcome="ok"} 1'],
    ["headgate_state_requests_total", '{kind="range"} 1'],
    ["headgate_state_revision", " 12"],
    ["headgate_state_last_event_timestamp_seconds", " 1700000000"],
    ["headgate_state_watch_restarts_total", '{reason="compacted"} 1'],
  ];
  for (const [name, rest] of samples) t.match(text, `${name}${rest}\n`);
  t.match(text, 'headgate_policy_eval_duration_seconds_bucket{entrypoint="route",le="0.000025"} 1');
  t.match(text, 'headgate_state_propagation_seconds_bucket{le="0.0025"} 1');
});

t.test("process metrics come when asked for", async (t) => {
  const metrics = new Metrics({
    clock: fixedClock,
    version: "1",
    nodeVersion: "v20",
    processMetrics: true,
  });
  t.match(await metrics.render(null), /^process_cpu_seconds_total /m);
});
