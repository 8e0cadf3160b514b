// Whether a bucket holds anything on a cluster: objects, old versions, delete markers or open
// multipart uploads. Asked before a settled route may change and, but for uploads, before a bucket is
// deleted: an answer that is not the list that was asked for, or has no end, tells nothing and is 503.

import type { CancelSignal, UpstreamIdentity } from "../placement/ports.ts";
import { readErrorDocument } from "../s3/error-document.ts";
import { S3Error } from "../s3/errors.ts";
import type { QueryList } from "../s3/headers.ts";
import type { BucketName, ClusterId, TenantName } from "../s3/names.ts";
import type { S3Operation } from "../s3/operation.ts";
import type { XmlElement } from "../s3/xml.ts";
import { childOf, childText, readXml } from "../s3/xml.ts";
import type { OperationPorts } from "./context.ts";
import { documentLimitBytes, ownRequest, readDocument } from "./send.ts";

export interface BucketPlace {
  readonly tenant: TenantName;
  readonly name: BucketName;
  readonly cluster: ClusterId;
  /** On whose behalf; absent: our own. */
  readonly identity?: UpstreamIdentity;
}

type BucketContent = "absent" | "empty" | "holds";

interface Question {
  readonly operation: S3Operation;
  readonly query: QueryList;
  /** The root of the answer. */
  readonly root: string;
  /** Elements of which one is enough to say that the bucket holds something. */
  readonly elements: readonly string[];
  /** Elements of the answer by the parameter that asks for what is behind them. */
  readonly markers: readonly (readonly [parameter: string, element: string])[];
}

const objects: Question = {
  operation: "ListObjectsV2",
  query: [
    ["list-type", "2"],
    ["max-keys", "1"],
  ],
  root: "ListBucketResult",
  elements: ["Contents"],
  markers: [["continuation-token", "NextContinuationToken"]],
};

/**
 * Uploads first: one that completes between two questions is seen as an upload or as an object, since
 * no new one begins while a bucket is on its way.
 */
const questions: readonly Question[] = [
  {
    operation: "ListMultipartUploads",
    query: [
      ["uploads", null],
      ["max-uploads", "1"],
    ],
    root: "ListMultipartUploadsResult",
    elements: ["Upload"],
    markers: [
      ["key-marker", "NextKeyMarker"],
      ["upload-id-marker", "NextUploadIdMarker"],
    ],
  },
  objects,
  {
    operation: "ListObjectVersions",
    query: [
      ["versions", null],
      ["max-keys", "1"],
    ],
    root: "ListVersionsResult",
    elements: ["Version", "DeleteMarker"],
    markers: [
      ["key-marker", "NextKeyMarker"],
      ["version-id-marker", "NextVersionIdMarker"],
    ],
  },
];

/** How many pages without entries are read over. */
const maxEmptyPages = 10;

/**
 * What a bucket holds on one cluster.
 * @throws S3Error ServiceUnavailable when the cluster's answer does not tell; UpstreamError when
 * there is none.
 */
async function bucketContent(
  place: BucketPlace,
  ports: Pick<OperationPorts, "upstream">,
  { signal, uploads }: Asking,
): Promise<BucketContent> {
  for (const question of questions) {
    if (!uploads && question.operation === "ListMultipartUploads") continue;
    const content = await askOne(place, question, ports, signal);
    if (content !== "empty") return content;
  }
  return "empty";
}

/**
 * Whether a bucket holds anything on any of the clusters. One that does is enough, whatever the others
 * answer. @throws what a cluster failed with, where none is known to hold anything.
 */
export async function holdsAnything(
  places: readonly BucketPlace[],
  ports: Pick<OperationPorts, "upstream">,
  signal: CancelSignal,
): Promise<boolean> {
  return await holds(places, ports, { signal, uploads: true });
}

/** The same of objects and versions alone: S3 deletes a bucket together with its open uploads. */
export async function holdsObjects(
  places: readonly BucketPlace[],
  ports: Pick<OperationPorts, "upstream">,
  signal: CancelSignal,
): Promise<boolean> {
  return await holds(places, ports, { signal, uploads: false });
}

interface Asking {
  readonly signal: CancelSignal;
  readonly uploads: boolean;
}

async function holds(
  places: readonly BucketPlace[],
  ports: Pick<OperationPorts, "upstream">,
  asking: Asking,
): Promise<boolean> {
  const results = await Promise.allSettled(
    places.map((place) => bucketContent(place, ports, asking)),
  );
  if (results.some((result) => result.status === "fulfilled" && result.value === "holds"))
    return true;
  for (const result of results) if (result.status === "rejected") throw result.reason;
  return false;
}

async function askOne(
  place: BucketPlace,
  question: Question,
  ports: Pick<OperationPorts, "upstream">,
  signal: CancelSignal,
): Promise<BucketContent> {
  let behind: QueryList = [];
  for (let page = 0; page < maxEmptyPages; page += 1) {
    const { operation } = question;
    const query = [...question.query, ...behind];
    const asked = ownRequest(place, place.name, { operation, query });
    const response = await ports.upstream.send(place.cluster, asked, signal);
    const reading = readAnswer(response.status, await readDocument(response), question);
    if (response.status === 403 && place.identity !== undefined) throw new S3Error("AccessDenied");
    if (typeof reading === "string") return reading;
    behind = reading;
    if (behind.length === 0) break;
  }
  throw new S3Error("ServiceUnavailable", {
    message: "A cluster does not say whether the bucket is empty",
  });
}

/** A query: the page has no entries, and this asks for what is behind it. Nothing in it: it does not tell. */
function readAnswer(
  status: number,
  document: Uint8Array,
  question: Question,
): BucketContent | QueryList {
  // An upstream without versions, or without uploads, has none to hold.
  if (status === 501 && question !== objects) return "empty";
  if (status === 404 && readErrorDocument(document)?.code === "NoSuchBucket") return "absent";
  const reading = readXml(document, { maxBytes: documentLimitBytes });
  if (status !== 200 || reading.kind === "error") return [];
  const { root } = reading;
  // So has one that takes the question for a list of objects: as such it is read.
  const { elements, markers } = root.name === objects.root ? objects : question;
  if (root.name !== objects.root && root.name !== question.root) return [];
  if (elements.some((name) => childOf(root, name) !== null)) return "holds";
  const truncated = childText(root, "IsTruncated")?.trim();
  if (truncated === "false") return "empty";
  return truncated === "true" ? markersOf(root, markers) : [];
}

function markersOf(root: XmlElement, markers: Question["markers"]): QueryList {
  return markers.flatMap(([parameter, element]): QueryList => {
    const text = childText(root, element) ?? "";
    return text === "" ? [] : [[parameter, text]];
  });
}
