// UploadPartCopy: to the cluster where the upload lives. Asked of that cluster where the source is there
// too and its name survives the asking: a radosgw decodes it twice and aborts on a `%` that is left
// (16.2.15 and 18.2.7). Everything else is read and uploaded as a part here.

import { hasSourceConditions } from "../s3/copy-conditions.ts";
import { partFields } from "../s3/copy-fields.ts";
import { type CopyRange, readCopyRange, survivesSecondDecoding } from "../s3/copy-source.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import {
  checksumElements,
  headersOnCluster,
  onClusterAnswer,
  throughAnswer,
} from "./copy-answer.ts";
import { openGate, readShortBody } from "./gate.ts";
import { type PinnedRequest, pinOf } from "./multipart.ts";
import { mutate } from "./mutation.ts";
import { provenFacts } from "./proven-facts.ts";
import { passOn, readDocument, upstreamRequest } from "./send.ts";
import { answerInTime } from "./slow-answer.ts";
import {
  assertCopySize,
  lookAtSource,
  openSource,
  sourceCluster,
  sourceOf,
} from "./source-read.ts";
import { refuseConditions } from "./write-conditions.ts";

export async function uploadPartCopy(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  return await answerInTime(request, ports, () => copy(request, ports));
}

async function copy(request: OperationRequest, ports: OperationPorts): Promise<OperationAnswer> {
  const pinned = pinOf(request, ports);
  refuseConditions(request, "on UploadPartCopy");
  const reading = readCopyRange(request.headers);
  if (reading.kind === "error") throw reading.error;
  if (request.body !== null) await readShortBody(request.body, 0);
  const { cluster } = pinned.pin;
  const within =
    (await sourceCluster(request, ports)) === cluster && (await maySend(request, ports, cluster));
  return within
    ? await copyOnCluster(request, ports, pinned)
    : await copyThrough(request, ports, { pinned, range: reading.range });
}

/** Whether the cluster copies what is meant, under the conditions that were made, and lives on. */
async function maySend(
  request: OperationRequest,
  ports: OperationPorts,
  cluster: ClusterId,
): Promise<boolean> {
  const judged = hasSourceConditions(request.headers);
  const isDeadly = !survivesSecondDecoding(sourceOf(request));
  if (!judged && !isDeadly) return true;
  const facts = await provenFacts(cluster, request, ports);
  // What RGW 18.2 heeds of a CopyObject is not known of an UploadPartCopy.
  const heeds = facts.backend === "s3" && facts.honoursCopySourceConditions;
  return (facts.survivesUploadPartCopy || !isDeadly) && (heeds || !judged);
}

async function copyOnCluster(
  request: OperationRequest,
  ports: OperationPorts,
  { pin, query }: PinnedRequest,
): Promise<OperationAnswer> {
  return await mutate(request, ports, async (mutation) => {
    await mutation.commit();
    const sent = upstreamRequest(request, { query, headers: headersOnCluster(request) });
    const response = await ports.upstream.send(pin.cluster, sent, request.signal);
    return await onClusterAnswer(response, pin.cluster, { request, ports });
  });
}

async function copyThrough(
  request: OperationRequest,
  ports: OperationPorts,
  work: { readonly pinned: PinnedRequest; readonly range: CopyRange | null },
): Promise<OperationAnswer> {
  const { pinned, range } = work;
  const { cluster } = pinned.pin;
  const state = await lookAtSource(request, ports);
  if (range !== null && range.last >= state.sizeBytes) {
    throw new S3Error("InvalidRange", { details: { ActualObjectSize: String(state.sizeBytes) } });
  }
  assertCopySize(range === null ? state.sizeBytes : range.last - range.first + 1);
  return await mutate(request, ports, async (mutation) => {
    const body = await openSource(request, ports, { state, range, signal: request.signal });
    const gate = await openGate(body, { verifySha256: false, commit: () => mutation.commit() });
    try {
      const sent = upstreamRequest(request, {
        operation: "UploadPart",
        query: pinned.query,
        headers: partFields(request.headers),
        body: gate.body,
      });
      const response = await ports.upstream.send(cluster, sent, request.signal);
      if (response.status !== 200) return passOn(response, cluster);
      await readDocument(response);
      const etag = fieldValue(response.headers, "etag");
      const { headers } = response;
      const checksums = checksumElements(headers);
      return throughAnswer(request, ports, { state, cluster, etag, checksums, headers });
    } catch (caught) {
      throw gate.fault() ?? caught;
    }
  });
}
