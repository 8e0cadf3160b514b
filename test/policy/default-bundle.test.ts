// The committed bundle, as a proxy loads it: every case of policies/cases in WASM, read as results.

import { join } from "node:path";
import t from "tap";
import { readCases, runCases } from "../../proxy/cli/policy-test.ts";
import { openEngine } from "../../proxy/policy/engine.ts";
import { readAuthzResult, readRouteResult } from "../../proxy/policy/results.ts";
import { clusterNamed } from "../support/placement-names.ts";
import { defaultBundle } from "../support/policy-views.ts";

const policies = join(import.meta.dirname, "../../policies");

t.test("every case gives in WASM what it gives in opa", async (t) => {
  const report = await runCases(join(policies, "default"), join(policies, "cases"));
  t.notOk(report.failed, report.text);
});

t.test("every case gives a well-formed result", async (t) => {
  const bundle = await defaultBundle();
  const cases = await readCases(join(policies, "cases"));
  t.ok(cases.length >= 112, "all cases are there");
  for (const { note, entrypoint, input, data } of cases) {
    const engine = openEngine(bundle, { headgate: data });
    const outcome = engine.evaluate(entrypoint, input);
    engine.close();
    const clusters = data["clusters"] ?? {};
    const known = new Map(Object.keys(clusters).map((id) => [clusterNamed(id), null]));
    const result =
      entrypoint === "authz" ? readAuthzResult(outcome) : readRouteResult(outcome, known);
    t.not(result.kind, "fault", note);
  }
});

t.test("the bundle says which fields its decisions depend on", async (t) => {
  const bundle = await defaultBundle();
  t.strictSame(
    bundle.memo?.route.map((path) => path.join(".")),
    [
      "bucket.mode",
      "bucket.placement",
      "bucket.spread",
      "bucket.weighting",
      "request.location_constraint",
      "request.storage_class",
    ],
  );
  t.match(bundle.routeDigest, /^sha256:[0-9a-f]{64}$/);
  t.match(bundle.revision, /^sha256:[0-9a-f]{32}$/);
});
