// Where a key may be, what moves it, and what discovery concludes.

import t from "tap";
import { candidatesOf, clustersOf, isFixed, keyOwner } from "../../proxy/placement/candidates.ts";
import {
  createdRecord,
  decideDiscovery,
  discoveredRecord,
} from "../../proxy/placement/discovery.ts";
import { owner } from "../../proxy/placement/hrw.ts";
import { normaliseWeights, sameOwners, sameShares } from "../../proxy/placement/routes.ts";
import { noTenant } from "../../proxy/s3/names.ts";
import {
  bucketNamed,
  bucketRecord,
  clusterNamed,
  keyNamed,
  routeOf,
  tenantNamed,
  weightsOf,
} from "../support/placement-names.ts";

const [a, b, c] = [clusterNamed("a"), clusterNamed("b"), clusterNamed("c")] as const;

t.test("a settled bucket has one candidate a key: the owner under its route", async (t) => {
  for (const route of [routeOf({ a: 1, b: 2, c: 0 }), routeOf({ a: 1, b: 2 })]) {
    const record = bucketRecord("logs", { tenant: tenantNamed("acme"), route });
    const seen = new Set<string>();
    for (let i = 0; i < 200; i += 1) {
      const key = keyNamed(`x/${String(i)}`);
      const expected = owner(record.route.weights, `acme:logs/x/${String(i)}`);
      const candidates = candidatesOf(record, key);
      t.strictSame(candidates, [expected]);
      t.equal(keyOwner(record, key), expected);
      seen.add(String(candidates[0]));
    }
    t.strictSame([...seen].sort(), ["a", "b"]);
    t.strictSame(clustersOf(record), ["a", "b"]);
  }
});

t.test("keys of one prefix share an owner with spread prefix, all keys with bucket", async (t) => {
  const keys = Array.from({ length: 50 }, (_, i) => keyNamed(`p/${String(i)}`));
  for (const spread of ["prefix", "bucket"] as const) {
    const record = bucketRecord("logs", { route: routeOf({ a: 1, b: 1, c: 1 }, { spread }) });
    t.equal(new Set(keys.map((key) => keyOwner(record, key))).size, 1, spread);
  }
});

t.test("extra stands behind the owner unless the order says otherwise", async (t) => {
  const route = routeOf({ a: 1 });
  const key = keyNamed("k");
  t.strictSame(candidatesOf(bucketRecord("x", { route, extra: [c, b] }), key), [a, c, b]);
  t.strictSame(candidatesOf(bucketRecord("x", { route, extra: [c, b], order: [b, a] }), key), [
    b,
    a,
    c,
  ]);
  t.strictSame(candidatesOf(bucketRecord("x", { route, extra: [a] }), key), [a]);
  t.strictSame(clustersOf(bucketRecord("x", { route, extra: [c, b], order: [b] })), [b, a, c]);
  // The order alone makes nobody a candidate.
  t.strictSame(clustersOf(bucketRecord("x", { route, order: [c] })), [a]);
});

t.test("a bucket's clusters do not depend on how its weights were written", async (t) => {
  const forward = bucketRecord("x", { route: routeOf({ c: 1, a: 1, b: 1 }) });
  const backward = bucketRecord("x", { route: routeOf({ b: 1, a: 1, c: 1 }) });
  t.strictSame(clustersOf(forward), ["a", "b", "c"]);
  t.strictSame(clustersOf(backward), ["a", "b", "c"]);
});

t.test("a route of no cluster has no owner and no candidate", async (t) => {
  const record = bucketRecord("x", { route: routeOf({}) });
  t.equal(keyOwner(record, keyNamed("k")), null);
  t.strictSame(candidatesOf(record, keyNamed("k")), []);
  t.strictSame(clustersOf(record), []);
  const zero = bucketRecord("x", { route: routeOf({ a: 0 }) });
  t.equal(keyOwner(zero, keyNamed("k")), null);
  t.strictSame(clustersOf(zero), []);
});

t.test("weights are normalised by their gcd, without zeroes, by id", async (t) => {
  const normal = normaliseWeights(weightsOf({ c: 300, a: 100, b: 0 }));
  t.strictSame(
    [...normal],
    [
      ["a", 1],
      ["c", 3],
    ],
  );
  t.strictSame([...normaliseWeights(weightsOf({ a: 0 }))], []);
  const bytes = { a: 1_000_000_000, b: 3_000_000_000, c: 6_000_000_000 };
  t.ok(sameShares(weightsOf(bytes), weightsOf({ a: 1, b: 3, c: 6 })));
});

