// Settings of a bucket (ACL, policy, CORS, lifecycle, tagging and the rest of its sub-resources): read
// from its first cluster, written to every one (placement.md §12), behind first and to the first cluster
// last, so that what a reader sees changes only when all others have it (setting-write.ts). A cluster is
// sent no setting that it would take for something else.

import type { UpstreamResponse } from "../placement/ports.ts";
import type { UnsetAnswer } from "../s3/bucket-setting.ts";
import {
  isAccidentalList,
  isBucketSetting,
  isUnsetBucketCode,
  unsetAnswer,
} from "../s3/bucket-setting.ts";
import { readErrorDocument } from "../s3/error-document.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationFacts, S3Operation } from "../s3/operation.ts";
import { operationFacts } from "../s3/operation.ts";
import { hasParameter } from "../s3/query.ts";
import { settingText } from "../s3/setting-text.ts";
import { passBucketRequest } from "./bucket.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { subresourceOf } from "./drift-reading.ts";
import { mutate } from "./mutation.ts";
import { readRequestDocument } from "./request-document.ts";
import {
  assertAbsenceKnown,
  documentAnswer,
  emptyAnswer,
  firstCandidate,
  passOn,
  readDocument,
  upstreamRequest,
} from "./send.ts";
import { toldText } from "./setting-copy.ts";
import { sentTo } from "./setting-owner.ts";
import { dropAnswer, writeEverywhere } from "./setting-write.ts";

/**
 * GetBucketAcl, GetBucketPolicy, …: one that RGWs do not know is answered as not set.
 * @throws S3Error NotImplemented for others, where the cluster lists the bucket instead
 */
export async function readBucketSetting(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const unset = unsetOf(request);
  const cluster = firstCandidate(request);
  if (unset === null && ports.isRgw(cluster)) return await passBucketRequest(request, ports);
  const response = await ask(cluster, request, ports);
  if (response.status === 404) assertAbsenceKnown(request, ports);
  if (response.status !== 200) return passOn(response, cluster);
  const document = await readDocument(response);
  if (!isAccidentalList(document)) {
    const headers = response.headers.filter(([name]) => name !== "content-length");
    return { status: 200, headers, body: document, cluster };
  }
  if (unset === null) {
    throw new S3Error("NotImplemented", {
      message: `${request.operation} is not known to the cluster of the bucket`,
    });
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
  // S3 has nothing against taking away what is not there.
  if (known.length === 0) return emptyAnswer(204, null);
  // On several it goes on when the client has left: a setting must not stay on some of them.
  const signal = known.length === 1 ? request.signal : new AbortController().signal;
  const given = { bytes, headers: request.headers, payloadSha256: request.body?.sha256 ?? null };
  const sent = await sentTo(request, given, known, ports);
  return await mutate(request, ports, async (mutation) => {
    await mutation.commit();
    const send = async (cluster: ClusterId): Promise<OperationAnswer> => {
      const { bytes: document, ...fields } = sent(cluster);
      const body = { kind: "bytes", bytes: document } as const;
      const asked = upstreamRequest(request, { ...fields, body });
      return await answerOf(await ports.upstream.send(cluster, asked, signal), cluster);
    };
    const word = wordOf(request, bytes);
    const answer = await writeEverywhere({ request, ports, clusters: known, send, word });
    return takenAway(request, answer);
  });
}

/** A short answer: an error's body is read. */
async function answerOf(response: UpstreamResponse, cluster: ClusterId): Promise<OperationAnswer> {
  if (response.status < 400) return passOn(response, cluster);
  const body = await readDocument(response);
  const headers = response.headers.filter(([name]) => name !== "content-length");
  return { status: response.status, headers, body, cluster };
}

/** What a request makes of its setting, as clusters tell it; `null`: that is theirs to word. */
function wordOf({ operation }: OperationRequest, document: Uint8Array): string | null {
  if (operationFacts[operation].method === "DELETE")
    return toldText({ kind: "unset", document: null });
  if (document.length === 0) return null;
  const text = settingText(subresourceOf(operation), document);
  return toldText(text === null ? { kind: "unset", document } : { kind: "set", text, document });
}

/** RGW 16.2 answers 200 to DELETE ?policy; S3 answers 204 whatever is taken away, and clients check it. */
function takenAway(request: OperationRequest, answer: OperationAnswer): OperationAnswer {
  if (operationFacts[request.operation].method !== "DELETE" || answer.status !== 200) return answer;
  dropAnswer(answer);
  return emptyAnswer(204, answer.cluster);
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
  const answers = await Promise.all(clusters.map((cluster) => knows(cluster, request, ports)));
  const known = clusters.filter((_, index) => answers[index] === true);
  if (known.length === clusters.length || operationFacts[request.operation].method === "DELETE") {
    return known;
  }
  throw new S3Error("NotImplemented", {
    message: `${request.operation} is not known to a cluster of the bucket`,
  });
}

/**
 * Whether a write would be taken for what it is, by the answer to a question: not as a creation or a
 * deletion of the bucket. A Ceph RGW that shows that it is one knows all but the few that are named.
 */
async function knows(
  cluster: ClusterId,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<boolean> {
  const isOfRgw = (): boolean => unsetOf(request) === null && ports.isRgw(cluster);
  if (isOfRgw()) return true;
  if (ports.shownSettings.suffices(cluster, request.operation, ports.facts(cluster))) return true;
  const response = await ask(cluster, request, ports);
  const document = await readDocument(response);
  // It may have shown what it is with this answer.
  if (isOfRgw()) return true;
  if (isSettled(request.operation, response.status, document)) {
    ports.shownSettings.note(cluster, request.operation);
  }
  if (response.status === 200) return document.length > 0 && !isAccidentalList(document);
  // Not set, there. Anything else does not tell whether a write would be taken for something else.
  if (response.status === 404) return true;
  if (response.status === 501 || response.status === 405) return false;
  if (response.status === 403) {
    // S3 grants a read apart from its write, which the cluster judges itself.
    if (ports.facts(cluster).knowsSettings) return true;
    throw new S3Error("AccessDenied");
  }
  throw new S3Error("ServiceUnavailable", {
    message: "A cluster of the bucket does not tell whether it knows the setting",
    retryAfterSeconds: 1,
  });
}

/** Whether the answer to the question shows that the cluster knows the setting, in whatever bucket. */
function isSettled(operation: S3Operation, status: number, document: Uint8Array): boolean {
  if (status === 200) return isBucketSetting(subresourceOf(operation), document);
  return status === 404 && isUnsetBucketCode(readErrorDocument(document)?.code ?? "");
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
