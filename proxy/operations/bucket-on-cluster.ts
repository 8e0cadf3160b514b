// One bucket on one cluster: create and delete there, as Headgate itself or on a caller's behalf. What several clusters make
// of it together is operations/bucket.ts and operations/resettle.ts.

import type { CancelSignal, RequestBody } from "../placement/ports.ts";
import { locationConstraintDocument } from "../s3/bucket-document.ts";
import { S3Error } from "../s3/errors.ts";
import { childText, readXml } from "../s3/xml.ts";
import type { OperationPorts } from "./context.ts";
import type { BucketPlace } from "./emptiness.ts";
import { discard, ownRequest, readDocument } from "./send.ts";

type Ports = Pick<OperationPorts, "upstream" | "facts" | "region">;

/**
 * Creates the bucket on one cluster; there already and ours is success.
 * @throws S3Error BucketAlreadyExists when it belongs to somebody else there, AccessDenied when the
 * caller may have none.
 */
export async function createOn(
  place: BucketPlace,
  ports: Ports,
  signal: CancelSignal,
): Promise<void> {
  const response = await ports.upstream.send(
    place.cluster,
    ownRequest(place, place.name, { operation: "CreateBucket", body: creationBody(place, ports) }),
    signal,
  );
  if (response.status === 200) {
    await discard(response);
    return;
  }
  const code = errorCode(await readDocument(response));
  if (response.status === 409 && code === "BucketAlreadyOwnedByYou") return;
  if (response.status === 409) throw new S3Error("BucketAlreadyExists");
  if (response.status === 403 && place.identity !== undefined) throw new S3Error("AccessDenied");
  throw new S3Error("ServiceUnavailable", {
    message: `A cluster refuses to create the bucket: status ${response.status}`,
    retryAfterSeconds: 1,
  });
}

/** Deletes the bucket on one cluster; absent is success. `not_empty`: the cluster refused. */
export async function deleteOn(
  place: BucketPlace,
  ports: Ports,
  signal: CancelSignal,
): Promise<"gone" | "not_empty"> {
  const response = await ports.upstream.send(
    place.cluster,
    ownRequest(place, place.name, { operation: "DeleteBucket" }),
    signal,
  );
  await discard(response);
  if (response.status === 204 || response.status === 200 || response.status === 404) return "gone";
  if (response.status === 409) return "not_empty";
  if (response.status === 403 && place.identity !== undefined) throw new S3Error("AccessDenied");
  throw new S3Error("ServiceUnavailable", {
    message: `A cluster refuses to delete the bucket: status ${response.status}`,
    retryAfterSeconds: 1,
  });
}

/** AWS wants its region named outside us-east-1; RGW takes none but its own zonegroup's name. */
function creationBody(place: BucketPlace, ports: Ports): RequestBody | null {
  const region = ports.region(place.cluster);
  if (ports.facts(place.cluster).backend === "rgw" || region === "us-east-1") return null;
  return { kind: "bytes", bytes: Buffer.from(locationConstraintDocument(region), "utf8") };
}

function errorCode(document: Uint8Array): string | null {
  const reading = readXml(document, { maxBytes: 64 * 1024 });
  return reading.kind === "document" ? childText(reading.root, "Code") : null;
}
