// The walls between the layers. A check that looked at nothing is green, so each one here also says
// how many files it saw, and each rule is shown to fire on a tree that breaks it.

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { cruise, type ICruiseResult } from "dependency-cruiser";
import t, { type Test } from "tap";
import ts from "typescript";
import { layerRules } from "./support/layer-rules.ts";
import { plainCommand } from "./support/plain-command.ts";
import { sourceFiles } from "./support/source-tree.ts";

const root = join(import.meta.dirname, "..");

async function cruiseTree(baseDir: string): Promise<ICruiseResult> {
  const { output } = await cruise(
    ["proxy", "bridge"],
    {
      baseDir,
      validate: true,
      tsPreCompilationDeps: true,
      doNotFollow: { path: "node_modules" },
      ruleSet: { forbidden: [...layerRules] },
    },
    { bustTheCache: true },
  );
  if (typeof output === "string") throw new Error("dependency-cruiser gave a report, not a result");
  return output;
}

/** Line of each node that `isMeant` says yes to, as `path:line`. Comments are no nodes. */
function placesOf(
  path: string,
  text: string,
  isMeant: (node: ts.Node) => boolean,
): readonly string[] {
  const found: string[] = [];
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true);
  function visit(node: ts.Node): void {
    if (isMeant(node)) {
      const { line } = source.getLineAndCharacterOfPosition(node.getStart());
      found.push(`${path}:${line + 1}`);
    }
    ts.forEachChild(node, visit);
  }
  visit(source);
  return found;
}

/** Calls of `Date` that read the clock: `new Date()` and `Date()`. The linter cannot tell them apart. */
function isClockRead(node: ts.Node): boolean {
  const isDate =
    (ts.isNewExpression(node) || ts.isCallExpression(node)) &&
    ts.isIdentifier(node.expression) &&
    node.expression.text === "Date";
  return isDate && (ts.isCallExpression(node) || (node.arguments?.length ?? 0) === 0);
}

function placesIn(
  files: readonly string[],
  isMeant: (node: ts.Node) => boolean,
): readonly string[] {
  return files.flatMap((file) => placesOf(file, readFileSync(join(root, file), "utf8"), isMeant));
}

/** Words that name a drain or a placement mode: what they mean for a write is Rego's to say. */
const policyWords = /draining_readonly|evacuating|^(?:strict|weighted)$/;

/** In a string, a type or a template, or as a name such as a case in a table. */
function isPolicyWord(node: ts.Node): boolean {
  const isText = ts.isStringLiteralLike(node) || ts.isTemplateLiteralToken(node);
  if (isText || ts.isIdentifier(node)) return policyWords.test(node.text);
  return false;
}

/** Files that may hold such a word, with the reason. */
const policyWordReasons: Readonly<Record<string, string>> = {
  "proxy/policy/results.ts": "reads what Rego answered: a mode is one of the two, or malformed",
};

/** `Math.log` and its kin: their last digits differ between engines, and so would owners. */
function isLogarithm(node: ts.Node): boolean {
  return ts.isIdentifier(node) && /^log(?:1p|2|10)?$/.test(node.text) && isOfMath(node.parent);
}

function isOfMath(node: ts.Node): boolean {
  if (ts.isPropertyAccessExpression(node)) return node.expression.getText() === "Math";
  return ts.isBindingElement(node) && node.parent.parent.getText().endsWith("= Math");
}

interface LintOverride {
  readonly files: readonly string[];
  readonly rules: Readonly<Record<string, unknown>>;
}

function lintConfig(): { readonly overrides: readonly LintOverride[] } {
  return JSON.parse(readFileSync(join(root, ".oxlintrc.json"), "utf8"));
}

/** The files that the linter lets read the clock. */
function shellPatterns(): readonly string[] {
  return lintConfig()
    .overrides.filter((override) => override.rules["no-restricted-properties"] === "off")
    .flatMap((override) => override.files);
}

