// What the tour does to a running Headgate: S3 requests through an Upstream port that points at the
// proxy, and admin commands over HTTP. Unexpected answers become errors with what was said.

import type { Upstream, UpstreamRequest } from "../placement/ports.ts";
import { serviceIdentity } from "../placement/ports.ts";
import { readErrorDocument } from "../s3/error-document.ts";
import { fieldValue } from "../s3/headers.ts";
import { type ClusterId, noTenant, parseBucketName, parseObjectKey } from "../s3/names.ts";

export interface TourAnswer {
  readonly status: number;
  readonly body: Buffer;
  /** The S3 error code, `null` for success. */
  readonly code: string | null;
  readonly retryAfter: string | null;
}

export interface TourClientOptions {
  /** An adapter whose cluster `proxy` is the Headgate itself. */
  readonly upstream: Upstream;
  readonly proxy: ClusterId;
  /** `http://127.0.0.1:9001`. */
  readonly adminUrl: string;
  readonly signal: AbortSignal;
}

export class TourClient {
  readonly #options: TourClientOptions;

  constructor(options: TourClientOptions) {
    this.#options = options;
  }

  createBucket(bucket: string): Promise<TourAnswer> {
    return this.#send({ operation: "CreateBucket", method: "PUT" }, bucket, null);
  }

  put(bucket: string, key: string, text: string): Promise<TourAnswer> {
    const body = { kind: "bytes", bytes: Buffer.from(text, "utf8") } as const;
    return this.#send({ operation: "PutObject", method: "PUT", body }, bucket, key);
  }

  get(bucket: string, key: string): Promise<TourAnswer> {
    return this.#send({ operation: "GetObject", method: "GET" }, bucket, key);
  }

  /** An admin call. @throws Error for any answer but success. */
  async admin(method: "GET" | "PUT" | "POST", path: string, body?: unknown): Promise<unknown> {
    const response = await fetch(`${this.#options.adminUrl}/admin/v1${path}`, {
      method,
      headers: { "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: this.#options.signal,
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} was answered ${response.status}: ${text}`);
    return text === "" ? null : JSON.parse(text);
  }

  async #send(
    request: Pick<UpstreamRequest, "operation" | "method"> & Partial<UpstreamRequest>,
    bucket: string,
    key: string | null,
  ): Promise<TourAnswer> {
    const { upstream, proxy, signal } = this.#options;
    const response = await upstream.send(
      proxy,
      {
        tenant: noTenant,
        bucket: parseBucketName(bucket),
        key: key === null ? null : parseObjectKey(key),
        query: [],
        headers: [],
        body: null,
        payloadSha256: null,
        identity: serviceIdentity,
        ...request,
      },
      // One of its own: a signal warns when many requests listen to it at once.
      AbortSignal.any([signal]),
    );
    const chunks: Uint8Array[] = [];
    for await (const chunk of response.body) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    return {
      status: response.status,
      body,
      code: response.status < 300 ? null : (readErrorDocument(body)?.code ?? "unknown"),
      retryAfter: fieldValue(response.headers, "retry-after"),
    };
  }
}
