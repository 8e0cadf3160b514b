// ListObjectVersions over the clusters of a bucket. A versioned bucket is on one cluster, and its list is
// that cluster's; where a bucket is on several, each key's versions are those of its visible copy.

import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import type { VersionListRequest, VersionPage, VersionPosition } from "../s3/version-list.ts";
import {
  holdsKey,
  mergeVersionPages,
  readVersionListRequest,
  readVersionPage,
  resumePosition,
  VersionStream,
  versionListDocument,
  versionListQuery,
} from "../s3/version-list.ts";
import type { ListPorts, OperationAnswer, OperationRequest } from "./context.ts";
import { heldList, readHeld } from "./held-list.ts";
import { listRefusal } from "./list-refusal.ts";
import type { ListHold } from "./list-room.ts";
import {
  assertAbsenceKnown,
  bucketOf,
  documentAnswer,
  firstCandidate,
  upstreamRequest,
} from "./send.ts";

export async function listVersions(
  request: OperationRequest,
  ports: ListPorts,
): Promise<OperationAnswer> {
  const reading = readVersionListRequest(request.query);
  if (reading.kind === "error") throw reading.error;
  const list = reading.request;
  assertAbsenceKnown(request, ports);
  firstCandidate(request);
  return await heldList(request, ports, (hold) => mergedVersions(list, { request, ports, hold }));
}

async function mergedVersions(list: VersionListRequest, asking: Asking): Promise<OperationAnswer> {
  const starts = await startsOf(list, asking);
  if (starts.kind === "refused") return starts.answer;
  const pages = await Promise.all(
    starts.positions.map(([cluster, from]) => streamOf(cluster, from, { ...asking, list })),
  );
  const refused = pages.find((page) => page.kind === "refused");
  if (refused !== undefined) return refused.answer;
  const merged = mergeVersionPages(
    pages.flatMap((page) => (page.kind === "page" ? [page.page] : [])),
    list.maxKeys,
  );
  return documentAnswer(
    versionListDocument(list, { bucket: bucketOf(asking.request), page: merged }),
    null,
  );
}

interface Asking {
  readonly request: OperationRequest;
  readonly ports: ListPorts;
  readonly hold: ListHold;
}

type Refused = { readonly kind: "refused"; readonly answer: OperationAnswer };
type Fetched = { readonly kind: "page"; readonly page: VersionPage } | Refused;

type Starts =
  | {
      readonly kind: "starts";
      readonly positions: readonly (readonly [ClusterId, VersionPosition])[];
    }
  | Refused;

/**
 * Where each cluster goes on. A version is known to the cluster alone that shows the key of the marker:
 * elsewhere the key is shadowed, all of it. A spread bucket has no versions but `null`, wherever a key is.
 */
async function startsOf(list: VersionListRequest, asking: Asking): Promise<Starts> {
  const from = resumePosition(list);
  const { candidates, record } = asking.request;
  const everywhere = candidates.map((cluster) => [cluster, from] as const);
  const { versionIdMarker } = from;
  const isPlain = versionIdMarker === "null" && record?.value.conflict !== true;
  if (candidates.length < 2 || versionIdMarker === "" || isPlain) {
    return { kind: "starts", positions: everywhere };
  }
  const probe = { ...list, prefix: from.keyMarker, delimiter: "", maxKeys: 1 };
  const beginning = { keyMarker: "", versionIdMarker: "" };
  const seen = await Promise.all(
    candidates.map((cluster) => pageOf(cluster, beginning, { ...asking, list: probe })),
  );
  const refused = seen.find((page) => page.kind === "refused");
  if (refused !== undefined) return refused;
  const holder = seen.findIndex(
    (page) => page.kind === "page" && holdsKey(page.page, from.keyMarker),
  );
  return {
    kind: "starts",
    positions: everywhere.map(([cluster], index) => [
      cluster,
      index === holder ? from : { ...from, versionIdMarker: "" },
    ]),
  };
}

type ClusterAsking = Asking & { readonly list: VersionListRequest };

async function streamOf(
  cluster: ClusterId,
  from: VersionPosition,
  asking: ClusterAsking,
): Promise<Fetched> {
  const stream = new VersionStream(asking.list, from);
  for (let need = stream.need; need !== null; need = stream.need) {
    const fetched = await pageOf(cluster, need, asking);
    if (fetched.kind === "refused") return fetched;
    if (stream.feed(fetched.page) === "stalled") throw unreadable("stalled");
  }
  return { kind: "page", page: stream.page() };
}

async function pageOf(
  cluster: ClusterId,
  from: VersionPosition,
  { request, ports, hold, list }: ClusterAsking,
): Promise<Fetched> {
  const expectedBytes = await hold.expect(list.maxKeys);
  const response = await ports.upstream.send(
    cluster,
    upstreamRequest(request, { query: versionListQuery(list, from) }),
    request.signal,
  );
  if (response.status !== 200) {
    const answer = await listRefusal(response, cluster, request);
    if (answer !== null) return { kind: "refused", answer };
    return { kind: "page", page: { items: [], truncated: false, next: null } };
  }
  const reading = readVersionPage(await readHeld(response, hold, expectedBytes));
  if (reading.kind === "page") return reading;
  throw unreadable(reading.fault);
}

function unreadable(fault: string): S3Error {
  return new S3Error("ServiceUnavailable", {
    message: `A cluster answers a list of versions that cannot be read: ${fault}`,
  });
}
