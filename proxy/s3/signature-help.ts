// Why a signature may not match: requests as the client may have signed them before a hop changed one
// thing. Whoever verifies tries each; the one that matches names what was changed. Only hops' known
// habits stand here (caches rewrite Accept-Encoding, balancers Host and Connection, frameworks the
// path); a secret, a date or a credential is never varied.

import { fieldValue, type HeaderList } from "./headers.ts";
import { decodeOnce, encodePath } from "./percent.ts";
import { encodeQuery } from "./query.ts";
import type { RequestHead } from "./request-head.ts";
import { emptyPayloadHash, unsignedPayload } from "./sigv4.ts";

export interface LikelyChange {
  /** The request before the change. */
  readonly head: RequestHead;
  /** What was changed, for a message: `header "accept-encoding" was "identity"`. */
  readonly what: string;
}

/** Each costs a hash and an HMAC. */
const maxLikelyChanges = 48;
/** Each costs a hash over all of the head; what people debug is shorter. */
const maxHeadBytes = 16 * 1024;

/** What clients send in fields that hops are known to rewrite, drop or add. Empty: the field was added. */
const usualValues: ReadonlyMap<string, readonly string[]> = new Map([
  ["accept-encoding", ["identity", "gzip", "gzip, deflate", "gzip, deflate, br", "*", ""]],
  ["cache-control", ["no-cache", "max-age=0", ""]],
  ["connection", ["keep-alive", "close", "Keep-Alive", ""]],
  ["content-encoding", ["aws-chunked", ""]],
  ["content-length", ["0", ""]],
  [
    "content-type",
    [
      "application/octet-stream",
      "binary/octet-stream",
      "application/xml",
      "application/x-www-form-urlencoded; charset=utf-8",
      "",
    ],
  ],
  ["expect", ["100-continue", ""]],
  ["range", [""]],
  ["te", ["trailers", ""]],
  ["transfer-encoding", ["chunked", ""]],
  ["user-agent", [""]],
  ["x-amz-content-sha256", [unsignedPayload, emptyPayloadHash]],
  ["x-forwarded-for", [""]],
]);

/** The message of a signature that would be right for the request before a change. */
export function seemsChanged(what: string): string {
  return `The signature does not match the request; it would if ${what}, so that seems to have been changed on the way`;
}

/** Requests that differ from this one in one thing, likeliest first; none for a head beyond 16 KiB. */
export function* likelyChanges(
  head: RequestHead,
  signedHeaders: readonly string[],
): Generator<LikelyChange> {
  yield* bounded(head, changes(head, signedHeaders));
}

/**
 * The same for a version 2 signature, which covers no list of fields but all `x-amz-*`, Content-Type and
 * Content-MD5, and the path as it was sent.
 */
export function* likelyChangesV2(head: RequestHead): Generator<LikelyChange> {
  yield* bounded(head, changesV2(head));
}

function* bounded(head: RequestHead, changed: Generator<LikelyChange>): Generator<LikelyChange> {
  let headBytes = head.rawTarget.length;
  for (const [name, value] of head.headers) headBytes += name.length + value.length;
  if (headBytes > maxHeadBytes) return;
  let given = 0;
  for (const change of changed) {
    if (given === maxLikelyChanges) return;
    given += 1;
    yield change;
  }
}

function* changesV2(head: RequestHead): Generator<LikelyChange> {
  yield* fieldChanges(withField(head, "content-type", contentType(head)), "content-type");
  for (const [name] of head.headers) {
    if (!name.startsWith("x-amz-") && name !== "content-md5") continue;
    const headers = head.headers.filter(([each]) => each !== name);
    yield { head: { ...head, headers }, what: `header "${name}" was not there` };
  }
  const path = encodePath(decodeOnce(head.rawPath) ?? head.rawPath);
  if (path !== head.rawPath) yield pathChange(head, path, `the path was "${path}"`);
  yield* targetChanges(head);
}

