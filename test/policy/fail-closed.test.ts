// Whatever a policy does wrong ends in a refusal, never in permission and never in an exception:
// traps, undefined and misshapen results, builtins that fail, memory that runs out.

import { readFile } from "node:fs/promises";
import t from "tap";
import { readBundleMembers } from "../../proxy/policy/bundle.ts";
import { decide } from "../../proxy/policy/decide.ts";
import { openEngine } from "../../proxy/policy/engine.ts";
import type { DecisionView } from "../../proxy/policy/ports.ts";
import { bucketNamed } from "../support/placement-names.ts";
import {
  DecisionTally,
  hostileBundle,
  inputOf,
  snapshotOf,
  viewOf,
} from "../support/policy-views.ts";

const placement = snapshotOf({ a: ["live", 1] });
const bundle = await hostileBundle();

function ask(view: DecisionView, bucket: string, requestId = "r-1") {
  const tally = new DecisionTally();
  const input = inputOf("PutObject", { bucket: bucketNamed(bucket), requestId });
  return { decision: decide(view, input, tally.meter), tally };
}

const authzFaults = [
  { bucket: "nothing-said", fault: "undefined", outcome: "authz undefined" },
  { bucket: "wrong-type", fault: "malformed", outcome: "authz malformed" },
  { bucket: "unknown-member", fault: "malformed", outcome: "authz malformed" },
  { bucket: "array", fault: "malformed", outcome: "authz malformed" },
  { bucket: "conflict", fault: "trap", outcome: "authz error" },
  { bucket: "memory", fault: "trap", outcome: "authz error" },
  { bucket: "broken-builtin", fault: "undefined", outcome: "authz undefined" },
] as const;

for (const { bucket, fault, outcome } of authzFaults) {
  t.test(`authz: ${bucket} is a fault and the next request is decided`, async (t) => {
    // https://github.com/open-policy-agent/npm-opa-wasm/pull/25
    const view = viewOf(bundle, placement);
    t.teardown(() => view.policy.close());
    const { decision, tally } = ask(view, bucket);
    t.match(decision, { authz: { kind: "fault", fault }, map: null, route: null, owner: null });
    t.strictSame(decision.rank, []);
    t.strictSame(tally.lines, [outcome]);
    t.equal(ask(view, "allowed").decision.authz.kind, "allow");
    t.equal(ask(view, "allowed").decision.owner, "a");
  });
}

t.test("route: faults are refused with their own outcome", async (t) => {
  const allowing = { ...bundle, memo: null };
  const engine = openEngine(allowing, {});
  t.teardown(() => engine.close());
  const allowed = { kind: "defined", value: { allow: true } } as const;
  const view: DecisionView = {
    placement,
    policy: {
      revision: "r",
      close: () => undefined,
      evaluate: (entrypoint, input, context) =>
        entrypoint === "authz" ? allowed : engine.evaluate(entrypoint, input, context),
    },
  };
  for (const [bucket, fault, outcome] of [
    ["unknown-cluster", "malformed", "route malformed"],
    ["nothing-said", "undefined", "route undefined"],
    ["conflict", "trap", "route error"],
  ] as const) {
    const { decision, tally } = ask(view, bucket);
    t.match(decision, { route: { kind: "fault", fault }, owner: null }, bucket);
    t.strictSame(tally.lines, ["authz allow", outcome], bucket);
  }
});

t.test("thrown strings and objects become a trap with their text", async (t) => {
  const engine = openEngine(bundle, {});
  t.teardown(() => engine.close());
  const outcome = engine.evaluate("authz", { request: { bucket: "conflict" } });
  t.equal(outcome.kind, "trap");
  if (outcome.kind !== "trap") return;
  t.ok(outcome.cause instanceof Error);
  t.match(outcome.cause.message, /var assignment conflict/);
});

t.test("input that is no JSON is a trap", async (t) => {
  const engine = openEngine(bundle, {});
  t.teardown(() => engine.close());
  const loop: Record<string, unknown> = {};
  loop["loop"] = loop;
  t.equal(engine.evaluate("authz", loop).kind, "trap");
});

