// Calendar builtins: OPA's time.clock, time.weekday and time.parse_rfc3339_ns over nanoseconds since
// the Unix epoch. Numbers above 2^53 lose their last digits, which is below a microsecond today.

const nanosecondsPerMs = 1_000_000;

/** One formatter for each time zone that policies name. Zones come from policies, not from callers. */
const formatters = new Map<string, Intl.DateTimeFormat>();

/** A moment as OPA gives it: nanoseconds, or [nanoseconds, time zone]. */
function readMoment(value: unknown): { readonly date: Date; readonly zone: string } | null {
  const pair: readonly unknown[] = Array.isArray(value) ? value : [value, "UTC"];
  const [nanoseconds, zone] = pair;
  if (typeof nanoseconds !== "number" || typeof zone !== "string") return null;
  return {
    date: new Date(Math.floor(nanoseconds / nanosecondsPerMs)),
    zone: zone === "" ? "UTC" : zone,
  };
}

function formatter(zone: string): Intl.DateTimeFormat {
  const known = formatters.get(zone);
  if (known !== undefined) return known;
  const made = new Intl.DateTimeFormat("en-US", {
    timeZone: zone,
    hourCycle: "h23",
    weekday: "long",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });
  // Bounded, should a policy take the zone from the request.
  if (formatters.size < 64) formatters.set(zone, made);
  return made;
}

function part(value: unknown, type: Intl.DateTimeFormatPartTypes): string | undefined {
  const moment = readMoment(value);
  if (moment === null) return undefined;
  const parts = formatter(moment.zone).formatToParts(moment.date);
  return parts.find((candidate) => candidate.type === type)?.value;
}

/** [hour, minute, second]. @throws RangeError for an unknown time zone. */
export function clock(value: unknown): readonly number[] | undefined {
  const numbers = (["hour", "minute", "second"] as const).map((type) => Number(part(value, type)));
  return numbers.every((number) => Number.isInteger(number)) ? numbers : undefined;
}

/** `Monday`. @throws RangeError for an unknown time zone. */
export function weekday(value: unknown): string | undefined {
  return part(value, "weekday");
}

const rfc3339 =
  /^(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d{2}:\d{2})$/;

/** Nanoseconds since the Unix epoch of `2026-11-29T10:00:00.5Z`. */
export function parseRfc3339(value: unknown): number | undefined {
  const parts = typeof value === "string" ? rfc3339.exec(value) : null;
  if (parts === null) return undefined;
  const [, day = "", time = "", fraction = "", zone = ""] = parts;
  const wholeMs = Date.parse(`${day}T${time}${zone.toUpperCase()}`);
  if (Number.isNaN(wholeMs)) return undefined;
  // Date.parse lets 30 February roll over into March; Go refuses it.
  if (new Date(`${day}T00:00:00Z`).toISOString().slice(0, 10) !== day) return undefined;
  return wholeMs * nanosecondsPerMs + Number(fraction.padEnd(9, "0"));
}
