// `headgate policy` with the real opa: committed bundles match their sources, tests can fail.

import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import t from "tap";
import { runPolicyCommand } from "../../proxy/cli/policy.ts";
import { findCommand, requireCommands } from "../support/requires.ts";

const install = "go install github.com/open-policy-agent/opa@v1.22.3";
const need = requireCommands(t, ["opa"], install);

async function run(...argv: readonly string[]) {
  const output = { stdout: "", stderr: "" };
  const env = { ...process.env, HEADGATE_OPA: findCommand("opa") ?? "opa" };
  const status = await runPolicyCommand(argv, {
    stdout: (text) => void (output.stdout += text),
    stderr: (text) => void (output.stderr += text),
    env,
    policies: "policies",
  });
  return { status, ...output };
}

t.test("the committed bundle matches its sources", need, async (t) => {
  t.match(await run("build", "--check"), { status: 0, stdout: /matches its sources/ });
});

t.test("the hostile fixture matches its sources", need, async (t) => {
  const at = "test/vectors/policy/hostile";
  t.match(await run("build", "--check", "-b", `${at}-source`, "-o", at), { status: 0 });
});

t.test("tests, coverage and cases pass, and so do the checks", need, async (t) => {
  t.match(await run("test"), { status: 0, stdout: /coverage 100 %[^]*cases in WASM/ });
  t.match(await run("check"), { status: 0, stdout: "" });
});

t.test("a changed rule is seen by every verb", need, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "headgate-policy-test-"));
  t.teardown(() => rm(folder, { recursive: true }));
  await cp("policies", folder, { recursive: true });
  const path = join(folder, "headgate/route/route.rego");
  const source = await readFile(path, "utf8");
  await writeFile(
    path,
    source.replace('takes_named("pending")', 'takes_named("draining_readonly")'),
  );
  t.match(await run("build", "--check", "--policies", folder), {
    status: 1,
    stderr: /policy\.wasm/,
  });
  t.match(await run("test", "--policies", folder), { status: 2, stdout: /FAIL/ });
  t.match(await run("build", "--policies", folder, "-r", "mine"), {
    status: 0,
    stdout: /revision mine/,
  });
  t.match(await run("test", "--policies", folder), {
    status: 2,
    stdout: /FAIL route: placement: draining/,
  });
  await writeFile(path, `${source}\nunused if http.send({})\n`);
  t.match(await run("build", "--policies", folder), {
    status: 1,
    stderr: /undefined function http\.send/,
  });
  t.match(await run("check", "--policies", folder), { status: 1, stdout: /http\.send/ });
});

t.test("without opa the error says what to install", async (t) => {
  const lines: string[] = [];
  const status = await runPolicyCommand(["build", "--check"], {
    stdout: () => undefined,
    stderr: (text) => void lines.push(text),
    env: { HEADGATE_OPA: "/nowhere/opa" },
    policies: "policies",
  });
  t.equal(status, 1);
  t.match(lines.join(""), `Install it with "${install}"`);
});

t.test("sources of one's own are held to the package's capabilities", need, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "headgate-policy-own-"));
  t.teardown(() => rm(folder, { recursive: true }));
  const output = { stdout: "", stderr: "" };
  // As it is from another directory: no policies/ there, and no HEADGATE_OPA but an empty one.
  const opa = findCommand("opa") ?? "opa";
  const elsewhere = (...argv: readonly string[]) =>
    runPolicyCommand(argv, {
      stdout: (text) => void (output.stdout += text),
      stderr: (text) => void (output.stderr += text),
      env: { ...process.env, HEADGATE_OPA: "", PATH: `${dirname(opa)}:${process.env["PATH"]}` },
      policies: join(process.cwd(), "policies"),
    });
  const sources = join(process.cwd(), "policies/headgate");
  const bundle = join(folder, "bundle");
  const build = ["build", "--policies", join(folder, "none"), "-b", sources, "-o", bundle];
  t.equal(await elsewhere(...build), 0, output.stderr);
  t.equal(await elsewhere(...build, "--check"), 0, output.stderr);
  t.equal(
    await elsewhere("build", "--check"),
    0,
    "the same bytes wherever the sources are named from",
  );
  t.equal(await elsewhere("build", "-b", sources), 2);
  t.match(output.stderr, /^Flag -b needs -o/);
  output.stderr = "";
  t.equal(await elsewhere(...build, "--capabilities", join(folder, "gone.json")), 1);
  t.match(output.stderr, "gone.json");
  t.notMatch(output.stderr, /Usage|Flags:/);
  t.equal(await elsewhere("build", "-b", join(folder, "gone"), "-o", bundle), 1);
  t.match(output.stderr, /gone" is not a directory of sources/);
});

t.test("wrong usage is exit 2", async (t) => {
  for (const argv of [[], ["nope"], ["build", "--bogus"], ["test", "stray"]]) {
    t.match(await run(...argv), { status: 2, stderr: /Usage: headgate policy/ }, argv.join(" "));
  }
  t.match(await run("--help"), { status: 0, stdout: /Usage/ });
});
