// Conditions of writes: each is obeyed by the cluster that carries the write out, or the write is 501.
// None is ever dropped, since a client sends them so as not to lose what somebody else wrote. They cannot
// be judged here: between our look and the upstream's act anybody may write (placement.md rule 13).

import type { ProfileFacts } from "../placement/profiles.ts";
import { onlyTag, readTagCondition } from "../s3/entity-tags.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderField, type HeaderList } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationPorts, OperationRequest } from "./context.ts";
import { provenFacts } from "./proven-facts.ts";
import { firstCandidate } from "./send.ts";

/** If-Modified-Since is for reads only (RFC 9110 §13.1.3). */
const names: ReadonlySet<string> = new Set([
  "if-match",
  "if-none-match",
  "if-unmodified-since",
  "x-amz-if-match-last-modified-time",
  "x-amz-if-match-size",
]);

const onSeveral = "in a bucket that is on several clusters";

export function isConditional(headers: HeaderList): boolean {
  return headers.some(([name]) => names.has(name));
}

/** `where`: "on UploadPart". @throws S3Error NotImplemented for any condition. */
export function refuseConditions(headers: HeaderList, where: string): void {
  const found = headers.find(([name]) => names.has(name));
  if (found !== undefined) throw notImplemented(found[0], where);
}

/**
 * The fields of a PutObject as its cluster obeys them: `If-Match` and `If-None-Match` with `*` or one
 * ETag. AWS takes `*` alone in If-None-Match, a server of unknown kind nothing.
 * @throws S3Error NotImplemented for every other condition.
 */
export async function putConditions(
  request: OperationRequest,
  ports: OperationPorts,
  cluster: ClusterId,
): Promise<HeaderList> {
  const { headers } = request;
  if (!isConditional(headers)) return headers;
  if (request.candidates.length > 1) refuseConditions(headers, onSeveral);
  const facts = await provenFacts(cluster, request, ports);
  if (!facts.honoursConditionalPut)
    refuseConditions(headers, "on PutObject for this kind of cluster");
  const fields: HeaderField[] = [];
  for (const [name, value] of headers) {
    if (!names.has(name)) fields.push([name, value]);
    else if (name !== "if-match" && name !== "if-none-match")
      throw notImplemented(name, "on PutObject");
    else if (!fields.some(([seen]) => seen === name)) {
      fields.push([name, putCondition(name, fieldValue(headers, name) ?? "", facts)]);
    }
  }
  return fields;
}

function putCondition(
  name: "if-match" | "if-none-match",
  value: string,
  facts: ProfileFacts,
): string {
  const condition = readTagCondition(value);
  if (condition?.kind === "any") return "*";
  const tag = onlyTag(condition);
  if (tag === null) throw notImplemented(name, "with more than one ETag, or none");
  if (name === "if-none-match" && facts.conditionalEtagQuotes === "keep") {
    throw notImplemented(name, 'with an ETag in place of "*"');
  }
  if (facts.conditionalEtagQuotes === "keep") return value;
  // RGW compares the bare text: `"*"` would become any object, and a weak tag never be equal.
  if (tag.opaque === "*") throw notImplemented(name, 'with the ETag "*"');
  return name === "if-match" && tag.weak ? `W/${tag.opaque}` : tag.opaque;
}

/** @throws S3Error NotImplemented where a condition of a DELETE would not be obeyed. */
export async function assertDeleteConditions(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<void> {
  const { headers } = request;
  if (!isConditional(headers)) return;
  if (request.candidates.length > 1) refuseConditions(headers, onSeveral);
  const facts = await provenFacts(firstCandidate(request), request, ports);
  if (!facts.honoursConditionalDelete)
    refuseConditions(headers, "on DeleteObject for this kind of cluster");
}

/** @throws S3Error NotImplemented where a condition of a Complete would not be obeyed. */
export async function assertCompleteConditions(
  request: OperationRequest,
  ports: OperationPorts,
  cluster: ClusterId,
): Promise<void> {
  if (!isConditional(request.headers)) return;
  const facts = await provenFacts(cluster, request, ports);
  if (!facts.honoursConditionalComplete)
    refuseConditions(request.headers, "on CompleteMultipartUpload for this kind of cluster");
}

function notImplemented(name: string, where: string): S3Error {
  return new S3Error("NotImplemented", {
    message: `Condition "${name}" is not implemented ${where}: it would be ignored`,
    details: { Header: name },
  });
}
