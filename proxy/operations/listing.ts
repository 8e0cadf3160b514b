// ListObjects and ListObjectsV2 over every cluster of a bucket as one exact merge (placement.md §10):
// pages are fetched in parallel, whichever clusters the merge waits for; fewer answers than clusters
// is 503, never a short list. Tokens are ours, so that they outlive the cluster they came from.

import type { TokenBinding } from "../placement/list-token.ts";
import { listToken, readListToken } from "../placement/list-token.ts";
import { S3Error } from "../s3/errors.ts";
import type { ListPage, ListPosition } from "../s3/listing.ts";
import { listDocument } from "../s3/listing-document.ts";
import type { MergedPage } from "../s3/listing-merge.ts";
import { ListMerge } from "../s3/listing-merge.ts";
import { readListPage } from "../s3/listing-page.ts";
import type { ListRequest } from "../s3/listing-request.ts";
import { readListRequest, upstreamListQuery } from "../s3/listing-request.ts";
import { readTogether } from "./asked-together.ts";
import type { ListPorts, OperationAnswer, OperationRequest } from "./context.ts";
import { askHeld, heldList, readHeld } from "./held-list.ts";
import { listReply } from "./list-refusal.ts";
import type { ListHold } from "./list-room.ts";
import {
  assertAbsenceKnown,
  bucketOf,
  documentAnswer,
  unreadable,
  upstreamRequest,
} from "./send.ts";

export async function listObjects(
  request: OperationRequest,
  ports: ListPorts,
): Promise<OperationAnswer> {
  const bucket = bucketOf(request);
  const reading = readListRequest(request.query, request.operation === "ListObjectsV2" ? 2 : 1);
  if (reading.kind === "error") throw reading.error;
  const list = reading.request;
  // Read only where there is a token: a start without the state store may have no keys yet.
  const binding = (): TokenBinding => ({
    keys: ports.handleKeys,
    tenant: request.tenant,
    bucket,
    prefix: list.prefix,
    delimiter: list.delimiter,
  });
  // A member without contact may not know every cluster: an absent key is not known to be absent.
  assertAbsenceKnown(request, ports);
  const merge = new ListMerge({
    cursors: request.candidates.length,
    prefix: list.prefix,
    delimiter: list.delimiter,
    maxKeys: list.maxKeys,
    after: startOf(list, binding),
  });
  return await heldList(request, ports, async (hold) => {
    const refused = await fill(merge, list, { request, ports, hold });
    if (refused !== null) return refused;
    const page = merge.result();
    if (page === null) throw new S3Error("InternalError");
    return documentAnswer(
      listDocument(list, { bucket, page, nextContinuationToken: tokenOf(page, binding) }),
      null,
    );
  });
}

function startOf(list: ListRequest, binding: () => TokenBinding): ListPosition | null {
  // An empty token means the start, as on RGW.
  if (list.continuationToken !== null && list.continuationToken !== "") {
    const position = readListToken(list.continuationToken, binding());
    if (position === null) {
      throw new S3Error("InvalidArgument", { message: "The continuation token is not valid" });
    }
    return position;
  }
  const after = list.version === 1 ? list.marker : (list.startAfter ?? "");
  return after === "" ? null : { kind: "key", text: after };
}

function tokenOf(page: MergedPage, binding: () => TokenBinding): string | null {
  if (!page.truncated || page.last === null) return null;
  return listToken(page.last, binding());
}

interface Asking {
  readonly request: OperationRequest;
  readonly ports: ListPorts;
  readonly hold: ListHold;
}

/** Feeds the merge until it has its page. Returns an upstream's error answer to pass on, if one. */
async function fill(
  merge: ListMerge,
  list: ListRequest,
  { request, ports, hold }: Asking,
): Promise<OperationAnswer | null> {
  for (let needs = merge.needs(); needs.length > 0; needs = merge.needs()) {
    const asked = await askHeld(
      needs,
      async (need, signal) => {
        const cluster = request.candidates[need.cursor];
        if (cluster === undefined) throw new S3Error("InternalError");
        const query = upstreamListQuery(list, need);
        const sent = upstreamRequest(request, { operation: "ListObjectsV2", query });
        return await listReply(await ports.upstream.send(cluster, sent, signal), cluster, request);
      },
      hold,
    );
    if (asked.kind === "refused") return asked.answer;
    const pages = await readTogether(asked.responses, async (response) => {
      const reading = readListPage(await readHeld(response, hold));
      if (reading.kind === "error") throw unreadable("a list", reading.fault);
      return reading.page;
    });
    for (const [index, need] of needs.entries()) {
      const fed = merge.feed(need.cursor, pages[index] ?? nothing);
      if (fed.kind === "fault") {
        throw new S3Error("ServiceUnavailable", {
          message: `A cluster answers a list that cannot be merged: ${fed.fault}`,
        });
      }
    }
  }
  return null;
}

const nothing: ListPage = {
  entries: [],
  commonPrefixes: [],
  truncated: false,
  nextContinuationToken: null,
};
