// Settings of a bucket (ACL, policy, CORS, lifecycle, tagging and the rest of its sub-resources): read
// from its first cluster, written to every one (placement.md §12). Written behind first and to the first
// cluster last, so that what a reader sees changes only when all others have it; a write that failed on
// one of them is 503 and is finished by the same request again.

import { UpstreamError, type UpstreamResponse } from "../placement/ports.ts";
import type { UnsetAnswer } from "../s3/bucket-setting.ts";
import { isAccidentalList, unsetAnswer } from "../s3/bucket-setting.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationFacts } from "../s3/operation.ts";
import { operationFacts } from "../s3/operation.ts";
import { hasParameter } from "../s3/query.ts";
import { passBucketRequest } from "./bucket.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { mutate } from "./mutation.ts";
import { readRequestDocument } from "./request-document.ts";
import {
  assertAbsenceKnown,
  discard,
  documentAnswer,
  emptyAnswer,
  firstCandidate,
  passOn,
  readDocument,
  upstreamRequest,
} from "./send.ts";

/** GetBucketAcl, GetBucketPolicy, …: one that the cluster does not know is answered as not set. */
export async function readBucketSetting(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const unset = unsetOf(request);
  if (unset === null) return await passBucketRequest(request, ports);
  const cluster = firstCandidate(request);
  const response = await ask(cluster, request, ports);
  if (response.status === 404) assertAbsenceKnown(request, ports);
  if (response.status !== 200) return passOn(response, cluster);
  const document = await readDocument(response);
  if (!isAccidentalList(document)) {
    const headers = response.headers.filter(([name]) => name !== "content-length");
    return { status: 200, headers, body: document, cluster };
  }
  if (unset.kind === "error") throw new S3Error(unset.code);
  return documentAnswer(unset.document, cluster);
}

/** PutBucketAcl, DeleteBucketPolicy, …: on every cluster of the bucket. */
export async function writeBucketSetting(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const bytes = await readRequestDocument(request);
  const known = await knowing(request, ports);
  const [first, ...rest] = known;
  // S3 has nothing against taking away what is not there.
  if (first === undefined) return emptyAnswer(204, null);
  return await mutate(request, ports, async (mutation) => {
    await mutation.commit();
    const send = async (cluster: ClusterId): Promise<OperationAnswer> =>
      passOn(
        await ports.upstream.send(
          cluster,
          upstreamRequest(request, {
            body: { kind: "bytes", bytes },
            payloadSha256: request.body?.sha256 ?? null,
          }),
          request.signal,
        ),
        cluster,
      );
    let answer = await send(first);
    for (const [index, cluster] of rest.entries()) {
      if (answer.status >= 300) break;
      if (answer.body !== null && !(answer.body instanceof Uint8Array)) answer.body.cancel();
      const done = index + 1;
      answer = await finish(cluster, send, { done, all: known.length });
    }
    return takenAway(request, answer);
  });
}

/** RGW 16.2 answers 200 to DELETE ?policy; S3 answers 204 whatever is taken away, and clients check it. */
function takenAway(request: OperationRequest, answer: OperationAnswer): OperationAnswer {
  if (operationFacts[request.operation].method !== "DELETE" || answer.status !== 200) return answer;
  if (answer.body !== null && !(answer.body instanceof Uint8Array)) answer.body.cancel();
  return emptyAnswer(204, answer.cluster);
}

/** The write to one more cluster: whatever goes wrong from here on, some have it and some not. */
async function finish(
  cluster: ClusterId,
  send: (cluster: ClusterId) => Promise<OperationAnswer>,
  progress: { readonly done: number; readonly all: number },
): Promise<OperationAnswer> {
  let why = "does not answer";
  let cause: unknown = null;
  try {
    const answer = await send(cluster);
    if (answer.status < 300) return answer;
    if (answer.body !== null && !(answer.body instanceof Uint8Array)) answer.body.cancel();
    why = `answers ${answer.status}`;
  } catch (caught) {
    if (!(caught instanceof UpstreamError)) throw caught;
    cause = caught;
  }
  const { done, all } = progress;
  throw new S3Error("ServiceUnavailable", {
    message:
      `The setting is on ${done} of the ${all} clusters of the bucket, the next one ${why}. ` +
      "Send the same request again to finish it",
    retryAfterSeconds: 1,
    cause,
  });
}

/**
 * The clusters to write to, the first one last.
 * @throws S3Error NotImplemented for a PUT of what one of them does not know.
 */
async function knowing(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<readonly ClusterId[]> {
  firstCandidate(request);
  const clusters = [...request.candidates].reverse();
  if (unsetOf(request) === null) return clusters;
  const answers = await Promise.all(clusters.map((cluster) => knows(cluster, request, ports)));
  const known = clusters.filter((_, index) => answers[index] === true);
  if (known.length === clusters.length || operationFacts[request.operation].method === "DELETE") {
    return known;
  }
  throw new S3Error("NotImplemented", {
    message: `${request.operation} is not known to a cluster of the bucket`,
  });
}

async function knows(
  cluster: ClusterId,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<boolean> {
  const response = await ask(cluster, request, ports);
  if (response.status === 200) return !isAccidentalList(await readDocument(response));
  await discard(response);
  // Not set, there. Anything else does not tell whether a write would be taken for something else.
  if (response.status === 404) return true;
  if (response.status === 501 || response.status === 405) return false;
  if (response.status === 403) throw new S3Error("AccessDenied");
  throw new S3Error("ServiceUnavailable", {
    message: "A cluster of the bucket does not tell whether it knows the setting",
    retryAfterSeconds: 1,
  });
}

/** Asks for the setting; where it is taken for a list, for a short one. */
async function ask(
  cluster: ClusterId,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<UpstreamResponse> {
  const rgw = ports.facts(cluster).backend === "rgw";
  return await ports.upstream.send(
    cluster,
    upstreamRequest(request, {
      method: "GET",
      query: rgw ? [...request.query, ["max-keys", "1"]] : request.query,
      headers: [],
    }),
    request.signal,
  );
}

function unsetOf(request: OperationRequest): UnsetAnswer | null {
  const { subresource }: OperationFacts = operationFacts[request.operation];
  return subresource === null ? null : unsetAnswer(subresource, hasParameter(request.query, "id"));
}
