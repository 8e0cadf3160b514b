// Whether a bucket has settings that a move would lose: a bucket that is created anew on another cluster
// has none of them. Such a bucket stays where it is, empty or not; a versioned one must (placement.md §7).

import type { CancelSignal } from "../placement/ports.ts";
import { profiles } from "../placement/profiles.ts";
import type { S3Operation } from "../s3/operation.ts";
import { isAwsDefault, isPrivateAcl } from "../s3/setting-text.ts";
import { comparedSettings, type DriftPorts, subresourceOf, tellSetting } from "./drift-reading.ts";
import type { BucketPlace } from "./emptiness.ts";

/** All that a bucket can be given: what its clusters are compared by, and what few of them know. */
const kept: readonly S3Operation[] = [
  ...comparedSettings.map(({ read }) => read),
  "GetBucketReplication",
  "GetBucketAccelerateConfiguration",
  "ListBucketAnalyticsConfigurations",
  "ListBucketIntelligentTieringConfigurations",
  "ListBucketInventoryConfigurations",
  "ListBucketMetricsConfigurations",
];

/**
 * Whether a bucket has anything that a plain CreateBucket does not give. An answer that does not tell counts
 * as a setting: the bucket stays. Asks some 20 settings at once, of a bucket that is about to join only.
 */
export async function hasSettings(
  place: BucketPlace,
  ports: DriftPorts,
  signal: CancelSignal,
): Promise<boolean> {
  const answers = await Promise.all(kept.map((read) => isKept({ read, place }, ports, signal)));
  return answers.includes(true);
}

async function isKept(
  { read, place }: { readonly read: S3Operation; readonly place: BucketPlace },
  ports: DriftPorts,
  signal: CancelSignal,
): Promise<boolean> {
  const told = await tellSetting({ read }, place, ports, signal);
  if (told.kind !== "set") return told.kind === "unreadable";
  if (read === "GetBucketAcl") return !isPrivateAcl(told.document);
  // On any other server somebody asked for it.
  const isAws = profiles.aws === ports.facts(place.cluster);
  return !(isAws && isAwsDefault(subresourceOf(read), told.document));
}

/** Whether a bucket is versioned, has object lock, or was versioned once: it stays on its cluster. */
export async function isVersioned(
  place: BucketPlace,
  ports: DriftPorts,
  signal: CancelSignal,
): Promise<boolean> {
  const told = await tellSetting({ read: "GetBucketVersioning" }, place, ports, signal);
  return told.kind === "set";
}
