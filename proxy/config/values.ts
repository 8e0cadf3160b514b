// Reads the scalar forms that configuration uses: durations, sizes, host:port pairs, `${VAR}`
// references. Pure; what is wrong with a text comes back as a sentence for the operator.

import { type IpNetwork, parseIpNetwork } from "../s3/ip-network.ts";

/** A value, or what is wrong with the text it should come from. */
export type Reading<T> =
  | { readonly kind: "value"; readonly value: T }
  | { readonly kind: "wrong"; readonly message: string };

const value = <T>(read: T): Reading<T> => ({ kind: "value", value: read });
const wrong = (message: string): Reading<never> => ({ kind: "wrong", message });

const durationUnitsMs = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 } as const;
const sizeUnitsBytes = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 } as const;

/** `250ms`, `30s`, `5m`, `168h` → milliseconds. A bare number is refused: its unit would be a guess. */
export function readDuration(text: string): Reading<number> {
  const match = /^(\d+)(ms|s|m|h)$/.exec(text);
  if (match === null) {
    return /^\d+$/.test(text)
      ? wrong(`Duration ${text} has no unit, write "${text}s" or "${text}ms"`)
      : wrong(`Duration "${text}" is not readable, write a whole number with ms, s, m or h`);
  }
  const durationMs = Number(match[1]) * durationUnitsMs[match[2] as keyof typeof durationUnitsMs];
  // setTimeout fires at once beyond 2^31 - 1 ms.
  return durationMs <= 0x7fffffff ? value(durationMs) : wrong(`Duration "${text}" is above 596h`);
}

/** `64KiB`, `5MiB` or integer bytes → bytes. */
export function readSize(input: string | number): Reading<number> {
  const match = /^(\d+)(B|KiB|MiB|GiB)?$/.exec(String(input));
  if (match === null) {
    return wrong(
      `Size "${input}" is not readable, write bytes or a whole number with KiB, MiB or GiB`,
    );
  }
  const unit = (match[2] ?? "B") as keyof typeof sizeUnitsBytes;
  const sizeBytes = Number(match[1]) * sizeUnitsBytes[unit];
  return Number.isSafeInteger(sizeBytes) ? value(sizeBytes) : wrong(`Size "${input}" is too large`);
}

/** Where a listener binds. IPv6 hosts are held without brackets. */
export interface ListenAddress {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

/** `127.0.0.1:9000`, `[::1]:9000`, `localhost:0`. */
export function readListenAddress(text: string): Reading<ListenAddress> {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || port > 65_535) {
    return wrong(`Address "${text}" is not readable, write host:port`);
  }
  return value({ host, port });
}

/** `10.0.0.0/8`, `2001:db8::/32`, `10.1.2.3`. */
export function readNetwork(text: string): Reading<IpNetwork> {
  const network = parseIpNetwork(text);
  if (network !== null) return value(network);
  return wrong(`Network "${text}" is not readable, write address/prefix`);
}

/** Whether a host is reachable from this machine only. A name other than localhost is not trusted. */
export function isLoopbackHost(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** An S3 endpoint, `https://rgw-a.example:7480`: scheme, host and port, nothing more. */
export function readEndpoint(text: string): Reading<string> {
  if (!URL.canParse(text)) return wrong(`Endpoint "${text}" is not a URL, write http://host:port`);
  const url = new URL(text);
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return wrong(`Endpoint "${text}" has scheme "${url.protocol}", needs http or https`);
  }
  if (url.username !== "" || url.password !== "") {
    return wrong("Endpoint holds credentials, put them under credentials");
  }
  if (url.pathname !== "/" || url.search !== "" || url.hash !== "") {
    return wrong(`Endpoint "${text}" has a path, needs scheme, host and port only`);
  }
  return value(url.origin);
}

/** Puts environment variables in place of `${VAR}` and `${VAR:-default}`; `$$` is a dollar sign. */
export function expandVariables(
  text: string,
  env: Readonly<Record<string, string | undefined>>,
): Reading<string> {
  const faults: string[] = [];
  const expanded = text.replaceAll(
    /\$\$|\$\{([^}]*)\}/g,
    (whole: string, inside: string | undefined) => {
      if (inside === undefined) return "$";
      const match = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s.exec(inside);
      if (match === null) {
        faults.push(`Reference "${whole}" is not readable, write \${NAME} or \${NAME:-default}`);
        return "";
      }
      const name = match[1] ?? "";
      const set = env[name];
      // As in a shell, `:-` also stands in for an empty variable.
      if (match[2] !== undefined && (set === undefined || set === "")) return match[2];
      if (set === undefined) faults.push(`Environment variable "${name}" is not set`);
      return set ?? "";
    },
  );
  const [fault] = faults;
  return fault === undefined ? value(expanded) : wrong(fault);
}

/** The closest of some names by edit distance, or null when none is within `limit`. */
export function nearestName(
  text: string,
  names: readonly string[],
  // Two of three letters changed is another word, not a slip.
  limit: number = text.length < 4 ? 1 : Math.max(2, Math.floor(text.length / 3)),
): string | null {
  let best: string | null = null;
  let bestDistance = limit + 1;
  for (const name of names) {
    const distance = editDistance(text, name);
    if (distance < bestDistance) {
      best = name;
      bestDistance = distance;
    }
  }
  return best;
}

/** Levenshtein distance, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 0; i < a.length; i += 1) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j += 1) {
      const replace = (row[j] ?? 0) + (a[i] === b[j] ? 0 : 1);
      next.push(Math.min(replace, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
