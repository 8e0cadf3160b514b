// The continuation token of a merged list: where the page before ended and under which map it was
// made. Bound to bucket, prefix and delimiter by a MAC, so a token of one list is no place in another.
// Spec: placement.md §10.

import type { BucketName, TenantName } from "../s3/names.ts";
import type { Revision } from "./records.ts";
import { type HandleKeys, openText, sealText } from "./sealed-text.ts";

const version = 1;
const purpose = "headgate list token";
/** A key of 1024 bytes, head and MAC in base64url, with room. */
const maxLength = 2048;
const headBytes = 10;

/** The last thing emitted; a `prefix` (CommonPrefixes entry) continues behind its last possible key. */
export interface ListPosition {
  readonly kind: "key" | "prefix";
  readonly text: string;
  /** The map revision the page was made under. */
  readonly revision: Revision;
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

/** `[A-Za-z0-9_-]+`: version, kind, revision (8 bytes), key or prefix, MAC. */
export function listToken(position: ListPosition, binding: TokenBinding): string {
  const text = Buffer.from(position.text);
  const content = Buffer.alloc(headBytes + text.length);
  content[0] = version;
  content[1] = position.kind === "prefix" ? 1 : 0;
  content.writeBigUInt64BE(BigInt.asUintN(64, position.revision), 2);
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
    revision: bytes.readBigUInt64BE(2),
  };
}
