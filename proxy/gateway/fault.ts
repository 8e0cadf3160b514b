// What a caught value becomes for the client, in one place: our own S3 errors as they are, upstream
// failures by phase, our own faults as 500 or 503 without a word of their cause (house.md §4).

import type { ErrorOrigin } from "../placement/ports.ts";
import { FaultError, UpstreamError } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";

export interface Fault {
  readonly error: S3Error;
  readonly origin: ErrorOrigin;
  /** Whether it is our own wrong state and belongs into the log with its cause. */
  readonly logged: boolean;
}

const authCodes = new Set([
  "AuthorizationHeaderMalformed",
  "AuthorizationQueryParametersError",
  "ExpiredToken",
  "InvalidAccessKeyId",
  "InvalidToken",
  "MissingSecurityHeader",
  "RequestTimeTooSkewed",
  "SignatureDoesNotMatch",
]);

export function faultOf(caught: unknown): Fault {
  if (caught instanceof S3Error) {
    if (authCodes.has(caught.code)) return { error: caught, origin: "auth", logged: false };
    if (caught.code === "AccessDenied" || caught.code === "DrainRefused") {
      return { error: caught, origin: "policy", logged: false };
    }
    return { error: caught, origin: caught.status >= 500 ? "proxy" : "client", logged: false };
  }
  if (caught instanceof UpstreamError) {
    const error = new S3Error("ServiceUnavailable", {
      message: "A cluster that this request needs does not answer",
      retryAfterSeconds: 1,
      cause: caught,
    });
    return { error, origin: "upstream", logged: true };
  }
  if (caught instanceof FaultError && caught.kind !== "bug") {
    const origin = caught.kind.startsWith("policy") ? "policy" : "proxy";
    const error = new S3Error("ServiceUnavailable", {
      ...(caught.kind.startsWith("state_") ? { message: stateMessage } : {}),
      retryAfterSeconds: 1,
      cause: caught,
    });
    return { error, origin, logged: true };
  }
  return { error: new S3Error("InternalError", { cause: caught }), origin: "proxy", logged: true };
}

const stateMessage = "The placement of buckets cannot be read or changed at present";

/** The chain of causes as one line, for the log. */
export function describe(caught: unknown): string {
  const words: string[] = [];
  let cause = caught;
  for (let depth = 0; cause instanceof Error && depth < 5; depth += 1) {
    words.push(cause.message);
    cause = cause.cause;
  }
  return words.length === 0 ? String(caught) : words.join(": ");
}
