// A copy between clusters as a multipart upload: some parts at a time, each read and written as a stream.
// Until Complete there is no object; whatever fails before it ends the parts under way and aborts the
// upload. Once Complete was sent without an answer it is left alone: an RGW that is told to abort what it
// is completing can lose parts of the object.

import type { UpstreamResponse } from "../placement/ports.ts";
import { partFields } from "../s3/copy-fields.ts";
import type { CopyRange } from "../s3/copy-source.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderList } from "../s3/headers.ts";
import {
  type CompletePart,
  completeRequestDocument,
  multipartEtag,
  readCompleteResult,
  readInitiateResult,
} from "../s3/multipart-document.ts";
import type { ClusterId } from "../s3/names.ts";
import {
  begunChecksum,
  type CopyChecksum,
  checksumElement,
  completeChecksumFields,
  type UploadChecksum,
  uploadChecksumFields,
} from "../s3/object-checksum.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { throughAnswer } from "./copy-answer.ts";
import { errorInside, refusedPart, refusedUpload } from "./copy-refusal.ts";
import type { Mutation } from "./mutation.ts";
import { discard, passOn, readDocument, unreadable, upstreamRequest } from "./send.ts";
import type { SourceState } from "./source-read.ts";
import { uploadSource } from "./source-upload.ts";
import { uploadErrand } from "./upload-errand.ts";

/** Parts under way at once. */
const width = 4;

export interface CopyPlan {
  readonly state: SourceState;
  readonly target: ClusterId;
  /** Of the object to be made. */
  readonly fields: HeaderList;
  readonly checksum: CopyChecksum | null;
}

interface Work {
  readonly plan: CopyPlan;
  readonly parts: readonly CopyRange[];
  readonly mutation: Mutation;
}

export async function copyInParts(
  request: OperationRequest,
  ports: OperationPorts,
  work: Work,
): Promise<OperationAnswer> {
  const { plan } = work;
  const { target, fields, checksum } = plan;
  const begin = upstreamRequest(request, {
    operation: "CreateMultipartUpload",
    query: [["uploads", null]],
    headers: checksum === null ? fields : [...fields, ...uploadChecksumFields(checksum)],
  });
  const begun = await ports.upstream.send(target, begin, request.signal);
  if (begun.status !== 200) return passOn(begun, target);
  const reading = readInitiateResult(await readDocument(begun));
  if (reading.kind === "error") throw unreadable();
  const { headers } = begun;
  const upload = {
    id: reading.uploadId,
    headers,
    checksum: checksum === null ? null : begunChecksum(headers),
  };
  let completing = false;
  try {
    const sent = await sendParts(request, ports, { ...work, upload });
    if (!("parts" in sent)) {
      await abort(request, ports, { plan, upload });
      return sent;
    }
    const { parts } = sent;
    await work.mutation.commit();
    completing = true;
    const made = { plan, parts, upload };
    const response = await complete(request, ports, made);
    if (response.status === 200) return await completedAnswer(request, ports, { made, response });
    if (response.status >= 400 && response.status < 500) {
      await abort(request, ports, { plan, upload });
    }
    return await refusedUpload(response, target);
  } catch (caught) {
    const refused = caught instanceof S3Error && caught.status < 500;
    if (!completing || refused) await abort(request, ports, { plan, upload });
    throw caught;
  }
}

interface Upload {
  /** The upstream's own id. */
  readonly id: string;
  /** Of the answer that began it. */
  readonly headers: HeaderList;
  /** What the cluster said that it will have. */
  readonly checksum: UploadChecksum | null;
}

interface SentParts {
  /** In order. */
  readonly parts: readonly CompletePart[];
}

/** Every part, or the answer to one that was refused. The first failure ends all others. */
async function sendParts(
  request: OperationRequest,
  ports: OperationPorts,
  work: Work & { readonly upload: Upload },
): Promise<SentParts | OperationAnswer> {
  const { parts } = work;
  const sent: CompletePart[] = [];
  const all = new AbortController();
  const left = { handleEvent: () => all.abort(request.signal.reason) };
  request.signal.addEventListener("abort", left);
  if (request.signal.aborted) left.handleEvent();
  let next = 0;
  const ended: { by: Error | OperationAnswer | null } = { by: null };
  const worker = async (): Promise<void> => {
    for (let index = next++; index < parts.length && ended.by === null; index = next++) {
      const range = parts[index];
      if (range === undefined) return;
      const partNumber = index + 1;
      try {
        const part = await sendPart(request, ports, { ...work, range, partNumber, all });
        if ("status" in part) {
          ended.by ??= part;
          all.abort();
        } else sent[index] = part;
      } catch (caught) {
        ended.by ??= caught instanceof Error ? caught : new Error(String(caught));
        all.abort(caught);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, parts.length) }, worker));
  request.signal.removeEventListener("abort", left);
  if (ended.by instanceof Error) throw ended.by;
  return ended.by ?? { parts: sent };
}

