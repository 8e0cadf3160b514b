// Multipart uploads, pinned to the cluster where they began by the handle that clients get as upload
// id (placement.md §11, I8): no table of uploads exists, and neither drain nor weights move one.

import type { UpstreamRequest, UpstreamResponse } from "../placement/ports.ts";
import type { UploadPin } from "../placement/upload-handle.ts";
import { readUploadHandle, uploadHandle } from "../placement/upload-handle.ts";
import { contentMd5Error } from "../s3/content-md5.ts";
import { readErrorDocument } from "../s3/error-document.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type QueryList } from "../s3/headers.ts";
import {
  type CompleteResultReading,
  completeResultDocument,
  initiateDocument,
  maxCompleteBytes,
  multipartEtag,
  readCompleteRequest,
  readCompleteResult,
  readInitiateResult,
  rewriteListParts,
} from "../s3/multipart-document.ts";
import type { BucketName, ObjectKey } from "../s3/names.ts";
import { readPartNumber, readPartsPage } from "../s3/upload-query.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { readShortBody } from "./gate.ts";
import { mutate } from "./mutation.ts";
import { upload } from "./object.ts";
import {
  discard,
  documentAnswer,
  firstCandidate,
  passOn,
  readDocument,
  unreadable,
  upstreamRequest,
} from "./send.ts";
import { answerInTime } from "./slow-answer.ts";
import { assertConditions, refuseConditions } from "./write-conditions.ts";

/** CreateMultipartUpload: on the key's owner, which from then on is the upload's. */
export async function createUpload(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const { bucket, key } = objectOf(request);
  const cluster = request.target ?? firstCandidate(request);
  refuseConditions(request, "on CreateMultipartUpload");
  return await mutate(request, ports, async (mutation) => {
    await mutation.commit();
    const response = await ports.upstream.send(cluster, upstreamRequest(request), request.signal);
    if (response.status !== 200) return passOn(response, cluster);
    const reading = readInitiateResult(await readDocument(response));
    if (reading.kind === "error") throw unreadable("a document", reading.fault);
    const binding = { keys: ports.handleKeys, tenant: request.tenant, bucket, key };
    const uploadId = uploadHandle({ cluster, uploadId: reading.uploadId }, binding);
    ports.resettler.noteNonEmpty(request.tenant, bucket);
    return kept(documentAnswer(initiateDocument({ bucket, key, uploadId }), cluster), response);
  });
}

/** UploadPart: where the upload lives, through the gate. */
export async function uploadPart(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const { pin, query } = partOf(request, ports);
  refuseConditions(request, "on UploadPart");
  return await upload(request, ports, { cluster: pin.cluster, query });
}

/**
 * AbortMultipartUpload. To one that meets a Complete RGW 18.2 says BucketAlreadyExists; by then either may
 * have won.
 */
export async function abortUpload(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const { pin, query } = pinOf(request, ports);
  return await mutate(request, ports, async (mutation) => {
    await mutation.commit();
    const response = await ask(pin, query, request, ports);
    if (response.status !== 409) return passOn(response, pin.cluster);
    const body = await readDocument(response, 64 * 1024);
    if (readErrorDocument(body)?.code !== "BucketAlreadyExists") {
      return { ...passOn(response, pin.cluster), body };
    }
    throw new S3Error("InternalError", {
      refused: { code: "OperationAborted", status: 409 },
      message: "Another request completes or aborts this upload at the same time",
    });
  });
}

/** ListParts, with the client's own upload id in the answer. */
export async function listParts(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const { bucket, key } = objectOf(request);
  const { pin, query, handle } = pinOf(request, ports);
  const page = readPartsPage(query);
  if (page instanceof S3Error) throw page;
  const response = await ask(pin, page.query, request, ports);
  if (response.status === 404) return await absentUpload(response, pin);
  if (response.status !== 200) return passOn(response, pin.cluster);
  const identity = { bucket, key, uploadId: handle };
  const reading = rewriteListParts(await readDocument(response), identity, page.isEmpty);
  if (reading.kind === "error") throw unreadable("a document", reading.fault);
  return kept(documentAnswer(reading.document, pin.cluster), response);
}

/**
 * CompleteMultipartUpload. The upstream's answer is read whole before ours begins, so that an error
 * that it puts into a 200 becomes a status, unless that takes longer than a client waits; RGW 16.2 answers
 * an empty ETag, which is filled in.
 */
export async function completeUpload(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const { bucket, key } = objectOf(request);
  const { pin, query } = pinOf(request, ports);
  await assertConditions(request, ports, {
    operation: "CompleteMultipartUpload",
    cluster: pin.cluster,
  });
  const { body } = request;
  if (body === null) throw new S3Error("MalformedXML");
  const bytes = await readShortBody(body, maxCompleteBytes);
  // Neither RGW nor versitygw looks at it.
  const changed = contentMd5Error(request.headers, bytes);
  if (changed !== null) throw changed;
  const wanted = readCompleteRequest(bytes);
  if (wanted.kind === "error") throw wanted.error;
  const etag = multipartEtag(wanted.parts.map((part) => part.etag));
  const target = { pin, query, bucket, key, etag };
  const sent = upstreamRequest(request, {
    query,
    body: { kind: "bytes", bytes },
    payloadSha256: body.sha256,
  });
  return await answerInTime(request, ports, () => complete(request, ports, { sent, target }));
}

