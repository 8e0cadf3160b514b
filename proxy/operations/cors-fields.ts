// The CORS fields of an answer. Where an operation answers with a document of its own (a merged list,
// an upload's handle) the browser still needs what the clusters said of the origin it comes from.

import type { Upstream } from "../placement/ports.ts";
import type { HeaderList } from "../s3/headers.ts";
import type { OperationAnswer, OperationPorts, OperationRequest, RunOperation } from "./context.ts";

/**
 * Runs an operation; its answer has the CORS fields that a cluster gave, the bucket's first where several
 * did: that is where the rules are read from, too.
 */
export async function withCorsFields(
  run: RunOperation,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  // Clusters say nothing of origins unless they are told one.
  if (!request.headers.some(([name]) => name === "origin")) return await run(request, ports);
  let fields: HeaderList = [];
  const upstream: Upstream = {
    send: async (cluster, asked, signal) => {
      const response = await ports.upstream.send(cluster, asked, signal);
      const isFirst = cluster === request.candidates[0];
      if (response.headers.some(isCors) && (isFirst || fields.length === 0)) {
        fields = response.headers.filter((field) => isCors(field) || field[0] === "vary");
      }
      return response;
    },
  };
  const answer = await run(request, { ...ports, upstream });
  if (answer.headers.some(isCors)) return answer;
  return { ...answer, headers: [...answer.headers, ...fields] };
}

function isCors([name]: readonly [string, string]): boolean {
  return name.startsWith("access-control-");
}
