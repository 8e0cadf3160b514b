// What a copy sends to the cluster that makes it, and how it is answered: the same document whether the
// upstream copied or the bytes went through here.

import type { UpstreamResponse } from "../placement/ports.ts";
import { readChecksumField } from "../s3/checksum.ts";
import { copyResultDocument, readCopyResult } from "../s3/copy-document.ts";
import { copySourceField, copySourceValue } from "../s3/copy-source.ts";
import { readErrorDocument } from "../s3/error-document.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderList } from "../s3/headers.ts";
import { type ClusterId, noTenant } from "../s3/names.ts";
import { checksumElement, isChecksumRefusal } from "../s3/object-checksum.ts";
import type { XmlElement } from "../s3/xml.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import {
  assertAbsenceKnown,
  documentAnswer,
  isAbsenceKnown,
  passOn,
  readDocument,
} from "./send.ts";
import { type SourceState, sourceOf, unreadableSource } from "./source-read.ts";
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
  // RGW 18.2 answers a condition that does not hold as it would to a GET.
  if (response.status === 304) throw new S3Error("PreconditionFailed");
  const known = { ...request, record: sourceOf(request).record };
  if (response.status === 404 && !isAbsenceKnown(known, ports)) {
    response.body.cancel();
    assertAbsenceKnown(known, ports);
  }
  if (response.status === 404 && sourceOf(request).versionId !== null) {
    const body = await readDocument(response);
    // RGW has no other code for a version that is not there.
    if (readErrorDocument(body)?.code === "NoSuchKey") throw new S3Error("NoSuchVersion");
    return { ...passOn(response, cluster), body };
  }
  if (response.status !== 200) return passOn(response, cluster);
  const reading = readCopyResult(await readDocument(response));
  switch (reading.kind) {
    case "unreadable":
      throw new S3Error("ServiceUnavailable", {
        message: "A cluster answers a document that cannot be read",
      });
    case "failed": {
      const { code, message } = reading.document;
      throw new S3Error("InternalError", { refused: { code, status: 500 }, message });
    }
    case "copied": {
      const document = copyResultDocument(reading.name, reading);
      // Of a version that was named RGW does not say that it took it.
      const told = fieldValue(response.headers, sourceVersionField) !== null;
      const versionId = told ? null : sourceOf(request).versionId;
      return answerOf(document, { cluster, headers: response.headers, versionId });
    }
  }
}

/**
 * Passes on that a cluster refuses what was uploaded for a copy.
 * @throws S3Error ServiceUnavailable where the bytes are not what the source's checksum says
 */
export async function refusedUpload(
  response: UpstreamResponse,
  cluster: ClusterId,
): Promise<OperationAnswer> {
  const answer = passOn(response, cluster);
  if (response.status !== 400) return answer;
  const body = await readDocument(response);
  if (isChecksumRefusal(readErrorDocument(body)?.code ?? "")) throw unreadableSource();
  return { ...answer, body };
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
export function checksumElements(headers: HeaderList): readonly XmlElement[] {
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
