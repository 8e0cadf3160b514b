// Facts that somebody's data rests on: before a cluster is trusted with the first of them, one of its
// answers must have been looked at, so that a server of another kind than its profile says is known for
// what it is (cluster-facts.ts). Where none was yet, a HEAD of the bucket is made, once in a process.

import type { ProfileFacts } from "../placement/profiles.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationPorts, OperationRequest } from "./context.ts";
import { bucketOf, discard, ownRequest } from "./send.ts";

type Asking = Pick<OperationRequest, "tenant" | "bucket" | "identity" | "signal">;
type Ports = Pick<OperationPorts, "upstream" | "facts" | "isShown">;

/**
 * The facts of a cluster that has shown what it is.
 * @throws S3Error ServiceUnavailable, UpstreamError where it gives no answer to look at
 */
export async function provenFacts(
  cluster: ClusterId,
  request: Asking,
  ports: Ports,
): Promise<ProfileFacts> {
  if (!ports.isShown(cluster)) {
    const question = ownRequest(request, bucketOf(request), { operation: "HeadBucket" });
    await discard(await ports.upstream.send(cluster, question, request.signal));
    if (!ports.isShown(cluster)) {
      throw new S3Error("ServiceUnavailable", {
        message: "A cluster does not show what kind of server it is",
        retryAfterSeconds: 1,
      });
    }
  }
  return ports.facts(cluster);
}

/** Whether it is an RGW by its profile or by its answers, so that what one does otherwise is to be met. */
export function mayBeRgw(
  cluster: ClusterId,
  ports: Pick<OperationPorts, "facts" | "isRgw">,
): boolean {
  return ports.facts(cluster).backend === "rgw" || ports.isRgw(cluster);
}
