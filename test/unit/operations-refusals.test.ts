// The table of 501 and 503 names every place that gives one, and no other.

import { readdirSync, readFileSync } from "node:fs";
import t from "tap";
import { operationGroups, refusals } from "../../proxy/operations/refusals.ts";
import { type OperationFacts, operationFacts } from "../../proxy/s3/operation.ts";

/** A code in quotes that is given: not compared with, and not the name of a type. */
const given = /(?<!=== |!== |\| )"(NotImplemented|ServiceUnavailable|SlowDown|DrainRefused)"/g;

/** Gives these codes to none of the operations: what the admin API runs, and the table itself. */
const others = new Set(["operations/adopt.ts", "operations/refusals.ts"]);

t.test("every place that gives a 501 or 503 is in a row, with how often", async (t) => {
  const found: Record<string, number> = {};
  const folders = ["s3", "policy", "placement", "upstream", "operations", "gateway"];
  const files = folders.flatMap((folder) =>
    readdirSync(`proxy/${folder}`).map((name) => `${folder}/${name}`),
  );
  for (const name of files) {
    if (others.has(name)) continue;
    for (const [, code] of readFileSync(`proxy/${name}`, "utf8").matchAll(given)) {
      const place = `${code} ${name}`;
      found[place] = (found[place] ?? 0) + 1;
    }
  }
  const told: Record<string, number> = {};
  for (const { code, from } of refusals) {
    for (const [name, count] of Object.entries(from)) {
      const place = `${code} ${name}`;
      told[place] = (told[place] ?? 0) + count;
    }
  }
  t.ok(Object.keys(found).length > 30, "the places are found");
  t.strictSame(told, found);
});

t.test("no other code has such a status", async (t) => {
  const table = readFileSync("proxy/s3/errors.ts", "utf8");
  const codes = [...table.matchAll(/^ +(\w+): \[50[13],/gm)].map(([, code]) => code);
  const told: readonly string[] = refusals.map(({ code }) => code);
  t.strictSame(new Set(codes), new Set(told));
});

t.test("every group has operations, and every row tells a reason of its own", async (t) => {
  const facts: readonly OperationFacts[] = Object.values(operationFacts);
  for (const [name, holds] of Object.entries(operationGroups)) t.ok(facts.some(holds), name);
  const reasons = refusals.map(({ code, why }) => `${code} ${why}`);
  t.equal(new Set(reasons).size, reasons.length);
  const groups = refusals.flatMap(({ operations }) =>
    typeof operations === "string" ? [operations] : [],
  );
  t.strictSame(new Set<string>(groups), new Set(Object.keys(operationGroups)));
  for (const { operations } of refusals) {
    if (typeof operations === "string") continue;
    t.ok(operations.length > 0 && operations.every((name) => operationFacts[name].supported));
  }
});
