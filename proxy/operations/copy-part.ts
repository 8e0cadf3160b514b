// UploadPartCopy: to the cluster where the upload lives. Asked of that cluster where the source is there
// too and its name survives the asking: a radosgw decodes it twice and aborts on a `%` that is left
// (16.2.15 and 18.2.7). Everything else is read and uploaded as a part here.

import type { ChecksumAlgorithm } from "../s3/checksum.ts";
import { hasSourceConditions } from "../s3/copy-conditions.ts";
import { partFields } from "../s3/copy-fields.ts";
import { type CopyRange, readCopyRange, survivesSecondDecoding } from "../s3/copy-source.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import { listedAlgorithm } from "../s3/object-checksum.ts";
import { rgwReadsPart } from "../s3/rgw-copy.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { headersOnCluster, onClusterAnswer, uploadedAnswer } from "./copy-answer.ts";
import { readShortBody } from "./gate.ts";
import { type PinnedRequest, partOf } from "./multipart.ts";
import { mutate } from "./mutation.ts";
import { mayBeRgw, provenFacts } from "./proven-facts.ts";
import { readDocument, upstreamRequest } from "./send.ts";
import { answerInTime } from "./slow-answer.ts";
import { assertCopySize, lengthOf, lookAtSource, sourceCluster, sourceOf } from "./source-read.ts";
import { uploadSource } from "./source-upload.ts";
import { tellingVersion, untoldSource } from "./source-version.ts";
import { refuseConditions } from "./write-conditions.ts";

export async function uploadPartCopy(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  return await answerInTime(request, ports, () => copy(request, ports));
}

async function copy(request: OperationRequest, ports: OperationPorts): Promise<OperationAnswer> {
  const pinned = partOf(request, ports);
  refuseConditions(request, "on UploadPartCopy");
  const reading = readCopyRange(request.headers);
  if (reading.kind === "error") throw reading.error;
  if (request.body !== null) await readShortBody(request.body, 0);
  const { cluster } = pinned.pin;
  const within =
    (await sourceCluster(request, ports)) === cluster && (await maySend(request, ports, cluster));
  if (!within) return await copyThrough(request, ports, { pinned, range: reading.range });
  const before = await untoldSource(request, ports, cluster);
  const copy = async () => await copyOnCluster(request, ports, pinned);
  return await tellingVersion(request, ports, { before, copy });
}

/** Whether the cluster copies what is meant, under the conditions that were made, and lives on. */
async function maySend(
  request: OperationRequest,
  ports: OperationPorts,
  cluster: ClusterId,
): Promise<boolean> {
  if (!rgwReadsPart(request.headers) && mayBeRgw(cluster, ports)) return false;
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
  const source = { state, range, signal: request.signal };
  assertCopySize(lengthOf(source));
  const algorithm = await uploadAlgorithm(request, ports, pinned);
  return await mutate(request, ports, async (mutation) => {
    const { response } = await uploadSource(request, ports, {
      ...source,
      cluster,
      operation: "UploadPart",
      query: pinned.query,
      headers: partFields(request.headers),
      checksum: algorithm && { algorithm, value: null },
      commit: () => mutation.commit(),
    });
    return await uploadedAnswer(response, { state, cluster }, { request, ports });
  });
}

/**
 * The checksum that the parts of an upload have, and must have on S3, as its cluster says. `null`: none, or
 * the caller may not ask; then the part meets whatever it is.
 */
async function uploadAlgorithm(
  request: OperationRequest,
  ports: OperationPorts,
  { pin }: PinnedRequest,
): Promise<ChecksumAlgorithm | null> {
  if (!ports.facts(pin.cluster).verifiesChecksums) return null;
  const sent = upstreamRequest(request, {
    operation: "ListParts",
    query: [
      ["max-parts", "1"],
      ["uploadId", pin.uploadId],
    ],
    headers: partFields(request.headers),
  });
  const response = await ports.upstream.send(pin.cluster, sent, request.signal);
  const document = await readDocument(response);
  return response.status === 200 ? listedAlgorithm(document) : null;
}
