// The memo's keys: no two inputs that a policy can tell apart share one; bounded all the same.

import fc from "fast-check";
import t from "tap";
import { FieldMemo } from "../../proxy/policy/memo.ts";

const fields = [["a"], ["b", "c"], ["d"]];

t.test("only the fields count", async (t) => {
  const memo = new FieldMemo<string>(fields, 10);
  t.equal(memo.keyOf({ a: 1, x: 1 }), memo.keyOf({ a: 1, x: 2, b: {} }));
  t.not(memo.keyOf({ a: 1 }), memo.keyOf({ a: "1" }));
  t.not(memo.keyOf({ a: null }), memo.keyOf({}));
  t.not(memo.keyOf({ a: "null" }), memo.keyOf({ a: null }));
  t.not(memo.keyOf({ a: [] }), memo.keyOf({ a: {} }));
  t.not(memo.keyOf({ b: { c: true } }), memo.keyOf({ b: { c: false } }));
  t.equal(memo.keyOf({ b: 5 }), memo.keyOf(null));
  t.equal(
    new FieldMemo([["constructor"]], 1).keyOf({}),
    new FieldMemo([["constructor"]], 1).keyOf(null),
  );
});

t.test("different values never share a key", async (t) => {
  const memo = new FieldMemo<string>(fields, 10);
  const document = fc.record(
    {
      a: fc.oneof(fc.string(), fc.jsonValue()),
      b: fc.record({ c: fc.string() }),
      d: fc.oneof(fc.string(), fc.double()),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(document, document, (left, right) => {
      const picked = [left, right].map((value) =>
        JSON.stringify([value.a, value.b?.c, value.d, "a" in value, "b" in value, "d" in value]),
      );
      if (picked[0] === picked[1]) return;
      // JSON cannot tell these numbers apart, and neither can the policy.
      if (JSON.stringify(left) === JSON.stringify(right)) return;
      const same = memo.keyOf(left) === memo.keyOf(right);
      if (same) t.equal(JSON.stringify(left), JSON.stringify(right));
    }),
  );
});

t.test("long inputs are not remembered", async (t) => {
  const memo = new FieldMemo<string>(fields, 10);
  t.equal(memo.keyOf({ a: "x".repeat(5000) }), null);
});

t.test("what was asked lately stays, and the rest leaves", async (t) => {
  const memo = new FieldMemo<number>(fields, 10);
  for (let index = 0; index < 100; index++) {
    memo.remember(`k${index}`, index);
    t.equal(memo.find("k0"), 0, "asked each time");
  }
  t.equal(memo.find("k1"), undefined);
  t.equal(memo.find("k99"), 99);
  const kept = Array.from({ length: 100 }, (_, index) => memo.find(`k${index}`));
  t.ok(kept.filter((value) => value !== undefined).length <= 10);
});
