// What the clusters of a bucket say of it, setting by setting, and where one says something else than
// the cluster that readers are answered from. Our own questions, with the clusters' own keys.

import type { CancelSignal } from "../placement/ports.ts";
import { UpstreamError } from "../placement/ports.ts";
import { isAccidentalList } from "../s3/bucket-setting.ts";
import { readErrorDocument } from "../s3/error-document.ts";
import { S3Error } from "../s3/errors.ts";
import type { QueryList } from "../s3/headers.ts";
import type { OperationFacts, S3Operation } from "../s3/operation.ts";
import { operationFacts } from "../s3/operation.ts";
import { settingText } from "../s3/setting-text.ts";
import type { OperationPorts } from "./context.ts";
import type { BucketPlace } from "./emptiness.ts";
import { discard, ownRequest, readDocument } from "./send.ts";

export type DriftPorts = Pick<OperationPorts, "upstream" | "facts">;

export interface ComparedSetting {
  readonly read: S3Operation;
  readonly put: S3Operation;
  readonly remove: S3Operation | null;
  /** Why it is not copied to a cluster that says something else; `null`: it is. */
  readonly never: string | null;
  /** Which of several, for settings that have ids. */
  readonly id?: string;
}

const forGood = "It cannot be taken back and decides what becomes of objects";

function compared(
  read: S3Operation,
  put: S3Operation,
  remove: S3Operation | null,
  never: string | null = null,
): ComparedSetting {
  return { read, put, remove, never };
}

/** Settings that every cluster of a bucket should have alike; `?policyStatus` follows from others. */
export const comparedSettings: readonly ComparedSetting[] = [
  compared("GetBucketVersioning", "PutBucketVersioning", null, forGood),
  compared("GetObjectLockConfiguration", "PutObjectLockConfiguration", null, forGood),
  compared("GetBucketAcl", "PutBucketAcl", null),
  compared("GetBucketPolicy", "PutBucketPolicy", "DeleteBucketPolicy"),
  compared("GetPublicAccessBlock", "PutPublicAccessBlock", "DeletePublicAccessBlock"),
  compared(
    "GetBucketOwnershipControls",
    "PutBucketOwnershipControls",
    "DeleteBucketOwnershipControls",
  ),
  compared("GetBucketCors", "PutBucketCors", "DeleteBucketCors"),
  compared(
    "GetBucketLifecycleConfiguration",
    "PutBucketLifecycleConfiguration",
    "DeleteBucketLifecycle",
  ),
  compared("GetBucketTagging", "PutBucketTagging", "DeleteBucketTagging"),
  compared("GetBucketEncryption", "PutBucketEncryption", "DeleteBucketEncryption"),
  compared("GetBucketWebsite", "PutBucketWebsite", "DeleteBucketWebsite"),
  compared("GetBucketLogging", "PutBucketLogging", null),
  // Without notifications elsewhere a PUT of none; an RGW refuses that (16.2) and knows this one.
  compared(
    "GetBucketNotificationConfiguration",
    "PutBucketNotificationConfiguration",
    "DeleteBucketNotification",
  ),
  compared("GetBucketRequestPayment", "PutBucketRequestPayment", null),
];

/** What few clusters know, and what has ids: never asked for of itself, only where it was written. */
const rarelyWritten: readonly ComparedSetting[] = [
  compared("GetBucketReplication", "PutBucketReplication", "DeleteBucketReplication"),
  compared("GetBucketAccelerateConfiguration", "PutBucketAccelerateConfiguration", null),
  compared(
    "GetBucketAnalyticsConfiguration",
    "PutBucketAnalyticsConfiguration",
    "DeleteBucketAnalyticsConfiguration",
  ),
  compared(
    "GetBucketIntelligentTieringConfiguration",
    "PutBucketIntelligentTieringConfiguration",
    "DeleteBucketIntelligentTieringConfiguration",
  ),
  compared(
    "GetBucketInventoryConfiguration",
    "PutBucketInventoryConfiguration",
    "DeleteBucketInventoryConfiguration",
  ),
  compared(
    "GetBucketMetricsConfiguration",
    "PutBucketMetricsConfiguration",
    "DeleteBucketMetricsConfiguration",
  ),
];

