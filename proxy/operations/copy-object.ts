// CopyObject (placement.md §12). On one cluster the upstream copies; between clusters, and where the
// upstream would not heed what the request says, the bytes go through here, so that it does not matter
// where a key falls. Either way the object is there whole or not at all.

import { hasSourceConditions } from "../s3/copy-conditions.ts";
import type { CopyDirectives } from "../s3/copy-fields.ts";
import {
  changesNothing,
  destinationFields,
  readDirectives,
  requestTags,
} from "../s3/copy-fields.ts";
import { copyParts } from "../s3/copy-parts.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import { type CopyChecksum, copyChecksum } from "../s3/object-checksum.ts";
import { isWholeForRgw, rgwCopiesAsS3 } from "../s3/rgw-copy.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { headersOnCluster, onClusterAnswer, uploadedAnswer } from "./copy-answer.ts";
import { type CopyPlan, copyInParts } from "./copy-in-parts.ts";
import { sourcePartBytes } from "./copy-part-size.ts";
import { readShortBody } from "./gate.ts";
import { type Mutation, mutate } from "./mutation.ts";
import { mayBeRgw, provenFacts } from "./proven-facts.ts";
import { firstCandidate, upstreamRequest } from "./send.ts";
import { answerInTime } from "./slow-answer.ts";
import { assertCopySize, lookAtSource, sourceOf, sourceTags } from "./source-read.ts";
import { uploadSource } from "./source-upload.ts";
import { tellingVersion } from "./source-version.ts";
import { assertConditions, refuseConditions } from "./write-conditions.ts";

export async function copyObject(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  return await answerInTime(request, ports, () => copy(request, ports));
}

async function copy(request: OperationRequest, ports: OperationPorts): Promise<OperationAnswer> {
  const target = request.target ?? firstCandidate(request);
  if (request.body !== null) await readShortBody(request.body, 0);
  const judged = hasSourceConditions(request.headers);
  await assertConditions(request, ports, { operation: "CopyObject", cluster: target });
  const facts = judged ? await provenFacts(target, request, ports) : ports.facts(target);
  const reading = readDirectives(request.headers);
  if (reading.kind === "error") throw reading.error;
  const { directives } = reading;
  assertChange(request, directives);
  const heeds = !judged || facts.honoursCopySourceConditions;
  const isRgw = mayBeRgw(target, ports);
  const [only, ...others] = sourceOf(request).candidates;
  if (heeds && !isRgw && only === target && others.length === 0) {
    return await copyOnCluster(request, ports, target);
  }
  // An RGW 16.2 ignores conditions, and no answer of it tells it from one that does not.
  const state = await lookAtSource(request, ports);
  const isWithin = heeds && state.cluster === target;
  if (isWithin && (!isRgw || rgwCopiesAsS3(request.headers, state.headers, directives))) {
    const copy = async () => await copyOnCluster(request, ports, target);
    return await tellingVersion(request, ports, { before: state, copy });
  }
  // Nobody judges these at the moment of the write.
  refuseConditions(request, "on CopyObject between clusters");
  return await copyThrough(request, ports, { state, target, directives });
}

/** @throws S3Error InvalidRequest for a copy of an object to itself that changes nothing. */
function assertChange(request: OperationRequest, directives: CopyDirectives): void {
  const { tenant, bucket, key, versionId } = sourceOf(request);
  const itself = tenant === request.tenant && bucket === request.bucket && key === request.key;
  if (!itself || versionId !== null || !changesNothing(request.headers, directives)) return;
  throw new S3Error("InvalidRequest", {
    message:
      "A copy of an object to itself must change its metadata, storage class, website redirect location or encryption",
  });
}

async function copyOnCluster(
  request: OperationRequest,
  ports: OperationPorts,
  cluster: ClusterId,
): Promise<OperationAnswer> {
  return await mutate(request, ports, async (mutation) => {
    await mutation.commit();
    const headers = headersOnCluster(request);
    const sent = upstreamRequest(request, { query: [], headers });
    const response = await ports.upstream.send(cluster, sent, request.signal);
    const answer = await onClusterAnswer(response, cluster, { request, ports });
    if (answer.status === 200) noteWritten(request, ports, { cluster, bytes: 0 });
    return answer;
  });
}

async function copyThrough(
  request: OperationRequest,
  ports: OperationPorts,
  copied: Pick<CopyPlan, "state" | "target"> & { readonly directives: CopyDirectives },
): Promise<OperationAnswer> {
  const { state, target, directives } = copied;
  assertCopySize(state.sizeBytes);
  const checksum = checksumOf(request, ports, { state, target });
  const tags =
    directives.tagging === "REPLACE"
      ? requestTags(request.headers)
      : await sourceTags(request, ports, state);
  const fields = destinationFields(request.headers, state.headers, { directives, tags });
  const plan = { state, target, fields, checksum };
  const isWhole = mayBeRgw(target, ports) && isWholeForRgw(fields);
  const partBytes = isWhole ? null : await sourcePartBytes(request, ports, state);
  const parts = isWhole ? null : copyParts(state.sizeBytes, state.etag, partBytes);
  const answer = await mutate(request, ports, async (mutation) =>
    parts === null
      ? await copyInOnePiece(request, ports, { plan, mutation })
      : await copyInParts(request, ports, { plan, parts, mutation }),
  );
  if (answer.status < 300) noteWritten(request, ports, { cluster: target, bytes: state.sizeBytes });
  return answer;
}

/** Of a cluster that keeps none nothing is asked, whatever the request says, as an RGW has it. */
function checksumOf(
  request: OperationRequest,
  ports: OperationPorts,
  { state, target }: Pick<CopyPlan, "state" | "target">,
): CopyChecksum | null {
  if (!ports.facts(target).verifiesChecksums) return null;
  const result = copyChecksum(request.headers, state.headers);
  if (result.kind === "error") throw result.error;
  return result.checksum;
}

async function copyInOnePiece(
  request: OperationRequest,
  ports: OperationPorts,
  work: { readonly plan: CopyPlan; readonly mutation: Mutation },
): Promise<OperationAnswer> {
  const { plan, mutation } = work;
  const { state, target: cluster, fields, checksum } = plan;
  const { response } = await uploadSource(request, ports, {
    state,
    range: null,
    signal: request.signal,
    cluster,
    operation: "PutObject",
    query: [],
    headers: fields,
    // The source's own, where there is one of all its bytes, which are proven by it.
    checksum: checksum && { ...checksum, value: checksum.source?.whole ?? null },
    commit: () => mutation.commit(),
  });
  return await uploadedAnswer(response, { state, cluster }, { request, ports });
}

function noteWritten(
  request: OperationRequest,
  ports: OperationPorts,
  written: { readonly cluster: ClusterId; readonly bytes: number },
): void {
  const source = request.record?.value.route.source ?? "settled";
  ports.meter.writeRouted(written.cluster, source, written.bytes);
  if (request.bucket !== null) ports.resettler.noteNonEmpty(request.tenant, request.bucket);
}
