// An ACL as each cluster takes it. Clients are told the ACL of the bucket's first cluster and send it back
// changed; it names the bucket's owner there, who may be another user on another cluster.

import { serviceIdentity } from "../placement/ports.ts";
import { contentMd5 } from "../s3/content-md5.ts";
import { S3Error } from "../s3/errors.ts";
import type { HeaderList } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import { aclOwner, withAclOwner, withGrantee } from "../s3/setting-document.ts";
import type { OperationPorts, OperationRequest } from "./context.ts";
import { tellSetting } from "./drift-reading.ts";
import { bucketOf } from "./send.ts";

/** What a cluster is sent: a request's document, and its fields. */
interface Sent {
  readonly bytes: Uint8Array;
  readonly headers: HeaderList;
  readonly payloadSha256: string | null;
}

const grantField = /^x-amz-grant-/;
/** What a client says of the document that it sent. */
const documentField = /^(?:content-md5$|x-amz-checksum-|x-amz-sdk-checksum-algorithm$)/;

/**
 * The same for every cluster, but for an ACL that names the owner whom the first one tells.
 * @param clusters the first one last
 * @throws S3Error ServiceUnavailable where one of them does not tell now
 */
export async function sentTo(
  request: OperationRequest,
  sent: Sent,
  clusters: readonly ClusterId[],
  ports: OperationPorts,
): Promise<(cluster: ClusterId) => Sent> {
  const isNamed = sent.bytes.length > 0 || sent.headers.some(([name]) => grantField.test(name));
  if (request.operation !== "PutBucketAcl" || clusters.length === 1 || !isNamed) return () => sent;
  const told = await Promise.all(clusters.map((cluster) => ownerAt(cluster, request, ports)));
  const from = told.at(-1) ?? null;
  const owners = new Map(clusters.map((cluster, index) => [cluster, told[index] ?? null]));
  return (cluster) => {
    const to = owners.get(cluster) ?? null;
    return from === null || to === null || from === to ? sent : forOwner(sent, from, to);
  };
}

function forOwner(sent: Sent, from: string, to: string): Sent {
  const grants = sent.headers.map(([name, value]) =>
    grantField.test(name)
      ? ([name, withGrantee(value, from, to)] as const)
      : ([name, value] as const),
  );
  const bytes = withAclOwner(sent.bytes, from, to);
  if (bytes === sent.bytes) return { ...sent, headers: grants };
  const headers = grants.filter(([name]) => !documentField.test(name));
  return { bytes, headers: [...headers, ["content-md5", contentMd5(bytes)]], payloadSha256: null };
}

/** `null`: it does not tell this caller. */
async function ownerAt(
  cluster: ClusterId,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<string | null> {
  const identity = request.identity.kind === "caller" ? request.identity : serviceIdentity;
  const place = { tenant: request.tenant, name: bucketOf(request), cluster, identity };
  const told = await tellSetting({ read: "GetBucketAcl" }, place, ports, request.signal);
  if (told.kind === "unreadable" && told.passes) {
    throw new S3Error("ServiceUnavailable", {
      message: "A cluster of the bucket does not tell whose it is there",
      retryAfterSeconds: 1,
    });
  }
  return "document" in told && told.document !== null ? aclOwner(told.document) : null;
}
