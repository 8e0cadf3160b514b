// Where client keys come from, in order (`auth.credentials`): credentials files, the state store,
// RGW's admin API. Files are read here the first time, so that a broken one stops the start; a running
// process reads them again by the same function.

import type { Credential, KeyPair } from "../policy/credential.ts";
import { everything } from "../policy/credential.ts";
import type { Grant } from "../policy/ports.ts";
import { type ClusterId, parseClusterId } from "../s3/names.ts";
import { Checks } from "./checks.ts";
import {
  type CredentialsFileOptions,
  clustersDecide,
  demoPair,
  type Identities,
  readCredentials,
} from "./credentials.ts";
import type { Settings } from "./schema.ts";
import { faultText, type SettingPath } from "./source-file.ts";
import { isLoopbackHost } from "./values.ts";

/** The state of a credentials file, from one reading of it and of the files it names. */
type CredentialsReading =
  | {
      readonly kind: "credentials";
      readonly credentials: readonly Credential[];
      /** Every file that was read: a change of any of them is a change of the whole. */
      readonly files: readonly string[];
    }
  | {
      readonly kind: "faults";
      readonly texts: readonly string[];
      readonly files: readonly string[];
    };

export type CredentialSourceConfig =
  /** Keys that stand in the configuration itself: those of `--embedded`. */
  | { readonly kind: "fixed"; readonly credentials: readonly Credential[] }
  | {
      readonly kind: "file";
      readonly path: string;
      readonly reloadIntervalMs: number;
      readonly credentials: readonly Credential[];
      readonly files: readonly string[];
      /** Reads it again. Never throws. */
      readonly read: () => CredentialsReading;
    }
  /** Keys in the state store. */
  | { readonly kind: "etcd"; readonly impliedGrants: readonly Grant[] }
  | {
      readonly kind: "rgw-admin";
      readonly cluster: ClusterId;
      /** With caps `users=read`; null: those of the cluster. */
      readonly keys: KeyPair | null;
      readonly cacheTtlMs: number;
      readonly negativeTtlMs: number;
      readonly maxStaleMs: number;
      readonly maxEntries: number;
      /** What every user may do. */
      readonly grants: readonly Grant[];
    };

type Source = Settings["auth"]["credentials"][number];

interface SourceReading {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly embedded: boolean;
  readonly readFile: (path: string) => string;
  readonly resolveBeside: (file: string, path: string) => string;
}

/** Settings of `auth.credentials[]` by the source that has them. */
const settingsOf = {
  file: ["file", "reload_interval"],
  etcd: [],
  "rgw-admin": [
    "cluster",
    "access_key_id",
    "access_key_id_file",
    "secret_access_key",
    "secret_access_key_file",
    "cache_ttl",
    "negative_ttl",
    "max_stale",
    "max_entries",
  ],
} as const satisfies Record<Source["source"], readonly (keyof Source)[]>;

export function credentialSources(
  data: Settings,
  checks: Checks,
  options: SourceReading,
): readonly CredentialSourceConfig[] {
  const faultsBefore = checks.faults.length;
  const sources = data.auth.credentials.flatMap((source, index) =>
    sourceOf(source, { index, data, checks, options }),
  );
  // Of a source that cannot be read nobody knows which keys it has.
  const areRead = checks.faults.length === faultsBefore;
  warnOfTwins(sources, checks);
  checkDemoPair(sources, { data, checks, embedded: options.embedded });
  const isEmpty = sources.every((one) => "credentials" in one && one.credentials.length === 0);
  if (isEmpty && areRead && !options.embedded) {
    checks.warn(
      ["auth", "credentials"],
      "No client keys are configured, so every signed request is refused",
    );
  }
  return sources;
}

interface SourceWork {
  readonly index: number;
  readonly data: Settings;
  readonly checks: Checks;
  readonly options: SourceReading;
}

function sourceOf(source: Source, work: SourceWork): readonly CredentialSourceConfig[] {
  const { index, checks } = work;
  const at = ["auth", "credentials", index];
  for (const name of Object.keys(source)) {
    const known: readonly string[] = ["source", ...settingsOf[source.source]];
    if (!known.includes(name)) {
      checks.fault([...at, name], `Setting is not one of source ${source.source}`);
    }
  }
  switch (source.source) {
    case "file":
      return fileSource(source, work);
    case "etcd":
      return storeSource(work);
    case "rgw-admin":
      return rgwSource(source, work);
  }
}

const reloadIntervalMs = 10_000;

function fileSource(source: Source, work: SourceWork): readonly CredentialSourceConfig[] {
  const { index, data, checks, options } = work;
  const at = ["auth", "credentials", index, "file"];
  const path = source.file;
  if (path === undefined) {
    checks.fault(at, "Expected a path, got nothing");
    return [];
  }
  const text = checks.read(path, at);
  if (text === null) return [];
  const files = new Set([path]);
  const given = { path, identities: identitiesOf(data), isPublic: isPublicListener(data) };
  const read = { ...options, readFile: noting(files, options.readFile) };
  const credentials = readCredentials(text, fileOptions(given, read), checks);
  return [
    {
      kind: "file",
      path,
      reloadIntervalMs: source.reload_interval ?? reloadIntervalMs,
      credentials,
      files: [...files],
      read: () => readAgain(given, options),
    },
  ];
}

