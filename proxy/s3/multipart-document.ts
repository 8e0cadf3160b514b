// The documents of a multipart upload. Upstreams answer with their own upload id, bucket spelling and
// address; clients see the handle, the names they used and the address they called, all else verbatim.
// S3 API Reference CreateMultipartUpload, CompleteMultipartUpload, ListParts; ETag of an upload: MD5 of
// the parts' binary MD5s, a dash, their count.

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { readErrorDocument, type UpstreamErrorDocument } from "./error-document.ts";
import { S3Error } from "./errors.ts";
import { encodePath } from "./percent.ts";
import { maxPartNumber, partNumberText } from "./upload-query.ts";
import {
  childOf,
  childrenOf,
  childText,
  element,
  group,
  optionalElement,
  readXml,
  s3Document,
  writeElement,
  type XmlElement,
  type XmlFault,
} from "./xml.ts";

/** What a client knows an upload by. */
export interface UploadIdentity {
  readonly bucket: string;
  /** Decoded. */
  readonly key: string;
  /** The handle given to the client, never the upstream's id. */
  readonly uploadId: string;
}

/** A document that is not what the operation answers. */
interface DocumentFault {
  readonly kind: "error";
  readonly fault: XmlFault | "unexpected";
}

const unexpected: DocumentFault = { kind: "error", fault: "unexpected" };
const maxAnswerBytes = 4 * 1024 * 1024;

// ---- CreateMultipartUpload ----

export type InitiateReading =
  | { readonly kind: "upload"; readonly uploadId: string }
  | DocumentFault;

/** The upstream's upload id out of InitiateMultipartUploadResult. */
export function readInitiateResult(body: string | Uint8Array): InitiateReading {
  const reading = readXml(body, { maxBytes: maxAnswerBytes });
  if (reading.kind === "error") return reading;
  const uploadId = childText(reading.root, "UploadId");
  if (reading.root.name !== "InitiateMultipartUploadResult" || !uploadId) return unexpected;
  return { kind: "upload", uploadId };
}

/** The answer to CreateMultipartUpload. */
export function initiateDocument(identity: UploadIdentity): string {
  return s3Document("InitiateMultipartUploadResult", [
    element("Bucket", identity.bucket),
    element("Key", identity.key),
    element("UploadId", identity.uploadId),
  ]);
}

// ---- CompleteMultipartUpload, the request ----

export interface CompletePart {
  /** 1–10000. */
  readonly partNumber: number;
  /** As sent, with or without quotes. */
  readonly etag: string;
  /** ChecksumCRC32 and its like, as sent. */
  readonly checksums: readonly XmlElement[];
}

export type CompleteReading =
  | { readonly kind: "parts"; readonly parts: readonly CompletePart[] }
  | { readonly kind: "error"; readonly error: S3Error };

/** The largest body of CompleteMultipartUpload: 10000 parts with one SHA-512 each need 3 MiB. */
export const maxCompleteBytes = 4 * 1024 * 1024;

/** Reads and checks the body; when this succeeds the body may be sent on as it is. */
export function readCompleteRequest(body: Uint8Array): CompleteReading {
  const reading = readXml(body, { maxBytes: maxCompleteBytes });
  if (reading.kind === "error") {
    return refuse(new S3Error(reading.fault === "too_large" ? "EntityTooLarge" : "MalformedXML"));
  }
  const nodes = childrenOf(reading.root, "Part");
  if (reading.root.name !== "CompleteMultipartUpload" || nodes.length === 0) return malformed();
  if (nodes.length > maxPartNumber) return malformed("The request names more than 10000 parts");
  const parts: CompletePart[] = [];
  let last = 0;
  for (const node of nodes) {
    const part = readPart(node);
    if (part === null) return malformed();
    if (part.partNumber < 1 || part.partNumber > maxPartNumber) {
      return refuse(new S3Error("InvalidArgument", { message: partNumberText }));
    }
    if (part.partNumber < last) return refuse(new S3Error("InvalidPartOrder"));
    // RGW takes the last of those that are named twice; a cluster that does not says so itself.
    if (part.partNumber === last) parts.pop();
    last = part.partNumber;
    parts.push(part);
  }
  return { kind: "parts", parts };
}

function refuse(error: S3Error): CompleteReading {
  return { kind: "error", error };
}

function malformed(message?: string): CompleteReading {
  return refuse(new S3Error("MalformedXML", message === undefined ? {} : { message }));
}

function readPart(node: XmlElement): CompletePart | null {
  const number = childText(node, "PartNumber")?.trim() ?? "";
  const etag = childText(node, "ETag")?.trim() ?? "";
  if (!/^\d{1,9}$/.test(number) || etag === "") return null;
  const checksums = node.children.filter((child) => child.name.startsWith("Checksum"));
  return { partNumber: Number(number), etag, checksums };
}

