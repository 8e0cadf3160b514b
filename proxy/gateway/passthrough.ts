// Which requests are not S3 at all but another API of a cluster, Swift or the admin operations of an
// RGW, handed on to it as they are: with the client's own authorization, which only that cluster can
// check. Decided on the path alone, and on one spelling of it: what decodes to a listed path but is not
// written like one, or leads out of it by dots, is refused and never taken for S3 either.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { OperationAnswer } from "../operations/context.ts";
import { isBucketHost } from "../s3/address.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import { decodeOnce } from "../s3/percent.ts";
import type { RequestHead } from "../s3/request-head.ts";

interface PassedExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Host field to send; null: the cluster's. */
  readonly host: string | null;
  /** Where it came from, for a cluster that is told so. */
  readonly forwardedFor: string;
  /** Told of body bytes as they go out. */
  readonly received: (bytes: number) => void;
}

/** Listed, it stands for POST alone: the actions of STS, IAM and topics. Of S3 nothing is asked so. */
const actions = "/";

export interface Passthrough {
  readonly cluster: ClusterId;
  /** `/swift/v1`. */
  readonly paths: readonly string[];
  /** Hands the request on and resolves with the head of the answer. @throws UpstreamError */
  send(exchange: PassedExchange): Promise<OperationAnswer>;
}

/** @throws S3Error InvalidURI for a second spelling of a listed path. */
export function isPassedThrough(
  head: Pick<RequestHead, "method" | "rawPath" | "host">,
  paths: readonly string[],
  baseDomains: readonly string[],
): boolean {
  // Under a bucket's own host every path is a key.
  if (isBucketHost(head.host, baseDomains)) return false;
  if (head.rawPath === actions) return head.method === "POST" && paths.includes(actions);
  const path = decodeOnce(head.rawPath) ?? "";
  const prefix = paths.find(
    (each) => each !== actions && (isUnder(path, each) || isUnder(withoutDots(path), each)),
  );
  if (prefix === undefined) return false;
  if (!isUnder(head.rawPath, prefix) || hasDots(path) || path.includes("\0")) {
    throw new S3Error("InvalidURI", { message: `Path "${prefix}" must be spelled as it is` });
  }
  return true;
}

/**
 * The client's own Host where it is an address, `localhost` or a base domain itself: a signature covers
 * it. Any other could be a bucket's to the cluster, and `/admin/x` then an object's key.
 */
export function passedHost(host: string, baseDomains: readonly string[]): string | null {
  const name = host.replace(/:\d+$/, "").toLowerCase();
  const isAddress = /^(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\])$/.test(name);
  return isAddress || name === "localhost" || baseDomains.includes(name) ? host : null;
}

/**
 * Refuses a DELETE or OPTIONS with a chunked body: http-proxy-3 takes its Transfer-Encoding away and
 * says `content-length: 0`, and the body would stand there as the next request. That no connection of a
 * passed request is used again (the package's `connection: close`, without an agent) must stay for the
 * same reason. @throws S3Error MissingContentLength
 */
export function assertFramed({ method, headers }: Pick<RequestHead, "method" | "headers">): void {
  if (method !== "DELETE" && method !== "OPTIONS") return;
  if (fieldValue(headers, "transfer-encoding") !== null) throw new S3Error("MissingContentLength");
}

function isUnder(path: string, prefix: string): boolean {
  return path === prefix || path.startsWith(`${prefix}/`);
}

function hasDots(path: string): boolean {
  return path.split(/[/\\]/).some((segment) => segment === "." || segment === "..");
}

/** As a reader would see the path that resolves dots and drops empty segments. */
function withoutDots(path: string): string {
  const kept: string[] = [];
  for (const segment of path.split(/[/\\]/)) {
    if (segment === "..") kept.pop();
    else if (segment !== "" && segment !== ".") kept.push(segment);
  }
  return `/${kept.join("/")}`;
}
