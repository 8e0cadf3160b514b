// What one cluster is asked of a DeleteObjects, and what it says of each entry. As many as one document
// can tell apart go in one request; a key that no document can hold is named in a path, as its own
// DeleteObject. An entry that was not answered for was not surely deleted, and is never called so.

import { UpstreamError, type UpstreamResponse } from "../placement/ports.ts";
import {
  type DeleteEntry,
  type DeleteOutcome,
  deleteRequestBody,
  fitsDocument,
  readDeleteResult,
} from "../s3/delete-document.ts";
import { readErrorDocument } from "../s3/error-document.ts";
import { errorText } from "../s3/error-texts.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderList } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationPorts, OperationRequest } from "./context.ts";
import { assertSigned } from "./error-answer.ts";
import { isUnknownStatus } from "./mutation.ts";
import { readDocument, unreadable, upstreamRequest } from "./send.ts";

/** What became of one entry. */
export interface Said {
  readonly outcome: DeleteOutcome;
  /** Not this key failed, but a request and all that it named: no such bucket, no answer. */
  readonly failure: S3Error | UpstreamError | null;
  /** It may have been deleted, or may still be. */
  readonly unknown: boolean;
}

/** On whose behalf, and with what. */
export interface Asking {
  readonly request: OperationRequest;
  readonly ports: OperationPorts;
}

/** What is said of an entry that nothing goes wrong with but itself. */
export function saidOf(outcome: DeleteOutcome): Said {
  return { outcome, failure: null, unknown: false };
}

export function failedBy({ code, message }: S3Error): DeleteOutcome {
  return { kind: "failed", code, message };
}

/** Nobody knows; the cluster may have done it. */
const unanswered: DeleteOutcome = {
  kind: "failed",
  code: "InternalError",
  message: "The cluster did not say what became of this key, try again",
};

const unreached: DeleteOutcome = {
  kind: "failed",
  code: "ServiceUnavailable",
  message: "The cluster of this key does not answer, try again",
};

/** The answer to an entry is not among those of its cluster. */
export const lost: Said = { outcome: unanswered, failure: null, unknown: true };

/** Asks a cluster to delete distinct entries. Gives what it says of each. */
export async function deleteOnCluster(
  cluster: ClusterId,
  entries: readonly DeleteEntry[],
  asking: Asking,
): Promise<ReadonlyMap<DeleteEntry, Said>> {
  const said = new Map<DeleteEntry, Said>();
  let silence: UpstreamError | null = null;
  for (const part of partsOf(entries)) {
    // One that does not answer is not asked for the rest.
    const answer: readonly Said[] | UpstreamError =
      silence ?? (await askFor(cluster, part, asking));
    if (answer instanceof UpstreamError) {
      const reached = silence === null && answer.phase !== "connect";
      const outcome = reached ? unanswered : unreached;
      for (const entry of part) said.set(entry, { outcome, failure: answer, unknown: reached });
      silence = answer;
    } else {
      for (const [index, entry] of part.entries()) said.set(entry, answer[index] ?? lost);
    }
  }
  return said;
}

/** What is said of each entry of a part, or how the cluster failed to say it. */
async function askFor(
  cluster: ClusterId,
  part: Part,
  asking: Asking,
): Promise<readonly Said[] | UpstreamError> {
  const [{ key }] = part;
  const ask = fitsDocument(key) ? askInDocument : askByPath;
  try {
    return await ask(cluster, part, asking);
  } catch (caught) {
    if (caught instanceof UpstreamError) return caught;
    throw caught;
  }
}

/** What goes in one request each, of one entry at least. */
type Part = readonly [DeleteEntry, ...DeleteEntry[]];

/** An answer names key and version alone, so no document names both twice, under two conditions. */
function partsOf(entries: readonly DeleteEntry[]): readonly Part[] {
  const documents: [DeleteEntry, ...DeleteEntry[]][] = [];
  const paths: Part[] = [];
  const times = new Map<string, number>();
  for (const entry of entries) {
    if (!fitsDocument(entry.key)) {
      paths.push([entry]);
      continue;
    }
    const name = nameOf(entry);
    const before = times.get(name) ?? 0;
    times.set(name, before + 1);
    const document = documents[before];
    if (document === undefined) documents.push([entry]);
    else document.push(entry);
  }
  return [...documents, ...paths];
}

