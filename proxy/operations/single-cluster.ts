// What only one cluster can do as a whole: an order of versions, object lock. Versioned buckets stay on
// one cluster (placement.md §7): where a bucket is on one its cluster is asked; a bucket on several comes
// onto one for it while it is empty or all it has is there, and is refused when it is not. Suspended is
// no way back: on a bucket that never had versions it makes delete markers from then on (S3, RGW 16.2 and
// 18.2), which is an order of versions too. A request that is refused leaves the bucket as it was.

import { clustersOf } from "../placement/candidates.ts";
import { UpstreamError } from "../placement/ports.ts";
import type { BucketRecord } from "../placement/records.ts";
import { onOneCluster } from "../placement/routes.ts";
import type { Versioned } from "../placement/snapshot.ts";
import { isAccidentalList } from "../s3/bucket-setting.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import {
  objectLockError,
  readVersioning,
  type Versioning,
  versioningError,
} from "../s3/versioning-document.ts";
import { passCommitPoint } from "./bucket-phases.ts";
import { writeBucketSetting } from "./bucket-setting.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { holdsAnything } from "./emptiness.ts";
import { isUnknownStatus } from "./mutation.ts";
import { readRequestDocument } from "./request-document.ts";
import { ownRequest, passOn, readDocument, upstreamRequest } from "./send.ts";

/** PutBucketVersioning, PutObjectLockConfiguration. */
export async function writeSingleSetting(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const { record } = request;
  if (record === null) throw new S3Error("NoSuchBucket");
  if (request.candidates.length < 2) return await writeBucketSetting(request, ports);
  const document = await readRequestDocument(request);
  const isLock = request.operation === "PutObjectLockConfiguration";
  const error = isLock ? objectLockError(document) : versioningError(document);
  if (error !== null) throw error;
  // Not counted: the members would wait for it before the bucket may move.
  await passCommitPoint(request);
  assertOwner(record.value, request, ports);
  const versioned = await versionedClusters(record.value, request, ports);
  if (isLock && !versioned.some(({ versioning }) => versioning === "Enabled")) {
    throw new S3Error("InvalidBucketState", {
      message: "Object lock needs versioning, which this bucket does not have: enable that first",
    });
  }
  const single = await onlyCluster(
    record.value,
    versioned.map(({ cluster }) => cluster),
    { request, ports },
  );
  if (single === null) throw spread();
  return await gather(record, { ...single, document }, { request, ports });
}

interface Asking {
  readonly request: OperationRequest;
  readonly ports: OperationPorts;
}

type OnOneCluster = NonNullable<ReturnType<typeof onOneCluster>>;

/**
 * Brings the bucket onto one cluster and writes the setting there before it is gone from any other: what
 * the cluster refuses finds the bucket where it was.
 * @throws S3Error VersionedBucketPinned
 */
async function gather(
  record: Versioned<BucketRecord>,
  { route, placement, document }: OnOneCluster & { readonly document: Uint8Array },
  { request, ports }: Asking,
): Promise<OperationAnswer> {
  const [cluster] = route.weights.keys();
  if (cluster === undefined) throw new Error("A route of one cluster names none");
  const written: { outcome: Outcome | null } = { outcome: null };
  const result = await ports.resettler.resettle(
    record,
    {
      route,
      placement,
      gathers: true,
      identity: request.identity,
      write: async () => {
        written.outcome = await writeOn(cluster, document, { request, ports });
        return written.outcome.stays;
      },
      audit: {
        action: "system:SettleBucket",
        resource: `${record.value.tenant}/${record.value.name}`,
        actor: { kind: "client", name: request.caller, remoteAddress: null },
        requestId: request.requestId,
        detail: "on one cluster, becomes versioned",
      },
    },
    ports,
  );
  // What the cluster says counts, whatever has become of the record meanwhile.
  if (written.outcome?.kind === "answer") return written.outcome.answer;
  if (written.outcome?.kind === "failed") throw written.outcome.cause;
  if (result.kind === "busy") throw spread();
  if (result.kind === "unavailable") {
    throw new S3Error("ServiceUnavailable", {
      message:
        "The bucket cannot be brought onto one cluster now. Create a bucket that is on one: " +
        "with a placement of one cluster, or with object lock",
      retryAfterSeconds: 1,
    });
  }
  throw new S3Error("SlowDown", { retryAfterSeconds: 1 });
}

/** `stays`: the cluster has the setting, or may have it. */
type Outcome = { readonly stays: boolean } & (
  | { readonly kind: "answer"; readonly answer: OperationAnswer }
  | { readonly kind: "failed"; readonly cause: unknown }
);

