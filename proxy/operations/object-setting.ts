// What is kept beside an object's content (ACL, tags, retention, legal hold), and the operations that
// work on one object where it is (restore, select, torrent, append): done by the cluster of the visible
// copy. Where there are several candidates it is looked for by HEAD, because a 404 may also be that of
// the setting.

import { readTags } from "../s3/copy-document.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import { isObjectSetting, noTagsDocument } from "../s3/object-setting.ts";
import { operationFacts } from "../s3/operation.ts";
import { queryValue } from "../s3/query.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { settingRefusal, shortDocument } from "./known-setting.ts";
import { mutate } from "./mutation.ts";
import { upload } from "./object.ts";
import { mayBeRgw } from "./proven-facts.ts";
import { readRequestDocument } from "./request-document.ts";
import {
  assertAbsenceKnown,
  bucketOf,
  discard,
  emptyAnswer,
  firstCandidate,
  isAbsenceKnown,
  ownRequest,
  passOn,
  readDocument,
  upstreamRequest,
} from "./send.ts";
import { isMiss, visibleCopy } from "./visible-copy.ts";
import { refuseConditions } from "./write-conditions.ts";

/**
 * GetObjectAcl, GetObjectTagging, GetObjectRetention, GetObjectLegalHold, GetObjectTorrent.
 * @throws S3Error NotImplemented where a server that does not know the sub-resource answers the object.
 */
export async function readObjectSetting(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const cluster = await clusterOfCopy(request, ports);
  const response = await ports.upstream.send(cluster, upstreamRequest(request), request.signal);
  if (response.status === 404 && !isAbsenceKnown(request, ports)) response.body.cancel();
  if (response.status === 404) assertAbsenceKnown(request, ports);
  if (response.status !== 200) return passOn(response, cluster);
  const { subresource } = operationFacts[request.operation];
  const answered = await shortDocument(response);
  const document = isUnreadTags(request, ports, { cluster, answered })
    ? Buffer.from(noTagsDocument, "utf8")
    : answered;
  if (document === null || !isObjectSetting(subresource ?? "", document)) {
    throw new S3Error("NotImplemented", {
      message: `${request.operation} is not known to the cluster of the object`,
    });
  }
  const headers = response.headers.filter(([name]) => name !== "content-length");
  return { status: 200, headers, body: document, cluster };
}

/**
 * An RGW keeps the tags of an upload in parts in a form that it cannot read itself: its 200 is empty
 * (16.2.15 and 18.2.7), and no copy or rule of it knows of any tags.
 */
function isUnreadTags(
  { operation }: OperationRequest,
  ports: OperationPorts,
  at: { readonly cluster: ClusterId; readonly answered: Uint8Array | null },
): boolean {
  if (operation !== "GetObjectTagging" || at.answered?.length !== 0) return false;
  return mayBeRgw(at.cluster, ports);
}

/** SelectObjectContent: asked with a document, answered by a stream of any length. */
export async function selectContent(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const bytes = await readRequestDocument(request);
  // Asked with nothing, RGW 16.2 answers without a status line.
  if (bytes.length === 0) throw new S3Error("MalformedXML");
  const cluster = await clusterOfCopy(request, ports);
  const refusal = await settingRefusal(request, cluster, ports);
  if (refusal !== null) return refusal;
  const response = await ports.upstream.send(
    cluster,
    upstreamRequest(request, {
      body: { kind: "bytes", bytes },
      payloadSha256: request.body?.sha256 ?? null,
    }),
    request.signal,
  );
  return passOn(response, cluster);
}

/** PutObjectAcl, PutObjectTagging, DeleteObjectTagging, PutObjectRetention, …, RestoreObject. */
export async function writeObjectSetting(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const bytes = await readRequestDocument(request);
  const cluster = await clusterOfCopy(request, ports);
  const refusal = await settingRefusal(request, cluster, ports);
  if (refusal !== null) return refusal;
  return await mutate(request, ports, async (mutation) => {
    await mutation.commit();
    const response = await ports.upstream.send(
      cluster,
      upstreamRequest(request, {
        body: request.body === null ? null : { kind: "bytes", bytes },
        payloadSha256: request.body?.sha256 ?? null,
      }),
      request.signal,
    );
    if (response.status === 500 && (await hasNoTags(request, ports, cluster))) {
      await discard(response);
      return emptyAnswer(204, cluster);
    }
    return passOn(response, cluster);
  });
}

/** RGW 16.2 fails to take tags away from an object that has none; for S3 that is done already. */
async function hasNoTags(
  request: OperationRequest,
  ports: OperationPorts,
  cluster: ClusterId,
): Promise<boolean> {
  if (request.operation !== "DeleteObjectTagging") return false;
  const question = upstreamRequest(request, { operation: "GetObjectTagging", headers: [] });
  const response = await ports.upstream.send(cluster, question, request.signal);
  const document = await readDocument(response);
  return response.status === 200 && readTags(document) === "";
}

/** Ceph RGW's append, to the end of an object that may have one place only. */
export async function appendObject(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const cluster = firstCandidate(request);
  if (request.candidates.length > 1 || request.target !== cluster) {
    throw new S3Error("NotImplemented", {
      message: "Appending is not implemented while the object may be on several clusters",
    });
  }
  // Any other server would put the piece in the object's place.
  if (!ports.isRgw(cluster)) {
    const question = ownRequest(request, bucketOf(request), { operation: "HeadBucket" });
    await discard(await ports.upstream.send(cluster, question, request.signal));
  }
  if (!ports.isRgw(cluster)) {
    throw new S3Error("NotImplemented", {
      message: "Appending needs a Ceph RGW that shows it is one",
    });
  }
  // RGW reads any text as a number, as 0 where it is none.
  if (!/^\d{1,15}$/.test(queryValue(request.query, "position") ?? "")) {
    throw new S3Error("InvalidArgument", { message: 'Parameter "position" must be a number' });
  }
  refuseConditions(request, "on AppendObject");
  // A checksum behind the body was verified here; it is not that of the object.
  const body = request.body === null ? null : { ...request.body, trailer: null };
  const answer = await upload({ ...request, body }, ports, { cluster, query: request.query });
  if (answer.status < 300 && request.bucket !== null) {
    ports.resettler.noteNonEmpty(request.tenant, request.bucket);
  }
  return answer;
}

/** The cluster that has the copy a reader sees. @throws S3Error NoSuchKey when none has one. */
async function clusterOfCopy(request: OperationRequest, ports: OperationPorts): Promise<ClusterId> {
  if (request.candidates.length < 2) return firstCandidate(request);
  const query = request.query.filter(([name]) => name === "versionId");
  const { response, cluster } = await visibleCopy(request, ports, (candidate) =>
    ports.upstream.send(
      candidate,
      upstreamRequest(request, { operation: "HeadObject", query, headers: [] }),
      request.signal,
    ),
  );
  await discard(response);
  // A delete marker, or no right to look: the cluster itself says so to the request.
  if (!isMiss(response)) return cluster;
  throw new S3Error("NoSuchKey");
}
