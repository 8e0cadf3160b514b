// HeadBucket: the first cluster's answer. An RGW's also counts what the bucket holds; where the bucket is
// on several, the counts are added up, or left out where a cluster does not tell in time: the part of one
// cluster must not pass for the whole, nor must anybody wait long for it.

import type { CancelSignal } from "../placement/ports.ts";
import type { HeaderList } from "../s3/headers.ts";
import { fieldValue } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import { passBucketRequest } from "./bucket.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { discard, upstreamRequest } from "./send.ts";

const countFields = ["x-rgw-object-count", "x-rgw-bytes-used"] as const;
const countsWithinMs = 1_000;

export async function headBucket(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const answer = await passBucketRequest(request, ports);
  const others = request.candidates.slice(1);
  if (others.length === 0 || answer.status !== 200) return answer;
  const own = countFields.filter((name) => fieldValue(answer.headers, name) !== null);
  if (own.length === 0) return answer;
  const controller = new AbortController();
  const stop = ports.timers.after(countsWithinMs, () => controller.abort());
  try {
    const fields = await Promise.all(
      others.map((cluster) => fieldsOf(cluster, request, { ports, signal: controller.signal })),
    );
    // A key that two of them have is one object: what they hold together is not known.
    const doubtful = request.record?.value.conflict === true;
    const all = doubtful ? [] : [answer.headers, ...fields];
    return { ...answer, headers: withSums(answer.headers, all) };
  } finally {
    stop();
  }
}

/** What a cluster says of the bucket; nothing where it does not answer. */
async function fieldsOf(
  cluster: ClusterId,
  request: OperationRequest,
  { ports, signal }: { readonly ports: OperationPorts; readonly signal: CancelSignal },
): Promise<HeaderList> {
  try {
    const response = await ports.upstream.send(cluster, upstreamRequest(request), signal);
    await discard(response);
    return response.status === 200 ? response.headers : [];
  } catch {
    return [];
  }
}

function withSums(headers: HeaderList, all: readonly HeaderList[]): HeaderList {
  return headers.flatMap(([name, value]) => {
    if (!countFields.some((field) => field === name)) return [[name, value] as const];
    const sum = sumOf(all.map((fields) => fieldValue(fields, name)));
    return sum === null ? [] : [[name, sum] as const];
  });
}

/** `null` where one is missing, or none is given. */
function sumOf(values: readonly (string | null)[]): string | null {
  if (values.length === 0) return null;
  let sum = 0n;
  for (const value of values) {
    if (value === null || !/^\d{1,30}$/.test(value)) return null;
    sum += BigInt(value);
  }
  return sum.toString();
}
