// ListObjectVersions over the clusters of a bucket. A versioned bucket is on one cluster, and its list is
// that cluster's; where a bucket is on several, each key's versions are those of its visible copy.

import { S3Error } from "../s3/errors.ts";
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
import { readTogether } from "./asked-together.ts";
import type { ListPorts, OperationAnswer, OperationRequest } from "./context.ts";
import { askHeld, heldList, readHeld } from "./held-list.ts";
import { listReply } from "./list-refusal.ts";
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
type Fetched = { readonly kind: "pages"; readonly pages: readonly VersionPage[] } | Refused;

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
  const seen = await pagesOf(
    candidates.map((_, cursor) => ({ ...first, cursor })),
    asking,
  );
  if (seen.kind === "refused") return seen;
  const holder = seen.pages.findIndex((page) => holdsKey(page, from.keyMarker));
  return {
    kind: "starts",
    positions: candidates.map((_, index) =>
      index === holder ? from : { ...from, versionIdMarker: "" },
    ),
  };
}

/** Feeds the merge until it has its page. Returns an upstream's error answer to pass on, if one. */
async function fill(merge: VersionMerge, asking: Asking): Promise<OperationAnswer | null> {
  for (let needs = merge.needs(); needs.length > 0; needs = merge.needs()) {
    const fetched = await pagesOf(needs, asking);
    if (fetched.kind === "refused") return fetched.answer;
    for (const [index, { cursor }] of needs.entries()) {
      if (merge.feed(cursor, fetched.pages[index] ?? nothing) === "stalled")
        throw unreadable("a list of versions", "stalled");
    }
  }
  return null;
}

/** `cursor`: the index of the cluster. */
async function pagesOf(
  questions: readonly (VersionQuestion & { readonly cursor: number })[],
  { request, ports, hold }: Asking,
): Promise<Fetched> {
  const asked = await askHeld(
    questions,
    async (question, signal) => {
      const cluster = request.candidates[question.cursor];
      if (cluster === undefined) throw new S3Error("InternalError");
      const sent = upstreamRequest(request, { query: versionListQuery(question) });
      return await listReply(await ports.upstream.send(cluster, sent, signal), cluster, request);
    },
    hold,
  );
  if (asked.kind === "refused") return asked;
  const pages = await readTogether(asked.responses, async (response) => {
    const reading = readVersionPage(await readHeld(response, hold));
    if (reading.kind === "page") return reading.page;
    throw unreadable("a list of versions", reading.fault);
  });
  return { kind: "pages", pages: pages.map((page) => page ?? nothing) };
}

const nothing: VersionPage = { items: [], truncated: false, next: null };