/** The part as Complete is to name it, or the answer that refuses it, held whole. */
async function sendPart(
  request: OperationRequest,
  ports: OperationPorts,
  work: {
    readonly plan: CopyPlan;
    readonly upload: Upload;
    readonly range: CopyRange;
    readonly partNumber: number;
    readonly all: AbortController;
  },
): Promise<CompletePart | OperationAnswer> {
  const { plan, upload, range, partNumber, all } = work;
  const { state, target: cluster } = plan;
  const { checksum } = upload;
  const whole = range.first === 0 && range.last === state.sizeBytes - 1;
  const { response, value } = await uploadSource(request, ports, {
    state,
    range: whole ? null : range,
    signal: all.signal,
    cluster,
    operation: "UploadPart",
    query: [
      ["partNumber", String(partNumber)],
      ["uploadId", upload.id],
    ],
    headers: partFields(request.headers),
    checksum: checksum && { algorithm: checksum.algorithm, value: null },
    // A part is no object: the copy's own commit is before Complete.
    commit: () => Promise.resolve(),
  });
  const etag = fieldValue(response.headers, "etag");
  if (response.status !== 200 || etag === null) return await refusedPart(response, cluster);
  await discard(response);
  const isKept = checksum !== null && value !== null;
  return {
    partNumber,
    etag,
    checksums: isKept ? [checksumElement(checksum.algorithm, value)] : [],
  };
}

interface MadeUpload {
  readonly plan: CopyPlan;
  readonly parts: readonly CompletePart[];
  readonly upload: Upload;
}

async function complete(
  request: OperationRequest,
  ports: OperationPorts,
  { plan, parts, upload }: MadeUpload,
): Promise<UpstreamResponse> {
  const bytes = Buffer.from(completeRequestDocument(parts), "utf8");
  const proven = plan.checksum !== null && upload.checksum !== null;
  const sent = upstreamRequest(request, {
    operation: "CompleteMultipartUpload",
    query: [["uploadId", upload.id]],
    headers: proven ? completeChecksumFields(plan.checksum, upload.checksum) : [],
    body: { kind: "bytes", bytes },
  });
  return await ports.upstream.send(plan.target, sent, request.signal);
}

/** @throws S3Error for an error inside the 200 */
async function completedAnswer(
  request: OperationRequest,
  ports: OperationPorts,
  { made, response }: { readonly made: MadeUpload; readonly response: UpstreamResponse },
): Promise<OperationAnswer> {
  const { plan, parts, upload } = made;
  const reading = readCompleteResult(await readDocument(response));
  if (reading.kind === "error") throw unreadable();
  if (reading.kind === "failed") throw errorInside(reading.document);
  const etag = reading.etag ?? multipartEtag(parts.map((part) => part.etag));
  // Encryption is told when an upload begins, the version when it ends.
  const headers = [...upload.headers, ...response.headers];
  const { state, target: cluster } = plan;
  return throughAnswer(request, ports, {
    state,
    cluster,
    etag,
    checksums: reading.checksums,
    headers: distinct(headers),
  });
}

function distinct(headers: HeaderList): HeaderList {
  return [...new Map(headers.filter(([name]) => !abortFields.test(name))).entries()];
}

const abortFields = /^x-amz-(?:abort-|request-id$|id-2$)/;

/** Whether the client is still there or not; where its cluster went away, once that is back. */
async function abort(
  request: OperationRequest,
  ports: OperationPorts,
  left: { readonly plan: CopyPlan; readonly upload: Upload },
): Promise<void> {
  const { target } = left.plan;
  const sent = upstreamRequest(request, {
    operation: "AbortMultipartUpload",
    query: [["uploadId", left.upload.id]],
    headers: [],
  });
  try {
    const response = await ports.upstream.send(target, sent, new AbortController().signal);
    await discard(response);
    if (response.status < 300 || response.status === 404) return;
    throw new Error(`The abort is answered with status ${response.status}`);
  } catch (caught) {
    ports.log.write("warn", "copy.not_aborted", {
      requestId: request.requestId,
      cluster: target,
      bucket: request.bucket,
      cause: caught instanceof Error ? caught.message : String(caught),
    });
    ports.unfinished.add(uploadErrand(target, sent, ports));
  }
}
