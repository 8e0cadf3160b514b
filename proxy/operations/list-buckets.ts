// ListBuckets over every non-removed cluster (placement.md §10): merged by name, filtered by what the
// caller may see, paged by us since no RGW here pages. A cluster that cannot be asked is 503.

import { isUnmade } from "../placement/discovery.ts";
import type { CancelSignal, UpstreamResponse } from "../placement/ports.ts";
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
import type { Reply } from "./asked-together.ts";
import { readTogether } from "./asked-together.ts";
import type { ListPorts, OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { askHeld, heldList, readHeld } from "./held-list.ts";
import type { ListHold } from "./list-room.ts";
import { discard, documentAnswer, upstreamRequest } from "./send.ts";

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
  const answers = await listsOf(clusters, asking);
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

/** Pages of one cluster's own list that one request reads at most. */
const mostPages = 200;

/** A cluster that has more buckets to tell of. */
interface Behind {
  /** Its place among those asked. */
  readonly index: number;
  readonly cluster: ClusterId;
  readonly token: string | null;
}

/** The whole list of each cluster. Null: the caller is nobody there. */
async function listsOf(
  clusters: readonly ClusterId[],
  asking: Asking,
): Promise<readonly (BucketList | null)[]> {
  const lists: (BucketList | null)[] = clusters.map(() => null);
  let open = clusters.map((cluster, index): Behind => ({ index, cluster, token: null }));
  for (let page = 0; page < mostPages; page += 1) {
    const answers = await pagesOf(open, asking);
    for (const [at, { index }] of open.entries()) {
      const answer = answers[at] ?? null;
      const before = lists[index]?.buckets ?? [];
      lists[index] = answer && { ...answer, buckets: [...before, ...answer.buckets] };
    }
    open = open.flatMap(({ index, cluster }) => {
      const token = lists[index]?.continuationToken ?? null;
      return token === null ? [] : [{ index, cluster, token }];
    });
    if (open.length === 0) return lists;
  }
  throw new S3Error("ServiceUnavailable", {
    message: "A cluster has more buckets than one request can list",
  });
}

async function pagesOf(
  open: readonly Behind[],
  asking: Asking,
): Promise<readonly (BucketList | null)[]> {
  const { hold } = asking;
  const asked = await askHeld(
    open,
    async (place, signal) => await askPage(place, signal, asking),
    hold,
  );
  if (asked.kind === "refused") throw new S3Error("InternalError");
  return await readTogether(asked.responses, async (response) => {
    const reading = readBucketList(await readHeld(response, hold));
    if (reading.kind !== "list") throw doesNotList(response);
    return reading.list;
  });
}

async function askPage(
  { cluster, token }: Behind,
  signal: CancelSignal,
  { request, ports }: Asking,
): Promise<Reply> {
  const query = token === null ? [] : ([["continuation-token", token]] as const);
  const asked = upstreamRequest(request, { query });
  const knowsUsers = ports.identity(cluster) !== "service";
  let response: UpstreamResponse;
  try {
    response = await ports.upstream.send(cluster, asked, signal);
  } catch (caught) {
    const isNobody = caught instanceof S3Error && caught.code === "AccessDenied";
    if (knowsUsers && isNobody) return { kind: "nothing" };
    throw caught;
  }
  if (response.status === 200) return { kind: "document", response };
  if (response.status === 403 && knowsUsers) {
    await discard(response);
    return { kind: "nothing" };
  }
  response.body.cancel();
  throw doesNotList(response);
}

function doesNotList({ status }: UpstreamResponse): S3Error {
  return new S3Error("ServiceUnavailable", {
    message: `A cluster does not list its buckets: status ${status}`,
  });
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
