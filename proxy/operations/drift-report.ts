// What is told of drift: one entry for each cluster that says, or said, something else of a setting than
// the cluster that readers are answered from; in the log, in the metric and to whoever asked.

import type { BucketRecord } from "../placement/records.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationPorts } from "./context.ts";
import type { DriftKind } from "./drift-reading.ts";

export interface Drift {
  /** `cors`; of a missing bucket `bucket`. */
  readonly setting: string;
  readonly cluster: ClusterId;
  readonly kind: DriftKind;
  readonly outcome: "found" | "healed" | "failed";
  /** Why it cannot be read, or was not healed. */
  readonly detail: string | null;
}

export function tellDrift(
  drift: readonly Drift[],
  { tenant, name: bucket }: Pick<BucketRecord, "tenant" | "name">,
  ports: Pick<OperationPorts, "meter" | "log">,
): void {
  for (const { setting, cluster, kind, outcome, detail } of drift) {
    ports.meter.bucketDrifted({ setting, cluster, outcome });
    const fields = { tenant, bucket, cluster, setting, kind, outcome, detail };
    ports.log.write(outcome === "healed" ? "info" : "warn", "bucket.drift", fields);
  }
}
