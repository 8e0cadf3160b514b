// ListBuckets over every non-removed cluster (placement.md §10): merged by name, filtered by what the
// caller may see, paged by us since no RGW here pages. A cluster that cannot be asked is 503.

import { openText, sealText } from "../placement/sealed-text.ts";
import type { BucketList, ListedBucket } from "../s3/bucket-document.ts";
import {
  bucketListDocument,
  bucketPage,
  mergeBuckets,
  readBucketList,
  readListBucketsRequest,
} from "../s3/bucket-document.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import { noTenant, parseBucketName } from "../s3/names.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { documentAnswer, documentLimitBytes, readDocument, upstreamRequest } from "./send.ts";

const tokenPurpose = "headgate bucket list token";
/** A name of 255 bytes, sealed, in base64url, with room. */
const tokenMaxLength = 512;

export async function listBuckets(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const reading = readListBucketsRequest(request.query);
  if (reading.kind === "error") throw reading.error;
  const wanted = reading.request;
  const after = afterOf(wanted.continuationToken, ports);
  const clusters = [...ports.snapshots.current().clusters.values()]
    .filter(({ value }) => value.state !== "removed")
    .map(({ value }) => value.id);
  const lists = await Promise.all(clusters.map((cluster) => askCluster(cluster, request, ports)));
  const merged = mergeBuckets(lists.map((list) => list.buckets));
  const { buckets: named } = bucketPage(merged, { ...wanted, maxBuckets: null }, after);
  const most = wanted.maxBuckets ?? named.length;
  const page = bucketPage(await visible(named, most + 1, { request, ports }), wanted, after);
  return documentAnswer(
    bucketListDocument({
      owner: { id: request.caller, displayName: request.caller },
      buckets: page.buckets,
      prefix: wanted.prefix,
      continuationToken: page.truncated && page.last !== null ? tokenOf(page.last, ports) : null,
    }),
    null,
  );
}

/** Each name is a decision; after so many the event loop turns. */
const decisionsPerTurn = 100;

/** The first `most` buckets that the caller may see. */
async function visible(
  buckets: readonly ListedBucket[],
  most: number,
  asking: { readonly request: OperationRequest; readonly ports: OperationPorts },
): Promise<readonly ListedBucket[]> {
  const { request, ports } = asking;
  const { signal } = new AbortController();
  const { buckets: records } = ports.snapshots.current();
  const shown: ListedBucket[] = [];
  for (const [index, listed] of buckets.entries()) {
    if (shown.length >= most) break;
    if (index % decisionsPerTurn === decisionsPerTurn - 1) await ports.clock.sleep(0, signal);
    const bucket = parseBucketName(listed.name);
    if (bucket === null) continue;
    // The service's own list names no tenant: only a record tells that a bucket is the tenant's.
    const ours = request.tenant === noTenant || records.find(request.tenant, bucket) !== undefined;
    if (ours && request.mayShow(bucket)) shown.push(listed);
  }
  return shown;
}

async function askCluster(
  cluster: ClusterId,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<BucketList> {
  const response = await ports.upstream.send(
    cluster,
    upstreamRequest(request, { query: [] }),
    request.signal,
  );
  const document = await readDocument(response, documentLimitBytes);
  const reading = response.status === 200 ? readBucketList(document) : null;
  if (reading?.kind !== "list") {
    throw new S3Error("ServiceUnavailable", {
      message: `A cluster does not list its buckets: status ${response.status}`,
    });
  }
  return reading.list;
}

function tokenOf(last: string, ports: OperationPorts): string {
  return sealText(Buffer.from(last), {
    purpose: tokenPurpose,
    binding: [],
    keys: ports.handleKeys,
  });
}

function afterOf(token: string | null, ports: OperationPorts): string | null {
  if (token === null) return null;
  const content = openText(token, {
    purpose: tokenPurpose,
    binding: [],
    keys: ports.handleKeys,
    maxLength: tokenMaxLength,
  });
  if (content === null) {
    throw new S3Error("InvalidArgument", { message: "The continuation token is not valid" });
  }
  return Buffer.from(content).toString();
}
