// Request ids of answers, logs and policy: opaque, and the same in all of them.

import type { Random } from "../placement/ports.ts";

/** Ids such as `5F1C9A…`, 16 hex digits; drawn 512 at a time, since a draw costs more than an id. */
export function requestIds(random: Random): () => string {
  let bytes = Buffer.alloc(0);
  let at = 0;
  return () => {
    if (at >= bytes.length) {
      bytes = Buffer.from(random.bytes(4096));
      at = 0;
    }
    at += 8;
    return bytes.toString("hex", at - 8, at).toUpperCase();
  };
}