function nameOf({ key, versionId }: { key: string; versionId: string | null }): string {
  return `${versionId ?? ""}\0${key}`;
}

async function askInDocument(
  cluster: ClusterId,
  part: Part,
  { request, ports }: Asking,
): Promise<readonly Said[]> {
  const { bytes, sha256, md5 } = deleteRequestBody(part);
  const response = await ports.upstream.send(
    cluster,
    upstreamRequest(request, {
      query: [["delete", null]],
      headers: [
        ...fieldsBeside(request.headers),
        ["content-type", "application/xml"],
        ["content-md5", md5],
      ],
      body: { kind: "bytes", bytes },
      payloadSha256: sha256,
    }),
    request.signal,
  );
  const body = await readDocument(response);
  if (response.status !== 200) return failed(part, refusalIn(response, body, { cluster, ports }));
  const rows = readDeleteResult(body);
  if (rows === null) {
    const failure = unreadable();
    return part.map(() => ({ outcome: unanswered, failure, unknown: true }));
  }
  const outcomes = new Map(rows.map((row) => [nameOf(row), worded(row.outcome)]));
  return part.map((entry) => {
    const outcome = outcomes.get(nameOf(entry));
    return outcome === undefined ? lost : saidOf(outcome);
  });
}

/** RGW leaves messages empty. */
function worded(outcome: DeleteOutcome): DeleteOutcome {
  if (outcome.kind === "deleted" || outcome.message !== "") return outcome;
  return { ...outcome, message: errorText(outcome.code, 200) };
}

async function askByPath(
  cluster: ClusterId,
  part: Part,
  { request, ports }: Asking,
): Promise<readonly Said[]> {
  const [{ key, versionId }] = part;
  const response = await ports.upstream.send(
    cluster,
    {
      ...upstreamRequest(request, {
        operation: "DeleteObject",
        query: versionId === null ? [] : [["versionId", versionId]],
        headers: fieldsBeside(request.headers),
      }),
      key,
    },
    request.signal,
  );
  const body = await readDocument(response);
  if (response.status >= 300) {
    const refusal = refusalIn(response, body, { cluster, ports });
    if (!absentCodes.has(refusal.code)) return failed(part, refusal);
  }
  const deleteMarker = fieldValue(response.headers, "x-amz-delete-marker");
  const version = fieldValue(response.headers, "x-amz-version-id");
  const deleteMarkerVersionId = deleteMarker === null ? null : version;
  return [saidOf({ kind: "deleted", deleteMarker, deleteMarkerVersionId })];
}

/** What is not there is deleted. A bucket that is not there is another matter. */
const absentCodes: ReadonlySet<string> = new Set(["NoSuchKey", "NoSuchVersion"]);

function failed(part: Part, failure: S3Error): readonly Said[] {
  const said = { outcome: failedBy(failure), failure, unknown: isUnknownStatus(failure.status) };
  return part.map(() => said);
}

/** What an answer that is no success says of all that was asked for. */
function refusalIn(
  { status }: UpstreamResponse,
  body: Uint8Array,
  from: { readonly cluster: ClusterId; readonly ports: OperationPorts },
): S3Error {
  const document = readErrorDocument(body);
  assertSigned(document?.code ?? null, from.cluster, from.ports);
  if (status < 400) {
    return new S3Error("ServiceUnavailable", { message: "A cluster answers with a redirect" });
  }
  const code = document?.code ?? (status === 404 ? "NoSuchBucket" : "InternalError");
  const message = document?.message || errorText(code, status);
  return new S3Error("InternalError", { refused: { code, status }, message });
}

/** The client's fields but those about its own body, which is not the one that is sent. */
function fieldsBeside(headers: HeaderList): HeaderList {
  return headers.filter(
    ([name]) =>
      !name.startsWith("content-") &&
      !name.startsWith("x-amz-checksum-") &&
      name !== "x-amz-sdk-checksum-algorithm",
  );
}
