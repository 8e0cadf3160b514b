// Single-object operations: reads over the key's candidates, writes to its owner, deletes.
// placement.md §7–8 in the settled form: one candidate, one upstream request, no lock. A bucket that
// was discovered on several clusters has several candidates and is read in their order.

import type { UpstreamResponse } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import type { HeaderList, QueryList } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { openGate } from "./gate.ts";
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
  const mutation = { end: noMutation };
  const gate = await openGate(source, {
    verifySha256: !facts.verifiesPayloadHash,
    commit: async () => {
      mutation.end = await request.commit();
    },
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
  } finally {
    mutation.end();
  }
}

function noMutation(): void {}

/** DeleteObject. */
export async function deleteObject(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const conditional = request.headers.some(
    ([name]) => name === "if-match" || name.startsWith("x-amz-if-match-"),
  );
  const ended = await request.commit();
  try {
    let answer: OperationAnswer | null = null;
    // The last in order first, the visible copy last (rule 16): a partial failure never uncovers one.
    for (const cluster of [...request.candidates].reverse()) {
      if (conditional && !ports.facts(cluster).honoursConditionalDelete) {
        throw new S3Error("NotImplemented", {
          message:
            "Conditional DELETE is not implemented for this cluster profile: it would be ignored",
        });
      }
      if (answer !== null && answer.body !== null && !(answer.body instanceof Uint8Array)) {
        answer.body.cancel();
      }
      const response = await ask(cluster, request, ports);
      answer = passOn(response, cluster);
      if (response.status >= 300 && response.status !== 404) break;
    }
    return (
      answer ?? passOn(await ask(firstCandidate(request), request, ports), firstCandidate(request))
    );
  } finally {
    ended();
  }
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
