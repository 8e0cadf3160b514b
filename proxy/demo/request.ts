// A verified demo request as the operations see it: what it is about, its whole body, and the effects
// they may use. The body was read to its end and matched its hash before any operation runs.

import type { ProfileFacts } from "../placement/profiles.ts";
import { S3Error } from "../s3/errors.ts";
import type { HeaderList, QueryList } from "../s3/headers.ts";
import type { BucketName, ObjectKey } from "../s3/names.ts";
import type { S3Operation } from "../s3/operation.ts";
import type { DemoStore } from "./object-store.ts";

export interface DemoRequest {
  readonly method: string;
  readonly operation: S3Operation;
  readonly bucket: BucketName | null;
  readonly key: ObjectKey | null;
  readonly query: QueryList;
  readonly headers: HeaderList;
  readonly body: Buffer;
}

/** What a demo cluster does, right or wrong. */
export type DemoFacts = ProfileFacts & {
  /** Looks at no hash that a body is signed with. */
  readonly believesHashes?: boolean;
  /** Stores framing that it does not know as the body. */
  readonly storesFraming?: boolean;
};

export interface DemoPorts {
  readonly store: DemoStore;
  readonly facts: DemoFacts;
  readonly nowMs: () => number;
  /** Fresh lower-case hex text for upload ids. */
  readonly newId: () => string;
  /** Smallest part but the last; S3 says 5 MiB. */
  readonly minPartBytes: number;
}

/** The bucket of a request that was classified as having one. @throws S3Error InvalidURI */
export function bucketOf(request: DemoRequest): BucketName {
  if (request.bucket === null) throw invalidUri();
  return request.bucket;
}

/** The key of a request that was classified as having one. @throws S3Error InvalidURI */
export function keyOf(request: DemoRequest): ObjectKey {
  if (request.key === null) throw invalidUri();
  return request.key;
}

function invalidUri(): S3Error {
  return new S3Error("InvalidURI");
}
