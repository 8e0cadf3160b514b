// Client keys in the state store. Secrets come in, are sealed, and never go out again but once: when
// they are made here. Everything else of a credential is bound to the seal, so every change opens the
// secret and seals it anew; without the seal keys this process can list keys and remove them.

import type { Random } from "../placement/ports.ts";
import type { CredentialRecord } from "../placement/records.ts";
import { nonceBytes, openSecret, type SealKeys, sealSecret } from "../placement/sealed-secret.ts";
import type { Versioned } from "../placement/snapshot.ts";
import {
  type AccessKeyId,
  noTenant,
  parseAccessKeyId,
  parseTenantName,
  type TenantName,
} from "../s3/names.ts";
import { operationFacts } from "../s3/operation.ts";
import { type ChangePorts, change, type Plan } from "./change.ts";
import type { StoredKeyUse } from "./ports.ts";
import {
  type AdminReply,
  type AdminRequest,
  json,
  malformed,
  problem,
  unknownKeys,
} from "./reply.ts";

export interface CredentialPorts extends ChangePorts {
  readonly storedKeyUse: StoredKeyUse;
  readonly seals: { readonly keys: SealKeys | null; readonly random: Random };
}

const maxPage = 1000;
/** 40 characters of base64url, as long as AWS's. */
const secretBytes = 30;

function noSuchCredential(request: AdminRequest): AdminReply {
  const id = request.params.get("key") ?? "";
  return problem(404, "NoSuchCredential", `Access key "${id}" is not in the state store`);
}

function noSealKeys(): AdminReply {
  return problem(501, "NotImplemented", "This process has no keys.seal_key_file");
}

function find(request: AdminRequest, ports: ChangePorts): Versioned<CredentialRecord> | null {
  const id = parseAccessKeyId(request.params.get("key") ?? "");
  if (id === null) return null;
  return ports.snapshots.current().credentials.get(id) ?? null;
}

function shown(record: CredentialRecord): Readonly<Record<string, unknown>> {
  return {
    access_key: record.accessKeyId,
    uid: record.uid,
    display_name: record.displayName,
    tenant: record.tenant === noTenant ? null : record.tenant,
    groups: record.groups,
    grants: record.grants,
    status: record.status,
  };
}

/** GET /admin/v1/credentials?after=&limit= */
export function listCredentials(request: AdminRequest, ports: ChangePorts): AdminReply {
  const limit = Number(request.query.get("limit") ?? maxPage);
  if (!Number.isInteger(limit) || limit < 1 || limit > maxPage) {
    return malformed(`Query parameter limit needs 1 to ${maxPage}`);
  }
  const after = request.query.get("after") ?? "";
  const ids = [...ports.snapshots.current().credentials.values()]
    .map(({ value }) => value)
    .filter((record) => record.accessKeyId > after)
    .toSorted((a, b) => (a.accessKeyId < b.accessKeyId ? -1 : 1));
  const page = ids.slice(0, limit);
  return json(200, {
    credentials: page.map(shown),
    next_after: ids.length > limit ? (page.at(-1)?.accessKeyId ?? null) : null,
  });
}

/** GET /admin/v1/credentials/{key} */
export function showCredential(request: AdminRequest, ports: ChangePorts): AdminReply {
  const entry = find(request, ports);
  if (entry === null) return noSuchCredential(request);
  return json(200, shown(entry.value), entry.modRevision);
}

/** PUT /admin/v1/credentials/{key}: adds a key or replaces all of it but a secret that is not given. */
export async function putCredential(
  request: AdminRequest,
  ports: CredentialPorts,
): Promise<AdminReply> {
  const { keys, random } = ports.seals;
  if (keys === null) return noSealKeys();
  const wrong = unknownKeys(request.body, [
    "uid",
    "secret_key",
    "display_name",
    "tenant",
    "groups",
    "grants",
    "status",
  ]);
  if (wrong !== null) return wrong;
  const accessKeyId = parseAccessKeyId(request.params.get("key") ?? "");
  if (accessKeyId === null) {
    return problem(400, "InvalidCredential", "Access key has characters that S3 does not allow");
  }
  const given = readFields(accessKeyId, request.body);
  if (typeof given === "string") return problem(400, "InvalidCredential", given);
  const secret = secretOf(request.body);
  if (secret === undefined) return problem(400, "InvalidCredential", wrongSecret);
  const made = { secret: newSecret(random), used: false };
  const warning = joined([
    await unusedWarning(accessKeyId, ports),
    given.grants.length === 0 ? grantWarning(ports.storedKeyUse) : null,
  ]);
  const reply = await change(request, ports, (view): Plan => {
    const entry = view.credentials.get(accessKeyId);
    const kept = entry === undefined ? null : openSecret(entry.value, keys);
    if (secret === null && entry !== undefined && kept === null) return notOpened();
    made.used = secret === null && entry === undefined;
    const sealed = { secret: secret ?? kept ?? made.secret, keys, random };
    return planOf(given, entry, { ...sealed, warning, action: "admin:PutCredential" });
  });
  return made.used ? withSecret(reply, accessKeyId, made.secret) : reply;
}