t.test("routes have the same owners exactly when no key can move", async (t) => {
  const same = (x: Parameters<typeof routeOf>, y: Parameters<typeof routeOf>) =>
    sameOwners(routeOf(...x), routeOf(...y));
  t.ok(same([{ a: 1, b: 3 }], [{ b: 30, a: 10 }]), "proportional");
  t.ok(same([{ a: 1, b: 0 }], [{ a: 9 }]), "zero is absent");
  t.ok(same([{ a: 1 }, { spread: "bucket" }], [{ a: 50 }, { spread: "object" }]), "one cluster");
  t.ok(same([{ a: 1 }, { mode: "strict" }], [{ a: 1 }, { source: "pinned" }]), "mode and source");
  t.ok(same([{}], [{ a: 0 }, { spread: "bucket" }]), "nobody");
  t.notOk(same([{ a: 1, b: 3 }], [{ a: 1, b: 2 }]), "shares");
  t.notOk(same([{ a: 1, b: 1 }], [{ a: 1, c: 1 }]), "sets");
  t.notOk(same([{ a: 1, b: 1 }], [{ a: 1, b: 1, c: 1 }]), "a joining cluster");
  t.notOk(same([{ a: 1 }], [{ b: 1 }]), "another cluster");
  t.notOk(same([{ a: 1, b: 1 }, { spread: "bucket" }], [{ a: 1, b: 1 }]), "spread");
});

t.test("discovery concludes only from clear answers of every cluster", async (t) => {
  const decided = (...statuses: readonly (number | null)[]) =>
    decideDiscovery(
      // Asked in no particular order.
      statuses.map((status, i) => ({ cluster: [c, a, b][i] ?? a, status })),
    );
  t.strictSame(decided(404, 404, 404), { kind: "absent" });
  t.strictSame(decided(404, 200, 404), { kind: "found", clusters: [a] });
  t.strictSame(decided(403, 404, 404), { kind: "found", clusters: [c] });
  t.strictSame(decided(404, 404, 301), { kind: "found", clusters: [b] });
  t.strictSame(decided(200, 403, 404), { kind: "found", clusters: [a, c] });
  for (const unclear of [null, 500, 502, 503, 504, 400, 405, 429, 204, 307, 401]) {
    t.strictSame(decided(404, unclear, 404), { kind: "unknown", clusters: [a] }, String(unclear));
    t.strictSame(decided(200, unclear, 404), { kind: "unknown", clusters: [a] }, String(unclear));
  }
  t.strictSame(decided(null, null, 200), { kind: "unknown", clusters: [a, c] });
  t.strictSame(decideDiscovery([]), { kind: "unknown", clusters: [] });
});

const identity = { tenant: noTenant, name: bucketNamed("old"), createdAtMs: 0 };

t.test("a bucket found on one cluster stays there, strictly", async (t) => {
  const record = discoveredRecord(identity, [b]);
  t.strictSame(record.placement, {
    weights: new Map([[b, 1]]),
    mode: "strict",
    spread: "bucket",
    weighting: "weights",
  });
  t.match(record, {
    origin: "discovered",
    owner: null,
    phase: "settled",
    conflict: false,
    createdAt: "1970-01-01T00:00:00.000Z",
  });
  t.equal(record.route.mode, "strict");
  t.strictSame(candidatesOf(record, keyNamed("k")), [b]);
  t.strictSame(clustersOf(record), [b]);
});

t.test("a bucket found on several clusters asks all of them, by id", async (t) => {
  const record = discoveredRecord(identity, [a, c]);
  t.equal(record.conflict, true);
  t.strictSame(
    [record.order, record.extra],
    [
      [a, c],
      [a, c],
    ],
  );
  t.strictSame(candidatesOf(record, keyNamed("k")), [a, c]);
  t.strictSame(clustersOf(record), [a, c]);
});

t.test("a created bucket begins on its route, not yet everywhere", async (t) => {
  const route = routeOf({ a: 1, b: 2 });
  const record = createdRecord({ ...identity, route, owner: "AKID" });
  t.match(record, {
    origin: "created",
    owner: "AKID",
    phase: "creating",
    placement: null,
    asked: /^[0-9a-f]{64}$/,
    epochs: [1],
    order: [],
    extra: [],
    frozen: false,
  });
  t.equal(record.route, route);
  const same = createdRecord({ ...identity, route: routeOf({ b: 4, a: 2 }), owner: "x" });
  t.equal(same.asked, record.asked, "shares, not weights, are asked for");
  for (const other of [
    { route: routeOf({ a: 1, b: 3 }) },
    { route: routeOf({ a: 1, b: 2 }, { spread: "bucket" }) },
    { asked: ["", "x-amz-acl:private"] },
    { asked: ["a"] },
    { placement: { ...route, weighting: "weights" as const } },
  ]) {
    t.not(createdRecord({ ...identity, route, owner: "AKID", ...other }).asked, record.asked);
  }
});

t.test("only a frozen bucket on one cluster is fixed", async (t) => {
  for (const [frozen, weights, extra, fixed] of [
    [true, { a: 1 }, [], true],
    [false, { a: 1 }, [], false],
    [true, { a: 1, b: 1 }, [], false],
    [true, { a: 1 }, [b], false],
  ] as const) {
    const record = bucketRecord("logs", { frozen, route: routeOf(weights), extra: [...extra] });
    t.equal(isFixed(record), fixed);
  }
});
