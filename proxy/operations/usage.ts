// Ceph RGW's usage of the caller, GetUsage: of all clusters, added up. Told only where every cluster
// is an RGW that knows the caller, since the usage of the proxy's own user is nobody's business.

import type { UpstreamResponse } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import { usageDocument } from "../s3/usage-document.ts";
import type { XmlElement } from "../s3/xml.ts";
import { readXml } from "../s3/xml.ts";
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
    return passOn(await send(only, request, ports), only);
  }
  const said = await Promise.all(clusters.map((cluster) => askCluster(cluster, request, ports)));
  const refused = said.find((answer) => answer.kind === "refused");
  if (refused !== undefined) return refused.answer;
  const roots = said.flatMap((answer) => (answer.kind === "usage" ? [answer.root] : []));
  if (roots.length === 0) throw new S3Error("AccessDenied");
  return documentAnswer(usageDocument(roots), null);
}

type Said =
  | { readonly kind: "usage"; readonly root: XmlElement }
  /** The caller is nobody there. */
  | { readonly kind: "stranger" }
  | { readonly kind: "refused"; readonly answer: OperationAnswer };

async function askCluster(
  cluster: ClusterId,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<Said> {
  let response: UpstreamResponse;
  try {
    response = await send(cluster, request, ports);
  } catch (caught) {
    if (caught instanceof S3Error && caught.code === "AccessDenied") return { kind: "stranger" };
    throw caught;
  }
  if (response.status === 403) {
    await discard(response);
    return { kind: "stranger" };
  }
  const { status } = response;
  if (status >= 400 && status < 500) return { kind: "refused", answer: passOn(response, cluster) };
  const document = await readDocument(response);
  const reading = status === 200 ? readXml(document, { maxBytes: documentLimitBytes }) : null;
  if (reading?.kind === "document" && reading.root.name === "Usage") {
    return { kind: "usage", root: reading.root };
  }
  throw new S3Error("ServiceUnavailable", {
    message: `A cluster does not tell the usage: status ${status}`,
  });
}

async function send(
  cluster: ClusterId,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<UpstreamResponse> {
  return await ports.upstream.send(cluster, upstreamRequest(request), request.signal);
}
