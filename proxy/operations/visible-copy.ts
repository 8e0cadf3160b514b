// Which of a key's candidates answers a read (placement.md §8): a miss at the front asks the next one,
// and one that cannot be asked is 503, never a copy behind it (I4). A delete marker is no miss: the key
// was deleted there, and what lies behind it is older. A hit behind the front asks those before it again,
// since a write may have come between (rule 17). How one of them is asked is the caller's business.

import type { UpstreamResponse } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationPorts, OperationRequest } from "./context.ts";
import { assertAbsenceKnown, discard, isAbsenceKnown } from "./send.ts";

export type Ask = (cluster: ClusterId) => Promise<UpstreamResponse>;

export interface VisibleCopy {
  readonly response: UpstreamResponse;
  readonly cluster: ClusterId;
}

/** The answer of the candidate whose copy is visible, or the 404 of the last one. */
export async function visibleCopy(
  request: OperationRequest,
  ports: OperationPorts,
  ask: Ask,
): Promise<VisibleCopy> {
  const first = await askInOrder(request.candidates, ask);
  if (isMiss(first.response)) {
    if (!isAbsenceKnown(request, ports)) first.response.body.cancel();
    assertAbsenceKnown(request, ports);
    return first;
  }
  if (first.index === 0) return first;
  const again = await askInOrder(request.candidates.slice(0, first.index), ask);
  const [kept, dropped] = isMiss(again.response) ? [first, again] : [again, first];
  dropped.response.body.cancel();
  return kept;
}

interface Found extends VisibleCopy {
  readonly index: number;
}

/** The first answer that is no miss, or the last one. */
async function askInOrder(candidates: readonly ClusterId[], ask: Ask): Promise<Found> {
  let found: Found | null = null;
  for (const [index, cluster] of candidates.entries()) {
    if (found !== null) await discard(found.response);
    found = { response: await ask(cluster), cluster, index };
    if (!isMiss(found.response)) break;
  }
  if (found === null)
    throw new S3Error("ServiceUnavailable", { message: "The bucket has no cluster" });
  return found;
}

/** Whether an answer says that the cluster has never had the key, or keeps nothing of it. */
export function isMiss({ status, headers }: UpstreamResponse): boolean {
  return status === 404 && fieldValue(headers, "x-amz-delete-marker") !== "true";
}
