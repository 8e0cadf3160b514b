// ListObjectVersions over the clusters of a bucket. A versioned bucket is on one cluster, and its list is
// that cluster's; where a bucket is on several, each key's versions are those of its visible copy.

import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import type {
  VersionListRequest,
  VersionPage,
  VersionPosition,
  VersionQuestion,
} from "../s3/version-list.ts";
import {
  holdsKey,
  readVersionListRequest,
  readVersionPage,
  resumePosition,
  versionListDocument,
  versionListQuery,
} from "../s3/version-list.ts";
import { VersionMerge } from "../s3/version-merge.ts";
import type { ListPorts, OperationAnswer, OperationRequest } from "./context.ts";
import { heldList, readHeld } from "./held-list.ts";
import { listRefusal } from "./list-refusal.ts";
import type { ListHold } from "./list-room.ts";
import {
  assertAbsenceKnown,
  bucketOf,
  documentAnswer,
  firstCandidate,
  unreadable,
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
  const { candidates, record } = asking.request;
  // A spread bucket was never versioned (placement.md §7), unless it was found like that.
  const plain = candidates.length > 1 && record?.value.conflict !== true;
  const starts = await startsOf(list, plain, asking);
  if (starts.kind === "refused") return starts.answer;
  const merge = new VersionMerge({ request: list, starts: starts.positions, plain });
  const refused = await fill(merge, asking);
  if (refused !== null) return refused;
  const merged = merge.result();
  if (merged === null) throw new S3Error("InternalError");
  return documentAnswer(
    versionListDocument(list, { bucket: bucketOf(asking.request), ...merged }),
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

type Starts = { readonly kind: "starts"; readonly positions: readonly VersionPosition[] } | Refused;

/**
 * Where each cluster goes on. A version is known to the cluster alone that shows the key of the marker:
 * elsewhere the key is shadowed, all of it.
 */
async function startsOf(list: VersionListRequest, plain: boolean, asking: Asking): Promise<Starts> {
  const from = resumePosition(list);
  const { candidates } = asking.request;
  const { versionIdMarker } = from;
  const isEverywhere = versionIdMarker === "" || (plain && versionIdMarker === "null");
  if (candidates.length < 2 || isEverywhere) {
    return { kind: "starts", positions: candidates.map(() => from) };
  }
  const first = {
    prefix: from.keyMarker,
    delimiter: "",
    keyMarker: "",
    versionIdMarker: "",
    maxKeys: 1,
  };
  const seen = await Promise.all(candidates.map((cluster) => pageOf(cluster, first, asking)));
  const refused = seen.find((page) => page.kind === "refused");
  if (refused !== undefined) return refused;
  const holder = seen.findIndex(
    (page) => page.kind === "page" && holdsKey(page.page, from.keyMarker),
  );
  return {
    kind: "starts",
    positions: candidates.map((_, index) =>
      index === holder ? from : { ...from, versionIdMarker: "" },
    ),
  };
}

/** Feeds the merge until it has its page. Returns an upstream's error answer to pass on, if one. */
async function fill(merge: VersionMerge, asking: Asking): Promise<OperationAnswer | null> {
  const { candidates } = asking.request;
  for (let needs = merge.needs(); needs.length > 0; needs = merge.needs()) {
    const pages = await Promise.all(
      needs.map(async (need): Promise<Fetched> => {
        const cluster = candidates[need.cursor];
        if (cluster === undefined) throw new S3Error("InternalError");
        return await pageOf(cluster, need, asking);
      }),
    );
    const refused = pages.find((page) => page.kind === "refused");
    if (refused !== undefined) return refused.answer;
    for (const [index, { cursor }] of needs.entries()) {
      const page = pages[index];
      if (page?.kind !== "page") throw new S3Error("InternalError");
      if (merge.feed(cursor, page.page) === "stalled")
        throw unreadable("a list of versions", "stalled");
    }
  }
  return null;
}

async function pageOf(
  cluster: ClusterId,
  question: VersionQuestion,
  { request, ports, hold }: Asking,
): Promise<Fetched> {
  const expectedBytes = await hold.expect(question.maxKeys);
  const response = await ports.upstream.send(
    cluster,
    upstreamRequest(request, { query: versionListQuery(question) }),
    request.signal,
  );
  if (response.status !== 200) {
    const answer = await listRefusal(response, cluster, request);
    if (answer !== null) return { kind: "refused", answer };
    return { kind: "page", page: { items: [], truncated: false, next: null } };
  }
  const reading = readVersionPage(await readHeld(response, hold, expectedBytes));
  if (reading.kind === "page") return reading;
  throw unreadable("a list of versions", reading.fault);
}
