// An upload of our own that nobody completes and that could not be aborted, since its cluster went away:
// aborted once the cluster is back. Never of an upload that may be completing: an RGW that is told to abort
// what it is completing can lose parts of the object.

import { UpstreamError, type UpstreamRequest } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import { queryValue } from "../s3/query.ts";
import type { OperationPorts } from "./context.ts";
import { discard } from "./send.ts";
import type { Errand } from "./unfinished.ts";

/** @param abort an AbortMultipartUpload with the cluster's own id. */
export function uploadErrand(
  cluster: ClusterId,
  abort: UpstreamRequest,
  { upstream }: Pick<OperationPorts, "upstream">,
): Errand {
  const { tenant, bucket, key, query } = abort;
  return {
    key: `upload ${cluster} ${queryValue(query, "uploadId")} ${tenant}/${bucket}/${key}`,
    fields: { errand: "abort", cluster, tenant, bucket },
    async run(signal) {
      try {
        const response = await upstream.send(cluster, abort, signal);
        await discard(response);
        if (response.status < 300 || response.status === 404) return "done";
        return response.status < 500 ? "void" : "again";
      } catch (caught) {
        if (caught instanceof UpstreamError) return "again";
        // Of a caller whose keys are gone, or of a cluster that is.
        if (caught instanceof S3Error) return "void";
        throw caught;
      }
    },
  };
}
