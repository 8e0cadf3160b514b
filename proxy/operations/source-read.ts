// The reading side of a copy that goes through this process: the source as it is now, and its bytes by
// range, each bound to the ETag first seen, so that a source that changes under way is an error and never
// a mixture of two objects. Asked on the caller's behalf, as its own GetObject would be.

import type { BodyTrailer, UpstreamRequest, UpstreamResponse } from "../placement/ports.ts";
import { UpstreamError } from "../placement/ports.ts";
import {
  type Checksum,
  type ChecksumAlgorithm,
  checksumField,
  valueLength,
} from "../s3/checksum.ts";
import { hasSourceConditions, sourceConditionsHold } from "../s3/copy-conditions.ts";
import { readTags } from "../s3/copy-document.ts";
import { sourceReadFields } from "../s3/copy-fields.ts";
import { maxCopyBytes } from "../s3/copy-parts.ts";
import type { CopyRange } from "../s3/copy-source.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderList, type QueryList } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import type { ClientBody, OperationPorts, OperationRequest, PlacedSource } from "./context.ts";
import { absentSource, refusedSource, unreadableSource } from "./copy-refusal.ts";
import { mayBeRgw } from "./proven-facts.ts";
import { discard, readDocument, upstreamRequest } from "./send.ts";
import { visibleCopy } from "./visible-copy.ts";

/** A source as HeadObject showed it. */
export interface SourceState {
  readonly cluster: ClusterId;
  readonly sizeBytes: number;
  /** As answered, quotes and all. */
  readonly etag: string;
  readonly versionId: string | null;
  readonly headers: HeaderList;
}

export function sourceOf(request: OperationRequest): PlacedSource {
  if (request.source === null) throw new Error("A copy has a source: it was classified by it");
  return request.source;
}

