// An upstream that answers object requests with the bytes of Ceph RGW 16.2.15, misreadings included, as
// they were seen on its wire: what it does not know it ignores, conditions are compared as one text,
// any Range text is a range, 304 is bare, messages are empty and ids name the zone.

import { createHash } from "node:crypto";
import type { Test } from "tap";
import { type RawConnection, rawServer } from "./raw-upstream.ts";

export interface FakeRequest {
  readonly method: string;
  /** As sent, `/b/k`. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
}

interface FakeObject {
  readonly body: Buffer;
  /** Without quotes. */
  readonly etag: string;
  /** Further lines of its head, latin1, `Content-Type: text/plain`. */
  readonly lines: readonly string[];
}

export interface FakeRgw {
  readonly url: string;
  readonly objects: Map<string, FakeObject>;
  readonly requests: FakeRequest[];
  /** Answers in its place where it gives bytes. */
  intercept: ((request: FakeRequest) => string | null) | null;
  /** Leaves out of its answers what tells that it is an RGW. */
  nameless: boolean;
  /** Hangs up behind its answer to this path. */
  cuts: string | null;
  /** Stores an object as one that somebody put directly. */
  put(path: string, body: string | Buffer, given?: Partial<FakeObject>): FakeObject;
}

const modified = "Sun, 29 Nov 2026 12:00:00 GMT";
const zoneId = "tx00000b257c898f9090b59-006b0ce48e-1052-a";

const ownMarks = /^(?:x-amz-request-id|x-rgw-[a-z-]+): .*\r\n/gm;

export async function fakeRgw(t: Test): Promise<FakeRgw> {
  const objects = new Map<string, FakeObject>();
  const requests: FakeRequest[] = [];
  const server = await rawServer(t, async (connection) => {
    for (;;) {
      const request = await nextRequest(connection);
      if (request === null) return;
      requests.push(request);
      const answer = rgw.intercept?.(request) ?? answerTo(request, objects);
      connection.write(rgw.nameless ? answer.replaceAll(ownMarks, "") : answer);
      if (request.path === rgw.cuts) connection.socket.end();
    }
  });
  const rgw: FakeRgw = {
    url: server.url,
    objects,
    requests,
    intercept: null,
    nameless: false,
    cuts: null,
    put(path, body, given = {}) {
      const bytes = Buffer.from(body);
      const etag = createHash("md5").update(bytes).digest("hex");
      const object = { body: bytes, etag, lines: ["Content-Type: text/plain"], ...given };
      objects.set(path, object);
      return object;
    },
  };
  return rgw;
}

async function nextRequest(connection: RawConnection): Promise<FakeRequest | null> {
  const head = await connection.head();
  if (head === null) return null;
  const [line = "", ...lines] = head.trimEnd().split("\r\n");
  const [method = "", target = ""] = line.split(" ");
  const headers = new Map<string, string>();
  for (const text of lines) {
    const colon = text.indexOf(":");
    headers.set(text.slice(0, colon).toLowerCase(), text.slice(colon + 1).trim());
  }
  const [path = "", query = ""] = target.split("?");
  const length = Number(headers.get("content-length") ?? 0);
  const body = await connection.bytes(length);
  // Cut off: nothing is stored of it.
  if (body.length < length) return null;
  return { method, path, query: new URLSearchParams(query), headers, body };
}

/** A whole answer; `length` announces what HEAD does not send. */
export function rgwAnswer(
  status: string,
  lines: readonly string[],
  body: string | Buffer | null = "",
  length: number | null = null,
): string {
  const text = typeof body === "string" ? body : (body?.toString("latin1") ?? "");
  const bare = status.startsWith("204") || status.startsWith("304");
  const framing = bare ? [] : [`Content-Length: ${length ?? text.length}`];
  const all = [...framing, ...lines, `x-amz-request-id: ${zoneId}`, `Date: ${modified}`];
  return `HTTP/1.1 ${status}\r\n${all.join("\r\n")}\r\n\r\n${text}`;
}

