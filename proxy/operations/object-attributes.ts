// GetObjectAttributes. RGW up to 18.2 does not know the sub-resource and answers the object itself, so
// it is made from a HEAD there; an upstream that knows it is asked, and its answer is believed only when
// it is the document (S3 API Reference GetObjectAttributes).

import type { UpstreamResponse } from "../placement/ports.ts";
import { fieldValue } from "../s3/headers.ts";
import {
  attributesAnswerFields,
  attributesDocument,
  attributesHeadFields,
  isAttributesDocument,
  maxAttributesBytes,
  readAttributesRequest,
} from "../s3/object-attributes.ts";
import type { ReadOptions } from "./conditional-read.ts";
import { askConditionally, oneByte, sameFailure } from "./conditional-read.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { documentAnswer, passOn, readDocument, upstreamRequest } from "./send.ts";
import { visibleCopy } from "./visible-copy.ts";

export async function getObjectAttributes(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const wanted = readAttributesRequest(request.headers);
  if (wanted.kind === "error") throw wanted.error;
  if (request.candidates.every((id) => ports.facts(id).answersObjectAttributes)) {
    const native = await askedNatively(request, ports);
    if (native !== null) return native;
  }
  const read: ReadOptions = {
    operation: "GetObject",
    query: request.query.filter(([name]) => name === "versionId"),
    headers: attributesHeadFields(request.headers, wanted.names),
  };
  const { response, cluster } = await visibleCopy(request, ports, async (cluster) => {
    const ask = async (given: Partial<ReadOptions>): Promise<UpstreamResponse> =>
      await askConditionally(cluster, request, ports, { ...read, ...given });
    const head = await ask({ operation: "HeadObject" });
    return await sameFailure(head, read, () => ask({ headers: oneByte(read.headers) }));
  });
  if (response.status !== 200) return passOn(response, cluster);
  const answer = documentAnswer(attributesDocument(wanted.names, response.headers), cluster);
  return { ...answer, headers: [...answer.headers, ...attributesAnswerFields(response.headers)] };
}

/** The upstream's own answer; `null` when it turns out not to know the operation. */
async function askedNatively(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer | null> {
  const { response, cluster } = await visibleCopy(request, ports, async (cluster) =>
    ports.upstream.send(cluster, upstreamRequest(request), request.signal),
  );
  if (response.status !== 200) return passOn(response, cluster);
  // It may have shown itself only now to be one that answers the object itself, whatever is in it.
  if (!ports.facts(cluster).answersObjectAttributes || !mayBeDocument(response)) {
    response.body.cancel();
    return null;
  }
  const body = await readDocument(response);
  if (!isAttributesDocument(body)) return null;
  const headers = response.headers.filter(([name]) => name !== "content-length");
  return { status: 200, headers, body, cluster };
}

function mayBeDocument({ headers }: UpstreamResponse): boolean {
  const length = fieldValue(headers, "content-length");
  const type = fieldValue(headers, "content-type") ?? "";
  return /\bxml\b/.test(type) && (length === null || Number(length) <= maxAttributesBytes);
}
