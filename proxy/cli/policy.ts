// `headgate policy build|test|check`: what policy authors run. Same verbs, flags and exit codes as
// `opa` where it has them: 0 done, 1 failed, 2 failing tests or wrong usage.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { FaultError } from "../placement/ports.ts";
import {
  type BuildOptions,
  buildBundle,
  buildReport,
  bundleDifferences,
  writeBundle,
} from "./policy-build.ts";
import { type Environment, runOpa } from "./policy-opa.ts";
import { runCases, runRegoTests } from "./policy-test.ts";

export interface CommandIo {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  readonly env: Environment;
  /** Folder of the policies that ship with this package. */
  readonly policies: string;
}

const policyUsage = `Usage: headgate policy build|test|check [--policies DIR] [flags]

build   compile Rego to a bundle directory that Headgate loads
  -b, --bundle DIR        Rego sources (DIR/headgate of --policies); needs -o
  -o, --output DIR        bundle directory (DIR/default of --policies)
  -r, --revision TEXT     revision in the manifest (made from the content)
  --check                 write nothing, fail when the output would change
test    opa test with full coverage, then the cases in WASM
  -b, --bundle DIR        Rego sources with their tests
  --cases DIR             cases as JSON (DIR/cases of --policies; with -b: none); needs -o with -b
  -o, --output DIR        the bundle that the cases are put to
check   opa fmt and opa check --strict with schemas and capabilities
  -b, --bundle DIR        Rego sources

  --policies DIR          directory of sources, cases, schemas, capabilities.json (the package's own)
  --capabilities FILE     builtins there are (DIR/capabilities.json, or the package's own)
  --schema DIR            schemas of input and data (DIR/schemas, or the package's own)
`;

interface Places extends BuildOptions {
  /** Null: no cases. */
  readonly cases: string | null;
  readonly schema: string;
  readonly check: boolean;
}

/** `argv`: what follows `headgate policy`. Resolves with the exit code; never rejects for a fault. */
export async function runPolicyCommand(argv: readonly string[], io: CommandIo): Promise<number> {
  const [verb, ...rest] = argv;
  if (verb === undefined || verb === "-h" || verb === "--help" || verb === "help") {
    (verb === undefined ? io.stderr : io.stdout)(policyUsage);
    return verb === undefined ? 2 : 0;
  }
  const places = readPlaces(verb, rest, io.policies);
  if (typeof places === "string") {
    io.stderr(`${places}\n\n${policyUsage}`);
    return 2;
  }
  try {
    switch (verb) {
      case "build":
        return await build(places, io);
      case "test":
        return await test(places, io);
      case "check":
        return await check(places, io);
      default:
        io.stderr(`Unknown verb "${verb}"\n\n${policyUsage}`);
        return 2;
    }
  } catch (error) {
    if (!(error instanceof FaultError)) throw error;
    io.stderr(`${error.message}\n`);
    return 1;
  }
}

function readPlaces(verb: string, argv: readonly string[], shipped: string): Places | string {
  try {
    const { values } = parseArgs({
      args: [...argv],
      strict: true,
      options: {
        policies: { type: "string", default: shipped },
        bundle: { type: "string", short: "b" },
        output: { type: "string", short: "o" },
        revision: { type: "string", short: "r" },
        capabilities: { type: "string" },
        schema: { type: "string" },
        cases: { type: "string" },
        check: { type: "boolean", default: false },
      },
    });
    const under = (name: string) => join(values.policies, name);
    // What every policy is held to: a directory without its own has that of the package.
    const shared = (name: string) => (existsSync(under(name)) ? under(name) : join(shipped, name));
    const own = values.bundle !== undefined;
    const cases = values.cases ?? (own ? null : under("cases"));
    // Sources of one's own never overwrite, or are tested as, the bundle that ships.
    const needsOutput = verb === "build" || (verb === "test" && cases !== null);
    if (own && needsOutput && values.output === undefined) {
      return "Flag -b needs -o, the directory of its bundle";
    }
    return {
      source: values.bundle ?? under("headgate"),
      output: values.output ?? under("default"),
      capabilities: values.capabilities ?? shared("capabilities.json"),
      schema: values.schema ?? shared("schemas"),
      cases,
      revision: values.revision ?? null,
      check: values.check,
    };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

async function build(places: Places, io: CommandIo): Promise<number> {
  const built = await buildBundle(places, io.env);
  if (!places.check) {
    await writeBundle(built, places.output);
    io.stdout(buildReport(built));
    return 0;
  }
  const different = await bundleDifferences(built, places.output);
  if (different.length === 0) {
    io.stdout(`"${places.output}" matches its sources\n`);
    return 0;
  }
  const names = different.join(", ");
  io.stderr(
    `"${places.output}" does not match its sources (${names}): run "headgate policy build"\n`,
  );
  return 1;
}

function sourcesOf({ source, cases }: Places): readonly string[] {
  return cases === null ? [source] : [source, cases];
}

async function test(places: Places, io: CommandIo): Promise<number> {
  const rego = await runRegoTests(sourcesOf(places), places.capabilities, io.env);
  io.stdout(rego.text);
  if (places.cases === null) return rego.failed ? 2 : 0;
  const cases = await runCases(places.output, places.cases);
  io.stdout(cases.text);
  return rego.failed || cases.failed ? 2 : 0;
}

async function check(places: Places, io: CommandIo): Promise<number> {
  const runs = [
    await runOpa(["fmt", "--fail", "--list", ...sourcesOf(places)], io.env),
    await runOpa(
      [
        "check",
        "--strict",
        `--schema=${places.schema}`,
        `--capabilities=${places.capabilities}`,
        places.source,
      ],
      io.env,
    ),
  ];
  for (const run of runs) io.stdout(`${run.stdout}${run.stderr}`);
  return runs.every((run) => run.status === 0) ? 0 : 1;
}
