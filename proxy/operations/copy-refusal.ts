// What a cluster's refusal means for a copy: of its source, of what is uploaded for it, of a part of that,
// or inside a 200. A definite refusal is the client's answer as the cluster gives it; what may be otherwise
// the next time is a 503. An answer to HEAD has no document, so its status alone tells.

import type { UpstreamResponse } from "../placement/ports.ts";
import { hasSourceConditions } from "../s3/copy-conditions.ts";
import { readErrorDocument, type UpstreamErrorDocument } from "../s3/error-document.ts";
import { errorText } from "../s3/error-texts.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import { isChecksumRefusal } from "../s3/object-checksum.ts";
import type { OperationAnswer, OperationPorts, OperationRequest, PlacedSource } from "./context.ts";
import { isAboutSigning } from "./error-answer.ts";
import { assertAbsenceKnown, discard, isAbsenceKnown, passOn, readDocument } from "./send.ts";

/** What an answer to HEAD says of a source that cannot be copied. */
export function absentSource(
  { status }: Pick<UpstreamResponse, "status">,
  { source }: Pick<OperationRequest, "source">,
): S3Error {
  switch (status) {
    case 404:
      return new S3Error((source?.versionId ?? null) === null ? "NoSuchKey" : "NoSuchVersion");
    case 403:
      return new S3Error("AccessDenied");
    case 405:
      return new S3Error("InvalidRequest", {
        message: "The source of a copy must not be a delete marker that is named by its version",
      });
    default:
      return isDefinite(status)
        ? new S3Error("InvalidRequest", {
            message: "The source of the copy cannot be read like this",
          })
        : unreadableSource();
  }
}

/** What an answer to GET says of a source that HEAD has shown. */
export async function refusedSource(
  response: UpstreamResponse,
  request: Pick<OperationRequest, "headers" | "source">,
): Promise<S3Error> {
  const { status } = response;
  if (status < 400 || isGone.has(status)) {
    response.body.cancel();
    return changedSource(request);
  }
  const document = readErrorDocument(await readDocument(response));
  // Keys that were renewed between the two are no fault of the client's.
  const isOurs = document !== null && isAboutSigning(document.code);
  if (isOurs || !isDefinite(status)) return unreadableSource();
  return document === null ? absentSource(response, request) : asToldBy(document, status);
}

/** It is not there any more, or not as it was. */
const isGone: ReadonlySet<number> = new Set([404, 412, 416]);

/** Passes on that a cluster refuses to copy. @throws S3Error PreconditionFailed, NoSuchVersion */
export async function refusedCopy(
  response: UpstreamResponse,
  cluster: ClusterId,
  asked: {
    readonly source: PlacedSource;
    readonly ports: Pick<OperationPorts, "membership">;
  },
): Promise<OperationAnswer> {
  const { source, ports } = asked;
  const { status } = response;
  // RGW 18.2 answers a condition that does not hold as it would to a GET.
  if (status === 304) throw new S3Error("PreconditionFailed");
  if (status === 404 && !isAbsenceKnown(source, ports)) {
    response.body.cancel();
    assertAbsenceKnown(source, ports);
  }
  const answer = passOn(response, cluster);
  if (status !== 404 || source.versionId === null) return answer;
  const body = await readDocument(response);
  // RGW has no other code for a version that is not there.
  if (readErrorDocument(body)?.code === "NoSuchKey") throw new S3Error("NoSuchVersion");
  return { ...answer, body };
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
  if (!isDefinite(response.status)) return answer;
  const body = await readDocument(response);
  if (isChecksumRefusal(readErrorDocument(body)?.code ?? "")) throw unreadableSource();
  return { ...answer, body };
}

/** The same of one part of several. @throws S3Error ServiceUnavailable where the refusal is not definite */
export async function refusedPart(
  response: UpstreamResponse,
  cluster: ClusterId,
): Promise<OperationAnswer> {
  if (isDefinite(response.status)) return await refusedUpload(response, cluster);
  await discard(response);
  const message = `A cluster refuses a part of the copy with status ${response.status}`;
  throw new S3Error("ServiceUnavailable", { message, retryAfterSeconds: 1 });
}

/** An error inside a 200, which came too late for a status. */
export function errorInside(document: UpstreamErrorDocument): S3Error {
  return asToldBy(document, 500);
}

function asToldBy({ code, message }: UpstreamErrorDocument, status: number): S3Error {
  return new S3Error("InternalError", {
    refused: { code, status },
    message: message.trim() || errorText(code, status),
  });
}

function isDefinite(status: number): boolean {
  return status >= 400 && status < 500;
}

/** Also what it gives is not what its checksum says. */
export function unreadableSource(cause?: unknown): S3Error {
  return new S3Error("ServiceUnavailable", {
    message: "The cluster that holds the source of the copy does not give it",
    retryAfterSeconds: 1,
    cause,
  });
}

function changedSource({ headers }: Pick<OperationRequest, "headers">): S3Error {
  const message = "The source changed during the copy";
  return hasSourceConditions(headers)
    ? new S3Error("PreconditionFailed", { message })
    : new S3Error("SlowDown", { message, retryAfterSeconds: 1 });
}
