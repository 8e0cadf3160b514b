// How S3 answers for a setting that a bucket does not have, for those that a cluster may not know at
// all. Ceph RGW takes an unknown sub-resource for none: a GET of it lists the bucket, a PUT creates the
// bucket anew and a DELETE would delete it (seen on 16.2 and 18.2, which know encryption only).

import type { S3ErrorCode } from "./errors.ts";
import { readXml, s3Document } from "./xml.ts";

export type UnsetAnswer =
  | { readonly kind: "error"; readonly code: S3ErrorCode }
  | { readonly kind: "document"; readonly document: string };

interface UnsetAnswers {
  /** For the setting itself, or one of several by its id. */
  readonly one: UnsetAnswer;
  /** For the list of those that have ids; as `one` where there is no list. */
  readonly all: UnsetAnswer;
}

function missing(code: S3ErrorCode): UnsetAnswers {
  const one = { kind: "error", code } as const;
  return { one, all: one };
}

function empty(root: string): UnsetAnswer {
  return { kind: "document", document: s3Document(root, []) };
}

function emptyList(root: string): UnsetAnswers {
  const document = s3Document(root, ["<IsTruncated>false</IsTruncated>"]);
  return {
    one: { kind: "error", code: "NoSuchConfiguration" },
    all: { kind: "document", document },
  };
}

const accelerate = empty("AccelerateConfiguration");

/** By sub-resource. One that is not here is known by every RGW. */
const unsetAnswers: ReadonlyMap<string, UnsetAnswers> = new Map([
  ["accelerate", { one: accelerate, all: accelerate }],
  ["analytics", emptyList("ListBucketAnalyticsConfigurationResult")],
  ["encryption", missing("ServerSideEncryptionConfigurationNotFoundError")],
  ["intelligent-tiering", emptyList("ListBucketIntelligentTieringConfigurationsOutput")],
  ["inventory", emptyList("ListInventoryConfigurationsResult")],
  ["metrics", emptyList("ListMetricsConfigurationsResult")],
  ["ownershipControls", missing("OwnershipControlsNotFoundError")],
]);

/** The answer for a setting that a cluster does not know; `null` where every RGW knows it. */
export function unsetAnswer(subresource: string, withId: boolean): UnsetAnswer | null {
  const answers = unsetAnswers.get(subresource);
  if (answers === undefined) return null;
  return withId ? answers.one : answers.all;
}

/** Sub-resource → what the root of its document is called, or has in its name where it lists several. */
const roots: ReadonlyMap<string, string> = new Map([
  ["accelerate", "AccelerateConfiguration"],
  ["acl", "AccessControlPolicy"],
  ["analytics", "AnalyticsConfiguration"],
  ["cors", "CORSConfiguration"],
  ["encryption", "ServerSideEncryptionConfiguration"],
  ["intelligent-tiering", "IntelligentTieringConfiguration"],
  ["inventory", "InventoryConfiguration"],
  ["lifecycle", "LifecycleConfiguration"],
  ["logging", "BucketLoggingStatus"],
  ["metrics", "MetricsConfiguration"],
  ["notification", "NotificationConfiguration"],
  ["object-lock", "ObjectLockConfiguration"],
  ["ownershipControls", "OwnershipControls"],
  ["publicAccessBlock", "PublicAccessBlockConfiguration"],
  ["replication", "ReplicationConfiguration"],
  ["requestPayment", "RequestPaymentConfiguration"],
  ["tagging", "Tagging"],
  ["versioning", "VersioningConfiguration"],
  ["website", "WebsiteConfiguration"],
]);

/** Whether an answer to a GET of a setting is that setting, and could be nothing else. */
export function isBucketSetting(subresource: string, document: Uint8Array): boolean {
  if (subresource === "policy") return isJsonObject(document);
  const wanted = roots.get(subresource);
  const reading = readXml(document, { maxBytes: maxListBytes });
  return wanted !== undefined && reading.kind === "document" && reading.root.name.includes(wanted);
}

function isJsonObject(document: Uint8Array): boolean {
  try {
    const value: unknown = JSON.parse(Buffer.from(document).toString("utf8"));
    return typeof value === "object" && value !== null;
  } catch {
    return false;
  }
}

/** What S3 answers for a setting that a bucket does not have, and for nothing else. */
const unsetCodes: ReadonlySet<string> = new Set([
  "NoSuchBucketPolicy",
  "NoSuchConfiguration",
  "NoSuchCORSConfiguration",
  "NoSuchLifecycleConfiguration",
  "NoSuchPublicAccessBlockConfiguration",
  "NoSuchTagSet",
  "NoSuchTagSetError",
  "NoSuchWebsiteConfiguration",
  "ObjectLockConfigurationNotFoundError",
  "OwnershipControlsNotFoundError",
  "ReplicationConfigurationNotFoundError",
  "ServerSideEncryptionConfigurationNotFoundError",
]);

export function isUnsetBucketCode(code: string): boolean {
  return unsetCodes.has(code);
}

const maxListBytes = 8 * 1024 * 1024;

/** Whether an answer to a GET of a setting is a list of the bucket: the upstream does not know it. */
export function isAccidentalList(document: Uint8Array): boolean {
  const reading = readXml(document, { maxBytes: maxListBytes });
  return reading.kind === "document" && reading.root.name === "ListBucketResult";
}
