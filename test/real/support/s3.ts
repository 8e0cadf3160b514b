// S3 from the outside: AWS SDK v3 against Headgate or straight against one RGW, and what an answer was.

import { createHash } from "node:crypto";
import {
  GetObjectCommand,
  ListObjectsV2Command,
  type ListObjectsV2CommandOutput,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from "@aws-sdk/client-s3";

export interface Pair {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

/** A client of one endpoint, path-style, without retries, checksums only where S3 demands them. */
export function s3Client(endpoint: string, credentials: Pair): S3Client {
  return new S3Client({
    endpoint,
    credentials,
    region: "us-east-1",
    forcePathStyle: true,
    maxAttempts: 1,
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
  });
}

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Bytes that differ from seed to seed and do not compress. */
export function testBytes(lengthBytes: number, seed: string): Buffer {
  const block = createHash("sha512").update(seed).digest();
  const bytes = Buffer.alloc(lengthBytes, block);
  for (let at = 0; at + 4 <= lengthBytes; at += 4096) bytes.writeUInt32BE(at, at);
  return bytes;
}

export interface S3Answer {
  readonly status: number;
  /** S3 error code; null for a success. */
  readonly code: string | null;
  readonly retryAfter: string | null;
}

/** Status, code and Retry-After of a command, whether it succeeded or not. */
export async function answerOf(
  sent: Promise<{ readonly $metadata: { readonly httpStatusCode?: number } }>,
): Promise<S3Answer> {
  try {
    const { $metadata } = await sent;
    return { status: $metadata.httpStatusCode ?? 0, code: null, retryAfter: null };
  } catch (error) {
    if (!(error instanceof S3ServiceException)) throw error;
    return {
      status: error.$metadata.httpStatusCode ?? 0,
      code: error.name,
      retryAfter: error.$response?.headers["retry-after"] ?? null,
    };
  }
}

export function put(client: S3Client, bucket: string, key: string, body: string | Uint8Array) {
  return client.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: body }));
}

/** The object's bytes, or null when the endpoint says 404. */
export async function read(
  client: S3Client,
  bucket: string,
  key: string,
): Promise<Uint8Array | null> {
  try {
    const answer = await client.send(new GetObjectCommand({ Bucket: bucket, Key: key }));
    return (await answer.Body?.transformToByteArray()) ?? new Uint8Array();
  } catch (error) {
    if (error instanceof S3ServiceException && error.$metadata.httpStatusCode === 404) return null;
    throw error;
  }
}

/** All keys of a bucket in the order they were listed; none when there is no such bucket. */
export async function keysOf(
  client: S3Client,
  bucket: string,
  pageSize = 1000,
): Promise<readonly string[]> {
  const keys: string[] = [];
  let token: string | undefined;
  do {
    let page: ListObjectsV2CommandOutput;
    try {
      page = await client.send(
        new ListObjectsV2Command({
          Bucket: bucket,
          MaxKeys: pageSize,
          ...(token === undefined ? {} : { ContinuationToken: token }),
        }),
      );
    } catch (error) {
      if (error instanceof S3ServiceException && error.name === "NoSuchBucket") return keys;
      throw error;
    }
    for (const { Key } of page.Contents ?? []) if (Key !== undefined) keys.push(Key);
    token = page.NextContinuationToken;
  } while (token !== undefined);
  return keys;
}

/** Runs `work` for each item, `width` at a time. */
export async function inParallel<T>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const queue = [...items];
  await Promise.all(
    Array.from({ length: width }, async () => {
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
    }),
  );
}
