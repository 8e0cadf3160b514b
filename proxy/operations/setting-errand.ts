// A write of a bucket's setting that reached some of its clusters only, ended without its client: once they
// answer, all clusters get what the first one says, be it the old word or the new. A client that sends its
// request again and is told of success has said it to the first one, too.

import { clustersOf } from "../placement/candidates.ts";
import type { UpstreamIdentity } from "../placement/ports.ts";
import type { BucketRecord } from "../placement/records.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationPorts } from "./context.ts";
import { type ComparedSetting, subresourceOf } from "./drift-reading.ts";
import { tellDrift } from "./drift-report.ts";
import { agreeCounted } from "./setting-agreement.ts";
import type { Errand } from "./unfinished.ts";

export interface WrittenSetting {
  readonly setting: ComparedSetting;
  readonly record: BucketRecord;
  /** That know the setting, the one whose word counts first. */
  readonly clusters: readonly ClusterId[];
  /** Whose write it was. */
  readonly identity: UpstreamIdentity;
}

type Ports = Pick<
  OperationPorts,
  | "upstream"
  | "facts"
  | "snapshots"
  | "membership"
  | "clock"
  | "timers"
  | "quarantineMs"
  | "meter"
  | "log"
>;

export function settingErrand(written: WrittenSetting, ports: Ports): Errand {
  const { setting, record, identity } = written;
  const { tenant, name } = record;
  const subresource = subresourceOf(setting.read);
  // Until then a cluster may still carry out what it gave no answer to.
  let quietFromMs = ports.clock.monotonicMs() + ports.quarantineMs;
  return {
    key: `setting ${tenant}/${name}?${subresource}&id=${setting.id ?? ""}`,
    fields: { errand: "setting", tenant, bucket: name, setting: subresource },
    async run(signal) {
      const now = ports.snapshots.current().buckets.find(tenant, name)?.value;
      if (now === undefined || now.createdAt !== record.createdAt) return "void";
      if (now.phase !== "settled" || !ports.membership.mayMutate()) return "again";
      const named = clustersOf(now);
      const clusters = written.clusters.filter((cluster) => named.includes(cluster));
      const places = clusters.map((cluster) => ({ tenant, name, cluster, identity }));
      const { drift, isOpen } = await agreeCounted(setting, places, ports, { signal });
      const isQuiet = ports.clock.monotonicMs() >= quietFromMs;
      if (isOpen) quietFromMs = ports.clock.monotonicMs() + ports.quarantineMs;
      const isDone = isQuiet && !isOpen;
      tellDrift(isDone ? drift : drift.filter(({ outcome }) => outcome === "healed"), now, ports);
      return isDone ? "done" : "again";
    },
  };
}
