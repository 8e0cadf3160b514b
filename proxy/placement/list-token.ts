// The continuation token of a merged list: where the page before ended, and nothing else. Whatever was
// moved, added or taken away since, the list goes on behind that text on all clusters of the bucket as they
// are then. Bound to bucket, prefix and delimiter by a MAC, so a token of one list is no place in another.
// Spec: placement.md §10.

import type { BucketName, TenantName } from "../s3/names.ts";
import { type HandleKeys, openText, sealText } from "./sealed-text.ts";

const version = 2;
const purpose = "headgate list token";
/**
 * A key of 1024 bytes with head and MAC in base64url has 1390, and some clusters take longer keys. It has to
 * be whole: behind a part of it the list would give keys twice or leave some out, and what we kept in its
 * place would be gone with the process, and unknown to the next one.
 */
const maxLength = 2048;
const headBytes = 2;

/** The last thing given; a `prefix` (CommonPrefixes entry) goes on behind its last possible key. */
interface ListPosition {
  readonly kind: "key" | "prefix";
  readonly text: string;
}

/** What a token is bound to and checked with. */
export interface TokenBinding {
  readonly keys: HandleKeys;
  readonly tenant: TenantName;
  readonly bucket: BucketName;
  readonly prefix: string;
  readonly delimiter: string;
}

function bindingTexts(binding: TokenBinding): readonly string[] {
  return [binding.tenant, binding.bucket, binding.prefix, binding.delimiter];
}

/** `[A-Za-z0-9_-]+`: version, kind, key or prefix, MAC. */
export function listToken(position: ListPosition, binding: TokenBinding): string {
  const text = Buffer.from(position.text);
  const content = Buffer.alloc(headBytes + text.length);
  content[0] = version;
  content[1] = position.kind === "prefix" ? 1 : 0;
  content.set(text, headBytes);
  return sealText(content, { purpose, binding: bindingTexts(binding), keys: binding.keys });
}

/** Where a token says to continue, or `null`: not made here, or for another list. */
export function readListToken(token: string, binding: TokenBinding): ListPosition | null {
  const content = openText(token, {
    purpose,
    binding: bindingTexts(binding),
    keys: binding.keys,
    maxLength,
  });
  if (content === null || content[0] !== version || content.length < headBytes) return null;
  const bytes = Buffer.from(content);
  return {
    kind: bytes[1] === 1 ? "prefix" : "key",
    text: bytes.toString("utf8", headBytes),
  };
}
