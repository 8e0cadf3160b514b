// Reads the members of a tar archive held in memory: OPA's bundle.tar.gz. Only what bundles contain
// is read: plain members with short or PAX names (POSIX.1-2001 "pax Interchange Format"). Links and
// devices are refused, so that a bundle cannot point outside itself.

const blockBytes = 512;

interface Header {
  readonly name: string;
  readonly sizeBytes: number;
  readonly type: string;
}

/** Members by path without leading `/` or `./`: `policy.wasm` → its bytes; or what is wrong. */
export type TarResult =
  | { readonly kind: "members"; readonly members: ReadonlyMap<string, Uint8Array> }
  | { readonly kind: "malformed"; readonly reason: string };

/** Reads an archive that is already decompressed; the bytes of members are views into it. */
export function readTar(archive: Uint8Array): TarResult {
  const members = new Map<string, Uint8Array>();
  let longName: string | null = null;
  let at = 0;
  while (at + blockBytes <= archive.length) {
    const block = archive.subarray(at, at + blockBytes);
    if (block.every((byte) => byte === 0)) return { kind: "members", members };
    const header = readHeader(block);
    if (typeof header === "string") return { kind: "malformed", reason: header };
    const start = at + blockBytes;
    const end = start + header.sizeBytes;
    if (end > archive.length) return { kind: "malformed", reason: "the archive is cut short" };
    const bytes = archive.subarray(start, end);
    at = start + Math.ceil(header.sizeBytes / blockBytes) * blockBytes;
    if (header.type === "x") {
      longName = paxPath(bytes);
      continue;
    }
    const name = memberName(longName ?? header.name);
    longName = null;
    if (header.type === "5" || header.type === "g") continue;
    if (header.type !== "0") {
      return { kind: "malformed", reason: `the member "${name ?? ""}" is not a plain one` };
    }
    if (name === null) return { kind: "malformed", reason: "a member has a path that climbs" };
    members.set(name, bytes);
  }
  return { kind: "malformed", reason: "the archive has no end" };
}

function readHeader(block: Uint8Array): Header | string {
  if (checksum(block) !== octal(block, 148, 8)) return "a header has a wrong checksum";
  const sizeBytes = octal(block, 124, 12);
  if (sizeBytes === null) return "a header has no size";
  const prefix = text(block, 345, 155);
  const name = text(block, 0, 100);
  const flag = block[156] ?? 0;
  return {
    name: prefix === "" ? name : `${prefix}/${name}`,
    sizeBytes,
    type: flag === 0 ? "0" : String.fromCharCode(flag),
  };
}

/** The sum of all header bytes, its own field taken as blanks. */
function checksum(block: Uint8Array): number {
  let sum = 8 * 0x20;
  for (const [index, byte] of block.entries()) if (index < 148 || index >= 156) sum += byte;
  return sum;
}

function text(block: Uint8Array, at: number, length: number): string {
  const field = Buffer.from(block.subarray(at, at + length));
  const end = field.indexOf(0);
  return field.toString("utf8", 0, end === -1 ? length : end);
}

function octal(block: Uint8Array, at: number, length: number): number | null {
  const digits = text(block, at, length).trim();
  return /^[0-7]+$/.test(digits) ? Number.parseInt(digits, 8) : null;
}

/** The `path` record of a PAX header, `27 path=policies/x.rego\n`. */
function paxPath(bytes: Uint8Array): string | null {
  const records = Buffer.from(bytes).toString("utf8");
  return /^\d+ path=(.*)$/m.exec(records)?.[1] ?? null;
}

function memberName(path: string): string | null {
  const segments = path.split("/").filter((segment) => segment !== "" && segment !== ".");
  return segments.length === 0 || segments.includes("..") ? null : segments.join("/");
}
