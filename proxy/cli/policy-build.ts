// `headgate policy build`: Rego sources → a bundle directory that Headgate loads. It is what
// `opa build -t wasm` gives, plus metadata in the manifest: the input fields each entrypoint can
// read (for the memo) and the digest of what the route can reach. The output is byte-identical from
// run to run, so that `--check` can prove that a committed bundle matches its sources.

import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve, sep } from "node:path";
import { type Entrypoint, FaultError } from "../placement/ports.ts";
import { bundleMembers, unpackArchive } from "../policy/bundle.ts";
import { readBundle } from "../policy/bundle-file.ts";
import { defaultEntrypoints, openEngine } from "../policy/engine.ts";
import {
  beyondCanonical,
  type Dependencies,
  readDependencies,
  routeDigest,
} from "./policy-deps.ts";
import { type Environment, runOpa } from "./policy-opa.ts";

export interface BuildOptions {
  /** Directory of Rego sources. */
  readonly source: string;
  /** Directory of the bundle. */
  readonly output: string;
  /** File that says which builtins there are. */
  readonly capabilities: string;
  /** `null`: made from the content. */
  readonly revision: string | null;
}

export interface Build {
  /** Bytes by file name: `.manifest`, `policy.wasm`, `data.json`. */
  readonly members: ReadonlyMap<string, Uint8Array>;
  readonly dependencies: Readonly<Record<Entrypoint, Dependencies>>;
  readonly revision: string;
}

/** @throws FaultError config without opa, policy_load when the sources do not build or load. */
export async function buildBundle(options: BuildOptions, env: Environment): Promise<Build> {
  const work = await mkdtemp(join(tmpdir(), "headgate-policy-"));
  try {
    const archive = join(work, "bundle.tar.gz");
    const entrypoints = Object.values(defaultEntrypoints).flatMap((name) => ["-e", name]);
    await mustBeDirectory(options.source);
    // From within the sources, whose names stand in the output: it is the same wherever they lie.
    await mustRun(
      [
        "build",
        "--target=wasm",
        ...entrypoints,
        "--bundle",
        ".",
        `--capabilities=${resolve(options.capabilities)}`,
        "--ignore=*_test.rego",
        `--output=${archive}`,
      ],
      env,
      options.source,
    );
    const built = await unpackArchive(await readFile(archive), options.source);
    const sources = await readSources(options.source);
    const stubbed = join(work, "sources");
    await writeSources(sources, stubbed);
    const dependencies = {
      authz: await dependenciesOf("authz", stubbed, env),
      route: await dependenciesOf("route", stubbed, env),
    };
    const build = finish(built, { sources, dependencies, revision: options.revision });
    await tryOut(build, join(work, "bundle"));
    return build;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Writes a bundle directory; other files in it are left alone. */
export async function writeBundle(build: Build, output: string): Promise<void> {
  await mkdir(output, { recursive: true });
  for (const [name, bytes] of build.members) await writeFile(join(output, name), bytes);
}

/** Names of the members that differ from what lies in `output`; empty when all match. */
export async function bundleDifferences(build: Build, output: string): Promise<readonly string[]> {
  const different: string[] = [];
  for (const [name, bytes] of build.members) {
    const present = await readFile(join(output, name)).catch(() => null);
    if (present === null || !present.equals(bytes)) different.push(name);
  }
  return different;
}

/** What authors should know about what they built, line by line. */
export function buildReport(build: Build): string {
  const { authz, route } = build.dependencies;
  const beyond = beyondCanonical(route);
  return [
    `revision ${build.revision}`,
    `authz reads ${authz.inputs.join(", ") || "nothing"}`,
    `route reads ${route.inputs.join(", ") || "nothing"}`,
    `route reads beyond the canonical input: ${beyond.join(", ") || "nothing"}`,
    "",
  ].join("\n");
}

/** Rego modules without tests, by path. The copies in the archive lack the compiled rules. */
async function readSources(directory: string): Promise<ReadonlyMap<string, string>> {
  const sources = new Map<string, string>();
  for (const name of (await readdir(directory, { recursive: true })).toSorted()) {
    if (!name.endsWith(".rego") || name.endsWith("_test.rego")) continue;
    sources.set(name.replaceAll(sep, "/"), await readFile(join(directory, name), "utf8"));
  }
  return sources;
}

/** Stands in for the host's builtins: `opa deps` takes no capabilities file. */
const hostStub = "package headgate.host_builtins\n\nrank(_, _) := []\n";

async function writeSources(sources: ReadonlyMap<string, string>, path: string): Promise<void> {
  await mkdir(path);
  for (const [name, source] of sources) {
    const stubbed = source.replaceAll(/\bheadgate\.rank\(/g, "data.headgate.host_builtins.rank(");
    await mkdir(dirname(join(path, name)), { recursive: true });
    await writeFile(join(path, name), stubbed);
  }
  await writeFile(join(path, "host-builtins.rego"), hostStub);
}

async function dependenciesOf(
  entrypoint: Entrypoint,
  source: string,
  env: Environment,
): Promise<Dependencies> {
  const ref = `data.${defaultEntrypoints[entrypoint].replaceAll("/", ".")}`;
  const parameters = ["deps", "--format=json", "--data", source, ref];
  return readDependencies(await mustRun(parameters, env));
}

async function mustBeDirectory(path: string): Promise<void> {
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory() === true) return;
  throw new FaultError("config", `Cannot build policy: "${path}" is not a directory of sources`);
}

async function mustRun(
  parameters: readonly string[],
  env: Environment,
  cwd?: string,
): Promise<string> {
  const run = await runOpa(parameters, env, cwd);
  if (run.status === 0) return run.stdout;
  const output = `${run.stdout}${run.stderr}`.trim();
  throw new FaultError("policy_load", `Cannot build policy: opa ${parameters[0] ?? ""}\n${output}`);
}

function finish(
  built: ReadonlyMap<string, Uint8Array>,
  found: {
    readonly sources: ReadonlyMap<string, string>;
    readonly dependencies: Build["dependencies"];
    readonly revision: string | null;
  },
): Build {
  const { sources, dependencies, revision } = found;
  const text = (name: string) => Buffer.from(built.get(name) ?? []).toString("utf8");
  const data: unknown = JSON.parse(text("data.json"));
  const content = createHash("sha256");
  for (const name of bundleMembers) content.update(built.get(name) ?? new Uint8Array());
  const chosen = revision ?? `sha256:${content.digest("hex").slice(0, 32)}`;
  const manifest = {
    ...(JSON.parse(text(".manifest")) as Readonly<Record<string, unknown>>),
    revision: chosen,
    metadata: {
      headgate: {
        input_version: 1,
        memo: { authz: dependencies.authz.inputs, route: dependencies.route.inputs },
        route_digest: routeDigest(dependencies.route, sources, data),
      },
    },
  };
  const members = new Map<string, Uint8Array>([
    [".manifest", Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`)],
    ["policy.wasm", built.get("policy.wasm") ?? new Uint8Array()],
    ["data.json", Buffer.from(`${JSON.stringify(data, null, 2)}\n`)],
  ]);
  return { members, dependencies, revision: chosen };
}

/** Loads it as a proxy would, so that a bundle that cannot serve is never written. */
async function tryOut(build: Build, path: string): Promise<void> {
  await writeBundle(build, path);
  openEngine(await readBundle(path), {}).close();
}
