// The content of one demo cluster: buckets, objects, unfinished uploads. Every change is one
// synchronous step, so a reader sees an object whole or not at all. Gone when the process ends.

import { createHash } from "node:crypto";
import { S3Error } from "../s3/errors.ts";
import type { HeaderList } from "../s3/headers.ts";
import type { BucketName, ObjectKey } from "../s3/names.ts";
import type { Sum, UploadSum } from "./checksums.ts";

export interface StoredObject {
  readonly key: ObjectKey;
  readonly bytes: Buffer;
  /** With quotes, `"d41d8cd98f00b204e9800998ecf8427e"`. */
  readonly etag: string;
  readonly modifiedMs: number;
  /** Content fields and `x-amz-meta-*` as they were put. */
  readonly headers: HeaderList;
  readonly sum: Sum | null;
  /** Of an object made of parts. */
  readonly parts?: readonly Pick<StoredPart, "number" | "checksum" | "sizeBytes">[];
}

export interface StoredPart {
  readonly number: number;
  readonly bytes: Buffer;
  readonly sizeBytes: number;
  readonly etag: string;
  /** Of the algorithm of its upload. */
  readonly checksum: string | null;
  readonly modifiedMs: number;
}

export interface StoredUpload {
  readonly id: string;
  readonly key: ObjectKey;
  readonly startedMs: number;
  readonly headers: HeaderList;
  readonly sum: UploadSum | null;
  /** The x-amz-tagging field, if sent. */
  readonly tagging: HeaderList;
  readonly parts: Map<number, StoredPart>;
}

/** One bucket; keys are listed in UTF-8 byte order. */
export class DemoBucket {
  readonly name: BucketName;
  readonly createdMs: number;
  /** Whether anybody may put objects into it, as the canned ACL `public-read-write` has it. */
  readonly publicWrite: boolean;
  readonly uploads = new Map<string, StoredUpload>();
  readonly #objects = new Map<ObjectKey, StoredObject>();
  readonly #settings = new Map<ObjectKey | null, Map<string, Buffer>>();
  #sorted: readonly ObjectKey[] | null = null;

  constructor(name: BucketName, createdMs: number, publicWrite: boolean) {
    this.name = name;
    this.createdMs = createdMs;
    this.publicWrite = publicWrite;
  }

  object(key: ObjectKey): StoredObject | null {
    return this.#objects.get(key) ?? null;
  }

  put(object: StoredObject): void {
    if (!this.#objects.has(object.key)) this.#sorted = null;
    this.#settings.delete(object.key);
    this.#objects.set(object.key, object);
  }

  /** Documents by sub-resource, of an object or, for `null`, of the bucket. */
  settings(key: ObjectKey | null): Map<string, Buffer> {
    const settings = this.#settings.get(key) ?? new Map<string, Buffer>();
    this.#settings.set(key, settings);
    return settings;
  }

  delete(key: ObjectKey): void {
    this.#settings.delete(key);
    if (this.#objects.delete(key)) this.#sorted = null;
  }

  get size(): number {
    return this.#objects.size;
  }

  keys(): readonly ObjectKey[] {
    this.#sorted ??= [...this.#objects.keys()]
      .map((key) => ({ key, bytes: Buffer.from(key, "utf8") }))
      .sort((left, right) => Buffer.compare(left.bytes, right.bytes))
      .map(({ key }) => key);
    return this.#sorted;
  }
}

export class DemoStore {
  readonly #buckets = new Map<BucketName, DemoBucket>();

  buckets(): readonly DemoBucket[] {
    return [...this.#buckets.values()].sort((left, right) => (left.name < right.name ? -1 : 1));
  }

  find(name: BucketName): DemoBucket | null {
    return this.#buckets.get(name) ?? null;
  }

  /** @throws S3Error NoSuchBucket */
  bucket(name: BucketName): DemoBucket {
    const bucket = this.#buckets.get(name);
    if (bucket === undefined) throw new S3Error("NoSuchBucket");
    return bucket;
  }

  create(name: BucketName, nowMs: number, publicWrite: boolean): void {
    if (this.#buckets.has(name)) return;
    this.#buckets.set(name, new DemoBucket(name, nowMs, publicWrite));
  }

  /** @throws S3Error NoSuchBucket, BucketNotEmpty */
  remove(name: BucketName): void {
    if (this.bucket(name).size > 0) throw new S3Error("BucketNotEmpty");
    this.#buckets.delete(name);
  }
}

/** The ETag of bytes put in one piece, with quotes. */
export function etagOf(bytes: Uint8Array): string {
  return `"${createHash("md5").update(bytes).digest("hex")}"`;
}

/** The ETag of an object made of parts: MD5 over their MD5s, and their number. */
export function multipartEtag(parts: readonly StoredPart[]): string {
  const hash = createHash("md5");
  for (const part of parts) hash.update(Buffer.from(part.etag.slice(1, -1), "hex"));
  return `"${hash.digest("hex")}-${parts.length}"`;
}
