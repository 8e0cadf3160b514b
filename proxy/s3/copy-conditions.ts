// The conditions that a copy puts on its source, x-amz-copy-source-if-*, evaluated as S3 documents them
// (S3 API Reference CopyObject): any that does not hold is 412, also where a GET would be 304.

import { matchesStrongly, matchesWeakly, readTagCondition } from "./entity-tags.ts";
import { fieldValue, type HeaderList } from "./headers.ts";

/** What conditions compare with. */
export interface SourceState {
  /** As the upstream gave it, with quotes. */
  readonly etag: string;
  /** Milliseconds since the epoch, whole seconds; `null`: not known. */
  readonly modifiedMs: number | null;
}

const prefix = "x-amz-copy-source-if-";

/** Whether the request names any condition on the source. */
export function hasSourceConditions(headers: HeaderList): boolean {
  return headers.some(([name]) => name.startsWith(prefix));
}

/**
 * Whether the copy may go on. If-Match that holds makes up for If-Unmodified-Since that does not, and
 * If-None-Match decides before If-Modified-Since. A date that cannot be read is no condition.
 */
export function sourceConditionsHold(headers: HeaderList, source: SourceState): boolean {
  const match = fieldValue(headers, `${prefix}match`);
  if (match !== null) {
    const tags = readTagCondition(match);
    if (tags === null || !matchesStrongly(tags, source.etag)) return false;
  } else {
    const limitMs = dateOf(fieldValue(headers, `${prefix}unmodified-since`));
    if (limitMs !== null && !(source.modifiedMs !== null && source.modifiedMs <= limitMs)) {
      return false;
    }
  }
  const noneMatch = fieldValue(headers, `${prefix}none-match`);
  if (noneMatch !== null) {
    const tags = readTagCondition(noneMatch);
    return tags === null || !matchesWeakly(tags, source.etag);
  }
  const sinceMs = dateOf(fieldValue(headers, `${prefix}modified-since`));
  return sinceMs === null || (source.modifiedMs !== null && source.modifiedMs > sinceMs);
}

function dateOf(field: string | null): number | null {
  const dateMs = field === null ? Number.NaN : Date.parse(field);
  return Number.isFinite(dateMs) ? dateMs : null;
}