/** POST /admin/v1/credentials/{key}/rotate `{secret_key?}`: another secret, a new one unless given. */
export async function rotateCredential(
  request: AdminRequest,
  ports: CredentialPorts,
): Promise<AdminReply> {
  const { keys, random } = ports.seals;
  if (keys === null) return noSealKeys();
  const wrong = unknownKeys(request.body, ["secret_key"]);
  if (wrong !== null) return wrong;
  const secret = secretOf(request.body);
  if (secret === undefined) return problem(400, "InvalidCredential", wrongSecret);
  const entry = find(request, ports);
  if (entry === null) return noSuchCredential(request);
  const { accessKeyId } = entry.value;
  const next = secret ?? newSecret(random);
  const warning = await unusedWarning(accessKeyId, ports);
  const reply = await change(request, ports, (view): Plan => {
    const now = view.credentials.get(accessKeyId);
    if (now === undefined) return { kind: "reply", reply: noSuchCredential(request) };
    // What does not open may have been changed by somebody without the seal key: it is not sealed anew.
    if (openSecret(now.value, keys) === null) return notOpened();
    const action = "admin:RotateCredential";
    return planOf(now.value, now, { secret: next, keys, random, warning, action });
  });
  return secret === null ? withSecret(reply, accessKeyId, next) : reply;
}

/** POST /admin/v1/credentials/{key}/disable and /enable */
export function setStatus(
  status: CredentialRecord["status"],
): (request: AdminRequest, ports: CredentialPorts) => Promise<AdminReply> {
  const action = status === "active" ? "admin:EnableCredential" : "admin:DisableCredential";
  return async (request, ports) => {
    const { keys, random } = ports.seals;
    if (keys === null) return noSealKeys();
    const wrong = unknownKeys(request.body, []);
    if (wrong !== null) return wrong;
    const entry = find(request, ports);
    if (entry === null) return noSuchCredential(request);
    const warning =
      status === "active" ? await unusedWarning(entry.value.accessKeyId, ports) : null;
    return await change(request, ports, (view): Plan => {
      const now = view.credentials.get(entry.value.accessKeyId);
      if (now === undefined) return { kind: "reply", reply: noSuchCredential(request) };
      const secret = openSecret(now.value, keys);
      if (secret === null) return notOpened();
      return planOf({ ...now.value, status }, now, { secret, keys, random, warning, action });
    });
  };
}

/** DELETE /admin/v1/credentials/{key} */
export function deleteCredential(request: AdminRequest, ports: ChangePorts): Promise<AdminReply> {
  const wrong = unknownKeys(request.body, []);
  if (wrong !== null) return Promise.resolve(wrong);
  return change(request, ports, (): Plan => {
    const entry = find(request, ports);
    if (entry === null) return { kind: "reply", reply: noSuchCredential(request) };
    const { accessKeyId } = entry.value;
    return {
      kind: "changes",
      revision: entry.modRevision,
      changes: [{ kind: "credential", accessKeyId, expected: entry.modRevision, record: null }],
      audit: {
        action: "admin:DeleteCredential",
        resource: `credential:${accessKeyId}`,
        detail: `of ${entry.value.uid}`,
      },
      effect: { access_key: accessKeyId, before: shown(entry.value), after: null },
    };
  });
}

type Fields = Omit<CredentialRecord, "sealed">;

function planOf(
  fields: Fields,
  entry: Versioned<CredentialRecord> | undefined,
  how: {
    readonly secret: string;
    readonly keys: SealKeys;
    readonly random: Random;
    readonly warning: string | null;
    readonly action: string;
  },
): Plan {
  const { accessKeyId, uid, displayName, tenant, groups, grants, status } = fields;
  const bound: Fields = { accessKeyId, uid, displayName, tenant, groups, grants, status };
  const nonce = how.random.bytes(nonceBytes);
  const sealed = sealSecret(how.secret, bound, { keys: how.keys, nonce });
  const record: CredentialRecord = { ...bound, sealed };
  const expected = entry?.modRevision ?? 0n;
  return {
    kind: "changes",
    revision: expected,
    changes: [{ kind: "credential", accessKeyId, expected, record }],
    audit: {
      action: how.action,
      resource: `credential:${accessKeyId}`,
      detail: `of ${uid}, ${status}`,
    },
    effect: {
      access_key: accessKeyId,
      before: entry === undefined ? null : shown(entry.value),
      after: shown(record),
    },
    warning: how.warning,
  };
}

