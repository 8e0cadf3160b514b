// Whose keys sign at a cluster: its own, or those that the caller has there (clusters[].identity). A caller
// without any is refused, since it must never act as somebody else.

import type { ClusterIdentity, UpstreamIdentity } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import type { AccessKeyId, ClusterId, TenantName } from "../s3/names.ts";
import { noTenant } from "../s3/names.ts";
import type { SigningCredentials } from "../s3/sigv4.ts";

interface Signed {
  readonly id: ClusterId;
  readonly identity: ClusterIdentity;
}

interface KeyPair {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

export interface CallerPairs {
  readonly own: KeyPair;
  readonly clusters: ReadonlyMap<ClusterId, KeyPair>;
}

/** The keys of a caller, where it has any: its own pair and those for single clusters. */
export type CallerKeys = (
  accessKeyId: AccessKeyId,
) => CallerPairs | null | Promise<CallerPairs | null>;

/** Whether a caller's keys sign, not the cluster's. */
export function isCallers(
  cluster: Signed,
  identity: UpstreamIdentity,
): identity is Extract<UpstreamIdentity, { kind: "caller" }> {
  return identity.kind === "caller" && cluster.identity !== "service";
}

export function callerCredentials(cluster: Signed, pairs: CallerPairs | null): SigningCredentials {
  const pair = cluster.identity === "same" ? pairs?.own : pairs?.clusters.get(cluster.id);
  if (pair === undefined) {
    throw new S3Error("AccessDenied", {
      message: "The access key has no counterpart where the bucket is kept",
    });
  }
  const { accessKeyId, secretAccessKey, sessionToken = null } = pair;
  return { accessKeyId, secretAccessKey, sessionToken };
}

/** Whose tenant names buckets without one. A mapped pair's tenant is not known here; such pairs are users without one. */
export function ownTenantOf({ identity }: Signed, asking: UpstreamIdentity): TenantName {
  return identity === "same" && asking.kind === "caller" ? asking.tenant : noTenant;
}
