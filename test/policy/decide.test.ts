// decide() over the committed bundle: authorization first, then where bytes may go; settled buckets
// keep their recorded route whatever the wheel says now (policies/README.md "Settled buckets").

import t from "tap";
import type { BucketPlacement } from "../../proxy/placement/records.ts";
import { decide, mapOf } from "../../proxy/policy/decide.ts";
import type { DecisionInput, DecisionView } from "../../proxy/policy/ports.ts";
import { operationFacts, type S3Operation } from "../../proxy/s3/operation.ts";
import { bucketRecord, keyNamed, routeOf, weightsOf } from "../support/placement-names.ts";
import {
  DecisionTally,
  defaultBundle,
  inputOf,
  nobody,
  snapshotOf,
  viewOf,
} from "../support/policy-views.ts";

const bundle = await defaultBundle();
const abc = { a: ["live", 1], b: ["live", 2], c: ["live", 3] } as const;

function ask(view: DecisionView, operation: S3Operation, fields: Partial<DecisionInput> = {}) {
  const tally = new DecisionTally();
  return { ...decide(view, inputOf(operation, fields), tally.meter), lines: tally.lines };
}

function placed(
  weights: Readonly<Record<string, number>>,
  mode: BucketPlacement["mode"],
): BucketPlacement {
  return { weights: weightsOf(weights), mode, spread: null, weighting: "weights" };
}

t.test("a denial ends the decision", async (t) => {
  const view = viewOf(bundle, snapshotOf(abc));
  const record = bucketRecord("logs");
  const decision = ask(view, "PutObject", { principal: nobody, record });
  t.match(decision, {
    authz: { kind: "deny", code: "AccessDenied" },
    map: null,
    route: null,
    owner: null,
    rank: [],
  });
  t.strictSame(decision.lines, ["memo miss", "authz deny"]);
  t.equal(decision.why.source, "authz");
  t.match(decision.why.reason, /not open to anonymous/);
});

t.test("anonymous requests are allowed where data says so", async (t) => {
  const placement = snapshotOf(abc, { data: { "headgate/anonymous": { "lo*": ["read"] } } });
  const view = viewOf(bundle, placement);
  t.equal(ask(view, "GetObject", { principal: nobody }).authz.kind, "allow");
  t.equal(ask(view, "PutObject", { principal: nobody }).authz.kind, "deny");
});

t.test("operations that place nothing never ask for a route", async (t) => {
  const view = viewOf(
    bundle,
    snapshotOf({ a: ["removed", 1], b: ["evacuating", 1], c: ["live", 1] }),
  );
  const record = bucketRecord("logs", { route: routeOf({ a: 1, b: 3 }, { mode: "strict" }) });
  const names = Object.keys(operationFacts) as S3Operation[];
  const within = names.filter((name) => operationFacts[name].scope !== "service");
  t.ok(within.length > 20, "there are operations to look at");
  for (const operation of within.filter((name) => !operationFacts[name].places)) {
    const decision = ask(view, operation, { record });
    t.match(decision, { authz: { kind: "allow" }, map: null, route: null }, operation);
    t.strictSame(decision.rank.toSorted(), ["a", "b"], operation);
    t.equal(
      decision.owner,
      operationFacts[operation].scope === "object" ? decision.rank[0] : null,
      operation,
    );
    t.equal(decision.why.source, "settled", operation);
  }
  const without = ask(view, "GetObject");
  t.match(without, { authz: { kind: "allow" }, owner: null, rank: [], route: null });
});

t.test("ListBuckets has no owner", async (t) => {
  t.match(ask(viewOf(bundle, snapshotOf(abc)), "ListBuckets"), {
    authz: { kind: "allow" },
    owner: null,
    rank: [],
  });
});

t.test("a new bucket gets the route of the wheel and no owner", async (t) => {
  const view = viewOf(bundle, snapshotOf({ ...abc, b: ["draining_readonly", 2] }));
  const decision = ask(view, "CreateBucket");
  t.match(decision, {
    owner: null,
    map: { kind: "route" },
    route: { kind: "route", route: { source: "default_wheel" } },
  });
  if (decision.route?.kind !== "route") return;
  t.strictSame(decision.route.route.weights, weightsOf({ a: 1, c: 3 }));
  t.strictSame([...decision.route.closed], ["b"]);
  t.strictSame(decision.why.candidates.map(({ cluster }) => cluster).toSorted(), ["a", "c"]);
  // A location is this request's alone, so the map is another question than the route.
  t.strictSame(decision.lines, [
    "memo miss",
    "authz allow",
    "memo miss",
    "memo miss",
    "route route",
  ]);
});

