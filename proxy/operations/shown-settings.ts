// Which sub-resources a cluster was seen to know, by the setting that it answered or its word that none
// is set. Kept as long as the process lives, by cluster and sub-resource, of which S3 has a fixed set. It
// counts only where the cluster is said to know all of them: behind another, several servers may stand.

import type { ProfileFacts } from "../placement/profiles.ts";
import type { ClusterId } from "../s3/names.ts";
import { type OperationFacts, operationFacts, type S3Operation } from "../s3/operation.ts";

export class ShownSettings {
  readonly #shown = new Set<string>();

  note(cluster: ClusterId, operation: S3Operation): void {
    this.#shown.add(nameOf(cluster, operation));
  }

  /** Whether the cluster need not be asked before a write of what `operation` reads or writes. */
  suffices(cluster: ClusterId, operation: S3Operation, facts: ProfileFacts): boolean {
    return facts.knowsSettings && this.#shown.has(nameOf(cluster, operation));
  }
}

/** `aws object tagging`: an object's and a bucket's are two. */
function nameOf(cluster: ClusterId, operation: S3Operation): string {
  const { scope, subresource }: OperationFacts = operationFacts[operation];
  return `${cluster} ${scope} ${subresource ?? ""}`;
}
