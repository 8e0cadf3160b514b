// The version that a copy within one cluster took. S3 tells it in x-amz-copy-source-version-id; an RGW does
// not (16.2.15 and 18.2.7), so the source is looked at before and behind the copy, and what both say is told.
// The copy itself is not bound to it: a version in its source asks for another right, s3:GetObjectVersion.

import { clustersOf } from "../placement/candidates.ts";
import { UpstreamError } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { lookAtSource, type SourceState, sourceOf } from "./source-read.ts";

export const sourceVersionField = "x-amz-copy-source-version-id";

/** The source as it is before a copy, where the answer to that may not say which version was taken. */
export async function untoldSource(
  request: OperationRequest,
  ports: OperationPorts,
  cluster: ClusterId,
): Promise<SourceState | null> {
  const { record, versionId } = sourceOf(request);
  if (record === null || versionId !== null || ports.facts(cluster).backend !== "rgw") return null;
  // A bucket with versions is on one cluster.
  const { spread } = record.value.route;
  if (spread !== "bucket" && clustersOf(record.value).length > 1) return null;
  return await lookAtSource(request, ports);
}

/** The answer of `copy`, with the version that it took of a source that was seen `before`. */
export async function tellingVersion(
  request: OperationRequest,
  ports: OperationPorts,
  {
    before,
    copy,
  }: {
    readonly before: SourceState | null;
    readonly copy: () => Promise<OperationAnswer>;
  },
): Promise<OperationAnswer> {
  const answer = await copy();
  if (answer.status !== 200 || before === null || before.versionId === null) return answer;
  if (fieldValue(answer.headers, sourceVersionField) !== null) return answer;
  const after = await lookAgain(request, ports);
  // Overwritten meanwhile; nobody knows which was taken.
  if (after?.versionId !== before.versionId || after.etag !== before.etag) return answer;
  return { ...answer, headers: [...answer.headers, [sourceVersionField, before.versionId]] };
}

async function lookAgain(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<SourceState | null> {
  try {
    return await lookAtSource(request, ports);
  } catch (caught) {
    // The copy is made, whatever became of its source.
    if (caught instanceof S3Error || caught instanceof UpstreamError) return null;
    throw caught;
  }
}
