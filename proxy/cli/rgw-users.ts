// Users as `radosgw-admin user info --format json` prints them, on their way into a credential source:
// what is taken over, and what has to be said because Headgate does not know it.

import type { AccessKeyId } from "../s3/names.ts";
import { parseAccessKeyId, parseTenantName } from "../s3/names.ts";
import { type RgwUser, readRgwUser } from "../s3/rgw-user.ts";

export type RgwUsersReading =
  | {
      readonly kind: "users";
      readonly users: readonly RgwUser[];
      readonly warnings: readonly string[];
    }
  | { readonly kind: "wrong"; readonly message: string };

/** One user, or a list. Nothing is taken of a text that is not whole. */
export function readRgwUsers(text: string): RgwUsersReading {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    return { kind: "wrong", message: "The text is not JSON" };
  }
  const entries: readonly unknown[] = Array.isArray(document) ? document : [document];
  const users: RgwUser[] = [];
  const warnings: string[] = [];
  for (const [index, entry] of entries.entries()) {
    const user = readRgwUser(entry);
    if (user === null) {
      const which = Array.isArray(document) ? `Entry ${index + 1}` : "The document";
      return { kind: "wrong", message: `${which} is not a user as radosgw-admin prints it` };
    }
    if (parseTenantName(user.tenant) === null) {
      return { kind: "wrong", message: `Tenant "${user.tenant}" of "${user.uid}" is not valid` };
    }
    const wrong = user.keys.find((key) => parseAccessKeyId(key.accessKeyId) === null);
    if (wrong !== undefined) {
      return { kind: "wrong", message: `A key of "${user.uid}" has characters S3 does not allow` };
    }
    users.push(user);
    warnings.push(...warningsOf(user));
  }
  return { kind: "users", users, warnings };
}

function warningsOf(user: RgwUser): readonly string[] {
  const warnings: string[] = [];
  const { uid } = user;
  if (user.keys.length === 0) warnings.push(`User "${uid}" has no S3 key`);
  if (user.suspended) warnings.push(`User "${uid}" is suspended, so its keys are`);
  if (user.privileged) {
    warnings.push(`User "${uid}" is a system or admin user there, which grants do not say`);
  }
  for (const subuser of new Set(user.keys.map((key) => key.subuser))) {
    if (subuser === null) continue;
    warnings.push(
      `Subuser "${uid}:${subuser}" becomes user "${uid}" in group "subuser:${subuser}", without the limits it has there`,
    );
  }
  return warnings;
}

/** What the admin API is asked to keep, one request a key. */
export function requestsOf(
  users: readonly RgwUser[],
  grants: readonly unknown[],
): readonly { readonly accessKeyId: AccessKeyId; readonly body: unknown }[] {
  return users.flatMap((user) =>
    user.keys.flatMap((key) => {
      const accessKeyId = parseAccessKeyId(key.accessKeyId);
      if (accessKeyId === null) return [];
      const body = {
        uid: user.uid,
        display_name: user.displayName,
        tenant: user.tenant,
        groups: groupsOf(key.subuser),
        grants,
        status: user.suspended ? "suspended" : "active",
        secret_key: key.secretAccessKey,
      };
      return [{ accessKeyId, body }];
    }),
  );
}

/** The same as a credentials file; a subuser is an entry of its own, since groups are a user's. */
export function credentialsFileOf(users: readonly RgwUser[], grants: readonly unknown[]): unknown {
  const entries = users.flatMap((user) => {
    const subusers = [...new Set(user.keys.map((key) => key.subuser))];
    return subusers.map((subuser) => ({
      uid: user.uid,
      display_name: user.displayName,
      tenant: user.tenant,
      keys: user.keys
        .filter((key) => key.subuser === subuser)
        .map((key) => ({
          access_key: key.accessKeyId,
          secret_key: key.secretAccessKey,
          status: user.suspended ? "suspended" : "active",
        })),
      groups: groupsOf(subuser),
      grants,
    }));
  });
  const names = [...new Set(entries.flatMap(({ groups }) => groups))];
  return { users: entries, groups: names.map((name) => ({ name, grants: [] })) };
}

function groupsOf(subuser: string | null): readonly string[] {
  return subuser === null ? [] : [`subuser:${subuser}`];
}