// ---- what is right and yet not what was meant ----

/** Why no request signed with the key gets as far as the record; null: they do. */
async function unusedWarning(
  accessKeyId: AccessKeyId,
  { storedKeyUse }: CredentialPorts,
): Promise<string | null> {
  if (!storedKeyUse.isSource) {
    return `Key ${accessKeyId} is not used here: auth.credentials has no source etcd`;
  }
  const source = await storedKeyUse.knownBefore(accessKeyId);
  if (source === null) return null;
  return `Key ${accessKeyId} is not used from here: source ${source} knows it and stands before source etcd in auth.credentials`;
}

function grantWarning({ impliesGrants }: StoredKeyUse): string {
  return impliesGrants
    ? "Without grants a user may do all that the clusters allow it, since each has identity same"
    : "Without grants a user may only list buckets, unless a policy of your own says otherwise";
}

function joined(warnings: readonly (string | null)[]): string | null {
  const said = warnings.filter((one) => one !== null);
  return said.length === 0 ? null : said.join("; ");
}

function notOpened(): Plan {
  const message =
    "The record does not open: it was sealed with a key that this process does not have, or changed since. " +
    "Add the credential again, with its secret";
  return { kind: "reply", reply: problem(409, "Conflict", message) };
}

/** The one time a secret is told: to whoever had it made. */
function withSecret(reply: AdminReply, accessKeyId: AccessKeyId, secret: string): AdminReply {
  if (reply.status !== 204) return reply;
  const told = json(201, { access_key: accessKeyId, secret_key: secret });
  return { ...told, headers: { ...told.headers, ...reply.headers } };
}

function newSecret(random: Random): string {
  return Buffer.from(random.bytes(secretBytes)).toString("base64url");
}

const wrongSecret = 'Body key "secret_key" needs 8 to 128 printable ASCII characters';

/** Null: not given; undefined: not a secret. */
function secretOf(body: AdminRequest["body"]): string | null | undefined {
  const { secret_key: secret } = body;
  if (secret === undefined) return null;
  return typeof secret === "string" && /^[\x21-\x7e]{8,128}$/.test(secret) ? secret : undefined;
}

/** A text says what is wrong. */
function readFields(accessKeyId: AccessKeyId, body: AdminRequest["body"]): Fields | string {
  const { uid, display_name: name, status = "active" } = body;
  if (typeof uid !== "string" || uid === "" || uid.length > 256) {
    return 'Body key "uid" needs a user id';
  }
  const displayName = name ?? null;
  if (displayName !== null && typeof displayName !== "string") {
    return 'Body key "display_name" needs text';
  }
  const tenant = readTenant(body["tenant"]);
  if (tenant === null) return 'Body key "tenant" needs the name of a tenant';
  if (status !== "active" && status !== "suspended") {
    return 'Body key "status" needs active or suspended';
  }
  const groups = readTexts(body["groups"] ?? []);
  if (groups === null) return 'Body key "groups" needs a list of names';
  const grants = readGrants(body["grants"] ?? []);
  if (typeof grants === "string") return grants;
  return { accessKeyId, uid, displayName, tenant, groups, grants, status };
}

function readTenant(value: unknown): TenantName | null {
  if (value === undefined || value === null) return noTenant;
  return typeof value === "string" ? parseTenantName(value) : null;
}

function readTexts(value: unknown): readonly string[] | null {
  if (!Array.isArray(value)) return null;
  const texts = value.filter((one) => typeof one === "string");
  return texts.length === value.length ? texts : null;
}

const allowable: ReadonlySet<string> = new Set([
  "read",
  "write",
  "list",
  "delete",
  "admin",
  ...Object.keys(operationFacts),
]);

function readGrants(value: unknown): Fields["grants"] | string {
  if (!Array.isArray(value)) return 'Body key "grants" needs a list';
  const grants: Fields["grants"][number][] = [];
  for (const one of value) {
    const grant = new Map<string, unknown>(
      typeof one === "object" && one !== null ? Object.entries(one) : [],
    );
    const buckets = readTexts(grant.get("buckets"));
    const keys = readTexts(grant.get("keys") ?? ["*"]);
    const allow = readTexts(grant.get("allow"));
    const known = [...grant.keys()].every((name) => ["buckets", "keys", "allow"].includes(name));
    if (buckets === null || buckets.length === 0 || keys === null || allow === null || !known) {
      return "A grant needs buckets, keys and allow, each a list of texts";
    }
    const unknown = allow.find((name) => !allowable.has(name));
    if (unknown !== undefined) return `Unknown operation or class "${unknown}"`;
    grants.push({ buckets, keys, allow });
  }
  return grants;
}
