// Ceph RGW's usage of the caller, GetUsage: of all clusters, added up. Told only where every cluster
// is an RGW that knows the caller, since the usage of the proxy's own user is nobody's business.

import type { CancelSignal, UpstreamResponse } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import { usageDocument } from "../s3/usage-document.ts";
import { readXml } from "../s3/xml.ts";
import type { Reply } from "./asked-together.ts";
import { askTogether, readTogether } from "./asked-together.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import {
  discard,
  documentAnswer,
  documentLimitBytes,
  passOn,
  readDocument,
  upstreamRequest,
} from "./send.ts";

export async function getUsage(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const clusters = [...ports.snapshots.current().clusters.values()]
    .filter(({ value }) => value.state !== "removed")
    .map(({ value }) => value.id);
  if (clusters.some((cluster) => ports.facts(cluster).backend !== "rgw")) {
    throw new S3Error("NotImplemented", { message: "Usage is told by Ceph RGW only" });
  }
  if (clusters.some((cluster) => ports.identity(cluster) === "service")) {
    throw new S3Error("NotImplemented", {
      message: "Usage is told of a caller that the cluster knows: this one would tell of the proxy",
    });
  }
  const [only, ...others] = clusters;
  if (only !== undefined && others.length === 0) {
    return passOn(await send(only, request, { ports, signal: request.signal }), only);
  }
  const asked = await askTogether(
    clusters,
    async (cluster, signal) => await askCluster(cluster, request, { ports, signal }),
    request.signal,
  );
  if (asked.kind === "refused") return asked.answer;
  const read = await readTogether(asked.responses, async (response) => {
    const reading = readXml(await readDocument(response), { maxBytes: documentLimitBytes });
    if (reading.kind === "document" && reading.root.name === "Usage") return reading.root;
    throw doesNotTell(response);
  });
  const roots = read.filter((root) => root !== null);
  if (roots.length === 0) throw new S3Error("AccessDenied");
  return documentAnswer(usageDocument(roots), null);
}

interface Asking {
  readonly ports: OperationPorts;
  readonly signal: CancelSignal;
}

/** `nothing`: the caller is nobody there. */
async function askCluster(
  cluster: ClusterId,
  request: OperationRequest,
  asking: Asking,
): Promise<Reply> {
  let response: UpstreamResponse;
  try {
    response = await send(cluster, request, asking);
  } catch (caught) {
    if (caught instanceof S3Error && caught.code === "AccessDenied") return { kind: "nothing" };
    throw caught;
  }
  const { status } = response;
  if (status === 200) return { kind: "document", response };
  if (status === 403) {
    await discard(response);
    return { kind: "nothing" };
  }
  if (status >= 400 && status < 500) return { kind: "refused", answer: passOn(response, cluster) };
  response.body.cancel();
  throw doesNotTell(response);
}

function doesNotTell({ status }: UpstreamResponse): S3Error {
  return new S3Error("ServiceUnavailable", {
    message: `A cluster does not tell the usage: status ${status}`,
  });
}

async function send(
  cluster: ClusterId,
  request: OperationRequest,
  { ports, signal }: Asking,
): Promise<UpstreamResponse> {
  return await ports.upstream.send(cluster, upstreamRequest(request), signal);
}
