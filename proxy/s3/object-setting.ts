// Whether what a server answers to a GET of an object's setting is that setting. One that does not know
// the sub-resource answers the object itself, or a list (S3 API Reference, "Response Syntax" of each).

import { group, readXml, s3Document } from "./xml.ts";

const maxBytes = 8 * 1024 * 1024;

/** Sub-resource → root of its document. */
const roots: ReadonlyMap<string, string> = new Map([
  ["acl", "AccessControlPolicy"],
  ["legal-hold", "LegalHold"],
  ["retention", "Retention"],
  ["tagging", "Tagging"],
]);

/** What GetObjectTagging answers for an object without tags. */
export const noTagsDocument = s3Document("Tagging", [group("TagSet", [])]);

/** A torrent is a bencoded dictionary: `d8:announce…`. */
const torrent = /^d\d+:/;

/** What S3 answers for a setting that an object does not have, and for nothing else. */
const unsetCodes: ReadonlySet<string> = new Set([
  "NoSuchObjectLockConfiguration",
  "NoSuchTagSet",
  "NoSuchTagSetError",
  "ObjectLockConfigurationNotFoundError",
]);

export function isUnsetCode(code: string): boolean {
  return unsetCodes.has(code);
}

export function isObjectSetting(subresource: string, document: Uint8Array): boolean {
  if (subresource === "torrent") {
    return torrent.test(Buffer.from(document.subarray(0, 16)).toString("latin1"));
  }
  const reading = readXml(document, { maxBytes });
  return reading.kind === "document" && reading.root.name === roots.get(subresource);
}
