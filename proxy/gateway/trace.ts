// What is written down of one exchange while it runs: filled in by exchange.ts, read once at the end
// for metrics and the access log. Never holds a secret, a signature or a header value of the client
// but the user agent.

import type { RequestSample } from "../placement/ports.ts";
import type { Why } from "../policy/ports.ts";
import type { Address } from "../s3/address.ts";
import type { ClusterId } from "../s3/names.ts";

export interface Trace {
  readonly requestId: string;
  readonly startedAtMs: number;
  readonly startedMonotonicMs: number;
  readonly method: string;
  /** The client's, where a trusted proxy says it. */
  remoteAddress: string;
  userAgent: string | null;
  operation: RequestSample["operation"];
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

/** One line of the access log; admin/access-log.ts writes it. */
export interface AccessRecord {
  readonly startedAtMs: number;
  readonly durationMs: number;
  readonly requestId: string;
  readonly remoteAddress: string;
  /** Access key id; null: anonymous or not known. */
  readonly requester: string | null;
  readonly method: string;
  readonly operation: RequestSample["operation"];
  readonly bucket: string | null;
  readonly key: string | null;
  readonly status: number;
  readonly errorCode: string | null;
  readonly bytesReceived: number;
  readonly bytesSent: number;
  readonly userAgent: string | null;
  readonly cluster: ClusterId | null;
  /** Where the route came from, `default_wheel`; null when none was needed. */
  readonly routeSource: string | null;
  readonly upstreamRequestId: string | null;
}

export interface AccessLog {
  write(record: AccessRecord): void;
}

export function accessRecord(trace: Trace, durationMs: number): AccessRecord {
  const { address, why } = trace;
  return {
    startedAtMs: trace.startedAtMs,
    durationMs,
    requestId: trace.requestId,
    remoteAddress: trace.remoteAddress,
    requester: trace.requester,
    method: trace.method,
    operation: trace.operation,
    bucket: address?.bucket ?? null,
    key: address?.key ?? null,
    status: trace.status,
    errorCode: trace.errorCode,
    bytesReceived: trace.requestBytes,
    bytesSent: trace.responseBytes,
    userAgent: trace.userAgent,
    cluster: trace.cluster,
    routeSource: why?.source ?? null,
    upstreamRequestId: trace.upstreamRequestId,
  };
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
