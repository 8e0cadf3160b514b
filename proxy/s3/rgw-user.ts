// A user of a Ceph RGW as its admin API and `radosgw-admin user info --format json` print it, read
// from untrusted JSON. Seen on 16.2: `suspended` is a number, `system` the text "true", a subuser's
// key names its user as `uid:subuser`, a tenant's as `tenant$uid`; older ones print no tenant at all.

interface RgwKey {
  /** `uid`, `uid:subuser` or `tenant$uid`. */
  readonly user: string;
  /** The part behind the colon; null: a key of the user itself. */
  readonly subuser: string | null;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface RgwUser {
  /** Without tenant. */
  readonly uid: string;
  /** Empty: none. */
  readonly tenant: string;
  readonly displayName: string;
  readonly suspended: boolean;
  /** A system or admin user: RGW asks neither ACL nor policy about its requests. */
  readonly privileged: boolean;
  readonly keys: readonly RgwKey[];
}

/** Null: not a user document. */
export function readRgwUser(document: unknown): RgwUser | null {
  if (!isObject(document)) return null;
  const id = document["user_id"];
  const keys: unknown = document["keys"];
  if (typeof id !== "string" || id === "" || !Array.isArray(keys)) return null;
  const [tenantOfId, uid] = splitId(id);
  const read = keys.map(readKey);
  if (read.includes(null)) return null;
  return {
    uid,
    tenant: textOf(document["tenant"]) || tenantOfId,
    displayName: textOf(document["display_name"]),
    suspended: isSet(document["suspended"]),
    privileged: isSet(document["system"]) || isSet(document["admin"]),
    keys: read.filter((key) => key !== null),
  };
}

/** `tenant$uid` → both. */
function splitId(id: string): readonly [string, string] {
  const at = id.indexOf("$");
  return at === -1 ? ["", id] : [id.slice(0, at), id.slice(at + 1)];
}

function readKey(value: unknown): RgwKey | null {
  if (!isObject(value)) return null;
  const { user, access_key: accessKeyId, secret_key: secretAccessKey } = value;
  if (typeof accessKeyId !== "string" || typeof secretAccessKey !== "string") return null;
  if (accessKeyId === "" || secretAccessKey === "") return null;
  const owner = textOf(user);
  const at = owner.indexOf(":");
  return {
    user: owner,
    subuser: at === -1 ? null : owner.slice(at + 1),
    accessKeyId,
    secretAccessKey,
  };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function isSet(value: unknown): boolean {
  return value === true || value === "true" || (typeof value === "number" && value !== 0);
}
