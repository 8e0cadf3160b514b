// The matrix of uploads over every kind of RGW; see gateway-payload-matrix.test.ts.

import t from "tap";
import { profiles } from "../../proxy/placement/profiles.ts";
import { kinds, openMatrix, shortRows } from "../support/upload-matrix-demo.ts";
import { runMatrix } from "../support/upload-matrix-run.ts";

t.setTimeout(600_000);

for (const kind of kinds.filter((name) => profiles[name].backend === "rgw")) {
  t.test(`${kind}: every signature, payload, length and fault`, async (t) => {
    t.strictSame(await runMatrix(await openMatrix(t, kind), shortRows), []);
  });
}
