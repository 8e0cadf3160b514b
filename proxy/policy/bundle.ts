// A policy bundle as OPA builds it: manifest, compiled module, data, from its members or from a
// bundle.tar.gz (openpolicyagent.org/docs/latest/management-bundles). A fault is a FaultError
// policy_load that names what is wrong. Reading files is bundle-file.ts.

import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { type Entrypoint, FaultError } from "../placement/ports.ts";
import { readTar } from "./tar.ts";

export type JsonObject = Readonly<Record<string, unknown>>;

/** Input fields that an entrypoint can read, as paths below `input`; `[[]]` is the whole input. */
export type MemoFields = readonly (readonly string[])[];

export interface PolicyBundle {
  /** Of the manifest, or `sha256:` with the first half of `sha256`. */
  readonly revision: string;
  /** Hex SHA-256 over manifest, module and data: what `policy/active` names. */
  readonly sha256: string;
  readonly module: WebAssembly.Module;
  /** The bundle's own `data.json`. */
  readonly data: JsonObject;
  /** What `headgate policy build` found; `null`: nothing may be remembered. */
  readonly memo: Readonly<Record<Entrypoint, MemoFields>> | null;
  /** Digest of the modules and data that the route entrypoint can reach; `null` when unknown. */
  readonly routeDigest: string | null;
}

/** Members that Headgate reads; others (Rego sources) are left alone. */
export const bundleMembers = [".manifest", "policy.wasm", "data.json"] as const;
type Member = (typeof bundleMembers)[number];

/** Archives beyond this are refused before and after they are decompressed. */
const maxBundleBytes = 64 * 2 ** 20;

const inflate = promisify(gunzip);

/**
 * Reads a bundle from the bytes of a bundle.tar.gz. `name` stands in messages.
 * @throws FaultError policy_load when it is cut short or no WASM bundle.
 */
export async function readBundleArchive(bytes: Uint8Array, name: string): Promise<PolicyBundle> {
  return readBundleMembers(await unpackArchive(bytes, name), name);
}

/** Members of a bundle.tar.gz by path. @throws FaultError policy_load */
export async function unpackArchive(
  bytes: Uint8Array,
  name: string,
): Promise<ReadonlyMap<string, Uint8Array>> {
  if (bytes.length > maxBundleBytes) throw fault(name, "it is larger than 64 MiB");
  let archive: Uint8Array;
  try {
    archive = await inflate(bytes, { maxOutputLength: maxBundleBytes });
  } catch (error) {
    throw fault(name, "it is no gzip archive of at most 64 MiB", error);
  }
  const tar = readTar(archive);
  if (tar.kind === "malformed") throw fault(name, tar.reason);
  return tar.members;
}

/** The same from members by path. @throws FaultError policy_load */
export async function readBundleMembers(
  parts: ReadonlyMap<string, Uint8Array>,
  name: string,
): Promise<PolicyBundle> {
  const wasm = parts.get("policy.wasm");
  if (wasm === undefined) {
    throw fault(name, 'it holds no "policy.wasm": build it with "headgate policy build"');
  }
  const manifest = readJson(parts.get(".manifest"), { name, member: ".manifest" });
  const data = readJson(parts.get("data.json"), { name, member: "data.json" });
  let module: WebAssembly.Module;
  try {
    module = await WebAssembly.compile(wasm);
  } catch (error) {
    throw fault(name, '"policy.wasm" is no WebAssembly module', error);
  }
  const sha256 = digest(parts);
  const { revision } = manifest;
  const headgate = section(section(manifest["metadata"])["headgate"]);
  const { route_digest: routeDigest } = headgate;
  return {
    revision:
      typeof revision === "string" && revision !== "" ? revision : `sha256:${sha256.slice(0, 32)}`,
    sha256,
    module,
    data,
    memo: readMemo(headgate["memo"], name),
    routeDigest: typeof routeDigest === "string" ? routeDigest : null,
  };
}

function digest(parts: ReadonlyMap<string, Uint8Array>): string {
  const hash = createHash("sha256");
  for (const member of bundleMembers) {
    const bytes = parts.get(member) ?? new Uint8Array();
    hash.update(`${member} ${bytes.length}\n`).update(bytes);
  }
  return hash.digest("hex");
}

function readJson(
  bytes: Uint8Array | undefined,
  at: { readonly name: string; readonly member: Member },
): JsonObject {
  if (bytes === undefined) return {};
  try {
    const value: unknown = JSON.parse(Buffer.from(bytes).toString("utf8"));
    if (isJsonObject(value)) return value;
  } catch (error) {
    throw fault(at.name, `"${at.member}" is not JSON`, error);
  }
  throw fault(at.name, `"${at.member}" is not a JSON object`);
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function section(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** `{"authz": ["input.request.bucket"], "route": [...]}`; absent → null, anything else is a fault. */
function readMemo(value: unknown, name: string): PolicyBundle["memo"] {
  if (value === undefined) return null;
  const memo = section(value);
  return { authz: readFields(memo["authz"], name), route: readFields(memo["route"], name) };
}

function readFields(value: unknown, name: string): MemoFields {
  if (!Array.isArray(value)) throw fault(name, "its memo metadata lists no fields");
  return (value as readonly unknown[]).map((path) => {
    const [root, ...rest] = typeof path === "string" ? path.split(".") : [];
    if (root !== "input" || rest.includes("")) throw fault(name, "its memo metadata is malformed");
    return rest;
  });
}

function fault(name: string, reason: string, cause?: unknown): FaultError {
  return new FaultError("policy_load", `Cannot load policy bundle "${name}": ${reason}`, cause);
}