t.test("a new bucket is refused when nothing is eligible", async (t) => {
  const view = viewOf(bundle, snapshotOf({ a: ["draining_readonly", 1] }));
  const decision = ask(view, "CreateBucket");
  t.match(decision.route, {
    kind: "refuse",
    refusal: { code: "DrainRefused", status: 503, retryAfterSeconds: 300 },
  });
  t.ok(decision.lines.includes("route refuse"));
});

t.test("a settled bucket keeps its recorded owners when the wheel changes", async (t) => {
  const record = bucketRecord("logs", { route: routeOf({ a: 1, b: 1 }) });
  const before = viewOf(bundle, snapshotOf({ a: ["live", 1], b: ["live", 1] }));
  const after = viewOf(bundle, snapshotOf({ a: ["live", 1], b: ["live", 90], c: ["live", 50] }));
  const owners = new Set<string>();
  for (let index = 0; index < 40; index++) {
    const fields = { record, key: keyNamed(`k${index}`) };
    const [old, now] = [ask(before, "PutObject", fields), ask(after, "PutObject", fields)];
    t.equal(now.owner, old.owner);
    t.equal(now.route?.kind, "route");
    t.equal(ask(after, "GetObject", fields).owner, old.owner);
    owners.add(String(now.owner));
  }
  t.strictSame([...owners].toSorted(), ["a", "b"]);
});

