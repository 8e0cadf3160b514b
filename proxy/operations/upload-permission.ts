// Whether a cluster would take an anonymous upload at all, asked before its client is told to send the
// body. Of anonymous callers only the cluster's own ACLs know what they may do, and a client that waits
// for `100 Continue` waits for exactly that answer (RFC 9110 §10.1.1). The question is a PutObject that
// cannot succeed: no object has this ETag, and the digest is not that of its body.

import { UpstreamError } from "../placement/ports.ts";
import { contentMd5 } from "../s3/content-md5.ts";
import type { HeaderList } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { provenFacts } from "./proven-facts.ts";
import { discard, passOn, upstreamRequest } from "./send.ts";

const impossible: HeaderList = [
  ["if-match", '"00000000000000000000000000000000"'],
  ["content-md5", contentMd5(Buffer.from("not this body"))],
];

/** The cluster's refusal; `null` when it gives none, or when it need not be asked. */
export async function uploadRefusal(
  request: OperationRequest,
  ports: OperationPorts,
  cluster: ClusterId,
): Promise<OperationAnswer | null> {
  const waits = request.body?.waitsForContinue === true;
  if (!waits || request.identity.kind !== "anonymous" || request.operation !== "PutObject") {
    return null;
  }
  // Measured: RGW and AWS refuse it. A server that ignores both fields would store an empty object.
  const { backend, honoursConditionalPut } = await provenFacts(cluster, request, ports);
  if (backend !== "rgw" && !honoursConditionalPut) return null;
  const question = upstreamRequest(request, {
    query: [],
    headers: impossible,
    body: { kind: "bytes", bytes: new Uint8Array() },
  });
  try {
    const response = await ports.upstream.send(cluster, question, request.signal);
    if (response.status === 403) return passOn(response, cluster);
    await discard(response);
  } catch (caught) {
    // The upload itself meets whatever this is.
    if (!(caught instanceof UpstreamError)) throw caught;
  }
  return null;
}
