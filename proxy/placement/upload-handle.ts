// The upload id that clients see: it names the cluster where a multipart upload began, so that its
// parts find it without a lookup, draining or not. Bound to tenant, bucket and key by a MAC; what
// does not verify is `NoSuchUpload`, like an id that never was. Spec: placement.md §11.

import type { BucketName, ClusterId, ObjectKey, TenantName } from "../s3/names.ts";
import { parseClusterId } from "../s3/names.ts";
import { FaultError } from "./ports.ts";
import { type HandleKeys, openText, sealText } from "./sealed-text.ts";

export type { HandleKeys };

/** Contents begin with this byte; another one is a handle of another release. */
const version = 1;
const purpose = "headgate upload handle";
const maxLength = 512;

/** What a handle is bound to and checked with. */
export interface HandleBinding {
  readonly keys: HandleKeys;
  readonly tenant: TenantName;
  readonly bucket: BucketName;
  readonly key: ObjectKey;
}

/** Where an upload lives: `{cluster: "rgw-a", uploadId: "2~Zr…"}`. */
export interface UploadPin {
  readonly cluster: ClusterId;
  /** The upstream's own id, in clear. */
  readonly uploadId: string;
}

/**
 * The handle of an upload, `[A-Za-z0-9_-]{1,512}`: version, length of the cluster's id, that id,
 * the upstream's upload id, MAC.
 * @throws FaultError bug when the upstream's id is longer than about 300 bytes.
 */
export function uploadHandle(pin: UploadPin, binding: HandleBinding): string {
  const cluster = Buffer.from(pin.cluster);
  const content = Buffer.concat([
    Uint8Array.of(version, cluster.length),
    cluster,
    Buffer.from(pin.uploadId),
  ]);
  const handle = sealText(content, {
    purpose,
    binding: [binding.tenant, binding.bucket, binding.key],
    keys: binding.keys,
  });
  if (handle.length > maxLength) {
    throw new FaultError(
      "bug",
      `Cannot make upload handle: upload id of cluster "${pin.cluster}" has ` +
        `${String(Buffer.byteLength(pin.uploadId))} bytes, handle allows ${String(maxLength)} characters`,
    );
  }
  return handle;
}

/** Where the upload of a handle lives, or `null`: not made here, or for another bucket or key. */
export function readUploadHandle(text: string, binding: HandleBinding): UploadPin | null {
  const content = openText(text, {
    purpose,
    binding: [binding.tenant, binding.bucket, binding.key],
    keys: binding.keys,
    maxLength,
  });
  if (content === null || content[0] !== version) return null;
  const idEnd = 2 + (content[1] ?? 0);
  const cluster = parseClusterId(Buffer.from(content.subarray(2, idEnd)).toString());
  const uploadId = Buffer.from(content.subarray(idEnd)).toString();
  return cluster === null || uploadId === "" ? null : { cluster, uploadId };
}
