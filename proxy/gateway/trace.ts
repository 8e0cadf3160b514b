// What is written down of one exchange while it runs: filled in by exchange.ts, read once at the end
// for metrics and the access log. Never holds a secret, a signature or a header value of the client
// but the user agent.

import type { RequestSample } from "../placement/ports.ts";
import type { Why } from "../policy/ports.ts";
import type { Address } from "../s3/address.ts";
import type { ClusterId } from "../s3/names.ts";
import type { S3Operation } from "../s3/operation.ts";

export interface Trace {
  readonly requestId: string;
  readonly startedAtMs: number;
  readonly startedMonotonicMs: number;
  readonly method: string;
  readonly remoteAddress: string;
  readonly userAgent: string | null;
  operation: S3Operation | "Other";
  address: Address | null;
  requester: string | null;
  cluster: ClusterId | null;
  upstreamRequestId: string | null;
  why: Why | null;
  status: number;
  errorCode: string | null;
  requestBytes: number;
  responseBytes: number;
}

/** One line of the access log. */
export interface AccessRecord extends Readonly<Trace> {
  readonly durationMs: number;
}

export interface AccessLog {
  write(record: AccessRecord): void;
}

export function sampleOf(trace: Trace, durationMs: number): RequestSample {
  return {
    operation: trace.operation,
    status: trace.status,
    cluster: trace.cluster,
    durationSeconds: durationMs / 1000,
    requestBytes: trace.requestBytes,
    responseBytes: trace.responseBytes,
  };
}
