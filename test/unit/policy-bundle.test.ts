// Reading OPA's bundle.tar.gz, the data document, and what opa deps prints.

import { gzipSync } from "node:zlib";
import t from "tap";
import { beyondCanonical, readDependencies, routeDigest } from "../../proxy/cli/policy-deps.ts";
import { readBundleArchive } from "../../proxy/policy/bundle.ts";
import { mergeData, policyData } from "../../proxy/policy/data.ts";
import { readTar } from "../../proxy/policy/tar.ts";
import { snapshotOf } from "../support/policy-views.ts";

/** One member with its header; `type` 0 is a plain one. */
function member(name: string, body: string, type = "0"): Buffer {
  const header = Buffer.alloc(512);
  const bytes = Buffer.from(body);
  header.write(name, 0);
  header.write(`${bytes.length.toString(8).padStart(11, "0")}\0`, 124);
  header.write(type, 156);
  header.write(" ".repeat(8), 148);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  const padding = Buffer.alloc((512 - (bytes.length % 512)) % 512);
  return Buffer.concat([header, bytes, padding]);
}

const end = Buffer.alloc(1024);

t.test("members by path, without leading slashes", async (t) => {
  const pax = member("x", "19 path=long/name\n", "x");
  const tar = readTar(
    Buffer.concat([
      member("/data.json", "{}"),
      member("dir/", "", "5"),
      member("./a/b", "x".repeat(600)),
      pax,
      member("short", "y"),
      end,
    ]),
  );
  t.equal(tar.kind, "members");
  if (tar.kind !== "members") return;
  t.strictSame([...tar.members.keys()], ["data.json", "a/b", "long/name"]);
  t.equal(tar.members.get("a/b")?.length, 600);
});

t.test("archives that are cut, forged or climb are refused", async (t) => {
  const good = member("data.json", "{}");
  const bent = Buffer.from(good);
  bent[0] = 0x7a;
  for (const [archive, reason] of [
    [good.subarray(0, 512), /cut short/],
    [good, /no end/],
    [Buffer.concat([bent, end]), /checksum/],
    [Buffer.concat([member("../up", "x"), end]), /climbs/],
    [Buffer.concat([member("link", "", "2"), end]), /not a plain one/],
  ] as const) {
    t.match(readTar(archive), { kind: "malformed", reason });
  }
  await t.rejects(readBundleArchive(Buffer.from("text"), "b"), {
    kind: "policy_load",
    message: /no gzip archive/,
  });
  await t.rejects(readBundleArchive(gzipSync(good), "b"), {
    kind: "policy_load",
    message: /no end/,
  });
  await t.rejects(readBundleArchive(gzipSync(Buffer.concat([good, end])), "b"), {
    kind: "policy_load",
    message: /holds no "policy.wasm"/,
  });
});

t.test("data is what the snapshot says, over what operators put there", async (t) => {
  const placement = snapshotOf(
    { a: ["live", 1], b: ["pending", null] },
    {
      classes: { GLACIER: "a" },
      data: {
        "site/limits": { small: 1 },
        site: { name: "x", limits: { large: 2 } },
        "headgate/anonymous": { open: ["read"] },
        "headgate/clusters": { z: { state: "live" } },
        "__proto__/polluted": true,
      },
    },
  );
  const data = policyData(placement) as Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  t.strictSame(data["headgate"], {
    anonymous: { open: ["read"] },
    clusters: {
      a: { state: "live", weight: 1, kind: "rgw", region: "default", labels: {} },
      b: { state: "pending", weight: null, kind: "rgw", region: "default", labels: {} },
    },
    classes: { GLACIER: "a" },
  });
  t.strictSame(data["site"], { name: "x", limits: { small: 1 } });
  t.equal(({} as Readonly<Record<string, unknown>>)["polluted"], undefined);
  t.strictSame(mergeData({ a: { b: 1, c: 2 }, d: [1] }, { a: { b: 3 }, d: [2] }), {
    a: { b: 3, c: 2 },
    d: [2],
  });
});

const ref = (...names: readonly (string | number)[]) =>
  names.map((value, index) => ({
    type: index === 0 ? "var" : typeof value === "string" ? "string" : "number",
    value,
  }));

t.test("dependencies: outermost fields, ending where a name is not constant", async (t) => {
  const text = JSON.stringify({
    base: [
      ref("input", "request", "key"),
      ref("input", "request", "headers", 0),
      ref("input", "request", "headers", "x"),
      ref("input", "client", "a.b"),
      ref("data", "headgate", "clusters"),
      ref("data", "site", "limits"),
    ],
    virtual: [ref("data", "headgate", "route", "decision")],
  });
  const dependencies = readDependencies(text);
  t.strictSame(dependencies, {
    inputs: ["input.client", "input.request.headers", "input.request.key"],
    data: ["data.site.limits"],
    rules: ["data.headgate.route.decision"],
  });
  t.strictSame(beyondCanonical(dependencies), ["input.client", "input.request.headers"]);
  t.throws(() => readDependencies("[]"), /Cannot read the output of "opa deps"/);
  t.strictSame(readDependencies("{}"), { inputs: [], data: [], rules: [] });
});

t.test("the route digest follows what the route can reach, and nothing else", async (t) => {
  const route = { inputs: [], data: ["data.site.limits"], rules: ["data.headgate.route.decision"] };
  const digest = (routeText: string, authzText: string, data: unknown) =>
    routeDigest(
      route,
      new Map([
        ["r", `package headgate.route\n${routeText}`],
        ["a", `package headgate.authz\n${authzText}`],
      ]),
      data,
    );
  const first = digest("x", "y", { site: { limits: 1, other: 1 } });
  t.match(first, /^sha256:[0-9a-f]{64}$/);
  t.equal(digest("x", "z", { site: { limits: 1, other: 2 } }), first);
  t.not(digest("z", "y", { site: { limits: 1, other: 1 } }), first);
  t.not(digest("x", "y", { site: { limits: 2, other: 1 } }), first);
});
