// Request times as SigV4 writes them and as HTTP does, read without the host's clock or time zone
// (ISO 8601 basic; RFC 9110 §5.6.7 IMF-fixdate). A date that does not exist is not read.

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** `20261129T235959Z` in milliseconds since the epoch, `null` when it is not such a date. */
export function parseAmzDate(text: string): number | null {
  if (!/^\d{8}T\d{6}Z$/.test(text)) return null;
  const date = `${text.slice(0, 4)}-${text.slice(4, 6)}-${text.slice(6, 8)}`;
  return epochMs(`${date}T${text.slice(9, 11)}:${text.slice(11, 13)}:${text.slice(13)}`);
}

/** `Sun, 29 Nov 2026 23:59:59 GMT`, or the basic form that some clients put into Date. */
export function parseHttpDate(text: string): number | null {
  const match = /^[A-Z][a-z]{2}, (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT$/.exec(
    text,
  );
  if (match === null) return parseAmzDate(text);
  const [, day, name = "", year, hour, minute, second] = match;
  const month = String(months.indexOf(name) + 1).padStart(2, "0");
  return epochMs(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
}

function epochMs(iso: string): number | null {
  const ms = Date.parse(iso);
  // Parsing rolls over: 30 February becomes 2 March, and 24:00 the next day.
  return new Date(ms).getUTCDate() === Number(iso.slice(8, 10)) ? ms : null;
}
