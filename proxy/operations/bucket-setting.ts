// Settings of a bucket (ACL, policy, CORS, lifecycle, tagging and the rest of its sub-resources): read
// from its first cluster, written to every one (placement.md §12). Written behind first and to the first
// cluster last, so that what a reader sees changes only when all others have it. A write that failed on one
// of them is 503 and is finished by the same request again, or later without its client (setting-errand.ts).

import { serviceIdentity, UpstreamError, type UpstreamResponse } from "../placement/ports.ts";
import type { UnsetAnswer } from "../s3/bucket-setting.ts";
import { isAccidentalList, unsetAnswer } from "../s3/bucket-setting.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationFacts } from "../s3/operation.ts";
import { operationFacts } from "../s3/operation.ts";
import { hasParameter, queryValue } from "../s3/query.ts";
import { settingText } from "../s3/setting-text.ts";
import { passBucketRequest } from "./bucket.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { subresourceOf, writtenSetting } from "./drift-reading.ts";
import { tellDrift } from "./drift-report.ts";
import { isUnknownStatus, mutate } from "./mutation.ts";
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
import { agreeCounted } from "./setting-agreement.ts";
import { toldText } from "./setting-copy.ts";
import { settingErrand, type WrittenSetting } from "./setting-errand.ts";

const lookAgainWithinMs = 10_000;

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
  const sent = upstreamRequest(request, {
    body: { kind: "bytes", bytes },
    payloadSha256: request.body?.sha256 ?? null,
  });
  return await mutate(request, ports, async (mutation) => {
    await mutation.commit();
    const send = async (cluster: ClusterId): Promise<OperationAnswer> =>
      passOn(await ports.upstream.send(cluster, sent, signal), cluster);
    const word = wordOf(request, bytes);
    const answer = await writeEverywhere({ request, ports, clusters: known, send, word });
    return takenAway(request, answer);
  });
}

interface Writing {
  readonly request: OperationRequest;
  readonly ports: OperationPorts;
  /** The one that readers are answered from last. */
  readonly clusters: readonly ClusterId[];
  readonly send: (cluster: ClusterId) => Promise<OperationAnswer>;
  /** What the clusters should say then; `null`: that is theirs to word, as what `x-amz-acl` means. */
  readonly word: string | null;
}

async function writeEverywhere(writing: Writing): Promise<OperationAnswer> {
  const [behind, ...rest] = writing.clusters;
  if (behind === undefined) throw new Error("A setting is written to no cluster");
  let answer = await begin(behind, writing);
  if (answer.status >= 300 || rest.length === 0) return answer;
  for (const [index, cluster] of rest.entries()) {
    drop(answer);
    answer = await finish(cluster, index + 1, writing);
  }
  await lookAgain(writing);
  return answer;
}

/** The write to the first cluster that is asked. Refused there it is nowhere. */
async function begin(cluster: ClusterId, writing: Writing): Promise<OperationAnswer> {
  const isOne = writing.clusters.length === 1;
  try {
    const answer = await writing.send(cluster);
    if (isUnknownStatus(answer.status) && !isOne) {
      leaveUnfinished({ cluster, why: `answers ${answer.status}` }, writing);
    }
    return answer;
  } catch (caught) {
    const isUnknown = caught instanceof UpstreamError && caught.phase !== "connect";
    if (isUnknown && !isOne) leaveUnfinished({ cluster, why: "does not answer" }, writing);
    throw caught;
  }
}

/** The write to one more cluster: whatever goes wrong from here on, some have it and some not. */
async function finish(
  cluster: ClusterId,
  done: number,
  writing: Writing,
): Promise<OperationAnswer> {
  let why = "does not answer";
  let cause: unknown = null;
  try {
    const answer = await writing.send(cluster);
    if (answer.status < 300) return answer;
    drop(answer);
    why = `answers ${answer.status}`;
  } catch (caught) {
    if (!(caught instanceof UpstreamError || caught instanceof S3Error)) throw caught;
    cause = caught;
  }
  leaveUnfinished({ cluster, why }, writing);
  throw new S3Error("ServiceUnavailable", {
    message:
      `The setting is on ${done} of the ${writing.clusters.length} clusters of the bucket, the next ` +
      `one ${why}. Send the same request again to finish it. Otherwise all of them are given what the ` +
      "first one says, which readers are told, once they answer",
    retryAfterSeconds: 1,
    cause,
  });
}

/** Another writer may have ended first on some clusters and last on others (setting-agreement.ts). */
async function lookAgain(writing: Writing): Promise<void> {
  const { ports } = writing;
  const written = writtenOf(writing);
  if (written === null) return;
  const { setting, record, clusters, identity } = written;
  const { tenant, name } = record;
  const places = clusters.map((cluster) => ({ tenant, name, cluster, identity }));
  // The write has succeeded: its client does not wait for a cluster that hangs now.
  const limit = new AbortController();
  const cancelLimit = ports.timers.after(lookAgainWithinMs, () => limit.abort());
  const { drift, isOpen } = await agreeCounted(setting, places, ports, {
    signal: limit.signal,
    ours: writing.word,
  });
  cancelLimit();
  tellDrift(drift, record, ports);
  if (isOpen) ports.unfinished.add(settingErrand(written, ports));
}

function leaveUnfinished(
  { cluster, why }: { readonly cluster: ClusterId; readonly why: string },
  writing: Writing,
): void {
  const { request, ports } = writing;
  const written = writtenOf(writing);
  if (written === null) return;
  const setting = subresourceOf(request.operation);
  const drift = { setting, cluster, kind: "differs", outcome: "found", detail: why } as const;
  tellDrift([drift], written.record, ports);
  ports.unfinished.add(settingErrand(written, ports));
}

/** `null`: nothing that the clusters could be asked for. */
function writtenOf({ request, clusters }: Writing): WrittenSetting | null {
  const setting = writtenSetting(request.operation, queryValue(request.query, "id"));
  const record = request.record?.value ?? null;
  if (setting === null || record === null) return null;
  // Where a cluster knows its users ours may not read what is theirs.
  const identity = request.identity.kind === "caller" ? request.identity : serviceIdentity;
  return { setting, record, clusters: clusters.toReversed(), identity };
}

function wordOf({ operation }: OperationRequest, document: Uint8Array): string | null {
  if (operationFacts[operation].method === "DELETE")
    return toldText({ kind: "unset", document: null });
  if (document.length === 0) return null;
  const text = settingText(subresourceOf(operation), document);
  return toldText(text === null ? { kind: "unset", document } : { kind: "set", text, document });
}

function drop({ body }: OperationAnswer): void {
  if (body !== null && !(body instanceof Uint8Array)) body.cancel();
}

/** RGW 16.2 answers 200 to DELETE ?policy; S3 answers 204 whatever is taken away, and clients check it. */
function takenAway(request: OperationRequest, answer: OperationAnswer): OperationAnswer {
  if (operationFacts[request.operation].method !== "DELETE" || answer.status !== 200) return answer;
  drop(answer);
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
  const response = await ask(cluster, request, ports);
  const document = await readDocument(response);
  // It may have shown what it is with this answer.
  if (isOfRgw()) return true;
  if (response.status === 200) return document.length > 0 && !isAccidentalList(document);
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
