// The key layout (bridge/README.md has it as a table). Every segment that comes from outside is
// percent-encoded to `[A-Za-z0-9._-]`, so that keys are ASCII, `/` only separates, and byte order is
// string order. One `readKey` for the whole space: what a member does not snapshot is `other`.

import type { AccessKeyId, BucketName, ClusterId, TenantName } from "../proxy/s3/names.ts";
import {
  parseAccessKeyId,
  parseBucketName,
  parseClusterId,
  parseTenantName,
} from "../proxy/s3/names.ts";

/** `/headgate/v1/` unless configured otherwise. */
const defaultPrefix = "/headgate/v1/";

/** A key that members snapshot, or `other` (members, live, locks, audit, …). */
export type StateKey =
  | { readonly kind: "cluster"; readonly id: ClusterId }
  | { readonly kind: "class"; readonly storageClass: string }
  | { readonly kind: "bucket"; readonly tenant: TenantName; readonly name: BucketName }
  | { readonly kind: "data"; readonly path: string }
  | { readonly kind: "credential"; readonly accessKeyId: AccessKeyId }
  /** Under a snapshotted folder, but no name of ours. */
  | { readonly kind: "malformed" }
  | { readonly kind: "other" };

/** The folders a snapshot lists, in this order. */
export const snapshotFolders = [
  "clusters/",
  "classes/",
  "buckets/",
  "data/",
  "credentials/",
] as const;

function encodeSegment(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*~]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function decodeSegment(text: string): string | null {
  try {
    const decoded = decodeURIComponent(text);
    return encodeSegment(decoded) === text ? decoded : null;
  } catch {
    return null;
  }
}

/** Keys under one prefix. All methods are pure. */
export class Keyspace {
  /** Ends with `/`. */
  readonly prefix: string;

  constructor(prefix: string = defaultPrefix) {
    this.prefix = prefix.endsWith("/") ? prefix : `${prefix}/`;
  }

  /** `/headgate/v1/clusters/rgw-a` */
  cluster(id: ClusterId): string {
    return `${this.prefix}clusters/${id}`;
  }

  /** `/headgate/v1/classes/GLACIER` */
  storageClass(name: string): string {
    return `${this.prefix}classes/${encodeSegment(name)}`;
  }

  /** `/headgate/v1/buckets/-/logs` */
  bucket(tenant: TenantName, name: BucketName): string {
    return `${this.prefix}buckets/${encodeSegment(tenant)}/${encodeSegment(name)}`;
  }

  /** `/headgate/v1/data/teams/blue`: each segment of the path encoded. */
  data(path: string): string {
    return `${this.prefix}data/${path.split("/").map(encodeSegment).join("/")}`;
  }

  /** `/headgate/v1/credentials/AKIA…`: percent-encoded, since a key id may hold `/`. */
  credential(id: AccessKeyId): string {
    return `${this.prefix}credentials/${encodeSegment(id)}`;
  }

  /** `/headgate/v1/installation`: written with the first set of clusters, never deleted. */
  installation(): string {
    return `${this.prefix}installation`;
  }

  /** `/headgate/v1/members/3f…`: persistent. */
  member(id: string): string {
    return `${this.prefix}members/${encodeSegment(id)}`;
  }

  /** `/headgate/v1/live/3f…`: under the member's lease. */
  live(id: string): string {
    return `${this.prefix}live/${encodeSegment(id)}`;
  }

  /** `/headgate/v1/audit/2026-11-29T23:00:00.000Z-3f…`, colons encoded: sorts by time. */
  audit(time: string, id: string): string {
    return `${this.prefix}audit/${encodeSegment(`${time}-${id}`)}`;
  }

  /** `/headgate/v1/keys/handle`: the upload handle keys of this installation. */
  handleKeys(): string {
    return `${this.prefix}keys/handle`;
  }

  folder(name: (typeof snapshotFolders)[number] | "members/" | "live/" | "audit/"): string {
    return `${this.prefix}${name}`;
  }

  readKey(key: string): StateKey {
    if (!key.startsWith(this.prefix)) return { kind: "other" };
    const [folder, ...rest] = key.slice(this.prefix.length).split("/");
    const names = rest.map(decodeSegment);
    const [first, second] = names;
    const only = names.length === 1 ? (first ?? "") : "";
    switch (folder) {
      case "clusters": {
        const id = parseClusterId(only);
        return id === null ? { kind: "malformed" } : { kind: "cluster", id };
      }
      case "classes":
        return only === "" ? { kind: "malformed" } : { kind: "class", storageClass: only };
      case "buckets":
        return readBucketKey(names.length, first, second);
      case "data":
        return names.every((name) => name !== null && name !== "")
          ? { kind: "data", path: names.join("/") }
          : { kind: "malformed" };
      case "credentials": {
        const id = parseAccessKeyId(only);
        return id === null ? { kind: "malformed" } : { kind: "credential", accessKeyId: id };
      }
      case undefined:
      default:
        return { kind: "other" };
    }
  }
}

function readBucketKey(
  count: number,
  first: string | null | undefined,
  second: string | null | undefined,
): StateKey {
  if (count !== 2 || typeof first !== "string" || typeof second !== "string" || first === "") {
    return { kind: "malformed" };
  }
  const tenant = parseTenantName(first);
  const name = parseBucketName(second);
  return tenant === null || name === null
    ? { kind: "malformed" }
    : { kind: "bucket", tenant, name };
}
