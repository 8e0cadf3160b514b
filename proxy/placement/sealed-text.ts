// Opaque texts that clients carry for us: base64url of content and an HMAC-SHA256 cut to 128 bits.
// The MAC covers what a text is bound to, which is not in it. One key signs, two older ones verify.
// Spec: placement.md §10 and §11; RFC 2104 §5 (truncation); RFC 4648 §5.

import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from "node:crypto";

const macBytes = 16;
const keyBytes = 32;
const maxPrevious = 2;
const alphabet = /^[A-Za-z0-9_-]+$/;

/** The keys of one installation; the first signs, all verify. Never logged. */
export interface HandleKeys {
  readonly current: KeyObject;
  readonly previous: readonly KeyObject[];
}

/** Keys from 32-byte secrets, the two older ones newest first; `null` for other lengths or more. */
export function handleKeys(
  current: Uint8Array,
  previous: readonly Uint8Array[] = [],
): HandleKeys | null {
  const secrets = [current, ...previous];
  if (previous.length > maxPrevious) return null;
  if (secrets.some((secret) => secret.length !== keyBytes)) return null;
  return {
    current: createSecretKey(current),
    previous: previous.map((secret) => createSecretKey(secret)),
  };
}

/** Length-prefixed parts: no two lists of texts have the same bytes. */
function frame(purpose: string, content: Uint8Array, binding: readonly string[]): Buffer {
  const parts = [Buffer.from(purpose), content, ...binding.map((text) => Buffer.from(text))];
  const framed: Uint8Array[] = [];
  for (const part of parts) {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(part.length);
    framed.push(length, part);
  }
  return Buffer.concat(framed);
}

function mac(key: KeyObject, framed: Uint8Array): Buffer {
  return createHmac("sha256", key).update(framed).digest().subarray(0, macBytes);
}

/** `base64url(content | mac)`; `purpose` keeps kinds of texts apart. */
export function sealText(
  content: Uint8Array,
  options: {
    readonly purpose: string;
    readonly binding: readonly string[];
    readonly keys: HandleKeys;
  },
): string {
  const framed = frame(options.purpose, content, options.binding);
  return Buffer.concat([content, mac(options.keys.current, framed)]).toString("base64url");
}

/** The content of a sealed text, or `null`: not ours, edited, or bound to something else. */
export function openText(
  text: string,
  options: {
    readonly purpose: string;
    readonly binding: readonly string[];
    readonly keys: HandleKeys;
    readonly maxLength: number;
  },
): Uint8Array | null {
  if (text.length > options.maxLength || !alphabet.test(text)) return null;
  const sealed = Buffer.from(text, "base64url");
  // Trailing bits make several texts decode alike; only the one we wrote counts.
  if (sealed.length <= macBytes || sealed.toString("base64url") !== text) return null;
  const content = sealed.subarray(0, -macBytes);
  const claimed = sealed.subarray(-macBytes);
  const framed = frame(options.purpose, content, options.binding);
  let valid = false;
  // No early end: the time must not tell which key, if any, was right.
  for (const key of [options.keys.current, ...options.keys.previous]) {
    valid = timingSafeEqual(mac(key, framed), claimed) || valid;
  }
  return valid ? content : null;
}
