// What the package ships and what its top level holds.

import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { plainCommand } from "../support/plain-command.ts";

const root = join(import.meta.dirname, "..", "..");

function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(join(root, path), "utf8"));
}

t.test("npm pack ships the build, the policies and nothing else", async (t) => {
  const flags = ["pack", "--dry-run", "--json", "--ignore-scripts"];
  const [command, args] = plainCommand("npm", flags);
  const output = execFileSync(command, args, {
    cwd: root,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [pack]: readonly { readonly files: readonly { readonly path: string }[] }[] =
    JSON.parse(output);
  const paths = (pack?.files ?? []).map(({ path }) => path);
  const wanted = ["LICENSE", "README.md", "package.json", "policies/default/policy.wasm"];
  for (const path of wanted) t.ok(paths.includes(path), path);
  t.strictSame(
    paths.filter((path) => !/^(?:dist\/(?:proxy|bridge)\/|policies\/)/.test(path)).toSorted(),
    ["LICENSE", "README.md", "bridge/README.md", "package.json", "proxy/README.md"],
  );
});

t.test("the lockfile names no place to download from", async (t) => {
  t.notMatch(readFileSync(join(root, "package-lock.json"), "utf8"), /"resolved"/);
});

t.test("the program can be run after the build", async (t) => {
  const { bin } = readJson<{ readonly bin: Readonly<Record<string, string>> }>("package.json");
  const { mode } = statSync(join(root, bin["headgate"] ?? ""));
  t.equal(mode & 0o111, 0o111);
});

t.test("nothing but the agreed folders lies at the top", async (t) => {
  const agreed = ["LICENSE", "README.md", "bridge", "deploy", "package-lock.json", "package.json"];
  const more = ["policies", "proxy", "test", "tsconfig.json"];
  const made = ["coverage", "dist", "node_modules"];
  const found = readdirSync(root).filter((name) => !name.startsWith(".") && !made.includes(name));
  t.strictSame(found.toSorted(), [...agreed, ...more].toSorted());
});
