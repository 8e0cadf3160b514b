// Whether a bucket holds anything on a cluster: objects, old versions, delete markers or open
// multipart uploads. Asked before a settled route may change and, but for uploads, before a bucket is
// deleted.

import type { CancelSignal, UpstreamIdentity } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import type { QueryList } from "../s3/headers.ts";
import type { BucketName, ClusterId, TenantName } from "../s3/names.ts";
import type { S3Operation } from "../s3/operation.ts";
import type { XmlElement } from "../s3/xml.ts";
import { childrenOf, readXml } from "../s3/xml.ts";
import type { OperationPorts } from "./context.ts";
import { discard, documentLimitBytes, ownRequest, readDocument } from "./send.ts";

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
  /** Elements of which one is enough to say that the bucket holds something. */
  readonly elements: readonly string[];
}

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
    elements: ["Upload"],
  },
  {
    operation: "ListObjectsV2",
    query: [
      ["list-type", "2"],
      ["max-keys", "1"],
    ],
    elements: ["Contents"],
  },
  {
    operation: "ListObjectVersions",
    query: [
      ["versions", null],
      ["max-keys", "1"],
    ],
    elements: ["Version", "DeleteMarker"],
  },
];

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
  const response = await ports.upstream.send(
    place.cluster,
    ownRequest(place, place.name, { operation: question.operation, query: question.query }),
    signal,
  );
  // An upstream without versions has none to hold.
  if (response.status === 404 || response.status === 501) {
    await discard(response);
    return response.status === 404 ? "absent" : "empty";
  }
  const reading = readXml(await readDocument(response), { maxBytes: documentLimitBytes });
  if (response.status === 403 && place.identity !== undefined) throw new S3Error("AccessDenied");
  if (response.status !== 200 || reading.kind === "error") {
    throw new S3Error("ServiceUnavailable", {
      message: "A cluster does not say whether the bucket is empty",
    });
  }
  return question.elements.some((name) => has(reading.root, name)) ? "holds" : "empty";
}

function has(root: XmlElement, name: string): boolean {
  return childrenOf(root, name).length > 0;
}