async function complete(
  request: OperationRequest,
  ports: OperationPorts,
  { sent, target }: { readonly sent: UpstreamRequest; readonly target: CompleteTarget },
): Promise<OperationAnswer> {
  const { pin, etag } = target;
  return await mutate(request, ports, async (mutation) => {
    await mutation.commit();
    const response = await ports.upstream.send(pin.cluster, sent, request.signal);
    // Behind the answer, which says whose it is where the profile does not.
    const { backend } = ports.facts(pin.cluster);
    if (response.status === 500 && backend === "rgw") {
      return await unclearComplete(response, request, ports, target);
    }
    if (response.status !== 200) return passOn(response, pin.cluster);
    const reading = readCompleteResult(await readDocument(response));
    if (reading.kind === "error") throw unreadable("a document", reading.fault);
    if (reading.kind === "failed") {
      const { code, message } = reading.document;
      throw new S3Error("InternalError", { refused: { code, status: 500 }, message });
    }
    // RGW answers for an upload that is gone with the object that is there, whoever wrote it, and takes one
    // of the same parts for what that upload became. So do we, since a Complete that is tried again must end
    // well and nothing tells the two apart: what is gone has left neither its fields nor whether it was
    // completed or aborted. The bytes are those that were asked for; metadata may be the other upload's.
    const other = reading.etag !== null && etag !== null && reading.etag !== etag;
    if (other && backend === "rgw") throw new S3Error("NoSuchUpload");
    const known = reading.etag ?? etag ?? (await presentEtag(request, ports, target));
    return kept(completedAnswer(request, target, { ...reading, etag: known }), response);
  });
}

interface CompleteTarget {
  readonly pin: UploadPin;
  readonly query: QueryList;
  readonly bucket: BucketName;
  readonly key: ObjectKey;
  /** What the parts make it; `null` where that cannot be computed. */
  readonly etag: string | null;
}

/** RGW answers an unknown upload with 500; one that it still knows has really failed. */
async function unclearComplete(
  response: UpstreamResponse,
  request: OperationRequest,
  ports: OperationPorts,
  target: CompleteTarget,
): Promise<OperationAnswer> {
  const { pin, query, etag } = target;
  const list = await ports.upstream.send(
    pin.cluster,
    upstreamRequest(request, { operation: "ListParts", query, headers: [] }),
    request.signal,
  );
  await discard(list);
  if (list.status !== 404) return passOn(response, pin.cluster);
  await discard(response);
  const present = await presentEtag(request, ports, target);
  if (etag === null || present !== etag) throw new S3Error("NoSuchUpload");
  return kept(completedAnswer(request, target, { etag, checksums: [] }), response);
}

/** The ETag of the object as it is now. */
async function presentEtag(
  request: OperationRequest,
  ports: OperationPorts,
  { pin }: CompleteTarget,
): Promise<string | null> {
  const head = await ports.upstream.send(
    pin.cluster,
    upstreamRequest(request, { operation: "HeadObject", query: [], headers: [] }),
    request.signal,
  );
  return head.status === 200 ? fieldValue(head.headers, "etag") : null;
}

function completedAnswer(
  request: OperationRequest,
  { pin, bucket, key }: CompleteTarget,
  result: Pick<Extract<CompleteResultReading, { kind: "completed" }>, "etag" | "checksums">,
): OperationAnswer {
  const document = completeResultDocument({ location: request.location, bucket, key, ...result });
  return documentAnswer(document, pin.cluster);
}

/** RGW calls an unknown upload NoSuchKey; a bucket that is not there stays NoSuchBucket. */
async function absentUpload(response: UpstreamResponse, pin: UploadPin): Promise<OperationAnswer> {
  const body = await readDocument(response, 64 * 1024);
  if (readErrorDocument(body)?.code !== "NoSuchBucket") throw new S3Error("NoSuchUpload");
  return { ...passOn(response, pin.cluster), body };
}

/** A request for an upload that a handle names. */
export interface PinnedRequest {
  readonly pin: UploadPin;
  /** The client's query with the upstream's own upload id. */
  readonly query: QueryList;
  readonly handle: string;
}

/** @throws S3Error NoSuchUpload for a handle that is not ours, or is for another bucket or key. */
function pinOf(request: OperationRequest, ports: OperationPorts): PinnedRequest {
  const { bucket, key } = objectOf(request);
  const handle = request.query.find(([name]) => name === "uploadId")?.[1] ?? "";
  const binding = { keys: ports.handleKeys, tenant: request.tenant, bucket, key };
  const pin = readUploadHandle(handle, binding);
  if (pin === null) throw new S3Error("NoSuchUpload");
  const known = ports.snapshots.current().clusters.get(pin.cluster);
  if (known === undefined || known.value.state === "removed") throw new S3Error("NoSuchUpload");
  const query = request.query.map(
    ([name, value]) => [name, name === "uploadId" ? pin.uploadId : value] as const,
  );
  return { pin, query, handle };
}

/**
 * A request for a part of an upload that a handle names.
 * @throws S3Error also InvalidArgument for a number that no Complete can name
 */
export function partOf(request: OperationRequest, ports: OperationPorts): PinnedRequest {
  const pinned = pinOf(request, ports);
  const number = readPartNumber(request.query);
  if (number instanceof S3Error) throw number;
  return pinned;
}

async function ask(
  pin: UploadPin,
  query: QueryList,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<UpstreamResponse> {
  return await ports.upstream.send(
    pin.cluster,
    upstreamRequest(request, { query }),
    request.signal,
  );
}

/** Our document under the upstream's own fields, lengths and types aside. */
function kept(answer: OperationAnswer, response: UpstreamResponse): OperationAnswer {
  const fields = response.headers.filter(([name]) => name.startsWith("x-amz-"));
  return { ...answer, headers: [...answer.headers, ...fields] };
}

function objectOf(request: OperationRequest): {
  readonly bucket: BucketName;
  readonly key: ObjectKey;
} {
  const { bucket, key } = request;
  if (bucket === null || key === null) throw new S3Error("InvalidRequest");
  return { bucket, key };
}
