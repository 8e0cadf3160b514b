// ListObjectVersions over the clusters of a bucket. A versioned bucket is on one cluster, whose list is
// passed on; where a bucket is on several, each key's versions are those of its visible copy.

import { S3Error } from "../s3/errors.ts";
import { commonPrefixOf, lastKeyUnder } from "../s3/listing.ts";
import type { ClusterId } from "../s3/names.ts";
import type { VersionListRequest, VersionPage } from "../s3/version-list.ts";
import {
  mergeVersionPages,
  readVersionListRequest,
  readVersionPage,
  versionListDocument,
  versionListQuery,
} from "../s3/version-list.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { listRefusal } from "./list-refusal.ts";
import {
  assertAbsenceKnown,
  bucketOf,
  documentAnswer,
  firstCandidate,
  readDocument,
  upstreamRequest,
} from "./send.ts";

export async function listVersions(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const reading = readVersionListRequest(request.query);
  if (reading.kind === "error") throw reading.error;
  const list = reading.request;
  assertAbsenceKnown(request, ports);
  firstCandidate(request);
  const asked = request.candidates.length > 1 ? resumed(list) : list;
  const pages = await Promise.all(
    request.candidates.map((cluster) => pageOf(cluster, asked, { request, ports })),
  );
  const refused = pages.find((page) => page.kind === "refused");
  if (refused !== undefined) return refused.answer;
  const merged = mergeVersionPages(
    pages.flatMap((page) => (page.kind === "page" ? [page.page] : [])),
    list.maxKeys,
  );
  return documentAnswer(
    versionListDocument(list, { bucket: bucketOf(request), page: merged }),
    null,
  );
}

/** A marker that is a rolled-up prefix stands behind all of it, on whichever upstream. */
function resumed(list: VersionListRequest): VersionListRequest {
  const { keyMarker, versionIdMarker, prefix, delimiter } = list;
  if (versionIdMarker !== "" || commonPrefixOf(keyMarker, prefix, delimiter) !== keyMarker) {
    return list;
  }
  return { ...list, keyMarker: lastKeyUnder(keyMarker) };
}

type Fetched =
  | { readonly kind: "page"; readonly page: VersionPage }
  | { readonly kind: "refused"; readonly answer: OperationAnswer };

async function pageOf(
  cluster: ClusterId,
  list: VersionListRequest,
  asking: { readonly request: OperationRequest; readonly ports: OperationPorts },
): Promise<Fetched> {
  const { request, ports } = asking;
  const response = await ports.upstream.send(
    cluster,
    upstreamRequest(request, { query: versionListQuery(list) }),
    request.signal,
  );
  if (response.status !== 200) {
    const answer = await listRefusal(response, cluster, request);
    if (answer !== null) return { kind: "refused", answer };
    return { kind: "page", page: { items: [], truncated: false, next: null } };
  }
  const reading = readVersionPage(await readDocument(response));
  if (reading.kind === "page") return reading;
  throw new S3Error("ServiceUnavailable", {
    message: `A cluster answers a list of versions that cannot be read: ${reading.fault}`,
  });
}
