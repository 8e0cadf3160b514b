import { existsSync, readFileSync } from "node:fs";
import t from "tap";
import { operationFacts } from "../../proxy/s3/operation.ts";
import { readmeTables } from "../support/readme-tables.ts";

const file = "README.md";

// On a difference, copy the wanted text out of the report.
t.test("the README's tables are those of the code", async (t) => {
  t.ok(existsSync(file), "README.md stands at the top of the tree");
  const text = readFileSync(file, "utf8");
  for (const [name, make] of Object.entries(readmeTables)) {
    const inside = text.split(`<!-- ${name} -->`)[1]?.split(`<!-- /${name} -->`)[0];
    t.equal(inside?.trim(), make().trim(), name);
  }
});

/** How the README names operations that are no S3 operation of their own. */
const groups: Readonly<Record<string, string>> = {
  BucketSubresourceRead: "bucket and object sub-resources",
  BucketSubresourceWrite: "bucket and object sub-resources",
  ObjectSubresourceRead: "bucket and object sub-resources",
  ObjectSubresourceWrite: "bucket and object sub-resources",
  ServiceAction: "STS and IAM actions",
  OptionsObject: "OPTIONS",
};

t.test("the README says which operations are served and which are not", async (t) => {
  const table = /^\| Served \| Answered 501 .*\n\|[-| ]+\|\n((?:\|.*\n)+)/m.exec(
    readFileSync(file, "utf8"),
  )?.[1];
  const cells = (table ?? "").split("\n").map((line) => line.split("|"));
  const column = (index: number): string => cells.map((row) => row[index] ?? "").join("\n");
  const names = (text: string, name: string): boolean => new RegExp(`\\b${name}\\b`).test(text);
  const facts = Object.entries(operationFacts);
  t.ok(facts.length > 25);
  for (const [operation, { supported }] of facts) {
    const name = groups[operation] ?? operation;
    t.equal(names(column(1), name), supported, `${name} under "Served"`);
    t.equal(names(column(2), name), !supported, `${name} under "501"`);
  }
});
