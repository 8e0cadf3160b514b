// ListMultipartUploads over the clusters of a bucket. An upload is known to clients by its handle
// (placement.md §11). Each page reads the uploads of every cluster to the end of the prefix, since none
// of them lists in the order of keys, and holds no more than a page of them at a time.

import type { HandleBinding } from "../placement/upload-handle.ts";
import { readUploadHandle, uploadHandle } from "../placement/upload-handle.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId, ObjectKey } from "../s3/names.ts";
import { parseClusterId, parseObjectKey } from "../s3/names.ts";
import type { UploadItem, UploadListRequest, UploadMarker } from "../s3/upload-list.ts";
import {
  readUploadListRequest,
  readUploadPage,
  UploadChoice,
  uploadListDocument,
  uploadListQuery,
} from "../s3/upload-list.ts";
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

/** Pages of a thousand uploads of one cluster that one request reads at most. */
const mostPages = 200;

export async function listUploads(
  request: OperationRequest,
  ports: ListPorts,
): Promise<OperationAnswer> {
  const reading = readUploadListRequest(request.query);
  if (reading.kind === "error") throw reading.error;
  const list = reading.request;
  assertAbsenceKnown(request, ports);
  firstCandidate(request);
  return await heldList(request, ports, (hold) => chosenUploads(list, { request, ports, hold }));
}

async function chosenUploads(
  list: UploadListRequest,
  asking: Asking & { readonly hold: ListHold },
): Promise<OperationAnswer> {
  const { request } = asking;
  const choice = new UploadChoice(list, placeOfMarker(list, asking));
  const refused = await readUploads(choice, { ...asking, list });
  if (refused !== null) return refused;
  const { items, truncated } = choice.result();
  return documentAnswer(
    uploadListDocument(list, {
      bucket: bucketOf(request),
      items,
      truncated,
      handleOf: (upload) => handleOf(upload, asking),
    }),
    null,
  );
}

interface Asking {
  readonly request: OperationRequest;
  readonly ports: ListPorts;
}

/** A cluster that has more uploads to tell of. */
interface Behind {
  readonly cluster: ClusterId;
  /** Of the page before. */
  readonly marker: UploadMarker | null;
  readonly heldBytes: number;
}

/** Gives every upload of all clusters to the choice. Returns the error to answer with, if one. */
async function readUploads(
  choice: UploadChoice,
  asking: Asking & { readonly list: UploadListRequest; readonly hold: ListHold },
): Promise<OperationAnswer | null> {
  const { request, ports, list, hold } = asking;
  let open: readonly Behind[] = request.candidates.map((cluster) => {
    return { cluster, marker: null, heldBytes: 0 };
  });
  for (let page = 0; page < mostPages; page += 1) {
    const asked = await askHeld(
      open,
      async ({ cluster, marker }, signal) => {
        const sent = upstreamRequest(request, { query: uploadListQuery(list.prefix, marker) });
        return await listReply(await ports.upstream.send(cluster, sent, signal), cluster, request);
      },
      hold,
    );
    if (asked.kind === "refused") return asked.answer;
    const places = open;
    const next = await readTogether(asked.responses, async (response, index) => {
      const place = places[index];
      if (place === undefined) throw new S3Error("InternalError");
      const document = await readHeld(response, hold);
      return readUploadsOf(place, document, { choice, hold });
    });
    open = next.filter((place) => place !== null);
    if (open.length === 0) return null;
  }
  throw new S3Error("ServiceUnavailable", {
    message: "The bucket has more open uploads than one request can list, ask with a prefix",
  });
}

/** Where the cluster goes on; `null` where that was its last page. */
function readUploadsOf(
  { cluster, marker, heldBytes }: Behind,
  document: Uint8Array,
  to: { readonly choice: UploadChoice; readonly hold: ListHold },
): Behind | null {
  const reading = readUploadPage(document);
  if (reading.kind === "error") throw unreadable("a list of uploads", reading.fault);
  to.choice.add(
    reading.uploads.map((upload) => ({ ...upload, place: placeOf(cluster, upload.uploadId) })),
  );
  // What is chosen of all pages is not more than one of them.
  to.hold.give(heldBytes);
  const { next } = reading;
  if (next === null) return null;
  if (next.key === marker?.key && next.uploadId === marker.uploadId)
    throw unreadable("a list of uploads", "stalled");
  return { cluster, marker: next, heldBytes: document.length };
}

// A cluster's id holds no blank, so that places order by cluster first.

function placeOf(cluster: ClusterId, uploadId: string): string {
  return `${cluster} ${uploadId}`;
}

function handleOf(upload: Extract<UploadItem, { kind: "upload" }>, asking: Asking): string {
  const blank = upload.place.indexOf(" ");
  const cluster = parseClusterId(upload.place.slice(0, blank));
  const key = parseObjectKey(upload.key);
  if (cluster === null || key === null) throw unreadable("a list of uploads", "bad key");
  return uploadHandle({ cluster, uploadId: upload.place.slice(blank + 1) }, bindingOf(key, asking));
}

function bindingOf(key: ObjectKey, { request, ports }: Asking): HandleBinding {
  return { keys: ports.handleKeys, tenant: request.tenant, bucket: bucketOf(request), key };
}

/** Where the upload of the marker stands among those of its key; `null`: the marker is the key alone. */
function placeOfMarker(list: UploadListRequest, asking: Asking): string | null {
  const { keyMarker, uploadIdMarker } = list;
  if (uploadIdMarker === "") return null;
  const key = parseObjectKey(keyMarker);
  const pin = key === null ? null : readUploadHandle(uploadIdMarker, bindingOf(key, asking));
  if (pin === null) {
    throw new S3Error("InvalidArgument", {
      message: 'Parameter "upload-id-marker" is not one that a list of this bucket gave',
    });
  }
  return placeOf(pin.cluster, pin.uploadId);
}
