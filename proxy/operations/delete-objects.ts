// DeleteObjects over the clusters of a bucket (placement.md §12): each key is decided on by policy,
// deleted where it may be, the visible copy last, and answered for by itself, in the request's order.
// A cluster that fails spoils its own keys only; where all fail alike, with all that they were asked, that
// is the answer to the request, as it would be of one cluster. In a settled bucket there is one round.

import type { UpstreamError } from "../placement/ports.ts";
import { deleteResultDocument } from "../s3/delete-document.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import {
  type Asking,
  deleteOnCluster,
  failedBy,
  lost,
  type Said,
  saidOf,
} from "./delete-on-cluster.ts";
import { type DeletePlan, planDeletion } from "./delete-plan.ts";
import { mutate } from "./mutation.ts";
import { documentAnswer } from "./send.ts";
import { refuseConditions } from "./write-conditions.ts";

export async function deleteObjects(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const { deletion, record } = request;
  if (deletion === null || record === null) throw new S3Error("MalformedXML");
  refuseConditions(request, "on DeleteObjects");
  if (!deletion.digested) assertNoneDemanded(request, ports);
  const plans = await planDeletion(deletion.entries, request, ports);
  const open = [...new Set(plans)].filter(({ refusal }) => refusal === null);
  const said =
    open.length === 0 ? new Map<DeletePlan, Said>() : await carryOut(open, { request, ports });
  const ends = plans.map((plan) => endOf(plan, said));
  const failure = failureOfAll(ends);
  if (failure !== null) throw failure;
  const rows = plans.map(({ entry: { key, versionId } }, index) => {
    const { outcome } = ends[index] ?? lost;
    return { key, versionId, outcome };
  });
  const [cluster = null, ...others] = new Set(open.flatMap(({ clusters }) => clusters));
  const document = deleteResultDocument(rows, deletion.quiet);
  return documentAnswer(document, others.length === 0 ? cluster : null);
}

/** AWS takes no document without a digest; an RGW does, and its clients may count on that. */
function assertNoneDemanded({ candidates }: OperationRequest, ports: OperationPorts): void {
  const demanded = candidates.every((cluster) => {
    const { backend, verifiesChecksums } = ports.facts(cluster);
    return backend === "s3" && verifiesChecksums;
  });
  if (!demanded) return;
  throw new S3Error("InvalidRequest", {
    message: "Deleting several objects needs Content-MD5 or a checksum in x-amz-checksum-*",
  });
}

/** Asks round by round, every cluster at once in each. Gives what ended each plan. */
async function carryOut(
  plans: readonly DeletePlan[],
  asking: Asking,
): Promise<ReadonlyMap<DeletePlan, Said>> {
  const ended = new Map<DeletePlan, Said>();
  await mutate(asking.request, asking.ports, async (mutation) => {
    await mutation.commit();
    const rounds = Math.max(...plans.map(({ clusters }) => clusters.length));
    for (let round = 0; round < rounds; round += 1) {
      const left = plans.filter((plan) => !ended.has(plan));
      await Promise.all(
        [...byCluster(left, round)].map(async ([cluster, part]) => {
          const said = await deleteOnCluster(
            cluster,
            part.map(({ entry }) => entry),
            asking,
          );
          for (const plan of part) {
            const one = said.get(plan.entry) ?? lost;
            if (round === plan.clusters.length - 1 || !isGone(one)) ended.set(plan, one);
          }
        }),
      );
    }
    return { status: [...ended.values()].some(({ unknown }) => unknown) ? 500 : 200 };
  });
  return ended;
}

function byCluster(
  plans: readonly DeletePlan[],
  round: number,
): ReadonlyMap<ClusterId, readonly DeletePlan[]> {
  const parts = new Map<ClusterId, DeletePlan[]>();
  for (const plan of plans) {
    const cluster = plan.clusters[round];
    if (cluster === undefined) continue;
    const part = parts.get(cluster);
    if (part === undefined) parts.set(cluster, [plan]);
    else part.push(plan);
  }
  return parts;
}

const absentCodes: ReadonlySet<string> = new Set(["NoSuchBucket", "NoSuchKey", "NoSuchVersion"]);

/** Whether nothing is left behind the front. */
function isGone({ outcome }: Said): boolean {
  return outcome.kind === "deleted" || absentCodes.has(outcome.code);
}

function endOf(plan: DeletePlan, said: ReadonlyMap<DeletePlan, Said>): Said {
  const { refusal } = plan;
  return refusal === null ? (said.get(plan) ?? lost) : saidOf(failedBy(refusal));
}

/** What every entry failed of, and none by itself; `null`: it differs. */
function failureOfAll(ends: readonly Said[]): S3Error | UpstreamError | null {
  const [first = null, ...others] = ends.map(({ failure }) => failure);
  return first !== null && others.every((other) => codeOf(other) === codeOf(first)) ? first : null;
}

/** Of no answer there is none. */
function codeOf(failure: S3Error | UpstreamError | null): string | null {
  if (failure === null) return null;
  return failure instanceof S3Error ? failure.code : "";
}
