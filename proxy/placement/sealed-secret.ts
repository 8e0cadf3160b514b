// Secret keys as they lie in the state store: AES-256-GCM under a key from a file, so that whoever
// reads the store reads no secret. Everything else of the credential is bound to the seal: a writer of
// the store without the key can neither put a known secret under another user nor widen what a key may
// do. Seals begin with a fresh random nonce of 96 bits (NIST SP 800-38D §8.2.2).

import { createCipheriv, createDecipheriv } from "node:crypto";
import type { CredentialRecord } from "./records.ts";

export const nonceBytes = 12;
const tagBytes = 16;
const algorithm = "aes-256-gcm";

/** 32 bytes each; the first seals, all open. */
export type SealKeys = readonly [Uint8Array, ...Uint8Array[]];

type Bound = Omit<CredentialRecord, "sealed">;

/** base64url(nonce | ciphertext | tag). @param nonce 12 random bytes, never used before */
export function sealSecret(
  secret: string,
  bound: Bound,
  options: { readonly keys: SealKeys; readonly nonce: Uint8Array },
): string {
  const cipher = createCipheriv(algorithm, options.keys[0], options.nonce);
  cipher.setAAD(boundText(bound));
  const sealed = [options.nonce, cipher.update(secret, "utf8"), cipher.final()];
  return Buffer.concat([...sealed, cipher.getAuthTag()]).toString("base64url");
}

/** Null: sealed with another key, edited, or no seal at all. */
export function openSecret(record: CredentialRecord, keys: SealKeys): string | null {
  const sealed = Buffer.from(record.sealed, "base64url");
  if (sealed.length <= nonceBytes + tagBytes) return null;
  const aad = boundText(record);
  for (const key of keys) {
    const decipher = createDecipheriv(algorithm, key, sealed.subarray(0, nonceBytes), {
      authTagLength: tagBytes,
    });
    decipher.setAAD(aad);
    decipher.setAuthTag(sealed.subarray(-tagBytes));
    const text = decipher.update(sealed.subarray(nonceBytes, -tagBytes));
    try {
      return Buffer.concat([text, decipher.final()]).toString("utf8");
    } catch {
      continue; // another key may fit
    }
  }
  return null;
}

/** A list, not an object: its text does not depend on the order of members. */
function boundText(bound: Bound): Buffer {
  const { accessKeyId, uid, displayName, tenant, groups, grants, status } = bound;
  const allowed = grants.map(({ buckets, keys, allow }) => [buckets, keys, allow]);
  return Buffer.from(
    JSON.stringify([
      "headgate credential 1",
      accessKeyId,
      uid,
      displayName,
      tenant,
      groups,
      allowed,
      status,
    ]),
  );
}
