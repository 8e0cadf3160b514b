// `headgate run`, `demo`, `validate`, `config …`, `version`: what needs a configuration, not a running
// process. Flags become the topmost layer of the configuration.

import { settingsJsonSchema } from "../config/schema.ts";
import { type ConfigFault, faultText } from "../config/source-file.ts";
import { type LoadedConfig, loadConfig, type NamedBundle, type Override } from "../config.ts";
import { FaultError } from "../placement/ports.ts";
import { readBundle } from "../policy/bundle-file.ts";
import { openEngine } from "../policy/engine.ts";
import { type Call, type Command, outputFlags } from "./command.ts";
import { exitCodes } from "./exit-codes.ts";

const configFlag = {
  config: { short: "c", value: "FILE", summary: "Configuration file (HEADGATE_CONFIG)" },
} as const;

const runFlags = {
  ...configFlag,
  cluster: {
    value: "ID=URL",
    multiple: true,
    summary: "Add a cluster; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY sign to it",
  },
  policy: { value: "PATH", summary: "Policy bundle" },
  listen: { value: "HOST:PORT", summary: "Address of S3 traffic" },
  admin: { value: "HOST:PORT", summary: "Address of the admin API" },
  state: { value: "memory|file:PATH|etcd:URL,...", summary: "Where placement is kept" },
} as const;

/** Flags as settings; a text tells what is wrong with one. */
function overridesOf(call: Call): readonly Override[] | string {
  const overrides: Override[] = [];
  const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = call.io.env;
  const keys =
    id === undefined || secret === undefined
      ? {}
      : { credentials: { access_key_id: id, secret_access_key: secret } };
  for (const text of call.texts("cluster")) {
    const match = /^([^=]+)=(.+)$/.exec(text);
    if (match === null) return `Cluster "${text}" is not readable, write --cluster ID=URL`;
    const value = { id: match[1], endpoints: [match[2]], ...keys };
    overrides.push({ flag: "--cluster", path: ["clusters"], value, append: true });
  }
  const single = (flag: string, path: readonly string[]): void => {
    const value = call.text(flag);
    if (value !== null) overrides.push({ flag: `--${flag}`, path, value });
  };
  single("policy", ["policy", "bundle"]);
  single("listen", ["listen", "address"]);
  single("admin", ["admin", "address"]);
  const state = call.text("state");
  if (state === null) return overrides;
  const [driver = "", ...rest] = state.split(":");
  const place = rest.join(":");
  const put = (path: readonly string[], value: unknown): void => {
    overrides.push({ flag: "--state", path: ["state", ...path], value });
  };
  if (!/^(?:memory|file:.+|etcd:.+)$/.test(state)) {
    return `State "${state}" is not readable, write memory, file:PATH or etcd:URL,...`;
  }
  put(["driver"], driver);
  if (driver === "file") put(["file", "path"], place);
  if (driver === "etcd") put(["etcd", "endpoints"], place.split(","));
  return overrides;
}

function load(call: Call, embedded: boolean): LoadedConfig | string {
  const overrides = overridesOf(call);
  if (typeof overrides === "string") return overrides;
  const { env, hostname, readFile, clock } = call.io;
  const file = call.text("config") ?? env["HEADGATE_CONFIG"] ?? null;
  return loadConfig({ file, env, overrides, hostname, embedded, readFile, nowMs: clock.nowMs() });
}

/** Prints faults and warnings; the configuration if there is one, else the exit code. */
function loadOrReport(
  call: Call,
  embedded: boolean,
): Extract<LoadedConfig, { readonly kind: "config" }> | number {
  const loaded = load(call, embedded);
  const code = report(call, loaded);
  return typeof loaded !== "string" && loaded.kind === "config" ? loaded : code;
}

/** Prints what is wrong with flags or configuration and gives the exit code it means. */
function report(call: Call, loaded: LoadedConfig | string): number {
  if (typeof loaded === "string") {
    call.io.stderr(`${loaded}\n`);
    return exitCodes.usage;
  }
  for (const warning of loaded.warnings) call.io.stderr(`Warning: ${faultText(warning)}\n`);
  if (loaded.kind === "config") return exitCodes.ok;
  for (const fault of loaded.faults) call.io.stderr(`${faultText(fault)}\n`);
  return exitCodes.failed;
}

