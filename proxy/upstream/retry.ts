// Which failed exchanges may be sent once more, to another endpoint of the same cluster or again.
// Never decides on message text. Invariant: once a body byte left, never; another cluster, never:
// a request that killed one server would kill the next (s3-protocol.md 2.6, "Retry rule").

import type { UpstreamError, UpstreamRequest } from "../placement/ports.ts";

/** Methods whose repetition changes nothing. */
const repeatable: ReadonlySet<UpstreamRequest["method"]> = new Set([
  "GET",
  "HEAD",
  "DELETE",
  "OPTIONS",
]);

/** What is known about the failed attempt besides its error. */
export interface FailedAttempt {
  readonly error: UpstreamError;
  /** The source of a streamed body was asked for bytes. */
  readonly sourceBegun: boolean;
  /** The request itself cannot be sent, whatever the endpoint. */
  readonly unsendable: boolean;
}

/**
 * In this order: an unsendable request or a begun body is never repeated; a connection that was not
 * made is tried again; a kept connection that was closed before it answered (phase `request_head`) is
 * tried again for methods whose repetition changes nothing.
 */
export function mayRetry(method: UpstreamRequest["method"], attempt: FailedAttempt): boolean {
  if (attempt.unsendable || attempt.sourceBegun || attempt.error.bytesSent > 0) return false;
  if (attempt.error.phase === "connect") return true;
  return attempt.error.phase === "request_head" && repeatable.has(method);
}
