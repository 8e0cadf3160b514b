// The bundle decides: one that reverses the weights moves the bytes, one that refuses a bucket is
// obeyed, one that breaks at run time fails closed. Seen on the RGWs, with bundles built by opa.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CreateBucketCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { findCommand } from "../support/requires.ts";
import { withLab } from "./support/lab.ts";
import { runOk } from "./support/processes.ts";
import { answerOf, inParallel, keysOf, put, read } from "./support/s3.ts";

const allowAll = `package headgate.authz

decision := {"allow": true, "reason": "test"}
`;

function routeTo(weights: string): string {
  return `package headgate.route

decision := {"refuse": {
	"code": "AccessDenied",
	"status": 403,
	"message": "Policy keeps this bucket closed",
}} if {
	input.request.bucket == "closed"
} else := {
	"weights": ${weights},
	"mode": "weighted",
	"spread": "object",
	"source": "default_wheel",
	"reason": "test",
}
`;
}

/** A bundle of two modules, built as an operator would with opa alone. */
async function buildBundle(
  dir: string,
  name: string,
  modules: { readonly authz: string; readonly route: string },
): Promise<string> {
  const source = join(dir, name);
  mkdirSync(source, { recursive: true });
  writeFileSync(join(source, "authz.rego"), modules.authz);
  writeFileSync(join(source, "route.rego"), modules.route);
  const bundle = join(dir, `${name}.tar.gz`);
  const entrypoints = ["-e", "headgate/authz/decision", "-e", "headgate/route/decision"];
  const opa = findCommand("opa") ?? "opa";
  await runOk(opa, ["build", "-t", "wasm", ...entrypoints, "-o", bundle, source]);
  return bundle;
}

const keys = Array.from({ length: 200 }, (_, index) => `object-${index}`);
const sigma = Math.sqrt(keys.length * 0.1 * 0.9);

withLab(t, ["opa"], async (lab, test) => {
  const [a, b] = [lab.direct("a"), lab.direct("b")];
  const clusters = lab.clusters({ a: 90, b: 10 });

  async function start(name: string, bundle: string | null) {
    const headgate = await lab.headgate({
      name,
      clusters,
      prefix: `/headgate-policy-${name}/`,
      ...(bundle === null ? {} : { bundle }),
    });
    return { headgate, client: lab.client(headgate) };
  }

  test("the built-in bundle follows the weights of the clusters", async (t) => {
    const { client } = await start("builtin", null);
    await client.send(new CreateBucketCommand({ Bucket: "as-weighted" }));
    await inParallel(keys, 8, (key) => put(client, "as-weighted", key, key));
    const onB = (await keysOf(b, "as-weighted")).length;
    t.ok(Math.abs(onB - 20) <= 4 * sigma, `${onB} of ${keys.length} are on b`);
  });

  test("a bundle that reverses the weights moves the bytes", async (t) => {
    const route = routeTo('{"a": 10, "b": 90}');
    const bundle = await buildBundle(lab.dir, "reversed", { authz: allowAll, route });
    const { client } = await start("reversed", bundle);
    await client.send(new CreateBucketCommand({ Bucket: "reversed" }));
    await inParallel(keys, 8, (key) => put(client, "reversed", key, key));
    const onA = (await keysOf(a, "reversed")).length;
    t.ok(Math.abs(onA - 20) <= 4 * sigma, `${onA} of ${keys.length} are on a`);
    t.equal((await keysOf(b, "reversed")).length, keys.length - onA);
  });

  test("a bucket that policy refuses is refused and made nowhere", async (t) => {
    const route = routeTo('{"a": 1, "b": 1}');
    const bundle = await buildBundle(lab.dir, "refusing", { authz: allowAll, route });
    const { client } = await start("refusing", bundle);
    const made = client.send(new CreateBucketCommand({ Bucket: "closed" }));
    t.match(await answerOf(made), { status: 403, code: "AccessDenied" });
    t.not((await answerOf(put(client, "closed", "key", "x"))).status, 200);
    for (const direct of [a, b]) t.equal(await read(direct, "closed", "key"), null);
  });

  test("a bundle whose results are no decisions fails closed", async (t) => {
    const authz = 'package headgate.authz\n\ndecision := {"allow": "yes"}\n';
    const route = routeTo('{"a": 1, "b": 1}');
    const bundle = await buildBundle(lab.dir, "malformed", { authz, route });
    const { headgate, client } = await start("malformed", bundle);
    const made = client.send(new CreateBucketCommand({ Bucket: "anything" }));
    t.match(await answerOf(made), { status: 403, code: "AccessDenied" });
    const labels = { entrypoint: "authz", result: "malformed" };
    t.ok((await headgate.metric("headgate_decisions_total", labels)) > 0);

    const unknown = routeTo('{"nowhere": 1}');
    const lost = await buildBundle(lab.dir, "lost", { authz: allowAll, route: unknown });
    const other = await start("lost", lost);
    const refused = other.client.send(new CreateBucketCommand({ Bucket: "anything" }));
    t.match(await answerOf(refused), { status: 503, code: "ServiceUnavailable" });
    for (const direct of [a, b]) t.strictSame(await keysOf(direct, "anything"), []);
  });
});
