// What must be known of a request before it can be decided on, beyond its head: the location of a
// CreateBucket, the keys of a DeleteObjects, the source of a copy. A body is read for nobody who may
// not make the request at all, and no further than its limit.

import type { ClientBody, PlacedSource } from "../operations/context.ts";
import { readShortBody } from "../operations/gate.ts";
import { readBucketConfiguration } from "../s3/bucket-document.ts";
import type { CopySource } from "../s3/copy-source.ts";
import { copySourceField, isCopy, parseCopySource } from "../s3/copy-source.ts";
import {
  type DeleteEntry,
  type Deletion,
  maxDeleteBytes,
  readDeleteRequest,
} from "../s3/delete-document.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue } from "../s3/headers.ts";
import type { S3Operation } from "../s3/operation.ts";
import type { InputFacts } from "./decision-input.ts";
import { tenantOf } from "./decision-input.ts";
import type { PlacingParts } from "./placing.ts";
import { authorise, placeRequest } from "./placing.ts";

/** S3 documents no limit for CreateBucketConfiguration; its longest legal form has a few hundred bytes. */
const bucketConfigurationLimitBytes = 16 * 1024;

export interface EarlyFacts {
  readonly facts: InputFacts;
  readonly deletion: Deletion | null;
}

/** Whether a request is decided on by more than its head. */
export function isEarly(operation: S3Operation): boolean {
  return operation === "CreateBucket" || operation === "DeleteObjects" || isCopy(operation);
}

/** The facts that policy decides on. @throws S3Error for a document or a copy source that is not valid. */
export async function readEarly(
  asked: InputFacts,
  body: ClientBody | null,
  parts: PlacingParts,
): Promise<EarlyFacts> {
  const { operation } = asked;
  if (operation === "DeleteObjects") return await withKeys(asked, body, parts);
  const facts = isCopy(operation) ? withSource(asked) : await withLocation(asked, body, parts);
  return { facts, deletion: null };
}

async function withLocation(
  facts: InputFacts,
  body: ClientBody | null,
  parts: PlacingParts,
): Promise<InputFacts> {
  authorise(facts, parts);
  if (body === null) return facts;
  const result = readBucketConfiguration(await readShortBody(body, bucketConfigurationLimitBytes));
  if (result.kind === "error") throw result.error;
  return { ...facts, locationConstraint: result.location };
}

async function withKeys(
  facts: InputFacts,
  body: ClientBody | null,
  parts: PlacingParts,
): Promise<EarlyFacts> {
  authorise(facts, parts);
  if (body === null) throw new S3Error("MalformedXML");
  const result = readDeleteRequest(await readShortBody(body, maxDeleteBytes), facts.headers);
  if (result.kind === "error") throw result.error;
  const { deletion } = result;
  const deleteKeysCount = deletion.entries.length;
  return { facts: { ...facts, deleteKeysCount }, deletion };
}

/** An anonymous copy aborts a radosgw, so nobody makes one (16.2.15 and 18.2.7). */
function withSource(facts: InputFacts): InputFacts {
  if (facts.principal.scheme === "anonymous") {
    throw new S3Error("AccessDenied", { message: "An anonymous caller cannot copy" });
  }
  const result = parseCopySource(fieldValue(facts.headers, copySourceField) ?? "");
  if (result.kind === "error") throw result.error;
  return { ...facts, copySource: result.source };
}

/**
 * Where a copy reads, as its caller's own GetObject would.
 * @throws S3Error AccessDenied, NoSuchBucket, ServiceUnavailable.
 */
export async function placeSource(
  source: CopySource,
  facts: InputFacts,
  parts: PlacingParts,
): Promise<PlacedSource> {
  const address = { ...facts.address, ...source };
  const query = versionQuery(source.versionId);
  const read = { method: "GET", operation: "GetObject", contentLengthBytes: 0 } as const;
  const placed = await placeRequest({ ...facts, ...read, address, query }, parts);
  const { record, candidates } = placed;
  return { ...source, tenant: tenantOf(address, facts.principal), record, candidates };
}

/** Decisions between which other requests get their turn. */
const atOnce = 50;

/** Of each entry why it must not be deleted by the caller, decided as its own DeleteObject would be. */
export async function mayDelete(
  entries: readonly DeleteEntry[],
  facts: InputFacts,
  parts: PlacingParts,
): Promise<readonly (S3Error | null)[]> {
  const refusals: (S3Error | null)[] = [];
  for (const { key, versionId } of entries) {
    const address = { ...facts.address, key };
    const query = versionQuery(versionId);
    const asked = {
      ...facts,
      method: "DELETE",
      operation: "DeleteObject",
      address,
      query,
    } as const;
    refusals.push(refusalOf(asked, parts));
    if (refusals.length % atOnce === 0) {
      await new Promise<void>((resolve) => void parts.ports.timers.after(0, resolve));
    }
  }
  return refusals;
}

function refusalOf(facts: InputFacts, parts: PlacingParts): S3Error | null {
  try {
    authorise(facts, parts);
    return null;
  } catch (caught) {
    if (caught instanceof S3Error) return caught;
    throw caught;
  }
}

function versionQuery(versionId: string | null): InputFacts["query"] {
  return versionId === null ? [] : [["versionId", versionId]];
}
