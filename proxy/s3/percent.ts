// Percent-encoding as S3 signs it: UTF-8 bytes, everything but `A-Za-z0-9-_.~` escaped, upper-case hex
// (SigV4 "UriEncode"; RFC 3986 §2). Decoding happens once and never touches `+`. No URL parser here:
// those rewrite `..`, `\` and `%2F`, and the signed bytes would differ from the bytes sent.

const plainComponent = /^[A-Za-z0-9\-_.~]*$/;
const plainPath = /^[A-Za-z0-9\-_.~/]*$/;

/** Encodes a query name or value: `a b/c+d` → `a%20b%2Fc%2Bd`. A lone surrogate becomes U+FFFD. */
export function encodeComponent(text: string): string {
  return plainComponent.test(text) ? text : escape(text);
}

/** Encodes a decoded path and leaves its slashes: `/b/a b` → `/b/a%20b`. Segments are not normalised. */
export function encodePath(text: string): string {
  return plainPath.test(text) ? text : escape(text).replaceAll("%2F", "/");
}

/**
 * Decodes each escape exactly once; `+` stays a plus. `null` when an escape is malformed (`%`, `%4`,
 * `%zz`) or the bytes are not UTF-8 (overlong forms and surrogates included).
 */
export function decodeOnce(raw: string): string | null {
  if (!raw.includes("%")) return raw;
  try {
    return decodeURIComponent(raw);
  } catch {
    return null;
  }
}

// encodeURIComponent leaves `!'()*`, which SigV4 escapes.
function escape(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
