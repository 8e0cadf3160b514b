// What a Ceph RGW makes of fields that S3 obeys, by wire probes of 16.2.15 and 18.2.7; real tests hold it.
//
// CopyObject within a cluster:
//   x-amz-metadata-directive: REPLACE          obeyed, and the tags are lost; S3 keeps them
//   x-amz-tagging-directive, x-amz-tagging     ignored; with metadata replaced, kept so that it reads none
//   x-amz-website-redirect-location            ignored, unless metadata is replaced; the source's stays
//   x-amz-object-lock-*                        ignored by 16.2, which keeps those of the source; 18.2 obeys
//   x-amz-server-side-encryption-*             ignored, and a source that is encrypted is 501
//   x-amz-storage-class                        obeyed; without it, told as the source's, which it is not
//   ACL, grants, content fields                obeyed
// UploadPartCopy: the key of a source that a customer encrypted is not read, so that it is 400.
// CreateMultipartUpload: tagging and object lock are ignored, all else is obeyed. PutObject obeys all.

import type { CopyDirectives } from "./copy-fields.ts";
import { fieldValue, type HeaderList } from "./headers.ts";

const redirect = "x-amz-website-redirect-location";
const tagging = "x-amz-tagging";
const storageClass = "x-amz-storage-class";
const objectLock = /^x-amz-object-lock-/;
const sourceKey = /^x-amz-copy-source-server-side-encryption-customer-/;
const encryption = /^x-amz-(?:copy-source-)?server-side-encryption/;

/** Whether a copy within an RGW is that of S3. @param source its answer to HEAD for the source */
export function rgwCopiesAsS3(
  request: HeaderList,
  source: HeaderList,
  directives: CopyDirectives,
): boolean {
  const asks = request.some(([name]) => objectLock.test(name) || encryption.test(name));
  if (asks || source.some(([name]) => encryption.test(name))) return false;
  const isTagged = Number(fieldValue(source, "x-amz-tagging-count") ?? 0) > 0;
  if (directives.metadata === "REPLACE") {
    const isRight = directives.tagging === "REPLACE" || !isTagged;
    return isRight && fieldValue(request, tagging) === null;
  }
  if (directives.tagging === "REPLACE") {
    if (isTagged || fieldValue(request, tagging) !== null) return false;
  }
  const stays = source.some(([name]) => name === redirect || objectLock.test(name));
  const isCold = (fieldValue(source, storageClass) ?? "STANDARD") !== "STANDARD";
  if (stays || (isCold && fieldValue(request, storageClass) === null)) return false;
  return fieldValue(request, redirect) === null;
}

/** Whether an RGW reads the source of an UploadPartCopy with the key that comes with it. */
export function rgwReadsPart(request: HeaderList): boolean {
  return !request.some(([name]) => sourceKey.test(name));
}

/** Whether an RGW gives an object with these fields all that they say only where it is put whole. */
export function isWholeForRgw(fields: HeaderList): boolean {
  return fields.some(([name]) => name === tagging || objectLock.test(name));
}