function matches(path: string, pattern: string): boolean {
  const expression = pattern
    .replaceAll(/[.+^${}()|[\]\\]/g, "\\$&")
    .replaceAll("**/", "\u0000")
    .replaceAll("*", "[^/]*")
    .replaceAll("\u0000", "(?:.*/)?");
  return new RegExp(`^${expression}$`).test(path);
}

function writeTree(t: Test, files: Readonly<Record<string, string>>): string {
  // Not t.testdir: dependency-cruiser and the linter both pass over hidden folders.
  const dir = mkdtempSync(join(tmpdir(), "headgate-layers-"));
  t.teardown(() => rmSync(dir, { recursive: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text);
  }
  symlinkSync(join(root, "node_modules"), join(dir, "node_modules"));
  return dir;
}

t.test("no module of the product breaks a layer rule", async (t) => {
  const files = [...sourceFiles(root, "proxy"), ...sourceFiles(root, "bridge")];
  const result = await cruiseTree(root);
  const seen = new Set(result.modules.map((module) => module.source));
  t.ok(files.length > 50, `the tree holds ${files.length} source files`);
  t.strictSame(
    files.filter((file) => !seen.has(file)),
    [],
    "every source file was looked at",
  );
  t.ok(result.summary.totalCruised >= files.length);
  t.strictSame(
    result.summary.violations.map(({ rule, from, to }) => `${rule.name}: ${from} -> ${to}`),
    [],
  );
});

t.test("every layer rule fires on a tree that breaks it", async (t) => {
  const word = "export const word = 1;\n";
  const dir = writeTree(t, {
    "package.json": JSON.stringify({
      type: "module",
      dependencies: {
        undici: "*",
        zod: "*",
        etcd3: "*",
        "prom-client": "*",
        "hash-wasm": "*",
        "http-proxy-3": "*",
        "@open-policy-agent/opa-wasm": "*",
      },
      devDependencies: { tap: "*" },
    }),
    "bridge/watch.ts": `import "../proxy/gateway/a.ts";\n${word}`,
    "proxy/main.ts": `import "./gateway/a.ts";\nimport "./lonely.ts";\n`,
    "proxy/lonely.ts": `import "./main.ts";\n`,
    "proxy/alone.ts": word,
    "proxy/gateway/a.ts": `import "../../bridge/watch.ts";\nimport "../upstream/a.ts";\n${word}`,
    "proxy/s3/a.ts": `import "node:net";\nimport "../placement/a.ts";\nexport const a = 1;\n`,
    "proxy/s3/sigv4.ts": word,
    "proxy/placement/a.ts": `import "../s3/sigv4.ts";\nexport const a = 1;\n`,
    "proxy/policy/a.ts": `import "../gateway/a.ts";\nimport "tap";\n`,
    "proxy/upstream/a.ts": `import "../gateway/a.ts";\nimport "zod";\n`,
    "proxy/operations/a.ts": `import "../policy/a.ts";
import "undici";
import "node:net";
`,
    "proxy/operations/b.ts": `import "hash-wasm";
`,
    "proxy/workers/a.ts": `import "../operations/a.ts";\nimport "etcd3";\n`,
    "proxy/admin/a.ts": `import "../gateway/a.ts";\nimport "prom-client";\n`,
    "proxy/cli/a.ts": `import "../gateway/a.ts";\nimport "@open-policy-agent/opa-wasm";\n`,
    "proxy/demo/a.ts": `import "../operations/a.ts";\nimport "http-proxy-3";\n`,
  });
  const { summary } = await cruiseTree(dir);
  const fired = new Set(summary.violations.map(({ rule }) => rule.name));
  for (const { name } of layerRules) t.ok(name !== undefined && fired.has(name), `${name} fires`);
});

t.test("nothing but the shells reads the clock through Date", async (t) => {
  const patterns = shellPatterns();
  t.ok(patterns.includes("proxy/main.ts"));
  const pure = [...sourceFiles(root, "proxy"), ...sourceFiles(root, "bridge")].filter(
    (file) => !patterns.some((pattern) => matches(file, pattern)),
  );
  t.ok(pure.length > 40, `${pure.length} files are no shell`);
  t.strictSame(placesIn(pure, isClockRead), []);
  const calls = "new Date();\nDate();\nnew Date(5);\nDate.UTC(2026, 1);";
  t.strictSame(placesOf("x.ts", calls, isClockRead), ["x.ts:1", "x.ts:2"]);
});

t.test("no code on a request's way knows drains or placement modes", async (t) => {
  const folders = ["proxy/gateway", "proxy/operations", "proxy/policy"];
  const files = folders.flatMap((folder) => sourceFiles(root, folder));
  t.ok(files.length > 30, `${files.length} files`);
  const found = placesIn(files, isPolicyWord).map((place) => place.replace(/:\d+$/, ""));
  const allowed = Object.keys(policyWordReasons);
  t.strictSame(
    [...new Set(found)].toSorted(),
    allowed,
    "each with a reason, and each still needed",
  );
  const bad = [
    'if (record.state === "draining_readonly") refuse();',
    "switch (state) { case `evacuating`: break; }",
    'const isPinned = mode !== "strict";',
    'type Mode = "weighted";',
    "const table = { strict: 1 };",
    "// strict, weighted, evacuating",
    'const text = "as strict as can be";',
  ].join("\n");
  const fired = [1, 2, 3, 4, 5].map((line) => `x.ts:${line}`);
  t.strictSame(placesOf("x.ts", bad, isPolicyWord), fired);
});

t.test("placement takes no logarithm of the engine's", async (t) => {
  const files = sourceFiles(root, "proxy/placement");
  t.ok(files.length > 10, `${files.length} files`);
  t.strictSame(placesIn(files, isLogarithm), []);
  const bad =
    "Math.log(x);\nMath.log2(x);\nconst { log } = Math;\nports.log.write();\nMath.imul(1, 2);";
  t.strictSame(placesOf("x.ts", bad, isLogarithm), ["x.ts:1", "x.ts:2", "x.ts:3"]);
});

t.test("the linter refuses clock, chance, timers, environment and effects", async (t) => {
  const bad = [
    'import { createHash, randomUUID } from "node:crypto";',
    'import crypto from "node:crypto";',
    'import { readFileSync } from "node:fs";',
    'import { createServer } from "node:http";',
    'import { connect } from "node:net";',
    'import { setTimeout as sleep } from "node:timers/promises";',
    'import type { Socket } from "node:net";',
    "export const now = Date.now();",
    "export const dice = Math.random();",
    "export const tick = performance.now();",
    'export const home = process.env["HOME"];',
    "setTimeout(() => undefined, 1);",
    "setInterval(() => undefined, 1);",
    "export const page = fetch;",
    "export const id = globalThis.crypto;",
    "export type S = Socket;",
    "export const used = [createHash, randomUUID, readFileSync, createServer, connect, sleep];",
    "export const more = crypto;",
  ].join("\n");
  const dir = writeTree(t, {
    "proxy/s3/bad.ts": bad,
    "proxy/upstream/shell.ts": bad,
    ".oxlintrc.json": JSON.stringify({ ...lintConfig(), ignorePatterns: [] }),
  });
  const oxlint = join(root, "node_modules/.bin/oxlint");
  const [command, args] = plainCommand(oxlint, ["--no-ignore", "-f", "unix", "proxy"]);
  const { stdout } = spawnSync(command, args, { cwd: dir, encoding: "utf8" });
  const lines = new Set(
    [...stdout.matchAll(/proxy\/s3\/bad\.ts:(\d+):.*no-restricted-/g)].map((match) => match[1]),
  );
  t.strictSame(
    [...lines].map(Number).toSorted((a, b) => a - b),
    [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15],
  );
  t.notMatch(stdout, /upstream\/shell\.ts.*no-restricted-/);
});
