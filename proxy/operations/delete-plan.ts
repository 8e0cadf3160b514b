// What a DeleteObjects means to do: which clusters are asked for each entry and in which order, and which
// entries nobody is asked for, since policy denies them, or a condition of theirs would be ignored.

import { candidatesOf } from "../placement/candidates.ts";
import { UpstreamError } from "../placement/ports.ts";
import type { DeleteEntry } from "../s3/delete-document.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationPorts, OperationRequest } from "./context.ts";
import { provenFacts } from "./proven-facts.ts";
import { entryRefusal } from "./write-conditions.ts";

/** S3 API Reference "Creating object key names". */
const maxKeyBytes = 1024;

export interface DeletePlan {
  readonly entry: DeleteEntry;
  /** In the order asked: behind first, front last, so that no copy is uncovered. */
  readonly clusters: readonly ClusterId[];
  /** Why no cluster is asked. */
  readonly refusal: S3Error | null;
}

/** The plan of each entry, in their order; of one that is named twice the same plan. */
export async function planDeletion(
  entries: readonly DeleteEntry[],
  request: OperationRequest,
  ports: OperationPorts,
): Promise<readonly DeletePlan[]> {
  const distinct = new Map(entries.map((entry) => [idOf(entry), entry]));
  const denials = await request.mayDelete([...distinct.values()]);
  const conditional = [...distinct.values()].filter(({ conditions }) => conditions.length > 0);
  for (const cluster of new Set(conditional.flatMap((entry) => clustersOf(entry, request)))) {
    await show(cluster, request, ports);
  }
  const plans = new Map<string, DeletePlan>();
  for (const [index, [id, entry]] of [...distinct].entries()) {
    const clusters = [...clustersOf(entry, request)].reverse();
    const refusal = denials[index] ?? refusalOf(entry, clusters, ports);
    plans.set(id, { entry, clusters, refusal });
  }
  return entries.flatMap((entry) => plans.get(idOf(entry)) ?? []);
}

/** One key under two conditions is two entries. */
function idOf({ key, versionId, conditions }: DeleteEntry): string {
  return JSON.stringify([key, versionId, conditions]);
}

/** A cluster that does not answer spoils the entries that it has. */
async function show(
  cluster: ClusterId,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<void> {
  try {
    await provenFacts(cluster, request, ports);
  } catch (caught) {
    if (!(caught instanceof UpstreamError || caught instanceof S3Error)) throw caught;
  }
}

/** Front first. */
function clustersOf({ key }: DeleteEntry, { record }: OperationRequest): readonly ClusterId[] {
  return record === null ? [] : candidatesOf(record.value, key);
}

function refusalOf(
  entry: DeleteEntry,
  clusters: readonly ClusterId[],
  ports: OperationPorts,
): S3Error | null {
  if (Buffer.byteLength(entry.key) > maxKeyBytes) return new S3Error("KeyTooLongError");
  if (clusters.length === 0) return new S3Error("ServiceUnavailable");
  if (entry.conditions.length === 0) return null;
  if (!clusters.every((id) => ports.isShown(id))) return new S3Error("ServiceUnavailable");
  return entryRefusal(
    entry,
    clusters.map((id) => ports.facts(id)),
  );
}
