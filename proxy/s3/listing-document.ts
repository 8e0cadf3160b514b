// Writes the answer to ListObjects and ListObjectsV2. Under encoding-type=url every text made of keys
// is encoded, also NextMarker (RGW 16.2 leaves it raw, and clients loop); tokens never are.

import type { ListEntry, ListOwner } from "./listing.ts";
import type { MergedPage } from "./listing-merge.ts";
import type { ListRequest } from "./listing-request.ts";
import { encodePath } from "./percent.ts";
import { element, group, optionalElement, s3Document, writeElement } from "./xml.ts";

export interface ListAnswer {
  /** As the client named it. */
  readonly bucket: string;
  readonly page: MergedPage;
  /** V2: the token that goes on behind `page.last`; needed when the page is truncated. */
  readonly nextContinuationToken: string | null;
}

/** The body of a list answer, in the version that was asked for. */
export function listDocument(request: ListRequest, answer: ListAnswer): string {
  const { page } = answer;
  const write = request.encodingType === "url" ? encodePath : plain;
  return s3Document("ListBucketResult", [
    element("Name", answer.bucket),
    element("Prefix", readsAlike(request) ? request.prefix : write(request.prefix)),
    ...(request.version === 1 ? markers(request, page, write) : tokens(request, answer, write)),
    element("MaxKeys", String(request.maxKeys)),
    request.delimiter === "" ? "" : element("Delimiter", write(request.delimiter)),
    optionalElement("EncodingType", request.encodingType),
    element("IsTruncated", String(page.truncated)),
    ...page.entries.map((entry) => contents(entry, request.fetchOwner, write)),
    ...page.commonPrefixes.map((prefix) =>
      group("CommonPrefixes", [element("Prefix", write(prefix))]),
    ),
  ]);
}

// oxlint-disable-next-line no-control-regex -- what XML 1.0 cannot hold, and what decoding changes
const unlike = /[%+\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/;

/**
 * Whether the prefix stays as it is. S3 encodes it, but botocore does not decode that of V1, and shows its
 * callers another prefix than they asked for: so it is encoded where a decoder would else read another one.
 */
function readsAlike({ version, prefix }: ListRequest): boolean {
  return version === 1 && !unlike.test(prefix);
}

type KeyWriter = (text: string) => string;

function plain(text: string): string {
  return text;
}

/** S3 gives NextMarker only with a delimiter, RGW always; a client that needs none ignores it. */
function markers(request: ListRequest, page: MergedPage, write: KeyWriter): readonly string[] {
  const next = page.truncated && page.last !== null ? write(page.last.text) : null;
  return [element("Marker", write(request.marker)), optionalElement("NextMarker", next)];
}

function tokens(request: ListRequest, answer: ListAnswer, write: KeyWriter): readonly string[] {
  const { page, nextContinuationToken } = answer;
  const startAfter = request.startAfter === null ? null : write(request.startAfter);
  return [
    optionalElement("StartAfter", startAfter),
    optionalElement("ContinuationToken", request.continuationToken),
    optionalElement("NextContinuationToken", page.truncated ? nextContinuationToken : null),
    element("KeyCount", String(page.entries.length + page.commonPrefixes.length)),
  ];
}

function contents(entry: ListEntry, withOwner: boolean, write: KeyWriter): string {
  return group("Contents", [
    element("Key", write(entry.key)),
    optionalElement("LastModified", entry.lastModified),
    optionalElement("ETag", entry.etag),
    optionalElement("Size", entry.size),
    optionalElement("StorageClass", entry.storageClass),
    withOwner && entry.owner !== null ? ownerElement(entry.owner) : "",
    ...entry.extra.map(writeElement),
  ]);
}

/** `<Owner><ID>…</ID><DisplayName>…</DisplayName></Owner>`. */
export function ownerElement(owner: ListOwner): string {
  return group("Owner", [
    element("ID", owner.id),
    optionalElement("DisplayName", owner.displayName),
  ]);
}
