// Small steps that every operation shares: build an upstream request, read a short answer whole,
// turn an answer into ours. No operation writes an UpstreamRequest by hand.

import { isFixed } from "../placement/candidates.ts";
import type { RequestBody, UpstreamRequest, UpstreamResponse } from "../placement/ports.ts";
import { serviceIdentity } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import type { HeaderList, QueryList } from "../s3/headers.ts";
import type { BucketName, ClusterId } from "../s3/names.ts";
import type { S3Operation } from "../s3/operation.ts";
import { operationFacts } from "../s3/operation.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";

/** XML answers are at most this long: 1000 keys of 1024 bytes, every byte escaped, and metadata. */
export const documentLimitBytes = 8 * 1024 * 1024;

export interface SendOptions {
  readonly method?: UpstreamRequest["method"];
  readonly operation?: S3Operation;
  readonly query?: QueryList;
  readonly headers?: HeaderList;
  readonly body?: RequestBody | null;
  readonly payloadSha256?: string | null;
}

/** The request as the client made it, changed only where `options` says so. */
export function upstreamRequest(
  request: OperationRequest,
  options: SendOptions = {},
): UpstreamRequest {
  const operation = options.operation ?? request.operation;
  return {
    operation,
    method: options.method ?? operationFacts[operation].method,
    tenant: request.tenant,
    bucket: request.bucket,
    key: request.key,
    query: options.query ?? request.query,
    headers: options.headers ?? request.headers,
    body: options.body ?? null,
    payloadSha256: options.payloadSha256 ?? null,
    identity: request.identity,
  };
}

/**
 * A request about a bucket that we make for ourselves, with the cluster's credentials; or, where it
 * carries out what a caller asked for, on that caller's behalf.
 */
export function ownRequest(
  request: Pick<OperationRequest, "tenant"> & Partial<Pick<OperationRequest, "identity">>,
  bucket: BucketName,
  options: SendOptions & { readonly operation: S3Operation },
): UpstreamRequest {
  return {
    operation: options.operation,
    method: options.method ?? operationFacts[options.operation].method,
    tenant: request.tenant,
    bucket,
    key: null,
    query: options.query ?? [],
    headers: options.headers ?? [],
    body: options.body ?? null,
    payloadSha256: options.payloadSha256 ?? null,
    identity: request.identity ?? serviceIdentity,
  };
}

/**
 * Passes an upstream's answer on.
 * @throws S3Error ServiceUnavailable for a redirect: it is meant for us, and names the upstream.
 */
export function passOn(response: UpstreamResponse, cluster: ClusterId): OperationAnswer {
  if (response.status >= 300 && response.status < 400 && response.status !== 304) {
    response.body.cancel();
    throw new S3Error("ServiceUnavailable", { message: "A cluster answers with a redirect" });
  }
  return { status: response.status, headers: response.headers, body: response.body, cluster };
}

/**
 * Reads an answer's body whole.
 * @param holding waits until so many more bytes may be held
 * @throws S3Error ServiceUnavailable beyond `limitBytes`
 */
export async function readDocument(
  response: Pick<UpstreamResponse, "body">,
  limitBytes = documentLimitBytes,
  holding: ((bytes: number) => Promise<void>) | null = null,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body) {
    size += chunk.length;
    if (size > limitBytes) {
      response.body.cancel();
      throw new S3Error("ServiceUnavailable", { message: "An upstream answer is too long" });
    }
    if (holding !== null) await holding(chunk.length);
    parts.push(chunk);
  }
  return Buffer.concat(parts, size);
}

/** What a cluster answers makes no sense. @param what it should be: `a list of uploads` */
export function unreadable(what = "a document", fault: string | null = null): S3Error {
  const why = fault === null ? "" : `: ${fault}`;
  return new S3Error("ServiceUnavailable", {
    message: `A cluster answers ${what} that cannot be read${why}`,
  });
}

/** Reads and drops an answer that only its status matters of, so that the connection is reused. */
export async function discard(response: UpstreamResponse): Promise<void> {
  await readDocument(response);
}

/** An XML answer of our own. */
export function documentAnswer(
  document: string,
  cluster: ClusterId | null,
  status = 200,
): OperationAnswer {
  return {
    status,
    headers: [["content-type", "application/xml"]],
    body: Buffer.from(document, "utf8"),
    cluster,
  };
}

/** An answer that has no body. */
export function emptyAnswer(
  status: number,
  cluster: ClusterId | null,
  headers: HeaderList = [],
): OperationAnswer {
  return { status, headers, body: null, cluster };
}

export function bucketOf(request: Pick<OperationRequest, "bucket">): BucketName {
  if (request.bucket === null)
    throw new Error("Operation needs a bucket: it was classified without");
  return request.bucket;
}

/** The only cluster that may hold the key, for operations that are pinned or settled. */
export function firstCandidate(request: OperationRequest): ClusterId {
  const [first] = request.candidates;
  if (first === undefined)
    throw new S3Error("ServiceUnavailable", { message: "The bucket has no cluster" });
  return first;
}

/**
 * Whether a 404 means that the key is absent. A fenced member may not know every cluster of a bucket
 * (placement.md rule 8); a frozen bucket's clusters do not change.
 */
export function isAbsenceKnown(
  request: Pick<OperationRequest, "record">,
  ports: Pick<OperationPorts, "membership">,
): boolean {
  const { record } = request;
  return ports.membership.mayMutate() || (record !== null && isFixed(record.value));
}

/** @throws S3Error ServiceUnavailable where absence is not known. */
export function assertAbsenceKnown(
  request: Pick<OperationRequest, "record">,
  ports: Pick<OperationPorts, "membership">,
): void {
  if (isAbsenceKnown(request, ports)) return;
  throw new S3Error("ServiceUnavailable", {
    message: "Absence cannot be told while the placement state is out of reach",
    retryAfterSeconds: 1,
  });
}
