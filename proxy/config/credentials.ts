// Reads a credentials file: which client keys are accepted and what each key's user may do. Its shape
// mirrors `radosgw-admin user info`. Grants are data for policy; nothing here decides access.

import { z } from "zod";
import type { ClusterIdentity } from "../placement/ports.ts";
import type { Credential, KeyPair } from "../policy/credential.ts";
import { everything } from "../policy/credential.ts";
import type { Grant } from "../policy/ports.ts";
import type { ClusterId } from "../s3/names.ts";
import { noTenant, parseAccessKeyId, parseClusterId, parseTenantName } from "../s3/names.ts";
import { operationFacts } from "../s3/operation.ts";
import { Checks } from "./checks.ts";
import { issueFaults } from "./issues.ts";
import { readSourceFile, type SettingPath, type SourceOptions } from "./source-file.ts";
import { nearestName } from "./values.ts";

/** The pair of `headgate run --embedded`: public knowledge, so loopback listeners only. */
export const demoPair = {
  accessKeyId: "headgate-demo",
  secretAccessKey: "headgate-demo-secret",
} as const;

const operationClasses = ["read", "write", "list", "delete", "admin"] as const;
const allowable = [...operationClasses, ...Object.keys(operationFacts)];

const grant = z.strictObject({
  buckets: z.array(z.string()).min(1, "Grant names no bucket"),
  keys: z.array(z.string()).prefault(["*"]),
  allow: z.array(
    z.string().superRefine((name, context) => {
      if (allowable.includes(name)) return;
      const nearest = nearestName(name, allowable);
      const hint = nearest === null ? `one of ${operationClasses.join(", ")}` : `"${nearest}"`;
      context.addIssue({
        code: "custom",
        message: `Unknown operation or class "${name}", nearest is ${hint}`,
      });
    }),
  ),
});

const keyPair = {
  access_key: z.string(),
  secret_key: z.string({ error: "Expected text" }).min(1, "Secret is empty").optional(),
  secret_key_file: z.string().optional(),
};

const file = z.strictObject({
  users: z.array(
    z.strictObject({
      uid: z.string().min(1, "User id is empty"),
      display_name: z.string().optional(),
      tenant: z.string().prefault(""),
      keys: z.array(
        z.strictObject({
          ...keyPair,
          session_token: z.string({ error: "Expected text" }).optional(),
          session_token_file: z.string().optional(),
          status: z.enum(["active", "suspended"]).prefault("active"),
        }),
      ),
      groups: z.array(z.string()).prefault([]),
      grants: z.array(grant).prefault([]),
      clusters: z.record(z.string(), z.strictObject(keyPair)).prefault({}),
    }),
  ),
  groups: z.array(z.strictObject({ name: z.string(), grants: z.array(grant) })).prefault([]),
});

type CredentialsFile = z.output<typeof file>;

/** The clusters whose identity a credentials file depends on. */
export type Identities = ReadonlyMap<string, ClusterIdentity>;

export interface CredentialsFileOptions extends SourceOptions {
  readonly readFile: (path: string) => string;
  readonly identities: Identities;
}

/** Whether the clusters' own ACLs decide about every request of a user. */
export function clustersDecide(identities: Identities): boolean {
  return identities.size > 0 && [...identities.values()].every((identity) => identity === "same");
}

/** All keys of a credentials file; what is wrong goes to `checks`, placed in that file. */
export function readCredentials(
  text: string,
  options: CredentialsFileOptions,
  checks: Checks,
): readonly Credential[] {
  const source = readSourceFile(text, options);
  checks.faults.push(...source.faults);
  if (source.faults.length > 0) return [];
  const parsed = file.safeParse(source.value);
  const inside = new Checks(
    (path) => ({ source: options.name, position: source.position(path, "value") }),
    options.readFile,
  );
  if (!parsed.success) {
    checks.faults.push(
      ...issueFaults(parsed.error.issues, file, (path, part) => ({
        source: options.name,
        position: source.position(path, part),
      })),
    );
    return [];
  }
  const credentials = credentialsOf(parsed.data, options.identities, inside);
  checks.faults.push(...inside.faults);
  checks.warnings.push(...inside.warnings);
  return credentials;
}