function storeSource(work: SourceWork): readonly CredentialSourceConfig[] {
  const { index, data, checks } = work;
  const at = ["auth", "credentials", index, "source"];
  if ((data.keys.seal_key_file ?? "") === "") {
    checks.fault(at, "Source etcd needs keys.seal_key_file, which opens its secrets", [
      ["keys", "seal_key_file"],
    ]);
  }
  if (data.state.driver === "memory") {
    checks.warn(at, "State driver memory forgets its client keys with the process", [
      ["state", "driver"],
    ]);
  }
  return [{ kind: "etcd", impliedGrants: impliedGrants(data) }];
}

/** What a user may do that has no grants. */
function impliedGrants(data: Settings): readonly Grant[] {
  return clustersDecide(identitiesOf(data)) ? everything : [];
}

function rgwSource(source: Source, work: SourceWork): readonly CredentialSourceConfig[] {
  const { index, data, checks } = work;
  const at = ["auth", "credentials", index];
  const cluster = data.clusters.find(({ id }) => id === source.cluster);
  const id = parseClusterId(source.cluster ?? "");
  if (cluster === undefined || id === null) {
    const given = source.cluster === undefined ? "nothing" : `"${source.cluster}"`;
    checks.fault([...at, "cluster"], `Expected the id of a cluster under clusters, got ${given}`, [
      ["clusters"],
    ]);
    return [];
  }
  const own = keyPairOf(source, checks, at);
  // What is wrong with the cluster's own keys is said where they stand.
  const unheard = new Checks(() => ({ source: "", position: null }), work.options.readFile);
  if (own === null && keyPairOf(cluster.credentials ?? {}, unheard, []) === null) {
    checks.fault(at, "Needs both access_key_id and secret_access_key, here or at the cluster", [
      ["clusters"],
    ]);
    return [];
  }
  const grants = impliedGrants(data);
  if (grants.length === 0) {
    checks.warn(
      at,
      "Users of RGW have no grants, so only a policy of your own, or identity same on every cluster, allows them anything",
    );
  }
  return [
    {
      kind: "rgw-admin",
      cluster: id,
      keys: own,
      cacheTtlMs: source.cache_ttl ?? 60_000,
      negativeTtlMs: source.negative_ttl ?? 10_000,
      maxStaleMs: source.max_stale ?? 3_600_000,
      maxEntries: source.max_entries ?? 10_000,
      grants,
    },
  ];
}

function keyPairOf(
  group: Readonly<Record<string, unknown>>,
  checks: Checks,
  at: SettingPath,
): KeyPair | null {
  const accessKeyId = checks.secret(group, "access_key_id", at);
  const secretAccessKey = checks.secret(group, "secret_access_key", at);
  if (accessKeyId === null && secretAccessKey === null) return null;
  if (accessKeyId !== null && secretAccessKey !== null) return { accessKeyId, secretAccessKey };
  checks.fault(at, "Needs both access_key_id and secret_access_key, or their _file twins");
  return null;
}

interface GivenFile {
  readonly path: string;
  readonly identities: Identities;
  /** The listener takes connections from other machines. */
  readonly isPublic: boolean;
}

function readAgain(given: GivenFile, options: SourceReading): CredentialsReading {
  const { path } = given;
  const files = new Set([path]);
  const read = { ...options, readFile: noting(files, options.readFile) };
  const checks = new Checks(() => ({ source: path, position: null }), read.readFile);
  const text = checks.read(path, []);
  const credentials = text === null ? [] : readCredentials(text, fileOptions(given, read), checks);
  if (given.isPublic && credentials.some(isDemo)) checks.fault([], demoFault);
  return checks.faults.length === 0
    ? { kind: "credentials", credentials, files: [...files] }
    : { kind: "faults", texts: checks.faults.map(faultText), files: [...files] };
}

function fileOptions(given: GivenFile, options: SourceReading): CredentialsFileOptions {
  const { path, identities } = given;
  const { env, readFile, resolveBeside } = options;
  return {
    name: path,
    env,
    resolvePath: (name) => resolveBeside(path, name),
    readFile,
    identities,
  };
}

function noting(files: Set<string>, readFile: (path: string) => string): (path: string) => string {
  return (path) => {
    files.add(path);
    return readFile(path);
  };
}

function identitiesOf(data: Settings): Identities {
  return new Map(data.clusters.map(({ id, identity }) => [id, identity]));
}

function keysOf(sources: readonly CredentialSourceConfig[]): readonly Credential[] {
  return sources.flatMap((source) => ("credentials" in source ? source.credentials : []));
}

function warnOfTwins(sources: readonly CredentialSourceConfig[], checks: Checks): void {
  const seen = new Set<string>();
  for (const { accessKeyId } of keysOf(sources)) {
    if (seen.has(accessKeyId)) {
      checks.warn(
        ["auth", "credentials"],
        `Access key "${accessKeyId}" is in two sources, the first counts`,
      );
    }
    seen.add(accessKeyId);
  }
}

const demoFault = "The demo key pair is public, so listen.address needs a loopback host";

function isDemo(pair: KeyPair): boolean {
  return (
    pair.accessKeyId === demoPair.accessKeyId || pair.secretAccessKey === demoPair.secretAccessKey
  );
}

function isPublicListener(data: Settings): boolean {
  return !isLoopbackHost(data.listen.address.host);
}

function checkDemoPair(
  sources: readonly CredentialSourceConfig[],
  { data, checks, embedded }: { data: Settings; checks: Checks; embedded: boolean },
): void {
  if (!embedded && !keysOf(sources).some(isDemo)) return;
  if (isPublicListener(data)) checks.fault(["listen", "address"], demoFault);
}
