// The documents of DeleteObjects (S3 API Reference): the keys that a client names, what is asked of one
// cluster for its part of them, what that cluster says of each, and the client's answer. The request is
// always written anew for an upstream, never quiet: a key that is not answered for was not deleted.

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { contentMd5Error } from "./content-md5.ts";
import { S3Error, type S3ErrorCode } from "./errors.ts";
import type { HeaderList } from "./headers.ts";
import { type ObjectKey, parseObjectKey } from "./names.ts";
import {
  childrenOf,
  childText,
  element,
  group,
  optionalElement,
  readXml,
  s3Document,
  writeElement,
  type XmlElement,
} from "./xml.ts";

/** One object to delete. */
export interface DeleteEntry {
  readonly key: ObjectKey;
  readonly versionId: string | null;
  /** ETag, LastModifiedTime and Size, as sent: delete only what is still so. */
  readonly conditions: readonly XmlElement[];
}

/** What a DeleteObjects request asks for, 1 to 1000 entries. */
export interface Deletion {
  readonly entries: readonly DeleteEntry[];
  /** Answer failures only. */
  readonly quiet: boolean;
  /** It came with a digest, beside what its signature holds of it. */
  readonly digested: boolean;
}

export type DeletionReading =
  | { readonly kind: "deletion"; readonly deletion: Deletion }
  | { readonly kind: "error"; readonly error: S3Error };

/** 1000 keys of 1024 bytes, and as much again for tags and escapes. */
export const maxDeleteBytes = 2 * 1024 * 1024;
const maxEntries = 1000;
/** Of each entry: itself, key, version and three conditions. */
const maxElements = 2 + maxEntries * 6;
const conditionNames: ReadonlySet<string> = new Set(["ETag", "LastModifiedTime", "Size"]);

/** Reads the body of a request. @param headers for Content-MD5, which is checked where it is sent. */
export function readDeleteRequest(body: Uint8Array, headers: HeaderList): DeletionReading {
  const digestError = contentMd5Error(headers, body);
  if (digestError !== null) return { kind: "error", error: digestError };
  const reading = readXml(body, { maxBytes: maxDeleteBytes, maxElements: maxElements + 1 });
  if (reading.kind === "error" || reading.root.name !== "Delete") return refuse("MalformedXML");
  const nodes = childrenOf(reading.root, "Object");
  if (nodes.length === 0) return refuse("MalformedXML");
  if (nodes.length > maxEntries) {
    return refuse("MalformedXML", `The request names more than ${maxEntries} keys`);
  }
  const entries: DeleteEntry[] = [];
  for (const node of nodes) {
    const key = parseObjectKey(childText(node, "Key") ?? "");
    if (key === null) return refuse("MalformedXML", "An object has no key");
    entries.push({
      key,
      versionId: childText(node, "VersionId") || null,
      conditions: node.children.filter(({ name }) => conditionNames.has(name)),
    });
  }
  const quiet = childText(reading.root, "Quiet")?.trim().toLowerCase() === "true";
  return { kind: "deletion", deletion: { entries, quiet, digested: isDigested(headers) } };
}

function isDigested(headers: HeaderList): boolean {
  return headers.some(
    ([name]) =>
      name === "content-md5" ||
      name === "x-amz-trailer" ||
      (name.startsWith("x-amz-checksum-") && !/-(?:algorithm|mode|type)$/.test(name)),
  );
}

function refuse(code: S3ErrorCode, message?: string): DeletionReading {
  return { kind: "error", error: new S3Error(code, message === undefined ? {} : { message }) };
}

/** A body for an upstream with what protects it: AWS demands a digest, RGW takes any. */
export interface DeleteBody {
  readonly bytes: Uint8Array;
  readonly sha256: string;
  readonly md5: string;
}

/** The body that asks one cluster to delete these. */
export function deleteRequestBody(entries: readonly DeleteEntry[]): DeleteBody {
  const document = s3Document(
    "Delete",
    entries.map(({ key, versionId, conditions }) =>
      group("Object", [
        element("Key", key),
        optionalElement("VersionId", versionId),
        ...conditions.map(writeElement),
      ]),
    ),
  );
  const bytes = Buffer.from(document, "utf8");
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const md5 = createHash("md5").update(bytes).digest("base64");
  return { bytes, sha256, md5 };
}

// oxlint-disable-next-line no-control-regex -- characters that XML 1.0 has no form for
const unwritable = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/;

/** Whether a key can stand in a document that a strict parser reads; else it is deleted by its path. */
export function fitsDocument(key: ObjectKey): boolean {
  return !unwritable.test(key);
}

/** What became of one entry. */
export type DeleteOutcome =
  | {
      readonly kind: "deleted";
      /** `true` or `false` as the upstream says it; `null`: nothing said. */
      readonly deleteMarker: string | null;
      readonly deleteMarkerVersionId: string | null;
    }
  | { readonly kind: "failed"; readonly code: string; readonly message: string };

export interface DeleteResultRow {
  readonly key: string;
  readonly versionId: string | null;
  readonly outcome: DeleteOutcome;
}

/** An upstream's DeleteResult row by row; `null` when it is none. */
export function readDeleteResult(body: Uint8Array): readonly DeleteResultRow[] | null {
  const reading = readXml(body, { maxBytes: 8 * 1024 * 1024 });
  if (reading.kind === "error" || reading.root.name !== "DeleteResult") return null;
  const rows: DeleteResultRow[] = [];
  for (const node of reading.root.children) {
    const outcome = outcomeOf(node);
    if (outcome === null) continue;
    const versionId = childText(node, "VersionId") || null;
    rows.push({ key: childText(node, "Key") ?? "", versionId, outcome });
  }
  return rows;
}

function outcomeOf(node: XmlElement): DeleteOutcome | null {
  if (node.name === "Deleted") {
    return {
      kind: "deleted",
      deleteMarker: childText(node, "DeleteMarker"),
      deleteMarkerVersionId: childText(node, "DeleteMarkerVersionId") || null,
    };
  }
  if (node.name !== "Error") return null;
  const code = childText(node, "Code") || "InternalError";
  return { kind: "failed", code, message: childText(node, "Message") ?? "" };
}

/** The answer to the client, in the order given. */
export function deleteResultDocument(rows: readonly DeleteResultRow[], quiet: boolean): string {
  const shown = quiet ? rows.filter(({ outcome }) => outcome.kind === "failed") : rows;
  return s3Document(
    "DeleteResult",
    shown.map(({ key, versionId, outcome }) => {
      const name = [element("Key", key), optionalElement("VersionId", versionId)];
      if (outcome.kind === "failed") {
        const { code, message } = outcome;
        return group("Error", [...name, element("Code", code), element("Message", message)]);
      }
      return group("Deleted", [
        ...name,
        optionalElement("DeleteMarker", outcome.deleteMarker),
        optionalElement("DeleteMarkerVersionId", outcome.deleteMarkerVersionId),
      ]);
    }),
  );
}