/** A body of CompleteMultipartUpload for an upstream, when the client's own is not to be used. */
export function completeRequestDocument(parts: readonly CompletePart[]): string {
  return s3Document(
    "CompleteMultipartUpload",
    parts.map(({ partNumber, etag, checksums }) =>
      group("Part", [
        element("PartNumber", String(partNumber)),
        element("ETag", etag),
        ...checksums.map(writeElement),
      ]),
    ),
  );
}

// ---- CompleteMultipartUpload, the answer ----

export type CompleteResultReading =
  /** `etag`: quoted; `null` where the upstream left it out or empty, as RGW 16.2 does. */
  | {
      readonly kind: "completed";
      readonly etag: string | null;
      readonly checksums: readonly XmlElement[];
    }
  /** An error inside a 200, which came too late for a status. */
  | { readonly kind: "failed"; readonly document: UpstreamErrorDocument }
  | DocumentFault;

/** Reads the whole body of a 200 to CompleteMultipartUpload, with or without keep-alive blanks. */
export function readCompleteResult(body: string | Uint8Array): CompleteResultReading {
  const reading = readXml(body, { maxBytes: maxAnswerBytes });
  if (reading.kind === "error") return reading;
  const { root } = reading;
  if (root.name === "Error") {
    const document = readErrorDocument(body);
    return document === null ? unexpected : { kind: "failed", document };
  }
  if (root.name !== "CompleteMultipartUploadResult") return unexpected;
  const etag = childText(root, "ETag") ?? "";
  return {
    kind: "completed",
    etag: etag === "" ? null : quoteEtag(etag),
    checksums: root.children.filter((child) => child.name.startsWith("Checksum")),
  };
}

/** The answer to CompleteMultipartUpload. */
export function completeResultDocument(answer: {
  /** `http://host/bucket/key`, from `objectLocation`. */
  readonly location: string;
  readonly bucket: string;
  readonly key: string;
  /** Quoted; `null` leaves the element out. */
  readonly etag: string | null;
  readonly checksums: readonly XmlElement[];
}): string {
  return s3Document("CompleteMultipartUploadResult", [
    element("Location", answer.location),
    element("Bucket", answer.bucket),
    element("Key", answer.key),
    optionalElement("ETag", answer.etag),
    ...answer.checksums.map(writeElement),
  ]);
}

/** The address of an object as the client called it: scheme, Host field and raw path. */
export function objectLocation(
  scheme: "http" | "https",
  head: { readonly host: string; readonly rawPath: string },
): string {
  return `${scheme}://${head.host}${head.rawPath}`;
}

/** `"…"` around an ETag that has none. RGW answers Copy and Complete without. */
export function quoteEtag(etag: string): string {
  return etag.startsWith('"') || etag.startsWith("W/") ? etag : `"${etag}"`;
}

/**
 * The ETag of a completed upload, `"<32 hex>-2"`, from those of its parts.
 * `null` when one is not an MD5 (parts encrypted with SSE-C or SSE-KMS), since then S3's is not either.
 */
export function multipartEtag(partEtags: readonly string[]): string | null {
  const hash = createHash("md5");
  for (const etag of partEtags) {
    const digest = /^"?([0-9a-fA-F]{32})"?$/.exec(etag)?.[1];
    if (digest === undefined) return null;
    hash.update(Buffer.from(digest, "hex"));
  }
  return partEtags.length === 0 ? null : `"${hash.digest("hex")}-${partEtags.length}"`;
}

// ---- ListParts ----

export type ListPartsReading =
  | { readonly kind: "document"; readonly document: string }
  | DocumentFault;

/**
 * Turns an upstream's ListPartsResult into the client's: names and handle ours, all else kept.
 * @param isEmpty the client asked for no parts, and the upstream was asked for one
 */
export function rewriteListParts(
  body: string | Uint8Array,
  identity: UploadIdentity,
  isEmpty = false,
): ListPartsReading {
  const reading = readXml(body, { maxBytes: maxAnswerBytes });
  if (reading.kind === "error") return reading;
  const { root } = reading;
  if (root.name !== "ListPartsResult" || childOf(root, "UploadId") === null) return unexpected;
  const encoded = childText(root, "EncodingType") === "url";
  const ours: ReadonlyMap<string, string> = new Map([
    ["Bucket", identity.bucket],
    ["Key", encoded ? encodePath(identity.key) : identity.key],
    ["UploadId", identity.uploadId],
    ...(isEmpty ? emptyPage : []),
  ]);
  const children = root.children.map((child) => {
    if (isEmpty && ofParts.has(child.name)) return "";
    const text = ours.get(child.name);
    return text === undefined ? writeElement(child) : element(child.name, text);
  });
  return { kind: "document", document: s3Document("ListPartsResult", children) };
}

/** Nothing follows a page that nobody wants to see: pagers would ask for ever. */
const emptyPage = [
  ["MaxParts", "0"],
  ["IsTruncated", "false"],
] as const;
const ofParts: ReadonlySet<string> = new Set(["NextPartNumberMarker", "Part"]);