async function run(call: Call): Promise<number> {
  const embedded = call.has("embedded");
  const loaded = loadOrReport(call, embedded);
  if (typeof loaded === "number") return loaded;
  return await call.starters.run({ config: loaded.config, embedded }, call.io);
}

async function validate(call: Call): Promise<number> {
  const loaded = load(call, false);
  if (typeof loaded === "string") return report(call, loaded);
  const fault = loaded.bundle === null ? null : await bundleFault(loaded.bundle);
  const code = report(call, loaded);
  if (fault !== null) call.io.stderr(`${faultText(fault)}\n`);
  if (code !== exitCodes.ok) return code;
  if (fault !== null) return exitCodes.failed;
  if (call.has("strict") && loaded.warnings.length > 0) return exitCodes.failed;
  call.io.stderr("Configuration is valid\n");
  return exitCodes.ok;
}

/** What a start would say of the policy bundle; null: it loads. */
async function bundleFault(bundle: NamedBundle): Promise<ConfigFault | null> {
  const { file, ...at } = bundle;
  try {
    openEngine(await readBundle(file), {}).close();
    return null;
  } catch (caught) {
    if (!(caught instanceof FaultError)) throw caught;
    return { ...at, message: caught.message };
  }
}

function show(call: Call): Promise<number> {
  const loaded = loadOrReport(call, false);
  if (typeof loaded === "number") return Promise.resolve(loaded);
  if (call.json) {
    const list = loaded.shown.map(({ name, value, origin, source }) => ({
      name,
      value: value ?? null,
      origin,
      source,
    }));
    call.io.stdout(`${JSON.stringify(list)}\n`);
    return Promise.resolve(exitCodes.ok);
  }
  const width = Math.max(...loaded.shown.map(({ name }) => name.length));
  for (const { name, value, origin, source } of loaded.shown) {
    const from = call.has("source") ? `  # ${source ?? origin}` : "";
    const text = value === undefined ? "-" : JSON.stringify(value);
    call.io.stdout(`${name.padEnd(width)}  ${text}${from}\n`);
  }
  return Promise.resolve(exitCodes.ok);
}

export const configCommands: readonly Command[] = [
  {
    name: "run",
    operands: "",
    summary: "Serve S3 and the admin API until SIGTERM",
    flags: {
      ...runFlags,
      embedded: { summary: "Three in-memory clusters and a demo key pair, on loopback only" },
    },
    admin: false,
    run,
  },
  {
    name: "demo",
    operands: "",
    summary: "Run a scripted tour on embedded clusters: spread, drain, undrain",
    flags: { json: { summary: "One JSON object a step" } },
    admin: false,
    run: (call) => call.starters.demo({ json: call.json }, call.io),
  },
  {
    name: "validate",
    operands: "",
    summary: "Check the configuration; every fault with file:line:column",
    flags: { ...runFlags, strict: { summary: "Fail on warnings too" } },
    admin: false,
    run: validate,
  },
  {
    name: "config show",
    operands: "",
    summary: "Print the effective configuration, secrets as fingerprints",
    flags: {
      ...runFlags,
      source: { summary: "Say where each value comes from" },
      ...outputFlags,
    },
    admin: false,
    run: show,
  },
  {
    name: "config schema",
    operands: "",
    summary: "Print the JSON Schema of the configuration file",
    flags: {},
    admin: false,
    run: (call) => {
      call.io.stdout(`${JSON.stringify(settingsJsonSchema(), null, 2)}\n`);
      return Promise.resolve(exitCodes.ok);
    },
  },
  {
    name: "version",
    operands: "",
    summary: "Print the version",
    flags: {},
    admin: false,
    run: (call) => {
      call.io.stdout(`headgate ${call.io.version}\n`);
      return Promise.resolve(exitCodes.ok);
    },
  },
];
