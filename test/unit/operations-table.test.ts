// Every operation that is called supported is served, and the other way round.

import t from "tap";
import { isServed } from "../../proxy/operations/table.ts";
import { operationFacts, type S3Operation } from "../../proxy/s3/operation.ts";

function isOperation(name: string): name is S3Operation {
  return Object.hasOwn(operationFacts, name);
}

t.test("what is called supported is what is served", async (t) => {
  const names = Object.keys(operationFacts).filter(isOperation);
  t.ok(names.length > 20);
  for (const name of names) t.equal(isServed(name), operationFacts[name].supported, name);
});
