// Single-object operations: reads over the key's candidates, writes to its owner, deletes.
// placement.md §7–8 in the settled form: one candidate, one upstream request, no lock. A bucket that
// was discovered on several clusters has several candidates and is read in their order.

import type { UpstreamResponse } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderList, type QueryList } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import { askConditionally } from "./conditional-read.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { mayBeFramed, openGate, withChecksum } from "./gate.ts";
import { mutate } from "./mutation.ts";
import { askForPart, partNumberOf } from "./part-read.ts";
import { provenFacts } from "./proven-facts.ts";
import { discard, firstCandidate, passOn, upstreamRequest } from "./send.ts";
import { uploadRefusal } from "./upload-permission.ts";
import { visibleCopy } from "./visible-copy.ts";
import { assertConditions, putConditions } from "./write-conditions.ts";

/** GetObject, HeadObject: the visible copy, or a part of it. */
export async function readObject(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const operation = request.operation === "HeadObject" ? "HeadObject" : "GetObject";
  const read = { operation, query: request.query, headers: request.headers } as const;
  const number = partNumberOf(request);
  const { response, cluster } = await visibleCopy(request, ports, (cluster) =>
    number === null
      ? askConditionally(cluster, request, ports, read)
      : askForPart(cluster, request, ports, { number, read }),
  );
  return passOn(response, cluster);
}

/** PutObject: to the owner, through the gate. */
export async function putObject(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const cluster = request.target ?? firstCandidate(request);
  const headers = await putConditions(request, ports, cluster);
  const refusal = await uploadRefusal(request, ports, cluster);
  if (refusal !== null) return refusal;
  const answer = await upload(request, ports, { cluster, query: request.query, headers });
  if (answer.status === 412) await assertMatchable(request, ports, { cluster, answer });
  if (answer.status < 300 && request.bucket !== null) {
    const source = request.record?.value.route.source ?? "settled";
    ports.meter.writeRouted(cluster, source, request.body?.lengthBytes ?? 0);
    ports.resettler.noteNonEmpty(request.tenant, request.bucket);
  }
  return answer;
}

/**
 * If-Match on a key that does not exist is 404 in S3 and 412 on RGW.
 * @throws S3Error NoSuchKey
 */
async function assertMatchable(
  request: OperationRequest,
  ports: OperationPorts,
  refused: { readonly cluster: ClusterId; readonly answer: OperationAnswer },
): Promise<void> {
  if (fieldValue(request.headers, "if-match") === null) return;
  const sent = upstreamRequest(request, { operation: "HeadObject", query: [], headers: [] });
  const head = await ports.upstream.send(refused.cluster, sent, request.signal);
  if (head.status !== 404) return;
  const { body } = refused.answer;
  if (body !== null && !(body instanceof Uint8Array)) body.cancel();
  throw new S3Error("NoSuchKey");
}

interface UploadTo {
  readonly cluster: ClusterId;
  readonly query: QueryList;
  /** In place of the client's own. */
  readonly headers?: HeaderList;
}

/** Sends the client's body to one cluster, held back until it is verified and the commit agreed. */
export async function upload(
  request: OperationRequest,
  ports: OperationPorts,
  to: UploadTo,
): Promise<OperationAnswer> {
  const { cluster, query, headers = request.headers } = to;
  const source = request.body;
  if (source === null) throw new S3Error("MissingContentLength");
  // A trailer is handed on only where it is surely understood.
  const facts = mayBeFramed(source)
    ? await ports.framing.facts(cluster, request, ports)
    : source.trailer
      ? await provenFacts(cluster, request, ports)
      : ports.facts(cluster);
  return await mutate(request, ports, async (mutation) => {
    const gate = await openGate(source, {
      // Also of a cluster that is known to verify it: what is known may be wrong.
      verifySha256: true,
      commit: () => mutation.commit(),
    });
    try {
      const response = await ports.upstream.send(
        cluster,
        upstreamRequest(request, {
          query,
          ...withChecksum(gate, source, { headers, facts }),
          payloadSha256: source.sha256,
        }),
        request.signal,
      );
      return passOn(response, cluster);
    } catch (caught) {
      throw gate.fault() ?? caught;
    }
  });
}

/** DeleteObject: the last candidate first, the visible copy last, so that none is uncovered (rule 16). */
export async function deleteObject(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const front = firstCandidate(request);
  await assertConditions(request, ports, { operation: "DeleteObject", cluster: front });
  return await mutate(request, ports, async (mutation) => {
    await mutation.commit();
    for (const cluster of request.candidates.slice(1).reverse()) {
      const response = await ask(cluster, request, ports);
      if (response.status >= 300 && response.status !== 404) return passOn(response, cluster);
      await discard(response);
    }
    return passOn(await ask(front, request, ports), front);
  });
}

async function ask(
  cluster: ClusterId,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<UpstreamResponse> {
  return await ports.upstream.send(cluster, upstreamRequest(request), request.signal);
}
