// The access log of S3 requests: one JSON object a line, fields named as in the JSON form of the S3
// server access log, with the cluster and the decision beside them. Never an Authorization header, a
// signature, or a query: a presigned one is a secret.

import type { ClusterId } from "../s3/names.ts";
import type { LineSink } from "./log.ts";

/** One answered request. */
interface AccessEntry {
  readonly startedAtMs: number;
  readonly durationMs: number;
  readonly requestId: string;
  readonly remoteAddress: string | null;
  /** Access key id; null: anonymous or not known. */
  readonly requester: string | null;
  readonly method: string;
  readonly operation: string;
  readonly bucket: string | null;
  readonly key: string | null;
  readonly status: number;
  readonly errorCode: string | null;
  readonly bytesReceived: number;
  readonly bytesSent: number;
  readonly userAgent: string | null;
  readonly cluster: ClusterId | null;
  /** Where the route came from, `default_wheel`. */
  readonly routeSource: string | null;
  readonly upstreamRequestId: string | null;
}

export interface AccessLog {
  write(entry: AccessEntry): void;
}

/** `access_log.format: off`. */
export const noAccessLog: AccessLog = { write: () => undefined };

/** The user agent is the client's own text: long ones are cut. */
const maxUserAgentLength = 256;

export function jsonAccessLog(sink: LineSink): AccessLog {
  return {
    write(entry) {
      const line = {
        request_time: new Date(entry.startedAtMs).toISOString(),
        request_id: entry.requestId,
        remote_ip: entry.remoteAddress,
        requester: entry.requester,
        method: entry.method,
        operation: entry.operation,
        bucket_name: entry.bucket,
        key: entry.key,
        http_status: entry.status,
        error_code: entry.errorCode,
        bytes_received: entry.bytesReceived,
        bytes_sent: entry.bytesSent,
        total_time_ms: Math.round(entry.durationMs * 1000) / 1000,
        user_agent: entry.userAgent?.slice(0, maxUserAgentLength) ?? null,
        cluster: entry.cluster,
        route_source: entry.routeSource,
        upstream_request_id: entry.upstreamRequestId,
      };
      sink.write(`${JSON.stringify(line)}\n`);
    },
  };
}