/** Not ended by the client's leaving: the bucket must not be held on its way. */
async function writeOn(
  cluster: ClusterId,
  bytes: Uint8Array,
  { request, ports }: Asking,
): Promise<Outcome> {
  try {
    const sent = upstreamRequest(request, {
      body: { kind: "bytes", bytes },
      payloadSha256: request.body?.sha256 ?? null,
    });
    const response = await ports.upstream.send(cluster, sent, new AbortController().signal);
    const { status, headers } = passOn(response, cluster);
    const stays = status < 300 || isUnknownStatus(status);
    const body = await readDocument(response);
    const own = headers.filter(([name]) => name !== "content-length");
    return { kind: "answer", stays, answer: { status, headers: own, body, cluster } };
  } catch (caught) {
    const isRefused = caught instanceof UpstreamError && caught.phase === "connect";
    return { kind: "failed", stays: !isRefused, cause: caught };
  }
}

/**
 * Where a cluster knows its users, whose a bucket is decides there who may make it versioned: somebody who
 * may merely list it must not have it moved. Asked before anything changes.
 * @throws S3Error AccessDenied
 */
function assertOwner(record: BucketRecord, request: OperationRequest, ports: OperationPorts): void {
  const { owner } = record;
  const isKnowing = clustersOf(record).some((cluster) => ports.identity(cluster) !== "service");
  if (isKnowing && owner !== null && owner !== request.caller) throw new S3Error("AccessDenied");
}

interface VersionedCluster {
  readonly cluster: ClusterId;
  readonly versioning: Versioning;
}

/**
 * The clusters where the bucket has versions already: one that a bucket could not leave, one where
 * somebody set it behind our back. Asked for the caller, since only an owner may, or somebody whom the
 * owner lets see how the bucket is kept.
 * @throws S3Error AccessDenied, NotImplemented where a cluster does not know versioning.
 */
async function versionedClusters(
  record: BucketRecord,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<readonly VersionedCluster[]> {
  const query = [["versioning", null]] as const;
  const asked = ownRequest(request, record.name, { operation: "GetBucketVersioning", query });
  const all = await Promise.all(
    clustersOf(record).map(async (cluster): Promise<VersionedCluster> => {
      const response = await ports.upstream.send(cluster, asked, request.signal);
      const versioning = versioningOf(response.status, await readDocument(response));
      return { cluster, versioning };
    }),
  );
  return all.filter(({ versioning }) => versioning !== "never");
}

/** A server that takes the question for a list would take the write for a creation of the bucket. */
function versioningOf(status: number, document: Uint8Array): Versioning {
  if (status === 403) throw new S3Error("AccessDenied");
  if (status === 404) return "never";
  if (status === 501 || status === 405 || isAccidentalList(document)) {
    throw new S3Error("NotImplemented", {
      message: "A cluster of the bucket does not know versioning",
    });
  }
  const versioning = status === 200 ? readVersioning(document) : null;
  if (versioning !== null) return versioning;
  throw new S3Error("ServiceUnavailable", {
    message: "A cluster of the bucket does not tell whether it is versioned",
    retryAfterSeconds: 1,
  });
}

/**
 * A route of the one cluster where the bucket's content is, or its versions are to be; `null` where that
 * is more than one.
 */
async function onlyCluster(
  record: BucketRecord,
  versioned: readonly ClusterId[],
  { request, ports }: Asking,
): Promise<OnOneCluster | null> {
  // A conflict is for an operator to settle. What a cluster that was away has left of it is not.
  if (record.conflict) return null;
  const clusters = clustersOf(record);
  const holds = await Promise.all(
    clusters.map((cluster) =>
      holdsAnything(
        [{ tenant: record.tenant, name: record.name, cluster, identity: request.identity }],
        ports,
        request.signal,
      ),
    ),
  );
  const bound = clusters.filter((id, index) => holds[index] === true || versioned.includes(id));
  const [only, ...others] = bound;
  if (others.length > 0) return null;
  const { clusters: known } = ports.snapshots.current();
  // One that is to take no more bytes only where nothing else can be: the bucket could not be written to.
  const live = [...record.route.weights].filter(([id]) => known.get(id)?.value.state === "live");
  const open = live.length > 0 ? new Map(live) : record.route.weights;
  const weights = only === undefined ? open : new Map([[only, 1]]);
  return onOneCluster({ ...record, route: { ...record.route, weights } });
}

function spread(): S3Error {
  return new S3Error("VersionedBucketPinned", {
    message:
      "Versioning and object lock need a bucket that is on one cluster, and this one holds objects or " +
      "open uploads on several. Create another bucket, switch versioning on while it is empty, and copy",
  });
}