/** The cluster of the visible copy: no question where only one may have it. */
export async function sourceCluster(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<ClusterId> {
  const [only, ...others] = sourceOf(request).candidates;
  if (only !== undefined && others.length === 0) return only;
  return (await lookAtSource(request, ports)).cluster;
}

/**
 * The source as it is, its conditions judged.
 * @throws S3Error NoSuchKey, NoSuchVersion, AccessDenied, PreconditionFailed, InvalidRequest beyond the
 * size that S3 copies.
 */
export async function lookAtSource(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<SourceState> {
  const { record, candidates } = sourceOf(request);
  const { response, cluster } = await visibleCopy(
    { ...request, record, candidates },
    ports,
    (one) => {
      const shown: HeaderList = ports.facts(one).verifiesChecksums
        ? [["x-amz-checksum-mode", "ENABLED"]]
        : [];
      const asked = sourceRequest(request, "HeadObject", shown);
      return ports.upstream.send(one, asked, request.signal);
    },
  );
  await discard(response);
  if (response.status !== 200) throw absentSource(response, request);
  const { headers } = response;
  const sizeBytes = Number(fieldValue(headers, "content-length") ?? Number.NaN);
  const etag = fieldValue(headers, "etag") ?? "";
  if (!Number.isSafeInteger(sizeBytes) || etag === "") {
    throw new S3Error("ServiceUnavailable", { message: "A cluster does not describe the source" });
  }
  const modifiedMs = Date.parse(fieldValue(headers, "last-modified") ?? "");
  const state = { etag, modifiedMs: Number.isFinite(modifiedMs) ? modifiedMs : null };
  if (hasSourceConditions(request.headers) && !sourceConditionsHold(request.headers, state)) {
    throw new S3Error("PreconditionFailed");
  }
  const versionId = fieldValue(headers, "x-amz-version-id");
  return { cluster, sizeBytes, etag, versionId, headers };
}

/** @throws S3Error InvalidRequest beyond the size that one copy may have. */
export function assertCopySize(sizeBytes: number): void {
  if (sizeBytes <= maxCopyBytes) return;
  throw new S3Error("InvalidRequest", {
    message: `The copy source is larger than the ${maxCopyBytes} bytes that can be copied at once`,
  });
}

export interface SourceBytes {
  readonly state: SourceState;
  /** `null`: all of it. */
  readonly range: CopyRange | null;
  readonly signal: Signal;
}

export interface SourceBody extends ClientBody {
  /** Ends a read that nobody goes on with; nothing of one that is over. */
  readonly cancel: () => void;
}

export function lengthOf({ state, range }: SourceBytes): number {
  return range === null ? state.sizeBytes : range.last - range.first + 1;
}

/**
 * Bytes of the source as a body that ends by throwing when they are not those that were looked at.
 * @param algorithm the checksum that is computed as they pass: the body's trailer
 */
export async function openSource(
  request: OperationRequest,
  ports: OperationPorts,
  from: SourceBytes & { readonly algorithm: ChecksumAlgorithm | null },
): Promise<SourceBody> {
  const { state, range, signal, algorithm } = from;
  const lengthBytes = lengthOf(from);
  const asked: HeaderList = [
    ["if-match", state.etag],
    ...(range === null ? [] : [["range", `bytes=${range.first}-${range.last}`] as const]),
  ];
  const response = await reading(() =>
    ports.upstream.send(state.cluster, sourceRequest(request, "GetObject", asked), signal),
  );
  const { status, headers, body } = response;
  const announced = Number(fieldValue(headers, "content-length") ?? Number.NaN);
  const same = fieldValue(headers, "etag") === state.etag && announced === lengthBytes;
  if (status !== (range === null ? 200 : 206) || !same) {
    throw await reading(() => refusedSource(response, request));
  }
  const sum = algorithm === null ? null : runningSum(algorithm, ports.beginChecksum(algorithm));
  return {
    lengthBytes,
    sha256: null,
    trailer: sum?.trailer ?? null,
    chunks: () => readingChunks(body, lengthBytes, sum),
    cancel: () => body.cancel(),
  };
}

interface RunningSum {
  readonly update: (chunk: Uint8Array) => void;
  readonly end: () => void;
  readonly trailer: BodyTrailer;
}

function runningSum(algorithm: ChecksumAlgorithm, checksum: Checksum): RunningSum {
  let text: string | null = null;
  return {
    update: (chunk) => checksum.update(chunk),
    end: () => {
      text = Buffer.from(checksum.digest()).toString("base64");
    },
    trailer: {
      field: checksumField(algorithm),
      valueLength: valueLength(algorithm),
      value: () => {
        if (text === null) throw new Error("The source has not been read to its end");
        return text;
      },
    },
  };
}

type Signal = OperationRequest["signal"];

/** The answer to HEAD for the first part of the source that was looked at. */
export async function headFirstPart(
  request: OperationRequest,
  ports: OperationPorts,
  state: SourceState,
): Promise<UpstreamResponse> {
  const whole = sourceRequest(request, "HeadObject", [["if-match", state.etag]]);
  const asked = { ...whole, query: [...whole.query, ["partNumber", "1"] as const] };
  return await reading(async () => {
    const response = await ports.upstream.send(state.cluster, asked, request.signal);
    await discard(response);
    return response;
  });
}

/** The answer to GET for the source that was looked at, with all its bytes. */
export async function readWholeSource(
  request: OperationRequest,
  ports: OperationPorts,
  from: { readonly state: SourceState; readonly signal: Signal },
): Promise<UpstreamResponse> {
  const { state, signal } = from;
  const asked = sourceRequest(request, "GetObject", [["if-match", state.etag]]);
  return await reading(() => ports.upstream.send(state.cluster, asked, signal));
}

/** The tags of the source, `a=1&b=2`; empty when it has none. */
export async function sourceTags(
  request: OperationRequest,
  ports: OperationPorts,
  { cluster, headers }: SourceState,
): Promise<string> {
  const asked = sourceRequest(request, "GetObjectTagging");
  const response = await reading(() => ports.upstream.send(cluster, asked, request.signal));
  const bytes = await readDocument(response);
  const isRgw = mayBeRgw(cluster, ports);
  // Without tags, or without a notion of them.
  if (response.status === 404 || response.status === 501) return "";
  if (response.status === 403) {
    // A copy by an RGW needs no right to read tags, and its HEAD counts them wherever there are any.
    if (isRgw && fieldValue(headers, "x-amz-tagging-count") === null) return "";
    throw new S3Error("AccessDenied");
  }
  // Those of an upload in parts, which an RGW cannot read itself.
  if (isRgw && response.status === 200 && bytes.length === 0) return "";
  const tags = response.status === 200 ? readTags(bytes) : null;
  if (tags === null) throw unreadableSource();
  return tags;
}

function sourceRequest(
  request: OperationRequest,
  operation: "HeadObject" | "GetObject" | "GetObjectTagging",
  fields: HeaderList = [],
): UpstreamRequest {
  const { tenant, bucket, key, versionId } = sourceOf(request);
  const query: QueryList = [
    ...(operation === "GetObjectTagging" ? [["tagging", null] as const] : []),
    ...(versionId === null ? [] : [["versionId", versionId] as const]),
  ];
  const headers = [...sourceReadFields(request.headers), ...fields];
  return { ...upstreamRequest(request, { operation, query, headers }), tenant, bucket, key };
}

/** A failure of the source is none of the destination: nothing is known to be unknown there. */
async function reading<Result>(read: () => Promise<Result>): Promise<Result> {
  try {
    return await read();
  } catch (caught) {
    throw caught instanceof UpstreamError ? unreadableSource(caught) : caught;
  }
}

async function* readingChunks(
  chunks: AsyncIterable<Uint8Array>,
  lengthBytes: number,
  sum: RunningSum | null,
): AsyncGenerator<Uint8Array> {
  let seen = 0;
  try {
    for await (const chunk of chunks) {
      seen += chunk.length;
      sum?.update(chunk);
      yield chunk;
    }
  } catch (caught) {
    throw caught instanceof UpstreamError ? unreadableSource(caught) : caught;
  }
  if (seen !== lengthBytes) throw unreadableSource();
  sum?.end();
}
