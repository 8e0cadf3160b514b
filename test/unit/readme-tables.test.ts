import { existsSync, readFileSync } from "node:fs";
import t from "tap";
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
