// Host builtins answer as OPA's do, are undefined where OPA errs, and never throw.

import { readFileSync } from "node:fs";
import t from "tap";
import { bindBuiltins, hostBuiltins, isDeterministic } from "../../proxy/policy/builtins.ts";
import type { EvaluationContext } from "../../proxy/policy/ports.ts";

const context: EvaluationContext = { nowMs: 1_796_000_000_123, requestId: "r-1" };
const bound = bindBuiltins(() => context) as Readonly<
  Record<string, (...values: unknown[]) => unknown>
>;
const call = (name: string, ...values: unknown[]) => bound[name]?.(...values);

const answers: readonly (readonly [name: string, values: readonly unknown[], answer: unknown])[] = [
  ["time.now_ns", [], 1_796_000_000_123_000_000],
  ["time.clock", [1_796_000_000_000_000_000], [0, 53, 20]],
  ["time.clock", [[0, "Europe/Berlin"]], [1, 0, 0]],
  ["time.clock", ["now"], undefined],
  ["time.clock", [[0, "No/Zone"]], undefined],
  ["time.weekday", [0], "Thursday"],
  ["time.weekday", [[0, ""]], "Thursday"],
  ["time.weekday", [null], undefined],
  ["time.parse_rfc3339_ns", ["1970-01-01T00:00:01.5Z"], 1_500_000_000],
  ["time.parse_rfc3339_ns", ["1970-01-01T01:00:00+01:00"], 0],
  ["time.parse_rfc3339_ns", ["1970-02-30T00:00:00Z"], undefined],
  ["time.parse_rfc3339_ns", ["yesterday"], undefined],
  ["crypto.sha256", [""], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
  ["crypto.md5", [""], "d41d8cd98f00b204e9800998ecf8427e"],
  ["crypto.md5", [1], undefined],
  [
    "crypto.hmac.sha256",
    ["", ""],
    "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad",
  ],
  ["crypto.hmac.sha256", ["a"], undefined],
  ["hex.encode", ["aé"], "61c3a9"],
  ["strings.any_prefix_match", ["a/b", ["x", "a/"]], true],
  ["strings.any_prefix_match", [["q", "a/b"], "b"], false],
  ["strings.any_prefix_match", [1, "b"], undefined],
  ["strings.any_suffix_match", ["a.txt", [".png", ".txt"]], true],
  ["strings.any_suffix_match", ["a.txt", [1]], undefined],
  ["urlquery.decode", ["a+b%2Fc"], "a b/c"],
  ["urlquery.decode", ["%zz"], undefined],
  ["urlquery.decode", ["%ff"], undefined],
  ["net.cidr_is_valid", ["10.0.0.0/8"], true],
  ["net.cidr_is_valid", ["10.0.0.0/33"], false],
  ["net.cidr_is_valid", ["10.0.0.256/8"], false],
  ["net.cidr_is_valid", ["10.0.0/8"], false],
  ["net.cidr_is_valid", ["10.0.0.0"], false],
  ["net.cidr_is_valid", ["2001:db8::/32"], true],
  ["net.cidr_is_valid", ["2001:db8::/129"], false],
  ["net.cidr_is_valid", ["::ffff:1.2.3.4/96"], true],
  ["net.cidr_is_valid", [":::/0"], false],
  ["net.cidr_is_valid", [5], undefined],
  ["semver.compare", ["1.2.3", "1.2.10"], -1],
  ["semver.compare", ["1.0.0", "1.0.0-rc.1"], 1],
  ["semver.compare", ["1.0.0-rc.1", "1.0.0-rc.2"], -1],
  ["semver.compare", ["1.0.0-1", "1.0.0-a"], -1],
  ["semver.compare", ["1.0.0-a", "1.0.0-a.b"], -1],
  ["semver.compare", ["1.0.0+x", "1.0.0+y"], 0],
  ["semver.compare", ["1.0", "1.0.0"], undefined],
  ["units.parse_bytes", ["10KiB"], 10_240],
  ["units.parse_bytes", ["1.5MB"], 1_500_000],
  ["units.parse_bytes", ["7"], 7],
  ["units.parse_bytes", ["ten"], undefined],
  ["rand.intn", ["x", 0], 0],
  ["rand.intn", ["x", 1], 0],
  ["rand.intn", ["x", 1.5], undefined],
  ["headgate.rank", ["k", { a: 1 }], ["a"]],
  ["headgate.rank", ["k", { a: 0 }], []],
  ["headgate.rank", ["k", { a: 101 }], undefined],
  ["headgate.rank", ["k", { "A!": 1 }], undefined],
];

for (const [name, values, answer] of answers) {
  t.test(`${name}(${JSON.stringify(values).slice(1, -1)})`, async (t) => {
    t.strictSame(call(name, ...values), answer);
  });
}

t.test("chance is one number a name and request", async (t) => {
  const other = bindBuiltins(() => ({ ...context, requestId: "r-2" })) as typeof bound;
  t.equal(call("rand.intn", "x", 1e9), call("rand.intn", "x", 1e9));
  t.not(call("rand.intn", "x", 1e9), call("rand.intn", "y", 1e9));
  t.not(call("rand.intn", "x", 1e9), other["rand.intn"]?.("x", 1e9));
  const without = bindBuiltins(() => null) as typeof bound;
  t.equal(without["rand.intn"]?.("x", 5), undefined);
  t.equal(without["time.now_ns"]?.(), undefined);
});

t.test("every builtin that is given stands in capabilities.json", async (t) => {
  const file = new URL("../../policies/capabilities.json", import.meta.url);
  const capabilities: { readonly builtins: readonly { readonly name: string }[] } = JSON.parse(
    readFileSync(file, "utf8"),
  );
  const listed = new Set(capabilities.builtins.map(({ name }) => name));
  for (const name of hostBuiltins()) t.ok(listed.has(name), name);
  for (const name of ["http.send", "opa.runtime", "net.lookup_ip_addr", "regex.replace"]) {
    t.notOk(listed.has(name), name);
  }
  t.notOk(isDeterministic(["sprintf", "time.now_ns"]));
  t.ok(isDeterministic(["sprintf"]));
});
