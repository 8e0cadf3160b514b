// IP addresses and networks as numbers, so that a peer can be compared with configured networks without
// sockets' own code (RFC 4291 §2.2; RFC 4632). An IPv4 address that is written as an IPv6 one,
// `::ffff:10.0.0.1`, is the IPv4 address: that is how it arrives on a dual-stack socket.

/** An address as its groups: 4 bytes, or 8 pairs of bytes. */
interface IpAddress {
  readonly bits: 32 | 128;
  readonly value: bigint;
}

/** `10.0.0.0/8` as its first address and the bits that count. */
export interface IpNetwork extends IpAddress {
  readonly prefix: number;
}

/** Reads `10.0.0.1` or `2001:db8::1`; `null` for anything else, zone ids and short forms included. */
export function parseIpAddress(text: string): IpAddress | null {
  if (!text.includes(":")) {
    const value = ipv4Value(text);
    return value === null ? null : { bits: 32, value };
  }
  const value = ipv6Value(text);
  if (value === null) return null;
  return value >> 32n === 0xffffn
    ? { bits: 32, value: value & 0xffff_ffffn }
    : { bits: 128, value };
}

function ipv4Value(text: string): bigint | null {
  if (!/^\d{1,3}(?:\.\d{1,3}){3}$/.test(text)) return null;
  let value = 0n;
  for (const part of text.split(".")) {
    if (Number(part) > 255 || (part.length > 1 && part.startsWith("0"))) return null;
    value = value * 256n + BigInt(part);
  }
  return value;
}

function ipv6Value(text: string): bigint | null {
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const [head, tail] = halves.map((half, at) => ipv6Groups(half, at === halves.length - 1));
  if (head === undefined || head === null || tail === null) return null;
  const missing = 8 - head.length - (tail?.length ?? 0);
  if (tail === undefined ? missing !== 0 : missing < 1) return null;
  const groups = [...head, ...Array<bigint>(missing).fill(0n), ...(tail ?? [])];
  return groups.reduce((value, group) => value * 0x1_0000n + group, 0n);
}

/** `2001:db8`, or at the end of an address `ffff:10.0.0.1`, as pairs of bytes; the empty text as none. */
function ipv6Groups(text: string, isEnd: boolean): readonly bigint[] | null {
  if (text === "") return [];
  const groups: bigint[] = [];
  const parts = text.split(":");
  for (const [at, part] of parts.entries()) {
    const isLast = isEnd && at === parts.length - 1;
    const dotted = isLast && part.includes(".") ? ipv4Value(part) : null;
    if (dotted !== null) groups.push(dotted >> 16n, dotted & 0xffffn);
    else if (/^[0-9A-Fa-f]{1,4}$/.test(part)) groups.push(BigInt(`0x${part}`));
    else return null;
  }
  return groups;
}

/** Reads `10.0.0.0/8`; without a prefix it is one address. */
export function parseIpNetwork(text: string): IpNetwork | null {
  const [addressText = "", prefixText, ...more] = text.split("/");
  const address = parseIpAddress(addressText);
  if (address === null || more.length > 0) return null;
  if (prefixText === undefined) return { ...address, prefix: address.bits };
  const prefix = Number(prefixText);
  return /^\d{1,3}$/.test(prefixText) && prefix <= address.bits ? { ...address, prefix } : null;
}

/** Whether an address lies in a network. */
export function isWithin(address: IpAddress, network: IpNetwork): boolean {
  if (address.bits !== network.bits) return false;
  const rest = BigInt(network.bits - network.prefix);
  return address.value >> rest === network.value >> rest;
}
