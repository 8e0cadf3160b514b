// One cluster asked for an object as the client asked us: conditions and ranges that it would misread
// are put so that it reads them, or judged here on what a HEAD shows, and the GET is pinned to the ETag
// seen. A 304 gets the fields that RFC 9110 §15.4.5 wants and RGW 16.2 leaves out.

import type { UpstreamResponse } from "../placement/ports.ts";
import { onlyTag, quoted, readTagCondition } from "../s3/entity-tags.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderList, type QueryList } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import { judgeConditions, planConditions, unconditional, unranged } from "../s3/read-conditions.ts";
import type { OperationPorts, OperationRequest } from "./context.ts";
import { discard, upstreamRequest } from "./send.ts";

/** What is read, where it is not just what the client asked for. */
export interface ReadOptions {
  readonly operation: "GetObject" | "HeadObject";
  readonly query: QueryList;
  readonly headers: HeaderList;
}

/** Asks one cluster. @throws S3Error PreconditionFailed; SlowDown when the object changed meanwhile. */
export async function askConditionally(
  cluster: ClusterId,
  request: OperationRequest,
  ports: OperationPorts,
  read: ReadOptions,
): Promise<UpstreamResponse> {
  const send = async (given: Partial<ReadOptions>): Promise<UpstreamResponse> =>
    await ports.upstream.send(
      cluster,
      upstreamRequest(request, { ...read, ...given }),
      request.signal,
    );
  // Of a cluster that was never heard of it is not believed.
  if (ports.isShown(cluster) && ports.facts(cluster).readsConditionsFully) {
    return await completed304(asNotModified(await send({}), read.headers), read.headers, send);
  }
  const { headers, judge } = planConditions(read.headers);
  if (judge) return await judged({ ...read, headers }, send);
  return await completed304(asNotModified(await send({ headers }), headers), headers, send);
}

type Send = (given: Partial<ReadOptions>) => Promise<UpstreamResponse>;

/** Looks at the object first and then reads exactly that one. */
async function judged(read: ReadOptions, send: Send): Promise<UpstreamResponse> {
  const plain = unconditional(read.headers);
  const head = await send({ operation: "HeadObject", headers: unranged(plain) });
  if (head.status !== 200) {
    return await sameFailure(head, read, () => send({ headers: oneByte(plain) }));
  }
  const judgement = judgeConditions(read.headers, head.headers);
  if (judgement.kind === "failed") {
    throw new S3Error("PreconditionFailed", { details: { Condition: judgement.condition } });
  }
  if (judgement.kind === "not_modified") return notModified(head, head.headers);
  const etag = fieldValue(head.headers, "etag");
  if (read.operation === "HeadObject" && fieldValue(read.headers, "range") === null) return head;
  const pinned: HeaderList = etag === null ? plain : [...plain, ["if-match", etag]];
  const response = await send({ headers: judgement.range ? pinned : unranged(pinned) });
  return response.status === 412 ? await changed(response) : response;
}

/**
 * A HEAD that failed has no document; a GET that fails as it did has one.
 * @throws S3Error SlowDown when the GET does not fail.
 */
export async function sameFailure(
  head: UpstreamResponse,
  read: ReadOptions,
  ask: () => Promise<UpstreamResponse>,
): Promise<UpstreamResponse> {
  if (read.operation === "HeadObject" || head.status < 400) return head;
  const response = await ask();
  // 416 is about the one byte that is asked for, and says that there is an object.
  if (response.status >= 400 && response.status !== 416) return response;
  return await changed(response);
}

/** The fields with a range of one byte: little comes should there be something after all. */
export function oneByte(headers: HeaderList): HeaderList {
  const fields = headers.filter(([name]) => name !== "range" && name !== "if-range");
  return [...fields, ["range", "bytes=0-0"]];
}

/** @throws S3Error SlowDown: another try sees one state of the object. */
export async function changed(response: UpstreamResponse): Promise<never> {
  if (response.status < 300) response.body.cancel();
  else await discard(response);
  throw new S3Error("SlowDown", {
    message: "The object changed while it was looked at, try again",
    retryAfterSeconds: 1,
  });
}

/** Some upstreams answer If-None-Match on a read with 412, which is for writes (RFC 9110 §13.1.2). */
function asNotModified(response: UpstreamResponse, headers: HeaderList): UpstreamResponse {
  const only =
    fieldValue(headers, "if-none-match") !== null &&
    fieldValue(headers, "if-match") === null &&
    fieldValue(headers, "if-unmodified-since") === null;
  if (response.status !== 412 || !only) return response;
  response.body.cancel();
  return notModified(response, response.headers);
}

/**
 * A 304 with its ETag. The one that was asked for is known; after If-Modified-Since it is looked up,
 * on the condition that nothing changed since, and left out when something did.
 */
async function completed304(
  response: UpstreamResponse,
  headers: HeaderList,
  send: Send,
): Promise<UpstreamResponse> {
  if (response.status !== 304 || fieldValue(response.headers, "etag") !== null) return response;
  const noneMatch = fieldValue(headers, "if-none-match");
  if (noneMatch !== null) {
    const tag = onlyTag(readTagCondition(noneMatch));
    return tag === null ? response : withField(response, "etag", quoted(tag));
  }
  const since = fieldValue(headers, "if-modified-since");
  if (since === null) return response;
  const plain = unranged(unconditional(headers));
  const head = await send({
    operation: "HeadObject",
    headers: [...plain, ["if-unmodified-since", since]],
  });
  return head.status === 200
    ? notModified(response, [...response.headers, ...head.headers])
    : response;
}

const keptBy304: ReadonlySet<string> = new Set([
  "cache-control",
  "content-location",
  "etag",
  "expires",
  "last-modified",
  "vary",
  "x-amz-request-id",
  "x-amz-version-id",
]);

function notModified(response: UpstreamResponse, fields: HeaderList): UpstreamResponse {
  const first = new Map<string, string>();
  for (const [name, value] of fields) {
    if (keptBy304.has(name) && !first.has(name)) first.set(name, value);
  }
  return { ...response, status: 304, headers: [...first] };
}

function withField(response: UpstreamResponse, name: string, value: string): UpstreamResponse {
  return { ...response, headers: [...response.headers, [name, value]] };
}
