// Object keys and sizes that proxies are known to get wrong.

/** Each is one key; a proxy that normalises, decodes twice or encodes differently loses one of them. */
export const oddKeys = [
  "a b/c d.txt",
  "plus+sign",
  "100%25 sure %zz",
  "naïve/日本語/🗝",
  "two//slashes//",
  "up/../up/./dot",
  "/leading",
  "quote'(x)!*~&=?#;,:@$",
] as const;

/** Empty, one byte, exactly the held-back tail of an upload, and several parts' worth. */
export const sizesBytes = [0, 1, 65_536, 20 * 2 ** 20] as const;
