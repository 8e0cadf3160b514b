// The header fields of an upstream's answer, byte-true. Decides which are hop-by-hop and stay here
// (RFC 9110 §7.6.1): they describe our connection, not the client's.

import type { HeaderField, HeaderList } from "../s3/headers.ts";
import { isHopByHop } from "../s3/hop-by-hop.ts";

/** Reads undici's raw list `[name, value, name, value, …]`; values keep one char a byte (latin1). */
export function responseFields(raw: readonly Buffer[]): HeaderList {
  const fields: HeaderField[] = [];
  let named: string | null = null;
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = text(raw[at]).toLowerCase();
    if (!isHopByHop(name)) {
      fields.push([name, text(raw[at + 1])]);
    } else if (name === "connection") {
      named = named === null ? text(raw[at + 1]) : `${named},${text(raw[at + 1])}`;
    }
  }
  if (named === null || named === "keep-alive" || named === "close" || named === "Keep-Alive") {
    return fields;
  }
  const options = new Set(
    named
      .toLowerCase()
      .split(",")
      .map((option) => option.trim()),
  );
  return fields.filter(([name]) => !options.has(name));
}

function text(bytes: Buffer | undefined): string {
  return bytes === undefined ? "" : bytes.toString("latin1");
}
