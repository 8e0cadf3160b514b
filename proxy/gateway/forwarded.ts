// What a trusted proxy in front of us says of the request that it got: the client's address, scheme and
// Host (X-Forwarded-For, -Proto, -Host, -Port), and the Accept-Encoding that it replaced. From any other
// peer these fields mean nothing: a client would choose its own address, and the bucket of a signature.
// What the nearest proxy wrote stands last and is what counts. The Host as received stays good for a signature only while it names the same
// bucket, so that no one can sign for one bucket and name another (s3-protocol.md 2.3 rules 6 and 7).

import { parseAddress } from "../s3/address.ts";
import { fieldValue, type HeaderList } from "../s3/headers.ts";
import { type IpNetwork, isWithin, parseIpAddress } from "../s3/ip-network.ts";
import { isHostText, type RequestHead } from "../s3/request-head.ts";

/** Peers whose word is taken. */
export class TrustedProxies {
  readonly #networks: readonly IpNetwork[];

  constructor(networks: readonly IpNetwork[]) {
    this.#networks = networks;
  }

  trusts(address: string): boolean {
    if (this.#networks.length === 0) return false;
    const ip = parseIpAddress(address);
    return ip !== null && this.#networks.some((network) => isWithin(ip, network));
  }
}

/** A request as the client sent it, as far as is known. */
export interface Arrival {
  readonly head: RequestHead;
  readonly clientAddress: string;
  /** That address and the trusted ones behind it, as X-Forwarded-For has them, nearest last. */
  readonly forwardedFor: string;
  /** The client speaks TLS to whoever is first. */
  readonly secure: boolean;
}

/** The request as it stands, or as a trusted peer got it. */
export function arrivalOf(
  head: RequestHead,
  peer: { readonly address: string; readonly secure: boolean },
  parts: {
    readonly trustedProxies: TrustedProxies;
    readonly baseDomains: readonly string[];
    readonly rewrittenFields: HeaderList;
  },
): Arrival {
  const { trustedProxies, baseDomains, rewrittenFields } = parts;
  const address = plainAddress(peer.address);
  const as = { clientAddress: address, forwardedFor: address, secure: peer.secure };
  if (!trustedProxies.trusts(address)) return { ...as, head: withFields(head, rewrittenFields) };
  const scheme = lastOf(head, "x-forwarded-proto")?.toLowerCase();
  const hops = hopsOf(head, address, trustedProxies);
  return {
    head: withFields(withForwardedHost(head, baseDomains), [
      ...originalFields(head),
      ...rewrittenFields,
    ]),
    clientAddress: hops[0] ?? address,
    forwardedFor: hops.join(", "),
    secure: scheme === "https" ? true : scheme === "http" ? false : peer.secure,
  };
}

/** What a client may have signed in place of fields that were rewritten; most requests have none. */
function withFields(head: RequestHead, alternativeFields: HeaderList): RequestHead {
  return alternativeFields.length === 0 ? head : { ...head, alternativeFields };
}

/** What stood in Accept-Encoding before a cache made it its own. */
function originalFields(head: RequestHead): HeaderList {
  const value = fieldValue(head.headers, "x-original-accept-encoding");
  return value === null ? [] : [["accept-encoding", value]];
}

/**
 * From the nearest address that is not one of our proxies to the peer; what cannot be read ends the
 * walk. What stands in front of it is the client's own word and is left out.
 */
function hopsOf(head: RequestHead, peer: string, trusted: TrustedProxies): readonly string[] {
  const hops = [peer];
  const told = (fieldValue(head.headers, "x-forwarded-for") ?? "").split(",");
  for (const hop of told.slice(-maxHops).reverse()) {
    const address = hopAddress(hop.trim());
    if (address === null || !trusted.trusts(hops[0] ?? peer)) break;
    hops.unshift(address);
  }
  return hops;
}

const maxHops = 32;

/** `10.0.0.1`, `10.0.0.1:1234`, `2001:db8::1`, `[2001:db8::1]:1234`. */
function hopAddress(text: string): string | null {
  const bare =
    /^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  return parseIpAddress(bare) === null ? null : plainAddress(bare);
}

/** An IPv4 address that came over an IPv6 socket, as IPv4: `::ffff:10.0.0.1`. */
function plainAddress(address: string): string {
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address;
}

function withForwardedHost(head: RequestHead, baseDomains: readonly string[]): RequestHead {
  const host = lastOf(head, "x-forwarded-host");
  if (host === null || host === head.host || !isHostText(host)) return head;
  const port = lastOf(head, "x-forwarded-port") ?? "";
  const hasPort = /:\d+$/.test(host.slice(host.lastIndexOf("]") + 1));
  const others = hasPort || !/^\d{1,5}$/.test(port) ? [] : [`${host}:${port}`];
  const forwarded: RequestHead = {
    ...head,
    host,
    headers: head.headers.map((field) => (field[0] === "host" ? ["host", host] : field)),
  };
  const alternativeHosts = namesSame(head, forwarded, baseDomains)
    ? [...others, head.host]
    : others;
  return { ...forwarded, alternativeHosts };
}

function namesSame(
  received: RequestHead,
  forwarded: RequestHead,
  baseDomains: readonly string[],
): boolean {
  const [one, other] = [received, forwarded].map((head) => parseAddress(head, baseDomains));
  if (one?.kind !== "address" || other?.kind !== "address") return false;
  return one.tenant === other.tenant && one.bucket === other.bucket && one.key === other.key;
}

function lastOf(head: RequestHead, name: string): string | null {
  const value = fieldValue(head.headers, name);
  return value === null ? null : value.slice(value.lastIndexOf(",") + 1).trim();
}