export function rgwError(status: string, code: string, request?: FakeRequest): string {
  const document = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message></Message><BucketName>rep</BucketName><RequestId>${zoneId}</RequestId><HostId>1052-a-a</HostId></Error>`;
  const head = request?.method === "HEAD";
  const lines = ["Accept-Ranges: bytes", "Content-Type: application/xml"];
  return rgwAnswer(status, lines, head ? "" : document, document.length);
}

function answerTo(request: FakeRequest, objects: Map<string, FakeObject>): string {
  const { method, path } = request;
  if (path.indexOf("/", 1) === -1) return rgwAnswer("200 OK", []);
  const object = objects.get(path);
  switch (method) {
    case "GET":
    case "HEAD":
      return object === undefined
        ? rgwError("404 Not Found", "NoSuchKey", request)
        : read(request, object);
    case "PUT":
      return write(request, objects);
    default:
      objects.delete(path);
      return rgwAnswer("204 No Content", []);
  }
}

const bareText = (value: string | undefined): string | undefined => value?.replaceAll('"', "");

function read(request: FakeRequest, object: FakeObject): string {
  const { method, headers } = request;
  const failed = () => rgwError("412 Precondition Failed", "PreconditionFailed", request);
  const match = bareText(headers.get("if-match"));
  const noneMatch = bareText(headers.get("if-none-match"));
  if (match !== undefined && match !== object.etag) return failed();
  const unmodified = Date.parse(headers.get("if-unmodified-since") ?? "");
  if (match === undefined && Date.parse(modified) > unmodified) return failed();
  const since = Date.parse(headers.get("if-modified-since") ?? "");
  const unchanged = noneMatch === undefined && Date.parse(modified) <= since;
  if (noneMatch === object.etag || unchanged) return rgwAnswer("304 Not Modified", []);
  const { body, etag, lines } = object;
  const range = rangeOf(headers.get("range"), body.length);
  if (range === null)
    return rgwError("416 Requested Range Not Satisfiable", "InvalidRange", request);
  const bytes = body.subarray(range.from, range.end);
  const fields = [
    ...(headers.has("range")
      ? [`Content-Range: bytes ${range.from}-${range.end - 1}/${body.length}`]
      : []),
    "Accept-Ranges: bytes",
    `Last-Modified: ${modified}`,
    "x-rgw-object-type: Normal",
    `ETag: "${etag}"`,
    ...lines,
  ];
  const status = range.partial ? "206 Partial Content" : "200 OK";
  return rgwAnswer(status, fields, method === "HEAD" ? "" : bytes, bytes.length);
}

/** Any text after `bytes=` is a range, only the first of several counts; nothing else is one. */
function rangeOf(
  value: string | undefined,
  size: number,
): { readonly from: number; readonly end: number; readonly partial: boolean } | null {
  const text = /^bytes ?= ?([^,]*)/i.exec(value ?? "")?.[1];
  if (text === undefined) return { from: 0, end: size, partial: false };
  const [from = "", to = ""] = text.split("-");
  if (from === "") {
    const count = Math.min(Number(to), size);
    return { from: count === 0 ? 0 : size - count, end: size, partial: true };
  }
  const first = Number.parseInt(from, 10) || 0;
  const last = to === "" ? size - 1 : Math.min(Number.parseInt(to, 10) || 0, size - 1);
  return first >= size || last < first ? null : { from: first, end: last + 1, partial: true };
}

function write(request: FakeRequest, objects: Map<string, FakeObject>): string {
  const { path, headers, body } = request;
  const present = objects.get(path)?.etag;
  const match = headers.get("if-match");
  const noneMatch = headers.get("if-none-match");
  const failed =
    (match !== undefined && (match === "*" ? present === undefined : match !== present)) ||
    (noneMatch !== undefined &&
      (noneMatch === "*" ? present !== undefined : present === undefined || noneMatch === present));
  if (failed) return rgwError("412 Precondition Failed", "PreconditionFailed");
  const etag = createHash("md5").update(body).digest("hex");
  objects.set(path, { body, etag, lines: [] });
  return rgwAnswer("200 OK", [`ETag: "${etag}"`, "Accept-Ranges: bytes"]);
}
