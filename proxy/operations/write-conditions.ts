// Conditions of writes: each is obeyed by the cluster that carries the write out, or the write is 501.
// None is ever dropped, since a client sends them so as not to lose what somebody else wrote. They cannot
// be judged here: between our look and the upstream's act anybody may write (placement.md rule 13).

import type { ProfileFacts } from "../placement/profiles.ts";
import { type DeleteEntry, fitsDocument } from "../s3/delete-document.ts";
import { type EntityTag, onlyTag, readTagCondition } from "../s3/entity-tags.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderField, type HeaderList } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationPorts, OperationRequest } from "./context.ts";
import { provenFacts } from "./proven-facts.ts";

/** If-Modified-Since is for reads only (RFC 9110 §13.1.3). */
const names: ReadonlySet<string> = new Set([
  "if-match",
  "if-none-match",
  "if-unmodified-since",
  "x-amz-if-match-last-modified-time",
  "x-amz-if-match-size",
]);

/** What a condition says: `*`, or one ETag. */
type Wording = "any" | "tag";
type Contract = ReadonlyMap<string, readonly Wording[]>;

const ofWrites: Contract = new Map([
  ["if-match", ["tag"]],
  ["if-none-match", ["any"]],
]);
const ofRgwPut: Contract = new Map([
  ["if-match", ["any", "tag"]],
  ["if-none-match", ["any", "tag"]],
]);

/**
 * What a cluster obeys where the fact is true, and nothing else (S3 API Reference). Size and time on
 * DELETE are conditions of directory buckets alone.
 */
const contracts = {
  PutObject: { fact: "honoursConditionalPut", obeyed: ofWrites },
  CompleteMultipartUpload: { fact: "honoursConditionalComplete", obeyed: ofWrites },
  CopyObject: { fact: "honoursConditionalCopy", obeyed: ofWrites },
  DeleteObject: {
    fact: "honoursConditionalDelete",
    obeyed: new Map<string, readonly Wording[]>([["if-match", ["any", "tag"]]]),
  },
} as const;

type ConditionalWrite = keyof typeof contracts;

const onSeveral = "for an object that may be on several clusters";

type Asked = Pick<OperationRequest, "headers" | "query">;

/** Names in order; SDKs presign an `x-amz-*` into the query. */
function conditionsOf({ headers, query }: Asked): readonly string[] {
  const parameters = query.map(([name]) => name.toLowerCase());
  return [
    ...headers.map(([name]) => name).filter((name) => names.has(name)),
    ...parameters.filter((name) => name.startsWith("x-amz-") && names.has(name)),
  ];
}

/** `where`: "on UploadPart". @throws S3Error NotImplemented for any condition. */
export function refuseConditions(asked: Asked, where: string): void {
  const [found] = conditionsOf(asked);
  if (found !== undefined) throw notImplemented(found, where);
}

/** @throws S3Error NotImplemented where a condition of the write would not be obeyed. */
export async function assertConditions(
  request: OperationRequest,
  ports: OperationPorts,
  to: { readonly operation: ConditionalWrite; readonly cluster: ClusterId },
): Promise<void> {
  if (conditionsOf(request).length === 0) return;
  if (request.candidates.length > 1) refuseConditions(request, onSeveral);
  const facts = await provenFacts(to.cluster, request, ports);
  const { fact, obeyed } = contracts[to.operation];
  if (!facts[fact]) refuseConditions(request, `on ${to.operation} for this kind of cluster`);
  const isRgwPut = to.operation === "PutObject" && facts.conditionalEtagQuotes === "strip";
  const contract: Contract = isRgwPut ? ofRgwPut : obeyed;
  for (const name of conditionsOf(request)) {
    const wordings = contract.get(name);
    if (wordings === undefined) throw notImplemented(name, `on ${to.operation}`);
    const lack = lackOf(fieldValue(request.headers, name) ?? "", wordings);
    if (lack !== null) throw notImplemented(name, lack);
  }
}

/** What of a value is not obeyed; `null` for nothing. */
function lackOf(value: string, wordings: readonly Wording[]): string | null {
  const condition = readTagCondition(value);
  if (condition?.kind === "any") return wordings.includes("any") ? null : 'with "*"';
  if (onlyTag(condition) === null) return "with more than one ETag, or none";
  return wordings.includes("tag") ? null : 'with an ETag in place of "*"';
}

/**
 * The fields of a PutObject as its cluster obeys them.
 * @throws S3Error NotImplemented where one would not be.
 */
export async function putConditions(
  request: OperationRequest,
  ports: OperationPorts,
  cluster: ClusterId,
): Promise<HeaderList> {
  await assertConditions(request, ports, { operation: "PutObject", cluster });
  const { headers } = request;
  if (!headers.some(([name]) => names.has(name))) return headers;
  if (ports.facts(cluster).conditionalEtagQuotes === "keep") return headers;
  return headers.map(([name, value]): HeaderField => {
    const tag = names.has(name) ? onlyTag(readTagCondition(value)) : null;
    return [name, tag === null ? value : bareTag(name, tag)];
  });
}

/** RGW compares the bare text: `"*"` would become any object, and a weak tag never be equal. */
function bareTag(name: string, { weak, opaque }: EntityTag): string {
  if (opaque === "*") throw notImplemented(name, 'with the ETag "*"');
  return name === "if-match" && weak ? `W/${opaque}` : opaque;
}

/** Why the conditions of an entry of DeleteObjects would not be obeyed; `null` when they are. */
export function entryRefusal(
  { key, conditions }: DeleteEntry,
  facts: readonly ProfileFacts[],
): S3Error | null {
  const [first, second] = conditions;
  if (first === undefined) return null;
  const other = conditions.find(({ name }) => name !== "ETag") ?? second;
  if (other !== undefined) return notImplemented(other.name, "on DeleteObjects");
  if (facts.length > 1) return notImplemented(first.name, onSeveral);
  if (!facts.every(({ honoursConditionalDelete }) => honoursConditionalDelete)) {
    return notImplemented(first.name, "on DeleteObjects for this kind of cluster");
  }
  // Such a key is deleted by itself, without the document.
  if (!fitsDocument(key)) return notImplemented(first.name, "for a key that XML cannot hold");
  const lack = lackOf(first.text, ["any", "tag"]);
  return lack === null ? null : notImplemented(first.name, lack);
}

function notImplemented(name: string, where: string): S3Error {
  return new S3Error("NotImplemented", {
    message: `Condition "${name}" is not implemented ${where}: it would be ignored`,
    details: { Header: name },
  });
}
