// One bucket on one cluster: create and delete there, as Headgate itself or on a caller's behalf. What
// several clusters make of it together is operations/bucket-phases.ts and operations/resettle.ts.

import type { CancelSignal, RequestBody } from "../placement/ports.ts";
import { locationConstraintDocument } from "../s3/bucket-document.ts";
import { readErrorDocument, type UpstreamErrorDocument } from "../s3/error-document.ts";
import { errorText } from "../s3/error-texts.ts";
import { S3Error } from "../s3/errors.ts";
import type { HeaderList } from "../s3/headers.ts";
import type { OperationPorts } from "./context.ts";
import type { BucketPlace } from "./emptiness.ts";
import { assertSigned } from "./error-answer.ts";
import { discard, ownRequest, readDocument } from "./send.ts";

type Ports = Pick<OperationPorts, "upstream" | "facts" | "region" | "identity">;

/** How a client wants its bucket. */
export interface BucketCreation {
  /** ACL, grants, ownership, object lock: what of the request is about the bucket. */
  readonly headers: HeaderList;
  /** The location as the client named it; `null` or empty: anywhere. */
  readonly location: string | null;
}

const plainCreation: BucketCreation = { headers: [], location: null };

/**
 * Creates the bucket on one cluster; there already, ours and as wanted is success.
 * @throws S3Error BucketAlreadyExists when it belongs to somebody else there or has another ACL, the
 * cluster's own error when it refuses what is wanted.
 */
export async function createOn(
  place: BucketPlace,
  ports: Ports,
  signal: CancelSignal,
  creation: BucketCreation = plainCreation,
): Promise<void> {
  const response = await ports.upstream.send(
    place.cluster,
    ownRequest(place, place.name, {
      operation: "CreateBucket",
      headers: creation.headers,
      body: creationBody(place, ports, creation.location),
    }),
    signal,
  );
  if (response.status === 200) {
    await discard(response);
    return;
  }
  const document = readErrorDocument(await readDocument(response));
  if (response.status === 409 && document?.code === "BucketAlreadyOwnedByYou") return;
  // AWS says 409 of another request that is under way, too: that passes.
  if (response.status === 409 && document?.code !== "OperationAborted") {
    throw new S3Error("BucketAlreadyExists");
  }
  assertSigned(document?.code ?? null, place.cluster, ports);
  throw refusal("create", { place, status: response.status, document });
}

/** What is refused for good: unknown grantees, quotas, names, locations. */
const refusing: ReadonlySet<number> = new Set([400, 403, 404]);

/**
 * What a cluster refuses a caller is the caller's to know. Refused to us, it is 503: it is we who may
 * not do there what we should.
 */
function refusal(
  what: "create" | "delete",
  answer: {
    readonly place: BucketPlace;
    readonly status: number;
    readonly document: UpstreamErrorDocument | null;
  },
): S3Error {
  const { place, status, document } = answer;
  const isCallers = place.identity !== undefined && place.identity.kind !== "service";
  const isOurs = !isCallers && (document === null || document.code === "AccessDenied");
  if (status === 403 && document === null && isCallers) return new S3Error("AccessDenied");
  if (refusing.has(status) && document !== null && !isOurs) {
    const { code, message } = document;
    return new S3Error("InvalidRequest", {
      refused: { code, status },
      message: message === "" ? errorText(code, status) : message,
    });
  }
  return new S3Error("ServiceUnavailable", {
    message: `A cluster refuses to ${what} the bucket: status ${status}`,
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
  const document = readErrorDocument(await readDocument(response));
  if (response.status === 204 || response.status === 200 || response.status === 404) return "gone";
  if (response.status === 409) return "not_empty";
  assertSigned(document?.code ?? null, place.cluster, ports);
  throw refusal("delete", { place, status: response.status, document });
}

/**
 * AWS wants its region named outside us-east-1. RGW takes none but its own zonegroup's name, which we
 * do not know: a location that is none of our names is passed on for it to judge.
 */
function creationBody(
  { cluster }: BucketPlace,
  ports: Ports,
  location: string | null,
): RequestBody | null {
  const region = ports.region(cluster);
  const rgw = ports.facts(cluster).backend === "rgw";
  const theirs =
    location !== null && location !== "" && location !== region && location !== cluster;
  const text = rgw && theirs ? location : rgw || region === "us-east-1" ? null : region;
  if (text === null) return null;
  return { kind: "bytes", bytes: Buffer.from(locationConstraintDocument(text), "utf8") };
}
