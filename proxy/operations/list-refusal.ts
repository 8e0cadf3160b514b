// What an answer means that is not the page of a list: one cluster's error is everybody's, but a bucket
// that only some of its clusters lack is not absent.

import type { UpstreamResponse } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import type { Reply } from "./asked-together.ts";
import type { OperationRequest } from "./context.ts";
import { discard, passOn } from "./send.ts";

/**
 * A page to read, the error to answer with, or nothing: the cluster holds nothing of the bucket.
 * @throws S3Error ServiceUnavailable when a cluster lacks a bucket that it should have.
 */
export async function listReply(
  response: UpstreamResponse,
  cluster: ClusterId,
  request: OperationRequest,
): Promise<Reply> {
  if (response.status === 200) return { kind: "document", response };
  if (response.status !== 404 || request.candidates.length < 2) {
    return { kind: "refused", answer: passOn(response, cluster) };
  }
  await discard(response);
  // Where the route does not lead, an absent bucket holds nothing (it is being taken off).
  if (request.record?.value.route.weights.has(cluster) === false) return { kind: "nothing" };
  throw new S3Error("ServiceUnavailable", { message: "A cluster of the bucket does not have it" });
}
