// `headgate policy test`: the Rego tests in opa's interpreter with full coverage, then the cases
// (policies/cases/*.json) through the compiled bundle. Two evaluators must agree on every case:
// the interpreter runs them in cases_test.rego.

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { type Entrypoint, FaultError } from "../placement/ports.ts";
import type { JsonObject } from "../policy/bundle.ts";
import { readBundle } from "../policy/bundle-file.ts";
import { defaultEntrypoints, openEngine } from "../policy/engine.ts";
import { type Environment, runOpa } from "./policy-opa.ts";

/** One question with its answer. `data` is what lies under `data.headgate`. */
export interface PolicyCase {
  readonly note: string;
  readonly entrypoint: Entrypoint;
  readonly input: unknown;
  readonly data: JsonObject;
  readonly expect: unknown;
}

export interface TestReport {
  readonly text: string;
  readonly failed: boolean;
}

/** Runs the Rego tests of both directories; full coverage is asked for. */
export async function runRegoTests(
  directories: readonly string[],
  capabilities: string,
  env: Environment,
): Promise<TestReport> {
  const parameters = ["--capabilities", capabilities, ...directories];
  const tests = await runOpa(["test", ...parameters], env);
  if (tests.status !== 0) return { text: `${tests.stdout}${tests.stderr}`, failed: true };
  const coverage = await runOpa(["test", "--coverage", "--threshold", "100", ...parameters], env);
  const covered = coverage.status === 0;
  const uncovered = covered ? "coverage 100 %\n" : `${coverage.stdout}${coverage.stderr}`;
  return { text: `${tests.stdout}${uncovered}`, failed: !covered };
}

/** Puts every case to the bundle as a proxy would. @throws FaultError policy_load, config */
export async function runCases(bundlePath: string, directory: string): Promise<TestReport> {
  const bundle = await readBundle(bundlePath);
  const cases = await readCases(directory);
  const failures: string[] = [];
  for (const { note, entrypoint, input, data, expect } of cases) {
    const engine = openEngine(bundle, { headgate: data });
    const outcome = engine.evaluate(entrypoint, input);
    engine.close();
    const actual = outcome.kind === "defined" ? outcome.value : outcome.kind;
    if (isDeepStrictEqual(actual, expect)) continue;
    failures.push(
      `FAIL ${entrypoint}: ${note}\n  expected ${JSON.stringify(expect)}\n  actual   ${JSON.stringify(actual)}`,
    );
  }
  const passed = cases.length - failures.length;
  const lines = [...failures, `PASS: ${passed}/${cases.length} cases in WASM`, ""];
  return { text: lines.join("\n"), failed: failures.length > 0 || cases.length === 0 };
}

/** All cases of a directory. @throws FaultError config naming the file that is no list of cases. */
export async function readCases(directory: string): Promise<readonly PolicyCase[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith(".json")).toSorted();
  const cases: PolicyCase[] = [];
  for (const name of names) {
    const path = join(directory, name);
    const document: unknown = JSON.parse(await readFile(path, "utf8"));
    const groups = isFields(document) ? document["cases"] : undefined;
    if (!isFields(groups)) throw notCases(path);
    for (const items of Object.values(groups)) {
      if (!Array.isArray(items)) throw notCases(path);
      for (const item of items as readonly unknown[]) cases.push(readCase(item, path));
    }
  }
  return cases;
}

function readCase(item: unknown, path: string): PolicyCase {
  if (!isFields(item)) throw notCases(path);
  const { note, input, data, expect } = item;
  const entrypoint = (["authz", "route"] as const).find(
    (name) => defaultEntrypoints[name] === item["entrypoint"],
  );
  if (typeof note !== "string" || entrypoint === undefined || !isFields(data)) throw notCases(path);
  return { note, entrypoint, input, data, expect };
}

function isFields(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function notCases(path: string): FaultError {
  const wanted = '{"cases": {"NAME": [{note, entrypoint, input, data, expect}]}}';
  return new FaultError("config", `Cannot read cases "${path}": it is not ${wanted}`);
}
