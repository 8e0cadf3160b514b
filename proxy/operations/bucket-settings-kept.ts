// Whether a bucket has settings that a move would lose: a bucket that is created anew on another cluster
// has none of them. Such a bucket stays where it is, empty or not; a versioned one must (placement.md §7).

import type { CancelSignal } from "../placement/ports.ts";
import type { OperationFacts, S3Operation } from "../s3/operation.ts";
import { operationFacts } from "../s3/operation.ts";
import { readXml, type XmlElement } from "../s3/xml.ts";
import type { OperationPorts } from "./context.ts";
import type { BucketPlace } from "./emptiness.ts";
import { discard, ownRequest, readDocument } from "./send.ts";

/** Those that every upstream answers as not set in the same way; the rest has no effect by default. */
const kept: readonly S3Operation[] = [
  "GetBucketVersioning",
  "GetObjectLockConfiguration",
  "GetBucketPolicy",
  "GetBucketCors",
  "GetBucketLifecycleConfiguration",
  "GetBucketTagging",
  "GetBucketNotificationConfiguration",
  "GetPublicAccessBlock",
  "GetBucketReplication",
];

/** Not set, or not known there. */
const unset: ReadonlySet<number> = new Set([400, 404, 405, 501]);

/** An answer that does not tell counts as a setting: the bucket stays. */
export async function hasSettings(
  place: BucketPlace,
  ports: Pick<OperationPorts, "upstream">,
  signal: CancelSignal,
): Promise<boolean> {
  const answers = await Promise.all(
    kept.map((operation) => isSet(operation, place, ports, signal)),
  );
  return answers.includes(true);
}

/** Whether a bucket is versioned, has object lock, or was versioned once: it stays on its cluster. */
export async function isVersioned(
  place: BucketPlace,
  ports: Pick<OperationPorts, "upstream">,
  signal: CancelSignal,
): Promise<boolean> {
  return await isSet("GetBucketVersioning", place, ports, signal);
}

async function isSet(
  operation: S3Operation,
  place: BucketPlace,
  ports: Pick<OperationPorts, "upstream">,
  signal: CancelSignal,
): Promise<boolean> {
  const { subresource }: OperationFacts = operationFacts[operation];
  const request = ownRequest(place, place.name, { operation, query: [[subresource ?? "", null]] });
  const response = await ports.upstream.send(place.cluster, request, signal);
  if (response.status !== 200) {
    await discard(response);
    return !unset.has(response.status);
  }
  const reading = readXml(await readDocument(response), { maxBytes: 1024 * 1024 });
  // A policy is no XML.
  return reading.kind === "error" || says(reading.root);
}

/** Whether a document says anything: RGW writes out what is not set, as empty or `false`. */
function says(node: XmlElement): boolean {
  const text = node.text.trim();
  return (
    (node.children.length === 0 && text !== "" && text !== "false") || node.children.some(says)
  );
}