/** The setting that a PUT or DELETE of a bucket's sub-resource writes; `null`: none that can be read. */
export function writtenSetting(operation: S3Operation, id: string | null): ComparedSetting | null {
  const subresource = subresourceOf(operation);
  const setting = [...comparedSettings, ...rarelyWritten].find(
    ({ put }) => subresourceOf(put) === subresource,
  );
  if (setting === undefined) return null;
  return id === null ? setting : { ...setting, id };
}

/** The query that names a setting. */
export function queryOf({ read, id }: Pick<ComparedSetting, "read" | "id">): QueryList {
  const subresource = [subresourceOf(read), null] as const;
  return id === undefined ? [subresource] : [subresource, ["id", id]];
}

/** What one cluster says of one setting. */
export type SettingTold =
  | { readonly kind: "set"; readonly text: string; readonly document: Uint8Array }
  /** With the document that says so, where there is one. */
  | { readonly kind: "unset"; readonly document: Uint8Array | null }
  /** The cluster does not know the setting. */
  | { readonly kind: "unknown" }
  /** `passes`: it may be readable later. */
  | { readonly kind: "unreadable"; readonly why: string; readonly passes: boolean };

/** The query name of a setting, `cors`. */
export function subresourceOf(operation: S3Operation): string {
  const { subresource }: OperationFacts = operationFacts[operation];
  return subresource ?? "";
}

/** What a cluster says of a setting. One that lists the bucket instead does not know it. */
export async function tellSetting(
  setting: Pick<ComparedSetting, "read" | "id">,
  place: BucketPlace,
  ports: DriftPorts,
  signal: CancelSignal,
): Promise<SettingTold> {
  const subresource = subresourceOf(setting.read);
  const rgw = ports.facts(place.cluster).backend === "rgw";
  const own = queryOf(setting);
  const query: QueryList = rgw ? [...own, ["max-keys", "1"]] : own;
  try {
    const request = ownRequest(place, place.name, { operation: setting.read, query });
    const response = await ports.upstream.send(place.cluster, request, signal);
    const document = await readDocument(response);
    if (response.status !== 200) return told(response.status, document);
    if (isAccidentalList(document)) return { kind: "unknown" };
    const text = settingText(subresource, document);
    return text === null ? { kind: "unset", document } : { kind: "set", text, document };
  } catch (caught) {
    return { kind: "unreadable", why: whyFailed(caught), passes: true };
  }
}

function told(status: number, document: Uint8Array): SettingTold {
  const code = readErrorDocument(document)?.code ?? "";
  if (status === 404 && code !== "NoSuchBucket") return { kind: "unset", document: null };
  if (status === 400 || status === 405 || status === 501) return { kind: "unknown" };
  const passes = status >= 500 || status === 429;
  return { kind: "unreadable", why: `answers ${status} ${code}`.trimEnd(), passes };
}

/**
 * Whether a cluster has this very bucket; text: why that cannot be told. Forbidden, somebody has one of the
 * name: enough to find it by (discovery.ts), not to delete it, make it anew or compare it with.
 */
export async function hasBucket(
  place: BucketPlace,
  ports: DriftPorts,
  signal: CancelSignal,
): Promise<boolean | string> {
  try {
    const request = ownRequest(place, place.name, { operation: "HeadBucket" });
    const response = await ports.upstream.send(place.cluster, request, signal);
    await discard(response);
    if (response.status === 200) return true;
    return response.status === 404 ? false : `answers ${response.status}`;
  } catch (caught) {
    return whyFailed(caught);
  }
}

/** What an operator may be told of a failed exchange: never an address. */
export function whyFailed(caught: unknown): string {
  if (caught instanceof UpstreamError) return `does not answer: failed in ${caught.phase}`;
  if (caught instanceof S3Error) return caught.message;
  throw caught;
}

export type DriftKind =
  | "missing_bucket"
  /** Set at the reference, not here. */
  | "missing"
  /** Set here, not at the reference. */
  | "extra"
  | "differs"
  /** Set at one of them, and the other does not know it. */
  | "unsupported"
  | "unreadable";

/** How a cluster differs from the reference; `null`: it does not. */
export function differenceOf(reference: SettingTold, here: SettingTold): DriftKind | null {
  if (reference.kind === "unreadable" || here.kind === "unreadable") return "unreadable";
  if (reference.kind === "set") {
    if (here.kind === "set") return here.text === reference.text ? null : "differs";
    return here.kind === "unknown" ? "unsupported" : "missing";
  }
  if (here.kind !== "set") return null;
  return reference.kind === "unknown" ? "unsupported" : "extra";
}
