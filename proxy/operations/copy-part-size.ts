// How large the parts of a copy's source are, so that the copy can have its ETag: told by a cluster that
// answers `partNumber`, else proven from the source's bytes, which are read once more for it
// (part-sizes.ts, placement.md rule 21).

import { UpstreamError } from "../placement/ports.ts";
import { partsOf } from "../s3/entity-tags.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue } from "../s3/headers.ts";
import type { OperationPorts, OperationRequest } from "./context.ts";
import { headFirstPart, readWholeSource, type SourceState } from "./source-read.ts";

/** The size in bytes of each part but the last; `null` for one that was not put in several, or unknown. */
export async function sourcePartBytes(
  request: OperationRequest,
  ports: OperationPorts,
  state: SourceState,
): Promise<number | null> {
  const { etag, sizeBytes } = state;
  const count = partsOf(etag);
  if (count < 2) return null;
  const told = await toldPartBytes(request, ports, state);
  if (told !== null && Math.ceil(sizeBytes / told) === count) return told;
  try {
    return await ports.partSizes.of(
      { etag, sizeBytes, count },
      {
        caller: request.caller,
        signal: request.signal,
        read: (signal) => readWholeSource(request, ports, { state, signal }),
      },
    );
  } catch (caught) {
    // Too many ask, or the source changed or broke off, which the copy itself will meet.
    if (caught instanceof UpstreamError) return null;
    if (caught instanceof S3Error && caught.code === "SlowDown") return null;
    throw caught;
  }
}

/** What the source's cluster says of the first part; `null` where it says nothing. */
async function toldPartBytes(
  request: OperationRequest,
  ports: OperationPorts,
  state: SourceState,
): Promise<number | null> {
  if (!ports.facts(state.cluster).answersPartNumber) return null;
  const { status, headers } = await headFirstPart(request, ports, state);
  const bytes = Number(fieldValue(headers, "content-length") ?? Number.NaN);
  const known = status === 206 && fieldValue(headers, "etag") === state.etag;
  return known && Number.isSafeInteger(bytes) && bytes > 0 ? bytes : null;
}