t.test("a placing write whose recorded owner drains is refused, the others go on", async (t) => {
  const view = viewOf(
    bundle,
    snapshotOf({ a: ["draining_readonly", 1], b: ["live", 1], c: ["live", 1] }),
  );
  for (const mode of ["weighted", "strict"] as const) {
    const route = routeOf({ a: 1, b: 1 }, { mode, source: "bucket_policy" });
    const record = bucketRecord("logs", { route, placement: placed({ a: 1, b: 1 }, mode) });
    let refused = 0;
    for (let index = 0; index < 40; index++) {
      const decision = ask(view, "PutObject", { record, key: keyNamed(`k${index}`) });
      if (decision.owner === "b") t.equal(decision.route?.kind, "route");
      else {
        refused += 1;
        t.match(decision.route, {
          kind: "refuse",
          refusal: { code: "DrainRefused", status: 503, retryAfterSeconds: 300, mode },
        });
        t.ok(decision.lines.includes("route refuse"));
        const text = decision.route?.kind === "refuse" ? decision.route.refusal.message : "";
        t.notMatch(text, /\ba\b.*cluster|cluster "/);
      }
    }
    t.ok(refused > 5 && refused < 35, "both kinds of keys were seen");
  }
});

t.test("every placing object operation is refused, UploadPart and Complete are not", async (t) => {
  const view = viewOf(bundle, snapshotOf({ a: ["evacuating", 1], b: ["live", 1] }));
  const record = bucketRecord("logs", {
    route: routeOf({ a: 1 }, { mode: "strict" }),
    placement: placed({ a: 1 }, "strict"),
  });
  const key = keyNamed("k");
  for (const operation of [
    "PutObject",
    "PostObject",
    "CopyObject",
    "CreateMultipartUpload",
  ] as const) {
    t.match(
      ask(view, operation, { record, key }).route,
      { kind: "refuse", refusal: { code: "DrainRefused", mode: "strict" } },
      operation,
    );
  }
  for (const operation of [
    "UploadPart",
    "CompleteMultipartUpload",
    "AbortMultipartUpload",
    "GetObject",
  ] as const) {
    t.match(ask(view, operation, { record, key }), { route: null, owner: "a" }, operation);
  }
});

t.test("the retry time of a closed owner comes from policy", async (t) => {
  const placement = snapshotOf(
    { a: ["draining_readonly", 1], b: ["live", 1] },
    { data: { "headgate/refusal": { retry_after_seconds: 30 } } },
  );
  const record = bucketRecord("logs", { route: routeOf({ a: 1 }) });
  t.match(ask(viewOf(bundle, placement), "PutObject", { record }).route, {
    kind: "refuse",
    refusal: { retryAfterSeconds: 30 },
  });
});

t.test("a storage class pinned elsewhere than the recorded owner is not implemented", async (t) => {
  const view = viewOf(bundle, snapshotOf(abc, { classes: { GLACIER: "c", COLD: "a" } }));
  const record = bucketRecord("logs", { route: routeOf({ a: 1 }) });
  t.match(ask(view, "PutObject", { record, storageClass: "GLACIER" }).route, {
    kind: "refuse",
    refusal: { code: "NotImplemented", status: 501 },
  });
  t.match(ask(view, "PutObject", { record, storageClass: "COLD" }), {
    owner: "a",
    route: { kind: "route" },
  });
  t.match(ask(view, "PutObject", { record, storageClass: "STANDARD" }), {
    owner: "a",
    route: { kind: "route" },
  });
  const own = bucketRecord("logs", {
    route: routeOf({ a: 1 }),
    placement: placed({ a: 1 }, "strict"),
  });
  t.match(ask(view, "PutObject", { record: own, storageClass: "GLACIER" }), {
    owner: "a",
    route: { kind: "route" },
  });
});

t.test("a pin to a draining cluster is refused as such", async (t) => {
  const view = viewOf(
    bundle,
    snapshotOf({ ...abc, c: ["draining_readonly", 3] }, { classes: { GLACIER: "c" } }),
  );
  const record = bucketRecord("logs", { route: routeOf({ a: 1 }) });
  t.match(ask(view, "PutObject", { record, storageClass: "GLACIER" }).route, {
    kind: "refuse",
    refusal: { code: "DrainRefused" },
  });
  t.equal(ask(view, "PutObject", { record }).route?.kind, "route");
});

t.test("a recorded cluster that is not known is 503, not a guess", async (t) => {
  const view = viewOf(bundle, snapshotOf(abc));
  const record = bucketRecord("logs", { route: routeOf({ z: 1 }) });
  t.match(ask(view, "PutObject", { record }).route, {
    kind: "refuse",
    refusal: { code: "ServiceUnavailable", status: 503 },
  });
});

t.test("a removed cluster takes no bytes", async (t) => {
  const view = viewOf(bundle, snapshotOf({ a: ["removed", 1], b: ["live", 1] }));
  const record = bucketRecord("logs", { route: routeOf({ a: 1 }) });
  t.match(ask(view, "PutObject", { record }).route, {
    kind: "refuse",
    refusal: { code: "DrainRefused" },
  });
});

t.test("a pending cluster named explicitly takes bytes", async (t) => {
  const view = viewOf(bundle, snapshotOf({ a: ["live", 1], b: ["pending", null] }));
  const record = bucketRecord("logs", {
    route: routeOf({ b: 1 }, { mode: "strict" }),
    placement: placed({ b: 1 }, "strict"),
  });
  t.match(ask(view, "PutObject", { record }), {
    owner: "b",
    route: { kind: "route", route: { source: "bucket_policy" } },
  });
});

t.test("mapOf says what policy would give the bucket now", async (t) => {
  const view = viewOf(
    bundle,
    snapshotOf({ a: ["draining_readonly", 1], b: ["live", 2] }, { classes: { GLACIER: "b" } }),
  );
  t.match(mapOf(view, bucketRecord("logs")), {
    kind: "route",
    route: { weights: weightsOf({ b: 2 }), spread: "object" },
  });
  t.match(mapOf(view, bucketRecord("logs", { placement: placed({ a: 1 }, "strict") })), {
    kind: "refuse",
  });
  const spread = bucketRecord("logs", { route: routeOf({ b: 1 }, { spread: "bucket" }) });
  t.match(mapOf(view, spread), { kind: "route", route: { spread: "bucket" } });
});

t.test("decisions are remembered by what they depend on", async (t) => {
  const view = viewOf(bundle, snapshotOf(abc));
  const record = bucketRecord("logs", { route: routeOf({ a: 1, b: 1 }) });
  ask(view, "PutObject", { record });
  const again = ask(view, "PutObject", {
    record,
    requestId: "r-2",
    nowMs: 1,
    headers: { "x-a": ["b"] },
  });
  t.strictSame(again.lines, ["memo hit", "authz allow", "memo hit", "memo hit", "route route"]);
  const other = ask(view, "PutObject", {
    record,
    principal: { ...inputOf("PutObject").principal, grants: [] },
  });
  t.equal(other.authz.kind, "deny");
  const placedElsewhere = bucketRecord("logs", {
    placement: placed({ c: 1 }, "strict"),
    route: routeOf({ c: 1 }),
  });
  t.match(ask(view, "PutObject", { record: placedElsewhere }), { owner: "c" });
});

t.test("why names the policy, the state and every candidate", async (t) => {
  const view = viewOf(bundle, snapshotOf({ ...abc, b: ["draining_readonly", 2] }));
  const record = bucketRecord("logs", { route: routeOf({ a: 1, b: 3 }) });
  const { why, rank } = ask(view, "PutObject", { record });
  t.equal(why.policyRevision, bundle.revision);
  t.equal(why.stateRevision, "7");
  t.strictSame(
    why.candidates.map(({ cluster }) => cluster),
    rank,
  );
  t.strictSame(
    why.candidates.find(({ cluster }) => cluster === "a"),
    { cluster: "a", weight: 1, closed: false },
  );
});
