// Requests about a bucket that its first cluster answers for.

import { bucketLocationDocument } from "../s3/bucket-document.ts";
import { S3Error } from "../s3/errors.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import {
  assertAbsenceKnown,
  documentAnswer,
  firstCandidate,
  passOn,
  readDocument,
  upstreamRequest,
} from "./send.ts";

/** What CreateBucket would have to be told to come to the same cluster, where the setting wants that. */
export async function getBucketLocation(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const answer = await passBucketRequest(request, ports);
  const only = request.candidates.length === 1 ? answer.cluster : null;
  if (ports.bucketLocation === "region" || only === null || answer.status !== 200) return answer;
  const { body } = answer;
  if (body !== null && !(body instanceof Uint8Array)) await readDocument({ body });
  return documentAnswer(bucketLocationDocument(only), only);
}

/** HeadBucket, …: asked of the first cluster of the bucket. */
export async function passBucketRequest(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const cluster = firstCandidate(request);
  const response = await ports.upstream.send(cluster, upstreamRequest(request), request.signal);
  if (response.status === 404) assertAbsenceKnown(request, ports);
  return passOn(response, cluster);
}

/** A CORS preflight: the bucket's own rules answer it, unsigned as it came. */
export async function preflight(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  if (request.bucket === null) {
    throw new S3Error("InvalidRequest", { message: "A preflight must name a bucket" });
  }
  return await passBucketRequest(request, ports);
}