t.test(
  "time and chance are frozen for a request and absent from the canonical input",
  async (t) => {
    const view = viewOf(bundle, placement);
    t.teardown(() => view.policy.close());
    const reason = (bucket: string, id: string) => {
      const { authz } = ask(view, bucket, id).decision;
      return authz.kind === "deny" ? authz.reason : authz.kind;
    };
    t.equal(reason("time", "r-1"), "1796000000000000000");
    t.equal(reason("chance", "r-1"), reason("chance", "r-1"));
    t.not(reason("chance", "r-1"), reason("chance", "r-2"));
    t.match(reason("rank", "r-1"), /^[ab],[ab]$/);
    const silent = { request: { bucket: "time" } };
    t.equal(view.policy.evaluate("authz", silent, null).kind, "undefined");
  },
);

t.test("a module that asks for time or chance is never remembered", async (t) => {
  const view = viewOf(bundle, placement);
  t.teardown(() => view.policy.close());
  t.not(bundle.memo, null);
  t.strictSame(view.policy.memos, { authz: null, route: null });
});

t.test("an engine that was closed still answers whoever holds it", async (t) => {
  const view = viewOf(bundle, placement);
  view.policy.close();
  t.teardown(() => view.policy.close());
  t.equal(ask(view, "allowed").decision.authz.kind, "allow");
});

t.test("bundles that cannot serve are refused before they serve", async (t) => {
  // https://github.com/open-policy-agent/npm-opa-wasm/issues/22
  const wasm = await readFile("test/vectors/policy/hostile/policy.wasm");
  const load = async (members: Readonly<Record<string, Uint8Array>>, entrypoints = {}) => {
    const read = await readBundleMembers(new Map(Object.entries(members)), "candidate");
    const options = {
      entrypoints: {
        authz: "headgate/authz/decision",
        route: "headgate/route/decision",
        ...entrypoints,
      },
    };
    openEngine(read, {}, options).close();
  };
  const fault = (message: RegExp) => ({ kind: "policy_load", message });
  const renamed = Buffer.from(wasm);
  const at = renamed.indexOf("time.now_ns");
  t.ok(at > 0, "the fixture asks for time.now_ns");
  renamed.write("time.now_xs", at);
  await t.rejects(
    load({ "policy.wasm": renamed }),
    fault(/builtins that are not here: .*time\.now_xs/),
  );
  await t.rejects(
    load({ "policy.wasm": wasm }, { authz: "acme/authz/decision" }),
    fault(/no entrypoint "acme\/authz\/decision"/),
  );
  await t.rejects(load({}), fault(/holds no "policy\.wasm"/));
  await t.rejects(load({ "policy.wasm": Buffer.from("text") }), fault(/no WebAssembly module/));
  const empty = Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
  await t.rejects(load({ "policy.wasm": empty }), fault(/ABI version is below 1\.2/));
  // (import "env" "http" (func))
  const foreign = Buffer.concat([
    empty,
    Buffer.from([1, 4, 1, 0x60, 0, 0, 2, 12, 1, 3]),
    Buffer.from("env"),
    Buffer.from([4]),
    Buffer.from("http"),
    Buffer.from([0, 0]),
  ]);
  await t.rejects(load({ "policy.wasm": foreign }), fault(/imports "env\.http"/));
  await t.rejects(
    load({ "policy.wasm": wasm, ".manifest": Buffer.from("{") }),
    fault(/"\.manifest" is not JSON/),
  );
  await t.rejects(
    load({ "policy.wasm": wasm, "data.json": Buffer.from("[]") }),
    fault(/not a JSON object/),
  );
  const memo = { metadata: { headgate: { memo: { authz: ["bucket"], route: [] } } } };
  const manifest = Buffer.from(JSON.stringify(memo));
  await t.rejects(
    load({ "policy.wasm": wasm, ".manifest": manifest }),
    fault(/memo metadata is malformed/),
  );
});
