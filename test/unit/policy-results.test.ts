// Reading results of policies: exactly the documented shapes pass, everything else is malformed.

import t from "tap";
import { readAuthzResult, readRouteResult } from "../../proxy/policy/results.ts";
import { clusterNamed, weightsOf } from "../support/placement-names.ts";

const clusters = new Map(["a", "b", "c"].map((id) => [clusterNamed(id), null]));
const authz = (value: unknown) => readAuthzResult({ kind: "defined", value });
const route = (value: unknown) => readRouteResult({ kind: "defined", value }, clusters);
const usual = {
  weights: { a: 1, b: 0 },
  mode: "strict",
  spread: "prefix",
  source: "x_1",
  reason: "",
};
const refusal = {
  code: "DrainRefused",
  status: 503,
  retry_after_seconds: 300,
  message: "No",
  mode: "strict",
};

t.test("authz results", async (t) => {
  t.strictSame(authz({ allow: true }), { kind: "allow" });
  t.strictSame(authz({ allow: false }), { kind: "deny", code: "AccessDenied", reason: "" });
  t.strictSame(authz({ allow: false, code: "SlowDown", reason: "later" }), {
    kind: "deny",
    code: "SlowDown",
    reason: "later",
  });
  for (const value of [
    null,
    true,
    "allow",
    [],
    {},
    { allow: 1 },
    { allow: "true" },
    { result: { allow: true } },
    { allow: true, obligations: [] },
    { allow: false, code: "NoCode" },
    { allow: false, code: "InternalError" },
    { allow: false, code: 403 },
    { allow: false, reason: 5 },
    { allow: false, reason: "a\nb" },
    { allow: false, reason: "x".repeat(513) },
    { allow: false, reason: "\ud800" },
    undefined,
  ]) {
    t.match(authz(value), { kind: "fault", fault: "malformed" }, JSON.stringify(value));
  }
  t.match(readAuthzResult({ kind: "undefined" }), { kind: "fault", fault: "undefined" });
  t.strictSame(readAuthzResult({ kind: "trap", cause: new Error("why") }), {
    kind: "fault",
    fault: "trap",
    reason: "why",
  });
});

t.test("routes", async (t) => {
  t.strictSame(route(usual), {
    kind: "route",
    route: { weights: weightsOf({ a: 1 }), mode: "strict", spread: "prefix", source: "x_1" },
    closed: new Set([clusterNamed("b"), clusterNamed("c")]),
    retryAfterSeconds: 300,
    reason: "",
  });
  t.match(route({ ...usual, closed: [], retry_after_seconds: 5 }), {
    closed: new Set(),
    retryAfterSeconds: 5,
  });
  t.match(route({ ...usual, closed: ["a"] }), { kind: "route", closed: new Set(["a"]) });
  for (const change of [
    { weights: {} },
    { weights: { a: 0 } },
    { weights: { a: 101 } },
    { weights: { a: -1 } },
    { weights: { a: 1.5 } },
    { weights: { a: "1" } },
    { weights: { a: null } },
    { weights: { z: 1 } },
    { weights: { "A!": 1 } },
    { weights: ["a"] },
    { mode: "lax" },
    { mode: null },
    { spread: "key" },
    { source: "" },
    { source: "X" },
    { source: 1 },
    { reason: null },
    { closed: "b" },
    { closed: ["z"] },
    { closed: [1] },
    { closed: null },
    { retry_after_seconds: -1 },
    { retry_after_seconds: 1.5 },
    { retry_after_seconds: "5" },
    { headers: {} },
    { refuse: refusal },
  ]) {
    t.match(
      route({ ...usual, ...change }),
      { kind: "fault", fault: "malformed" },
      JSON.stringify(change),
    );
  }
  for (const value of [null, [], "a", {}, undefined]) {
    t.match(route(value), { kind: "fault", fault: "malformed" }, JSON.stringify(value));
  }
  t.match(readRouteResult({ kind: "undefined" }, clusters), { kind: "fault", fault: "undefined" });
});

t.test("refusals", async (t) => {
  t.strictSame(route({ refuse: refusal }), {
    kind: "refuse",
    refusal: {
      code: "DrainRefused",
      status: 503,
      retryAfterSeconds: 300,
      message: "No",
      mode: "strict",
    },
  });
  t.match(route({ refuse: { code: "AccessDenied", status: 403, message: "No" } }), {
    refusal: { retryAfterSeconds: null, mode: null },
  });
  for (const change of [
    { code: "Nope" },
    { code: "InternalError", status: 500 },
    { code: 1 },
    { status: 200 },
    { status: 404 },
    { status: "503" },
    { message: "" },
    { message: 1 },
    { message: "a\u0000" },
    { mode: "lax" },
    { retry_after_seconds: 1e9 },
    { cluster: "a" },
  ]) {
    t.match(
      route({ refuse: { ...refusal, ...change } }),
      { kind: "fault", fault: "malformed" },
      JSON.stringify(change),
    );
  }
  t.match(route({ refuse: null }), { kind: "fault", fault: "malformed" });
});
