// ListBuckets over every non-removed cluster (placement.md §10): merged by name, filtered by what the
// caller may see, paged by us since no RGW here pages. A cluster that cannot be asked is 503.

import { isUnmade } from "../placement/discovery.ts";
import type { UpstreamResponse } from "../placement/ports.ts";
import type { ClusterRecord } from "../placement/records.ts";
import { openText, sealText } from "../placement/sealed-text.ts";
import type { BucketList, ListBucketsRequest, ListedBucket } from "../s3/bucket-document.ts";
import {
  bucketListDocument,
  bucketPage,
  mergeBuckets,
  readBucketList,
  readListBucketsRequest,
} from "../s3/bucket-document.ts";
import { S3Error } from "../s3/errors.ts";
import type { ListOwner } from "../s3/listing.ts";
import type { ClusterId } from "../s3/names.ts";
import { noTenant, parseBucketName } from "../s3/names.ts";
import type { ListPorts, OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { heldList, readHeld } from "./held-list.ts";
import type { ListHold } from "./list-room.ts";
import { documentAnswer, upstreamRequest } from "./send.ts";

type Ports = Omit<ListPorts, "membership"> & Pick<OperationPorts, "identity" | "clock" | "facts">;

const tokenPurpose = "headgate bucket list token";
/** A name of 255 bytes, sealed, in base64url, with room. */
const tokenMaxLength = 512;

export async function listBuckets(
  request: OperationRequest,
  ports: Ports,
): Promise<OperationAnswer> {
  const reading = readListBucketsRequest(request.query);
  if (reading.kind === "error") throw reading.error;
  const wanted = reading.request;
  const binding = [request.tenant, wanted.prefix, wanted.region];
  const after = afterOf(wanted.continuationToken, binding, ports);
  return await heldList(request, ports, async (hold) => {
    const asking = { request, ports, hold };
    return documentAnswer(await mergedBuckets(wanted, { binding, after }, asking), null);
  });
}

interface Asking {
  readonly request: OperationRequest;
  readonly ports: Ports;
  readonly hold: ListHold;
}

async function mergedBuckets(
  wanted: ListBucketsRequest,
  place: { readonly binding: readonly string[]; readonly after: string | null },
  asking: Asking,
): Promise<string> {
  const { request, ports } = asking;
  const { binding, after } = place;
  const members = [...ports.snapshots.current().clusters.values()]
    .map(({ value }) => value)
    .filter(({ state }) => state !== "removed");
  const clusters = members.map(({ id }) => id);
  const answers = await Promise.all(clusters.map((cluster) => askCluster(cluster, asking)));
  const lists = answers.filter((list) => list !== null);
  if (lists.length === 0) throw new S3Error("AccessDenied");
  const merged = mergeBuckets(
    answers.flatMap((list, index) => {
      const member = members[index];
      const isThere = member !== undefined && isIn(wanted.region, member, ports);
      return list !== null && isThere ? [list.buckets] : [];
    }),
  );
  const { buckets: named } = bucketPage(merged, { ...wanted, maxBuckets: null }, after);
  const most = wanted.maxBuckets ?? named.length;
  const areCallers = clusters.every((cluster) => ports.identity(cluster) !== "service");
  const shown = await visible(named, most + 1, { request, ports, areCallers });
  const page = bucketPage(shown, wanted, after);
  return bucketListDocument({
    owner: ownerOf(lists, clusters, { request, ports }),
    buckets: page.buckets,
    prefix: wanted.prefix,
    continuationToken:
      page.truncated && page.last !== null ? tokenOf(page.last, binding, ports) : null,
  });
}

/**
 * Whether a cluster's buckets are in that region. Those of an RGW are in whichever is asked for: what it is
 * signed for need not be what it calls its own, and it leaves out none itself (16.2 and 18.2).
 */
function isIn(region: string, cluster: ClusterRecord, ports: Ports): boolean {
  const isNamed = region === "" || region === cluster.region || region === cluster.id;
  return isNamed || ports.facts(cluster.id).backend === "rgw";
}

/** Where every cluster knows the caller as the same user it says who that is; else we do. */
function ownerOf(
  lists: readonly BucketList[],
  clusters: readonly ClusterId[],
  { request, ports }: { readonly request: OperationRequest; readonly ports: Ports },
): ListOwner {
  const named = lists[0]?.owner ?? null;
  if (named !== null && clusters.every((cluster) => ports.identity(cluster) === "same")) {
    return named;
  }
  return { id: request.caller, displayName: request.caller };
}

/** Each name is a decision; after so many the event loop turns. */
const decisionsPerTurn = 100;

/** The first `most` buckets that the caller may see. */
async function visible(
  buckets: readonly ListedBucket[],
  most: number,
  asking: {
    readonly request: OperationRequest;
    readonly ports: Ports;
    /** Every cluster was asked as the caller itself. */
    readonly areCallers: boolean;
  },
): Promise<readonly ListedBucket[]> {
  const { request, ports } = asking;
  const { signal } = new AbortController();
  const { buckets: records } = ports.snapshots.current();
  // The service's own list names no tenant: only a record tells that a bucket is the tenant's.
  const isCallers = request.tenant === noTenant || asking.areCallers;
  const shown: ListedBucket[] = [];
  for (const [index, listed] of buckets.entries()) {
    if (shown.length >= most) break;
    if (index % decisionsPerTurn === decisionsPerTurn - 1) await ports.clock.sleep(0, signal);
    const bucket = parseBucketName(listed.name);
    if (bucket === null) continue;
    const record = records.find(request.tenant, bucket);
    // One whose creation nobody was told of is not there yet, wherever it stands already.
    if (record !== undefined && isUnmade(record.value)) continue;
    const ours = isCallers || record !== undefined;
    if (ours && request.mayShow(bucket)) shown.push(listed);
  }
  return shown;
}

/** In rows of a list of objects. */
const usualBuckets = 200;

/** Pages of one cluster's own list that one request reads at most. */
const mostPages = 200;

/** The whole list of one cluster. Null: the caller is nobody there. */
async function askCluster(cluster: ClusterId, asking: Asking): Promise<BucketList | null> {
  const buckets: ListedBucket[] = [];
  let token: string | null = null;
  for (let page = 0; page < mostPages; page += 1) {
    const list: BucketList | null = await askPage(cluster, token, asking);
    if (list === null) return null;
    buckets.push(...list.buckets);
    token = list.continuationToken;
    if (token === null) return { ...list, buckets };
  }
  throw new S3Error("ServiceUnavailable", {
    message: "A cluster has more buckets than one request can list",
  });
}

async function askPage(
  cluster: ClusterId,
  token: string | null,
  { request, ports, hold }: Asking,
): Promise<BucketList | null> {
  const expectedBytes = await hold.expect(usualBuckets);
  const query = token === null ? [] : ([["continuation-token", token]] as const);
  const asked = upstreamRequest(request, { query });
  const knowsUsers = ports.identity(cluster) !== "service";
  let response: UpstreamResponse;
  try {
    response = await ports.upstream.send(cluster, asked, request.signal);
  } catch (caught) {
    if (knowsUsers && caught instanceof S3Error && caught.code === "AccessDenied") return null;
    throw caught;
  }
  const document = await readHeld(response, hold, expectedBytes);
  if (response.status === 403 && knowsUsers) return null;
  const reading = response.status === 200 ? readBucketList(document) : null;
  if (reading?.kind !== "list") {
    throw new S3Error("ServiceUnavailable", {
      message: `A cluster does not list its buckets: status ${response.status}`,
    });
  }
  return reading.list;
}

function tokenOf(last: string, binding: readonly string[], ports: Ports): string {
  return sealText(Buffer.from(last), {
    purpose: tokenPurpose,
    binding,
    keys: ports.handleKeys,
  });
}

function afterOf(token: string | null, binding: readonly string[], ports: Ports): string | null {
  if (token === null) return null;
  const content = openText(token, {
    purpose: tokenPurpose,
    binding,
    keys: ports.handleKeys,
    maxLength: tokenMaxLength,
  });
  if (content === null) {
    throw new S3Error("InvalidArgument", { message: "The continuation token is not valid" });
  }
  return Buffer.from(content).toString();
}
