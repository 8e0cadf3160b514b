// Request times as SigV4 writes them and as HTTP does, read without the host's clock or time zone
// (ISO 8601 basic; RFC 9110 §5.6.7 IMF-fixdate). A date that does not exist is not read.

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** `20261129T235959Z` in milliseconds since the epoch, `null` when it is not such a date. */
export function parseAmzDate(text: string): number | null {
  if (!/^\d{8}T\d{6}Z$/.test(text)) return null;
  const [year, month, day] = [text.slice(0, 4), text.slice(4, 6), text.slice(6, 8)];
  return epochMs([year, month, day, text.slice(9, 11), text.slice(11, 13), text.slice(13, 15)]);
}

/** `Sun, 29 Nov 2026 23:59:59 GMT`, or the basic form that some clients put into Date. */
export function parseHttpDate(text: string): number | null {
  const match = /^[A-Z][a-z]{2}, (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT$/.exec(
    text,
  );
  if (match === null) return parseAmzDate(text);
  const [, day, month = "", year, ...time] = match;
  return epochMs([year, months.indexOf(month) + 1, day, ...time]);
}

function epochMs(parts: readonly (string | number | undefined)[]): number | null {
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.map(Number);
  if (year < 1970 || month < 1 || month > 12) return null;
  if (hour > 23 || minute > 59 || second > 59) return null;
  const ms = Date.UTC(year, month - 1, day, hour, minute, second);
  // Date.UTC rolls over: 30 February becomes March.
  return new Date(ms).getUTCDate() === day ? ms : null;
}
