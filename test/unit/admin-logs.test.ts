import t from "tap";
import { jsonAccessLog } from "../../proxy/admin/access-log.ts";
import { JsonLog } from "../../proxy/admin/log.ts";
import { adminClusterId, fixedClock } from "../support/admin-state.ts";

function sink() {
  const lines: string[] = [];
  return { lines, write: (line: string) => lines.push(line) };
}

t.test("the log writes one object a line, from its level up", async (t) => {
  const to = sink();
  const log = new JsonLog(to, { clock: fixedClock, level: "warn" });
  log.write("info", "started");
  log.write("warn", "slow", { pause_ms: 5, note: "a\nb", event: "forged", level: "debug" });
  log.write("error", "failed");
  t.equal(to.lines.length, 2);
  for (const line of to.lines) t.equal(line.indexOf("\n"), line.length - 1);
  t.strictSame(JSON.parse(to.lines[0] ?? ""), {
    pause_ms: 5,
    note: "a\nb",
    time: "2023-11-14T22:13:20.000Z",
    level: "warn",
    event: "slow",
  });
});

t.test("the access log names fields as S3's does", async (t) => {
  const to = sink();
  jsonAccessLog(to).write({
    startedAtMs: fixedClock.nowMs(),
    durationMs: 1.23456,
    requestId: "r",
    remoteAddress: "10.0.0.1",
    requester: "AK",
    method: "PUT",
    operation: "PutObject",
    bucket: "logs",
    key: "a\nb",
    status: 200,
    errorCode: null,
    bytesReceived: 3,
    bytesSent: 0,
    userAgent: "x".repeat(1000),
    cluster: adminClusterId("a"),
    routeSource: "default_wheel",
    upstreamRequestId: "tx1",
  });
  t.strictSame(JSON.parse(to.lines[0] ?? ""), {
    request_time: "2023-11-14T22:13:20.000Z",
    request_id: "r",
    remote_ip: "10.0.0.1",
    requester: "AK",
    method: "PUT",
    operation: "PutObject",
    bucket_name: "logs",
    key: "a\nb",
    http_status: 200,
    error_code: null,
    bytes_received: 3,
    bytes_sent: 0,
    total_time_ms: 1.235,
    user_agent: "x".repeat(256),
    cluster: "a",
    route_source: "default_wheel",
    upstream_request_id: "tx1",
  });
  t.equal(to.lines[0]?.split("\n").length, 2, "a key cannot begin a line of its own");
});
