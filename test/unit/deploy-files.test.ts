// The files of deploy/, which nothing here can run: each is parsed, every path it copies or mounts is
// there, and the configurations load with the code that reads them at start.

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { parse } from "yaml";
import { type LoadedConfig, loadConfig } from "../../proxy/config.ts";

const root = join(import.meta.dirname, "..", "..");
const deploy = join(root, "deploy");

interface Instruction {
  readonly name: string;
  readonly rest: string;
}

function instructions(file: string): readonly Instruction[] {
  return readFileSync(join(deploy, file), "utf8")
    .replaceAll(/^#.*\n/gm, "")
    .replaceAll(/\\\n/g, " ")
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [, name = "", rest = ""] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? [];
      return { name, rest: rest.replaceAll(/\s+/g, " ").trim() };
    });
}

function loadFrom(path: string, readFile: (path: string) => string): LoadedConfig {
  return loadConfig({
    nowMs: Date.now(),
    file: path,
    env: {},
    overrides: [],
    hostname: "host",
    embedded: false,
    readFile,
  });
}

for (const file of ["Dockerfile", "rgw.Dockerfile"]) {
  t.test(`${file} copies only what exists, to absolute or working paths`, async (t) => {
    const lines = instructions(file);
    const known = ["FROM", "WORKDIR", "COPY", "RUN", "LABEL", "ENV", "USER", "EXPOSE"];
    const later = ["HEALTHCHECK", "ENTRYPOINT", "CMD"];
    t.strictSame(
      lines.filter(({ name }) => ![...known, ...later].includes(name)),
      [],
    );
    const copies = lines.filter(({ name, rest }) => name === "COPY" && !rest.startsWith("--from"));
    t.ok(copies.length > 0);
    for (const { rest } of copies) {
      const sources = rest.split(" ").slice(0, -1);
      for (const source of sources) t.ok(existsSync(join(root, source)), `${source} exists`);
    }
    const stages = lines.filter(({ name }) => name === "FROM").map(({ rest }) => rest);
    for (const { rest } of lines.filter(({ rest }) => rest.startsWith("--from="))) {
      const [, stage = ""] = /^--from=(\S+)/.exec(rest) ?? [];
      t.ok(
        stages.some((from) => from.endsWith(` AS ${stage}`)),
        `stage ${stage} is declared`,
      );
    }
    for (const { rest } of lines.filter(({ name }) => ["ENTRYPOINT", "CMD"].includes(name))) {
      t.ok(Array.isArray(JSON.parse(rest)), "exec form, so that signals arrive");
    }
  });
}

t.test("the image holds what the build and the start need, and runs as nobody", async (t) => {
  const lines = instructions("Dockerfile");
  const build: { readonly include: readonly string[] } = JSON.parse(
    readFileSync(join(deploy, "tsconfig.build.json"), "utf8"),
  );
  const copied = lines
    .filter(({ name, rest }) => name === "COPY" && !rest.startsWith("--from"))
    .flatMap(({ rest }) => rest.split(" ").slice(0, -1));
  for (const folder of build.include) {
    t.ok(copied.includes(folder.replace("../", "")), `${folder} is compiled`);
  }
  t.ok(copied.includes("package-lock.json"));
  const last = lines.slice(lines.findLastIndex(({ name }) => name === "FROM"));
  t.match(last[0]?.rest, /distroless\/nodejs20.*:nonroot$/);
  t.strictSame(
    last.filter(({ name }) => name === "USER").map(({ rest }) => rest),
    ["65532:65532"],
  );
  t.ok(
    last.some(
      ({ name, rest }) =>
        name === "COPY" && rest === "--from=build --chown=65532:65532 /empty /var/lib/headgate",
    ),
    "the folder of the state is that user's own",
  );
  t.match(lines.find(({ name }) => name === "RUN")?.rest, /^mkdir -p \/empty &&/);
  const { bin }: { readonly bin: { readonly headgate: string } } = JSON.parse(
    readFileSync(join(root, "package.json"), "utf8"),
  );
  t.match(last.find(({ name }) => name === "ENTRYPOINT")?.rest, bin.headgate);
});

interface Compose {
  readonly services: Readonly<
    Record<
      string,
      {
        readonly build?: { readonly context: string; readonly dockerfile: string };
        readonly depends_on?: Readonly<Record<string, unknown>>;
        readonly volumes?: readonly string[];
        readonly stop_grace_period?: string;
      }
    >
  >;
  readonly volumes: Readonly<Record<string, unknown>>;
}

t.test("compose mounts and builds what exists, and its configuration is valid", async (t) => {
  const compose: Compose = parse(readFileSync(join(deploy, "compose.yaml"), "utf8"));
  t.strictSame(Object.keys(compose.services), ["etcd", "rgw", "headgate"]);
  const mounts = new Map<string, string>();
  for (const [name, service] of Object.entries(compose.services)) {
    if (service.build !== undefined) {
      const { context, dockerfile } = service.build;
      t.ok(existsSync(join(deploy, context, dockerfile)), `${name} is built from a file`);
    }
    for (const other of Object.keys(service.depends_on ?? {})) t.ok(other in compose.services);
    for (const volume of service.volumes ?? []) {
      const [from = "", to = ""] = volume.split(":");
      if (!from.startsWith("./")) t.ok(from in compose.volumes, `volume ${from} is declared`);
      else {
        t.ok(statSync(join(deploy, from)).isFile(), `${from} is a file`);
        mounts.set(to, join(deploy, from));
      }
    }
  }
  const loaded = loadFrom("/etc/headgate/config.yaml", (path) =>
    readFileSync(mounts.get(path) ?? path, "utf8"),
  );
  if (loaded.kind === "faults") {
    t.strictSame(loaded.faults, []);
    return;
  }
  const hosts = loaded.config.clusters.flatMap(({ endpoints }) => endpoints);
  for (const endpoint of hosts) t.ok(new URL(String(endpoint)).hostname in compose.services);
});

t.test("the examples are valid with the secrets they name", async (t) => {
  const names = readdirSync(join(deploy, "examples"));
  t.ok(names.includes("config.yaml"));
  const loaded = loadFrom(join(deploy, "examples", "config.yaml"), (path) =>
    /\.[as]k$/.test(path) ? "SECRETTEXTFROMAFILE1" : readFileSync(path, "utf8"),
  );
  t.strictSame(loaded.kind === "faults" ? loaded.faults : loaded.warnings, []);
  const sources = loaded.kind === "config" ? loaded.config.auth.sources : [];
  const credentials = sources.flatMap((one) => ("credentials" in one ? one.credentials : []));
  const allowed = credentials.flatMap(({ principal }) => principal.grants.flatMap((g) => g.allow));
  t.ok(allowed.includes("admin"), "somebody can create a bucket");
});