function credentialsOf(
  data: CredentialsFile,
  identities: Identities,
  checks: Checks,
): readonly Credential[] {
  const groups = new Map(data.groups.map((group) => [group.name, group.grants]));
  const seen = new Set<string>();
  return data.users.flatMap((user, index) => {
    const at = ["users", index];
    const tenant = parseTenantName(user.tenant);
    if (tenant === null) checks.fault([...at, "tenant"], `Tenant "${user.tenant}" is not valid`);
    const grants: Grant[] = [...user.grants];
    for (const [groupIndex, name] of user.groups.entries()) {
      const granted = groups.get(name);
      if (granted !== undefined) grants.push(...granted);
      else checks.fault([...at, "groups", groupIndex], `Group "${name}" is not under groups`);
    }
    if (grants.length === 0 && clustersDecide(identities)) {
      grants.push(...everything);
    } else if (grants.length === 0) {
      checks.warn(
        [...at, "uid"],
        `User "${user.uid}" has no grants, so it may only list buckets, unless a policy of your own says otherwise`,
      );
    }
    const who = {
      account: user.uid,
      displayName: user.display_name ?? null,
      tenant: tenant ?? noTenant,
      groups: user.groups,
      grants,
      scheme: "header",
    } as const;
    const clusters = readMapped(user.clusters, { at: [...at, "clusters"], identities, checks });
    return user.keys.flatMap((key, keyIndex) => {
      const pair = readKey(key, { at: [...at, "keys", keyIndex], seen, checks });
      if (pair === null) return [];
      const principal = Object.freeze({ ...who, accessKey: pair.accessKeyId });
      return [Object.freeze({ ...pair, principal, status: key.status, clusters })];
    });
  });
}

function readKey(
  key: CredentialsFile["users"][number]["keys"][number],
  options: { readonly at: SettingPath; readonly seen: Set<string>; readonly checks: Checks },
): Pick<Credential, "accessKeyId" | "secretAccessKey" | "sessionToken"> | null {
  const { at, seen, checks } = options;
  const accessKeyId = parseAccessKeyId(key.access_key);
  if (accessKeyId === null) {
    checks.fault([...at, "access_key"], "Access key has characters that S3 does not allow");
  } else if (seen.has(accessKeyId)) {
    checks.fault([...at, "access_key"], `Access key "${accessKeyId}" is given twice`);
  } else {
    seen.add(accessKeyId);
  }
  if (key.secret_key === undefined && key.secret_key_file === undefined) {
    checks.fault(at, "Key needs secret_key or secret_key_file");
  }
  const secretAccessKey = checks.secret(key, "secret_key", at);
  const sessionToken = checks.secret(key, "session_token", at);
  if (sessionToken !== null && !/^[\x21-\x7e]{1,8192}$/.test(sessionToken)) {
    checks.fault(at, "Session token has characters that a header cannot hold");
  }
  if (accessKeyId === null || secretAccessKey === null) return null;
  const pair = { accessKeyId, secretAccessKey };
  return sessionToken === null ? pair : { ...pair, sessionToken };
}

/** The user's own pairs on clusters with identity `mapped`. */
function readMapped(
  pairs: CredentialsFile["users"][number]["clusters"],
  options: {
    readonly at: SettingPath;
    readonly identities: Identities;
    readonly checks: Checks;
  },
): ReadonlyMap<ClusterId, KeyPair> {
  const { at, identities, checks } = options;
  const mapped = new Map<ClusterId, KeyPair>();
  for (const [name, pair] of Object.entries(pairs)) {
    const id = parseClusterId(name);
    const identity = identities.get(name);
    if (identity === undefined) checks.fault([...at, name], `Cluster "${name}" is not configured`);
    else if (identity !== "mapped") {
      checks.fault([...at, name], `Cluster "${name}" has identity ${identity}, needs mapped`);
    }
    if (pair.secret_key === undefined && pair.secret_key_file === undefined) {
      checks.fault([...at, name], "Key needs secret_key or secret_key_file");
    }
    const secretAccessKey = checks.secret(pair, "secret_key", [...at, name]);
    if (id !== null && secretAccessKey !== null) {
      mapped.set(id, { accessKeyId: pair.access_key, secretAccessKey });
    }
  }
  return mapped;
}
