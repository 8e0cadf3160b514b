// The table of bucket records: immutable, shared between versions, filled in bulk.

import t from "tap";
import {
  bucketTableOf,
  emptyBucketTable,
  RecordInterner,
  withBucket,
  withBuckets,
  withoutBucket,
} from "../../proxy/placement/bucket-table.ts";
import type { BucketTable } from "../../proxy/placement/snapshot.ts";
import { noTenant } from "../../proxy/s3/names.ts";
import { bucketNamed, bucketRecord, routeOf, tenantNamed } from "../support/placement-names.ts";

const entryOf = (name: string, revision: number, fields = {}) => ({
  value: bucketRecord(name, fields),
  modRevision: BigInt(revision),
});
const acme = tenantNamed("acme");
const namesOf = (table: BucketTable) => [...table.all()].map(({ value }) => value.name).sort();

t.test("a record is found by tenant and name, and only so", async (t) => {
  const own = entryOf("logs", 1);
  const other = entryOf("logs", 2, { tenant: acme });
  const table = withBucket(withBucket(emptyBucketTable, own), other);
  t.equal(table.size, 2);
  t.equal(table.find(noTenant, bucketNamed("logs")), own);
  t.equal(table.find(acme, bucketNamed("logs")), other);
  t.equal(table.find(tenantNamed("evil"), bucketNamed("logs")), undefined);
  t.equal(table.find(noTenant, bucketNamed("log")), undefined);
});

t.test("a change makes a new table and leaves the old one as it was", async (t) => {
  const first = withBucket(emptyBucketTable, entryOf("x", 1));
  const second = withBucket(first, entryOf("x", 2));
  const third = withoutBucket(second, noTenant, bucketNamed("x"));
  t.equal(emptyBucketTable.size, 0);
  t.equal(first.find(noTenant, bucketNamed("x"))?.modRevision, 1n);
  t.equal(second.find(noTenant, bucketNamed("x"))?.modRevision, 2n);
  t.equal(second.size, 1);
  t.equal(third.size, 0);
  t.strictSame([...third.all()], []);
  t.equal(withoutBucket(second, noTenant, bucketNamed("y")), second, "nothing to remove");
  t.equal(withBuckets(second, []), second, "nothing to change");
});

t.test("a batch applies in order: the last change of a bucket counts", async (t) => {
  const start = bucketTableOf([entryOf("a", 1), entryOf("b", 1), entryOf("a", 2)]);
  t.equal(start.size, 2);
  t.equal(start.find(noTenant, bucketNamed("a"))?.modRevision, 2n);
  const gone = { kind: "delete", tenant: noTenant, name: bucketNamed("a") } as const;
  const put = { kind: "put", entry: entryOf("a", 3) } as const;
  const absent = { kind: "delete", tenant: acme, name: bucketNamed("a") } as const;
  t.equal(withBuckets(start, [gone, put, absent]).size, 2);
  t.strictSame(namesOf(withBuckets(start, [put, gone])), ["b"]);
  t.strictSame(namesOf(start), ["a", "b"]);
});

t.test("many records are all there, whatever is changed after", async (t) => {
  const count = 20_000;
  let table = bucketTableOf(
    Array.from({ length: count }, (_, i) => entryOf(`bucket-${String(i)}`, i)),
  );
  t.equal(table.size, count);
  t.equal([...table.all()].length, count);
  for (let i = 0; i < count; i += 100) {
    table = withoutBucket(table, noTenant, bucketNamed(`bucket-${String(i)}`));
  }
  t.equal(table.size, count - 200);
  const missing = [];
  for (let i = 0; i < count; i += 1) {
    const found = table.find(noTenant, bucketNamed(`bucket-${String(i)}`));
    if ((found?.modRevision === BigInt(i)) === (i % 100 === 0)) missing.push(i);
  }
  t.strictSame(missing, []);
});

t.test("a table of another make can be changed too", async (t) => {
  const entry = entryOf("x", 1);
  const foreign: BucketTable = { size: 1, find: () => entry, all: () => [entry] };
  t.strictSame(namesOf(withBucket(foreign, entryOf("y", 2))), ["x", "y"]);
});

t.test("records with equal parts share them", async (t) => {
  const interner = new RecordInterner(2);
  const one = interner.record(bucketRecord("one", { route: routeOf({ a: 1, b: 2 }) }));
  const two = interner.record(bucketRecord("two", { route: routeOf({ b: 2, a: 1 }) }));
  const other = interner.record(bucketRecord("three", { route: routeOf({ a: 2, b: 2 }) }));
  t.equal(one.route, two.route);
  t.equal(one.extra, two.extra);
  t.equal(one.epochs, two.epochs);
  t.equal(two.name, "two");
  t.not(one.route, other.route);
  t.strictSame(other.route, routeOf({ a: 2, b: 2 }));
  for (const fields of [{ mode: "strict" }, { spread: "bucket" }, { source: "pinned" }] as const) {
    const route = routeOf({ a: 1, b: 2 }, fields);
    t.strictSame(interner.record(bucketRecord("x", { route })).route, route);
  }
});
