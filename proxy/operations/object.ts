// Single-object operations: reads over the key's candidates, writes to its owner, deletes.
// placement.md §7–8 in the settled form: one candidate, one upstream request, no lock. A bucket that
// was discovered on several clusters has several candidates and is read in their order.

import type { UpstreamResponse } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import type { HeaderList, QueryList } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { openGate } from "./gate.ts";
import { mutate } from "./mutation.ts";
import {
  assertAbsenceKnown,
  discard,
  firstCandidate,
  isAbsenceKnown,
  passOn,
  upstreamRequest,
} from "./send.ts";

/**
 * GetObject, HeadObject. A miss at the front asks the next candidate; a candidate that cannot be
 * asked is 503, never a copy behind it (I4). A hit behind the front asks those before it again, since
 * a write may have come between (placement.md rule 17).
 */
export async function readObject(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const first = await askInOrder(request.candidates, request, ports);
  if (first.response.status === 404) {
    if (!isAbsenceKnown(request, ports)) first.response.body.cancel();
    assertAbsenceKnown(request, ports);
    return passOn(first.response, first.cluster);
  }
  if (first.index === 0) return passOn(first.response, first.cluster);
  const again = await askInOrder(request.candidates.slice(0, first.index), request, ports);
  const [kept, dropped] = again.response.status === 404 ? [first, again] : [again, first];
  dropped.response.body.cancel();
  return passOn(kept.response, kept.cluster);
}

interface Found {
  readonly response: UpstreamResponse;
  readonly cluster: ClusterId;
  readonly index: number;
}

/** The first answer that is not 404, or the last one. */
async function askInOrder(
  candidates: readonly ClusterId[],
  request: OperationRequest,
  ports: OperationPorts,
): Promise<Found> {
  let found: Found | null = null;
  for (const [index, cluster] of candidates.entries()) {
    if (found !== null) await discard(found.response);
    found = { response: await ask(cluster, request, ports), cluster, index };
    if (found.response.status !== 404) break;
  }
  if (found === null)
    throw new S3Error("ServiceUnavailable", { message: "The bucket has no cluster" });
  return found;
}

async function ask(
  cluster: ClusterId,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<UpstreamResponse> {
  return await ports.upstream.send(cluster, upstreamRequest(request), request.signal);
}

/** PutObject: to the owner, through the gate. */
export async function putObject(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const cluster = request.target ?? firstCandidate(request);
  const conditional = request.headers.some(
    ([name]) => name === "if-match" || name === "if-none-match",
  );
  if (conditional && request.candidates.length > 1) {
    throw new S3Error("NotImplemented", {
      message: "Conditional writes are not implemented for a bucket that is on several clusters",
    });
  }
  const answer = await upload(request, ports, { cluster, query: request.query });
  if (answer.status < 300 && request.bucket !== null) {
    const source = request.record?.value.route.source ?? "settled";
    ports.meter.writeRouted(cluster, source, request.body?.lengthBytes ?? 0);
    ports.resettler.noteNonEmpty(request.tenant, request.bucket);
  }
  return answer;
}

/** Sends the client's body to one cluster, held back until it is verified and the commit agreed. */
export async function upload(
  request: OperationRequest,
  ports: OperationPorts,
  to: { readonly cluster: ClusterId; readonly query: QueryList },
): Promise<OperationAnswer> {
  const { cluster, query } = to;
  const source = request.body;
  if (source === null) throw new S3Error("MissingContentLength");
  const facts = ports.facts(cluster);
  return await mutate(request, ports, async (mutation) => {
    const gate = await openGate(source, {
      verifySha256: !facts.verifiesPayloadHash,
      commit: () => mutation.commit(),
    });
    try {
      const response = await ports.upstream.send(
        cluster,
        upstreamRequest(request, {
          query,
          headers: conditionalFields(request.headers, facts.conditionalEtagQuotes),
          body: gate.body,
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
  const conditional = request.headers.some(
    ([name]) => name === "if-match" || name.startsWith("x-amz-if-match-"),
  );
  if (conditional && !request.candidates.every((id) => ports.facts(id).honoursConditionalDelete)) {
    throw new S3Error("NotImplemented", {
      message:
        "Conditional DELETE is not implemented for this cluster profile: it would be ignored",
    });
  }
  return await mutate(request, ports, async (mutation) => {
    await mutation.commit();
    const front = firstCandidate(request);
    for (const cluster of request.candidates.slice(1).reverse()) {
      const response = await ask(cluster, request, ports);
      if (response.status >= 300 && response.status !== 404) return passOn(response, cluster);
      await discard(response);
    }
    return passOn(await ask(front, request, ports), front);
  });
}

/** RGW compares If-Match on writes as raw text with the unquoted ETag (s3-protocol.md, house decisions). */
function conditionalFields(headers: HeaderList, quotes: "keep" | "strip"): HeaderList {
  if (quotes === "keep") return headers;
  return headers.map(([name, value]) =>
    name === "if-match" || name === "if-none-match"
      ? [name, value.replaceAll('"', "")]
      : [name, value],
  );
}
