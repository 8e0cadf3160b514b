// decide() is a function of its view and its input: both are frozen to their last leaf, and the same
// question has the same answer however often and through whichever engine it is asked.

import t from "tap";
import type { PlacementSnapshot } from "../../proxy/placement/snapshot.ts";
import { decide, mapOf } from "../../proxy/policy/decide.ts";
import type { DecisionInput, DecisionView } from "../../proxy/policy/ports.ts";
import { operationFacts, type S3Operation } from "../../proxy/s3/operation.ts";
import { deepFreeze } from "../support/deep-freeze.ts";
import { bucketRecord, routeOf } from "../support/placement-names.ts";
import {
  DecisionTally,
  defaultBundle,
  inputOf,
  nobody,
  snapshotOf,
  viewOf,
} from "../support/policy-views.ts";

const bundle = await defaultBundle();

function placement(): PlacementSnapshot {
  return snapshotOf({
    a: ["live", 1],
    b: ["draining_readonly", 2],
    c: ["evacuating", 3],
    d: ["pending", 4],
    e: ["removed", 5],
  });
}

/** The engine has a machine inside and is only frozen as an object; all that is data is frozen whole. */
function frozenView(): DecisionView {
  return Object.freeze(viewOf(bundle, deepFreeze(placement())));
}

const records = [
  null,
  bucketRecord("logs"),
  bucketRecord("logs", { route: routeOf({ a: 1, b: 3 }, { mode: "strict" }) }),
  bucketRecord("logs", { route: routeOf({ b: 1 }) }),
] as const;

function frozenInputs(): readonly DecisionInput[] {
  const names = Object.keys(operationFacts) as S3Operation[];
  const some = names.flatMap((operation) =>
    records.flatMap((record) => [
      inputOf(operation, { record }),
      inputOf(operation, { record, principal: nobody }),
    ]),
  );
  return deepFreeze(some);
}

const { meter } = new DecisionTally();

t.test("the same view and input give the same decision, and neither is written to", async (t) => {
  const view = frozenView();
  const inputs = frozenInputs();
  t.ok(inputs.length > 150, `${inputs.length} inputs`);
  const kinds = new Set<string>();
  for (const input of inputs) {
    const first = decide(view, input, meter);
    const again = decide(view, input, meter);
    t.strictSame(again, first, `${input.operation}, remembered`);
    kinds.add(first.authz.kind);
    kinds.add(first.route?.kind ?? "unrouted");
  }
  t.strictSame([...kinds].toSorted(), ["allow", "deny", "refuse", "route", "unrouted"]);
});

t.test("another engine over an equal view, asked in another order, decides the same", async (t) => {
  const [one, other] = [frozenView(), frozenView()];
  const inputs = frozenInputs();
  const there = inputs.map((input) => decide(one, input, meter));
  const back = inputs.toReversed().map((input) => decide(other, input, meter));
  t.strictSame(back.toReversed(), there);
});

t.test("the route of a bucket is a function of view and record", async (t) => {
  const [one, other] = [frozenView(), frozenView()];
  for (const record of deepFreeze(records)) {
    if (record === null) continue;
    const first = mapOf(one, record);
    t.strictSame(mapOf(one, record), first);
    t.strictSame(mapOf(other, record), first);
  }
});

t.test("a frozen view refuses to be written to", async (t) => {
  const { clusters, data } = frozenView().placement;
  const [entry] = clusters.values();
  t.throws(() => Reflect.apply(Reflect.get(clusters, "clear"), clusters, []), TypeError);
  t.throws(() => Reflect.apply(Reflect.get(data, "set"), data, ["x", 1]), TypeError);
  t.notOk(Reflect.set(entry?.value ?? {}, "weight", 9));
});
