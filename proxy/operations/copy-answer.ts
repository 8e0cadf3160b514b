// What a copy sends to the cluster that makes it, and how it is answered: the same document whether the
// upstream copied or the bytes went through here.

import type { UpstreamResponse } from "../placement/ports.ts";
import { readChecksumField } from "../s3/checksum.ts";
import { copyResultDocument, readCopyResult } from "../s3/copy-document.ts";
import { copySourceField, copySourceValue } from "../s3/copy-source.ts";
import { fieldValue, type HeaderList } from "../s3/headers.ts";
import { type ClusterId, noTenant } from "../s3/names.ts";
import { checksumElement } from "../s3/object-checksum.ts";
import type { XmlElement } from "../s3/xml.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { errorInside, refusedCopy, refusedUpload } from "./copy-refusal.ts";
import { documentAnswer, readDocument, unreadable } from "./send.ts";
import { type SourceState, sourceOf } from "./source-read.ts";
import { sourceVersionField } from "./source-version.ts";

/**
 * The request's own fields, with a source that every decoding reads alike. Its leading slash stays as
 * the client has it: policies of the bucket compare the text.
 */
export function headersOnCluster(request: OperationRequest): HeaderList {
  const source = sourceOf(request);
  const { identity } = request;
  const text = copySourceValue(source, identity.kind === "caller" ? identity.tenant : noTenant);
  return request.headers.map(([name, value]) => {
    if (name !== copySourceField) return [name, value];
    return [name, value.startsWith("/") ? text : text.slice(1)];
  });
}

/** The answer to a copy that a cluster made. @throws S3Error also for an error inside a 200. */
export async function onClusterAnswer(
  response: UpstreamResponse,
  cluster: ClusterId,
  asked: { readonly request: OperationRequest; readonly ports: OperationPorts },
): Promise<OperationAnswer> {
  const { request, ports } = asked;
  if (response.status !== 200) {
    return await refusedCopy(response, cluster, { source: sourceOf(request), ports });
  }
  const reading = readCopyResult(await readDocument(response));
  switch (reading.kind) {
    case "unreadable":
      throw unreadable();
    case "failed":
      throw errorInside(reading.document);
    case "copied": {
      const document = copyResultDocument(reading.name, reading);
      // Of a version that was named RGW does not say that it took it.
      const told = fieldValue(response.headers, sourceVersionField) !== null;
      const versionId = told ? null : sourceOf(request).versionId;
      return answerOf(document, { cluster, headers: response.headers, versionId });
    }
  }
}

/** The answer to a copy that went through here in one request, by what the cluster says to that. */
export async function uploadedAnswer(
  response: UpstreamResponse,
  made: { readonly state: SourceState; readonly cluster: ClusterId },
  asked: { readonly request: OperationRequest; readonly ports: OperationPorts },
): Promise<OperationAnswer> {
  if (response.status !== 200) return await refusedUpload(response, made.cluster);
  await readDocument(response);
  const { headers } = response;
  const etag = fieldValue(headers, "etag");
  const checksums = checksumElements(headers);
  return throughAnswer(asked.request, asked.ports, { ...made, etag, checksums, headers });
}

/** Our own answer to a copy that went through here. */
export function throughAnswer(
  request: OperationRequest,
  ports: OperationPorts,
  made: {
    readonly state: SourceState;
    readonly cluster: ClusterId;
    readonly etag: string | null;
    /** What the cluster says that it has, ChecksumCRC32 and its like. */
    readonly checksums: readonly XmlElement[];
    /** Of the write's answer. */
    readonly headers: HeaderList;
  },
): OperationAnswer {
  const { state, cluster, etag, checksums } = made;
  // Of a copy they are told in the document.
  const headers = made.headers.filter(([field]) => !field.startsWith(checksumPrefix));
  const name = request.operation === "UploadPartCopy" ? "CopyPartResult" : "CopyObjectResult";
  const lastModified = new Date(ports.clock.nowMs()).toISOString();
  const document = copyResultDocument(name, { etag, lastModified, checksums });
  return answerOf(document, { cluster, headers, versionId: state.versionId });
}

const checksumPrefix = "x-amz-checksum-";

/** `ChecksumSHA256` of `x-amz-checksum-sha256`, and ChecksumType, of the answer to a write. */
function checksumElements(headers: HeaderList): readonly XmlElement[] {
  return headers.flatMap(([name, value]) => {
    const known = readChecksumField(name);
    if (known !== null) return [checksumElement(known, value)];
    return name === `${checksumPrefix}type`
      ? [{ name: "ChecksumType", text: value, children: [] }]
      : [];
  });
}

function answerOf(
  document: string,
  from: {
    readonly cluster: ClusterId;
    /** Of the write's answer. */
    readonly headers: HeaderList;
    /** Of the source, where it is still to be told. */
    readonly versionId: string | null;
  },
): OperationAnswer {
  const answer = documentAnswer(document, from.cluster);
  const kept = from.headers.filter(([name]) => name.startsWith("x-amz-"));
  const version = from.versionId === null ? [] : [[sourceVersionField, from.versionId] as const];
  return { ...answer, headers: [...answer.headers, ...kept, ...version] };
}