/** Empty where there is none: to version 2 that is the same. */
function contentType({ headers }: RequestHead): string {
  return fieldValue(headers, "content-type") ?? "";
}

function* changes(head: RequestHead, signedHeaders: readonly string[]): Generator<LikelyChange> {
  yield* hostChanges(head);
  for (const name of signedHeaders) yield* fieldChanges(head, name);
  yield* targetChanges(head);
}

function* targetChanges(head: RequestHead): Generator<LikelyChange> {
  yield* pathChanges(head);
  if (head.method === "HEAD" || head.method === "GET") {
    const method = head.method === "HEAD" ? "GET" : "HEAD";
    yield { head: { ...head, method }, what: `the method was "${method}"` };
  }
  for (const [index, [name]] of head.query.entries()) {
    const query = head.query.filter((_, at) => at !== index);
    const changed = { ...head, query, rawQuery: encodeQuery(query) };
    yield { head: changed, what: `query parameter "${name}" was not there` };
  }
}

function* hostChanges(head: RequestHead): Generator<LikelyChange> {
  const seen = new Set([head.host]);
  const forwarded = ["x-forwarded-host", "x-original-host", "x-host"].map(
    (name) => fieldValue(head.headers, name)?.split(",")[0]?.trim() ?? "",
  );
  for (const host of [...forwarded, head.host.toLowerCase()]) {
    if (host === "" || seen.has(host)) continue;
    seen.add(host);
    yield { head: withField(head, "host", host), what: `header "host" was "${host}"` };
  }
}

function* fieldChanges(head: RequestHead, name: string): Generator<LikelyChange> {
  const sent = fieldValue(head.headers, name);
  if (sent === null) return;
  for (const value of [...shorterForms(name, sent), ...(usualValues.get(name) ?? [])]) {
    if (value === sent) continue;
    const what = value === "" ? `header "${name}" was empty` : `header "${name}" was "${value}"`;
    yield { head: withField(head, name, value), what };
  }
}

/** What a hop may have appended to. */
function shorterForms(name: string, sent: string): readonly string[] {
  const cut = (at: number): readonly string[] => (at <= 0 ? [] : [sent.slice(0, at).trim()]);
  if (name === "content-type") return cut(sent.indexOf(";"));
  if (name === "content-encoding") {
    const kept = sent.split(",").filter((token) => token.trim() !== "aws-chunked");
    return [kept.join(",").trim()];
  }
  return name === "x-forwarded-for" || name === "via" ? cut(sent.lastIndexOf(",")) : [];
}

function* pathChanges(head: RequestHead): Generator<LikelyChange> {
  const { rawPath, host } = head;
  const slash = rawPath.endsWith("/") ? rawPath.slice(0, -1) : `${rawPath}/`;
  if (slash !== "") yield pathChange(head, slash, `the path was "${slash}"`);
  const second = rawPath.indexOf("/", 1);
  if (second !== -1) {
    yield pathChange(head, rawPath.slice(second), "the bucket was in the host, not in the path");
  }
  const dot = host.indexOf(".");
  if (dot > 0) {
    const path = rawPath === "/" ? `/${host.slice(0, dot)}` : `/${host.slice(0, dot)}${rawPath}`;
    yield pathChange(head, path, "the bucket was in the path, not in the host");
  }
  if (rawPath.includes("%")) {
    const twice = rawPath.replaceAll("%", "%25");
    yield pathChange(head, twice, "the path was percent-encoded twice");
  }
}

function pathChange(head: RequestHead, rawPath: string, what: string): LikelyChange {
  return { head: { ...head, rawPath }, what };
}

function withField(head: RequestHead, name: string, value: string): RequestHead {
  const others: HeaderList = head.headers.filter(([each]) => each !== name);
  const headers: HeaderList = [...others, [name, value]];
  return name === "host" ? { ...head, headers, host: value } : { ...head, headers };
}
