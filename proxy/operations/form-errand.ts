// The tags and the lock of a form's object that stays without them: tried again for as long as that very
// object is there. What somebody put in its place, or what its sender sent again, is none of its business.

import { UpstreamError, type UpstreamResponse } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue } from "../s3/headers.ts";
import { quoteEtag } from "../s3/multipart-document.ts";
import type { ClusterId } from "../s3/names.ts";
import { queryValue } from "../s3/query.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { discard, upstreamRequest } from "./send.ts";
import type { Errand } from "./unfinished.ts";

/** An object that is there, and the request as it goes on about that version. */
export interface FormObject {
  readonly cluster: ClusterId;
  readonly ports: OperationPorts;
  readonly request: OperationRequest;
  /** Quoted. */
  readonly etag: string;
  /** Its Last-Modified; absent or null where it was not told. */
  readonly modified?: string | null;
}

/** The head of what is there now, with the key that a customer encrypted it with. */
export async function lookAt({ cluster, ports, request }: FormObject): Promise<UpstreamResponse> {
  const { query, signal } = request;
  const headers = request.headers.filter(([name]) => customerKey.test(name));
  const looked = upstreamRequest(request, { operation: "HeadObject", query, headers });
  const response = await ports.upstream.send(cluster, looked, signal);
  await discard(response);
  return response;
}

const customerKey = /^x-amz-server-side-encryption-customer-/;

/** Whether what a 200 shows is that object. */
export function isSameObject(
  { etag, modified = null }: FormObject,
  shown: UpstreamResponse,
): boolean {
  if (quoteEtag(fieldValue(shown.headers, "etag") ?? "") !== etag) return false;
  return modified === null || fieldValue(shown.headers, "last-modified") === modified;
}

/** @param give writes one setting once; `null`: the object has it. */
export function settingsErrand<Setting>(
  made: FormObject,
  settings: readonly Setting[],
  give: (made: FormObject, setting: Setting) => Promise<OperationAnswer | null>,
): Errand {
  const { cluster, ports, request } = made;
  const { tenant, bucket, key, query } = request;
  const left = [...settings];
  let { modified = null } = made;
  return {
    key: `form ${cluster} ${tenant}/${bucket}/${key}?${queryValue(query, "versionId") ?? ""}`,
    fields: { errand: "form-settings", cluster, tenant, bucket },
    async run(signal) {
      if (!ports.membership.mayMutate()) return "again";
      const object = { ...made, modified, request: { ...request, signal } };
      try {
        const shown = await lookAt(object);
        if (shown.status === 404) return "void";
        if (shown.status !== 200) return "again";
        if (!isSameObject(object, shown)) return "void";
        modified ??= fieldValue(shown.headers, "last-modified");
        for (let [next] = left; next !== undefined; [next] = left) {
          if ((await give(object, next)) !== null) return "again";
          left.shift();
        }
        return "done";
      } catch (caught) {
        if (caught instanceof UpstreamError) return "again";
        // Of a caller whose keys are gone, or of a cluster that is.
        if (caught instanceof S3Error) return "void";
        throw caught;
      }
    },
  };
}
