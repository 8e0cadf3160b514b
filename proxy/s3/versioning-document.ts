// The documents that keep a bucket's versions: PutBucketVersioning and PutObjectLockConfiguration as far
// as they are wrong whatever the bucket, with AWS S3's codes (RGW 16.2 and 18.2: InvalidArgument for the
// first), and what a cluster says of versioning. The rest of them is for a cluster to judge.

import { S3Error } from "./errors.ts";
import { childrenOf, readXml, type XmlElement } from "./xml.ts";

/** The longest has four elements. */
const maxBytes = 16_384;

/** What refuses a VersioningConfiguration; `null`: nothing. */
export function versioningError(document: Uint8Array): S3Error | null {
  const root = rootOf(document, "VersioningConfiguration");
  if (root === null) return new S3Error("MalformedXML");
  const [status, ...others] = childrenOf(root, "Status");
  if (status === undefined) return new S3Error("IllegalVersioningConfigurationException");
  const isKnown = status.text === "Enabled" || status.text === "Suspended";
  const isMfaKnown = childrenOf(root, "MfaDelete").every(
    ({ text }) => text === "Enabled" || text === "Disabled",
  );
  return isKnown && isMfaKnown && others.length === 0 ? null : new S3Error("MalformedXML");
}

/** What refuses an ObjectLockConfiguration; `null`: nothing. */
export function objectLockError(document: Uint8Array): S3Error | null {
  const root = rootOf(document, "ObjectLockConfiguration");
  const [enabled, ...others] = root === null ? [] : childrenOf(root, "ObjectLockEnabled");
  const isRight = enabled?.text === "Enabled" && others.length === 0;
  return isRight ? null : new S3Error("MalformedXML");
}

/** `never`: no object of the bucket has ever had a version. */
export type Versioning = "Enabled" | "Suspended" | "never";

/** What a cluster answers to GetBucketVersioning; `null` where that is something else. */
export function readVersioning(document: Uint8Array): Versioning | null {
  const root = rootOf(document, "VersioningConfiguration");
  if (root === null) return null;
  const [status] = childrenOf(root, "Status");
  if (status === undefined || status.text === "") return "never";
  return status.text === "Enabled" || status.text === "Suspended" ? status.text : null;
}

function rootOf(document: Uint8Array, name: string): XmlElement | null {
  const reading = readXml(document, { maxBytes });
  return reading.kind === "document" && reading.root.name === name ? reading.root : null;
}
