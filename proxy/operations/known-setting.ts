// Whether a cluster knows the sub-resource of an object's setting, found out before it is sent a write of
// one: a server that ignores it would take the document of a PUT for the object, and delete the object with
// its tags. It is asked for the setting itself, which such a server answers as it would for the object. A
// Ceph RGW that shows that it is one is not asked: it knows those that it is sent (16.2, 18.2), or answers 405.
// A cluster that is said to know all of them is asked until it was once seen to know the one.

import type { UpstreamResponse } from "../placement/ports.ts";
import { readErrorDocument } from "../s3/error-document.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderList } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import { isObjectSetting, isUnsetCode } from "../s3/object-setting.ts";
import type { S3Operation } from "../s3/operation.ts";
import { operationFacts } from "../s3/operation.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import {
  assertAbsenceKnown,
  discard,
  documentLimitBytes,
  passOn,
  readDocument,
  upstreamRequest,
} from "./send.ts";

/** Sub-resource → what asks for it. */
const questions: ReadonlyMap<string, S3Operation> = new Map([
  ["acl", "GetObjectAcl"],
  ["legal-hold", "GetObjectLegalHold"],
  ["retention", "GetObjectRetention"],
  ["tagging", "GetObjectTagging"],
]);

/**
 * The error to answer with, unsent, when the cluster has one for the question already; `null`: it knows
 * the setting. What cannot be asked for (restore, select) is known where another sub-resource is: a POST
 * of an object without one is nothing that S3 has.
 * @throws S3Error NotImplemented where it answers the object
 */
export async function settingRefusal(
  request: OperationRequest,
  cluster: ClusterId,
  ports: OperationPorts,
): Promise<OperationAnswer | null> {
  if (ports.isRgw(cluster)) return null;
  const own = questions.get(subresourceOf(request.operation)) ?? null;
  const question = own ?? "GetObjectAcl";
  if (ports.shownSettings.suffices(cluster, question, ports.facts(cluster))) return null;
  const response = await ask(question, request, cluster, ports);
  const { status, headers } = response;
  const document = await shortDocument(response);
  // It may have shown what it is with this answer.
  if (ports.isRgw(cluster)) return null;
  if (status === 200) {
    if (isAnswerTo(question, headers, document)) {
      ports.shownSettings.note(cluster, question);
      return null;
    }
    throw new S3Error("NotImplemented", {
      message: `${request.operation} is not known to the cluster of the object`,
    });
  }
  if (status < 400) return passOn(response, cluster);
  const code = codeOf(document);
  if (isUnsetCode(code)) {
    ports.shownSettings.note(cluster, question);
    return null;
  }
  if (status === 404) assertAbsenceKnown(request, ports);
  // Refused for the question itself: the object would have been given. Where settings are known it may be
  // refused too: S3 grants a read apart from its write, which the cluster judges itself.
  const isOfQuestion =
    code === "AccessDenied"
      ? ports.facts(cluster).knowsSettings || (await mayRead(request, cluster, ports))
      : own === null && isUnserved(status);
  if (isOfQuestion) return null;
  const kept = headers.filter(([name]) => name !== "content-length");
  return { status, headers: kept, body: document, cluster };
}

/** An object may hold such a document too, but a setting has no ETag. */
function isAnswerTo(
  question: S3Operation,
  headers: HeaderList,
  document: Uint8Array | null,
): boolean {
  if (document === null || fieldValue(headers, "etag") !== null) return false;
  return isObjectSetting(subresourceOf(question), document);
}

function codeOf(document: Uint8Array | null): string {
  return (document === null ? null : readErrorDocument(document)?.code) ?? "";
}

function isUnserved(status: number): boolean {
  return status === 400 || status === 405 || status === 501;
}

async function ask(
  operation: S3Operation,
  request: OperationRequest,
  cluster: ClusterId,
  ports: OperationPorts,
): Promise<UpstreamResponse> {
  const version = request.query.filter(([name]) => name === "versionId");
  const subresource = subresourceOf(operation);
  const query = subresource === "" ? version : [[subresource, null] as const, ...version];
  const asked = upstreamRequest(request, { operation, query, headers: [] });
  return await ports.upstream.send(cluster, asked, request.signal);
}

/** Who may read the object and not the setting was refused the setting, not the object. */
async function mayRead(
  request: OperationRequest,
  cluster: ClusterId,
  ports: OperationPorts,
): Promise<boolean> {
  const response = await ask("HeadObject", request, cluster, ports);
  await discard(response);
  return response.status === 200;
}

function subresourceOf(operation: S3Operation): string {
  return operationFacts[operation].subresource ?? "";
}

/** A whole answer; `null` where it is longer than any setting. */
export async function shortDocument(response: UpstreamResponse): Promise<Uint8Array | null> {
  const isLong = Number(fieldValue(response.headers, "content-length") ?? 0) > documentLimitBytes;
  if (!isLong) return await readDocument(response);
  response.body.cancel();
  return null;
}
