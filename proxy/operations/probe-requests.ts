// The requests of a probe over one cluster and one bucket, and what is read of their answers. Signed with
// the cluster's own keys. Everything it puts stands under one prefix and is taken away again.

import {
  type CancelSignal,
  type RequestBody,
  serviceIdentity,
  type Upstream,
  type UpstreamRequest,
} from "../placement/ports.ts";
import { fieldValue, type HeaderList } from "../s3/headers.ts";
import { type BucketName, type ClusterId, noTenant, parseObjectKey } from "../s3/names.ts";
import type { S3Operation } from "../s3/operation.ts";
import { operationFacts } from "../s3/operation.ts";
import { readDocument } from "./send.ts";

export interface ProbeTarget {
  readonly upstream: Upstream;
  readonly cluster: ClusterId;
  readonly signal: CancelSignal;
}

export interface ProbeAsk {
  readonly bucket?: BucketName;
  readonly key?: string;
  readonly query?: UpstreamRequest["query"];
  readonly headers?: HeaderList;
  readonly body?: RequestBody;
  readonly payloadSha256?: string;
}

export interface ProbeAnswer {
  readonly status: number;
  readonly headers: HeaderList;
  readonly text: string;
}

/** What a probe puts. */
export const probeBytes: Uint8Array = Buffer.from("headgate probe\n");
export const probeCrc32 = "T2HmjQ==";
export const wrongCrc32 = "AAAAAA==";
const probeMd5 = "d79357d4dc9b92cb8ec7c5b98a94b374";

/**
 * Whether the answer to an upload of `probeBytes` in framing is about them, and not about the framing: by
 * the checksum or, where none is kept and none encrypts, by the ETag.
 */
export function isOfProbeBytes(headers: HeaderList): boolean {
  const etag = fieldValue(headers, "etag")?.replaceAll('"', "");
  return fieldValue(headers, "x-amz-checksum-crc32") === probeCrc32 || etag === probeMd5;
}

/** Sends one request and reads its answer whole. @throws UpstreamError, S3Error */
export async function askCluster(
  operation: S3Operation,
  { upstream, cluster, signal }: ProbeTarget,
  ask: ProbeAsk = {},
): Promise<ProbeAnswer> {
  const response = await upstream.send(
    cluster,
    {
      operation,
      method: operationFacts[operation].method,
      tenant: noTenant,
      bucket: ask.bucket ?? null,
      key: ask.key === undefined ? null : parseObjectKey(ask.key),
      query: ask.query ?? [],
      headers: ask.headers ?? [],
      body: ask.body ?? null,
      payloadSha256: ask.payloadSha256 ?? null,
      identity: serviceIdentity,
    },
    signal,
  );
  const bytes = await readDocument(response, 64 * 1024);
  return {
    status: response.status,
    headers: response.headers,
    text: Buffer.from(bytes).toString("utf8"),
  };
}

/** A body whose checksum stands behind it. */
export function trailingBody(checksum: string): RequestBody {
  return {
    kind: "stream",
    lengthBytes: probeBytes.length,
    chunks: once(probeBytes),
    trailer: {
      field: "x-amz-checksum-crc32",
      valueLength: checksum.length,
      value: () => checksum,
    },
  };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(bytes);
}

export function etagOf({ headers }: ProbeAnswer): string {
  return fieldValue(headers, "etag") ?? "";
}
