// What may happen to a signed request on its way: other spellings that mean the same, and damage. Each
// says beforehand where an RGW and Headgate are meant to take it differently.

/** A request as it goes onto the wire. */
export interface Wire {
  readonly method: string;
  readonly target: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
}

export interface Exception {
  readonly why: string;
  /** What Headgate does where the RGW does the opposite. */
  readonly ours: "accepts" | "refuses";
}

// ---- chance ----

export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** 0 … below - 1 (mulberry32). */
  below(limit: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  }

  one<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error("Cannot choose from nothing");
    return item;
  }

  maybe(percent: number): boolean {
    return this.below(100) < percent;
  }
}

// ---- spelling and damage ----

interface Change {
  readonly name: string;
  readonly exception: Exception | null;
  /** Null: it does not fit this request. */
  readonly apply: (wire: Wire, dice: Dice) => Partial<Wire> | null;
}

function respell(
  target: string,
  change: (escape: string, dice: Dice) => string,
  dice: Dice,
): string {
  const [path = "", ...query] = target.split("?");
  return [path.replace(/%[0-9A-F]{2}|[A-Za-z0-9]/g, (text) => change(text, dice)), ...query].join(
    "?",
  );
}

/** The first three leave the request as right as it was. */
export const changes: readonly Change[] = [
  { name: "nothing", exception: null, apply: (wire) => wire },
  {
    name: "escapes in lower case",
    exception: null,
    apply: (wire, dice) => ({
      target: respell(wire.target, (text) => (text.length === 3 ? text.toLowerCase() : text), dice),
    }),
  },
  {
    name: "plain characters escaped",
    exception: null,
    apply: (wire, dice) => ({
      target: respell(
        wire.target,
        (text, chance) =>
          text.length === 3 || chance.maybe(70)
            ? text
            : `%${text.charCodeAt(0).toString(16).toUpperCase()}`,
        dice,
      ),
    }),
  },
  {
    name: "a digit of the signature",
    exception: null,
    apply: (wire) => {
      const flip = (value: string): string =>
        value.replace(/(Signature=|AWS [^:]+:)([0-9A-Za-z])/, (_, name: string, digit: string) =>
          digit === "0" ? `${name}1` : `${name}0`,
        );
      return {
        target: flip(wire.target),
        headers: wire.headers.map(([name, value]) => [
          name,
          name === "authorization" ? flip(value) : value,
        ]),
      };
    },
  },
  {
    name: "a longer key",
    exception: null,
    apply: ({ target, headers }) => {
      const [path = "", ...query] = target.split("?");
      return { target: [`${path}/more`, ...query].join("?"), headers };
    },
  },
  {
    name: "a parameter more",
    exception: null,
    apply: ({ target, headers }) => ({
      target: `${target}${target.includes("?") ? "&" : "?"}added=1`,
      headers,
    }),
  },
  {
    name: "a parameter less",
    exception: null,
    apply: ({ target, headers }) => {
      const match = /[?&](?:x-id|v|a|a-b|prefix|delimiter|marker)=[^&]*/.exec(target);
      if (match === null) return null;
      const rest = target.slice(match.index + match[0].length);
      const front = target.slice(0, match.index);
      return {
        target: match[0].startsWith("?") ? front + rest.replace("&", "?") : front + rest,
        headers,
      };
    },
  },
  {
    name: "a parameter twice",
    exception: {
      why: "repeated query names are refused: RGW goes by the last one alone",
      ours: "refuses",
    },
    apply: ({ target, headers }) => {
      const match = /[?&]((?:x-id|v|a|a-b)=[^&]*)/.exec(target);
      return match === null ? null : { target: `${target}&${match[1] ?? ""}`, headers };
    },
  },
  {
    name: "an x-amz field that is not signed",
    exception: {
      why: "every x-amz field must be signed: RGW obeys those that are not",
      ours: "refuses",
    },
    apply: ({ target, headers }) => ({ target, headers: [...headers, ["x-amz-meta-added", "1"]] }),
  },
  {
    name: "a plain field that is not signed",
    exception: null,
    apply: ({ target, headers }) => ({ target, headers: [...headers, ["x-added", "1"]] }),
  },
  {
    name: "another value of a signed field",
    exception: null,
    apply: ({ target, headers }) =>
      headers.some(([name]) => name === "x-amz-meta-a")
        ? {
            target,
            headers: headers.map(([name, value]) => [
              name,
              name === "x-amz-meta-a" ? `${value}x` : value,
            ]),
          }
        : null,
  },
  {
    name: "more blanks in a signed field",
    exception: null,
    apply: ({ target, headers }) => ({
      target,
      headers: headers.map(([name, value]) => [
        name,
        name.startsWith("x-amz-meta-") ? value.replace(/ /g, "   ") : value,
      ]),
    }),
  },
  {
    name: "a signed field less",
    exception: null,
    apply: ({ target, headers }) =>
      headers.some(([name]) => name === "x-amz-meta-b-c")
        ? { target, headers: headers.filter(([name]) => name !== "x-amz-meta-b-c") }
        : null,
  },
  {
    name: "another host",
    exception: null,
    // Where the bucket was named there and the path names none, Headgate says so first.
    apply: ({ target, headers }) =>
      /^\/(?:[/?]|$)/.test(target)
        ? null
        : {
            headers: headers.map(([name, value]) => [name, name === "host" ? "other.test" : value]),
          },
  },
  {
    name: "another method",
    exception: null,
    apply: ({ method }) =>
      method === "GET" ? { method: "HEAD" } : method === "HEAD" ? { method: "GET" } : null,
  },
  {
    name: "another body of that length",
    exception: null,
    apply: ({ body }) => (body === "" ? null : { body: body.replace(/[^<>]/, "~") }),
  },
  {
    name: "another key id",
    exception: null,
    apply: ({ target, headers }) => {
      const other = (value: string): string =>
        value.replace(/(Credential=|AWSAccessKeyId=|AWS )[A-Za-z0-9]+/, "$1NOBODY");
      return {
        target: other(target),
        headers: headers.map(([name, value]) => [
          name,
          name === "authorization" ? other(value) : value,
        ]),
      };
    },
  },
];

/** Signers collapse tabs as they do blanks (RFC 9110 §5.5); RGW collapses blanks alone. */
export function tabException({ headers }: Wire): Exception | null {
  const tab = headers.some(([, value]) => value.includes("\t"));
  return tab ? { why: "a tab is a blank: RGW keeps it as it is", ours: "accepts" } : null;
}

/** What Signature Version 2 leaves unsigned, by the name of a change. */
export function versionTwoException(change: string, { method }: Wire): Exception | null {
  if (change === "another host") {
    return { why: "V2 signs no Host: RGW takes an unknown one for a bucket", ours: "accepts" };
  }
  const writes = method === "PUT" || method === "DELETE" || method === "POST";
  return change === "a parameter more" && writes
    ? { why: "V2 signs no such parameter: no write has one that is unknown", ours: "refuses" }
    : null;
}
