// The answers to CopyObject and UploadPartCopy (S3 API Reference). An upstream's own is read whole, with
// keep-alive blanks and RGW's Progress elements in it, and written anew: RGW 16.2 leaves the quotes off
// its ETag, and an error may come inside a 200. Also the tags of a source, which a copy takes along.

import { readErrorDocument, type UpstreamErrorDocument } from "./error-document.ts";
import { quoteEtag } from "./multipart-document.ts";
import { encodeComponent } from "./percent.ts";
import {
  childrenOf,
  childText,
  element,
  readXml,
  s3Document,
  writeElement,
  type XmlElement,
} from "./xml.ts";

/** What a copy made. */
export interface CopyResult {
  /** With quotes; `null` where the upstream left it out. */
  readonly etag: string | null;
  /** `2026-11-30T03:10:17.514Z`. */
  readonly lastModified: string;
  /** ChecksumCRC32 and its like, as answered. */
  readonly checksums: readonly XmlElement[];
}

type CopyResultName = "CopyObjectResult" | "CopyPartResult";

export type CopyResultReading =
  | ({ readonly kind: "copied"; readonly name: CopyResultName } & CopyResult)
  /** An error inside a 200, which came too late for a status. */
  | { readonly kind: "failed"; readonly document: UpstreamErrorDocument }
  | { readonly kind: "unreadable" };

const maxAnswerBytes = 1024 * 1024;

/** Reads the whole body of a 200. */
export function readCopyResult(body: Uint8Array): CopyResultReading {
  const reading = readXml(body, { maxBytes: maxAnswerBytes });
  if (reading.kind === "error") return { kind: "unreadable" };
  const { root } = reading;
  const document = root.name === "Error" ? readErrorDocument(body) : null;
  if (document !== null) return { kind: "failed", document };
  const lastModified = childText(root, "LastModified") ?? "";
  const { name } = root;
  if ((name !== "CopyObjectResult" && name !== "CopyPartResult") || lastModified === "") {
    return { kind: "unreadable" };
  }
  const etag = childText(root, "ETag") ?? "";
  return {
    kind: "copied",
    name,
    etag: etag === "" ? null : quoteEtag(etag),
    lastModified,
    checksums: root.children.filter((child) => child.name.startsWith("Checksum")),
  };
}

/** The answer to the client. */
export function copyResultDocument(
  name: CopyResultName,
  { etag, lastModified, checksums }: CopyResult,
): string {
  return s3Document(name, [
    element("LastModified", lastModified),
    element("ETag", etag ?? ""),
    ...checksums.map(writeElement),
  ]);
}

/** The tags of a GetObjectTagging answer as x-amz-tagging, `a=1&b=c%20d`; `null` when it is none. */
export function readTags(body: Uint8Array): string | null {
  const reading = readXml(body, { maxBytes: maxAnswerBytes });
  if (reading.kind === "error" || reading.root.name !== "Tagging") return null;
  return childrenOf(reading.root, "TagSet")
    .flatMap((set) => childrenOf(set, "Tag"))
    .map((tag) => [childText(tag, "Key") ?? "", childText(tag, "Value") ?? ""] as const)
    .map(([name, value]) => `${encodeComponent(name)}=${encodeComponent(value)}`)
    .join("&");
}
