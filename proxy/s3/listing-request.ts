// The parameters of ListObjects (V1) and ListObjectsV2: read from a client's query, and written for an
// upstream. Upstreams are always asked in V2 with encoding-type=url, so that every key survives XML.

import { S3Error } from "./errors.ts";
import type { QueryList, QueryParameter } from "./headers.ts";
import type { PageNeed } from "./listing-merge.ts";
import { queryValue } from "./query.ts";
import { upstreamDelimiter } from "./rgw-list-habits.ts";

/** A client's list request. `""` for prefix and delimiter means none. */
export interface ListRequest {
  readonly version: 1 | 2;
  readonly prefix: string;
  readonly delimiter: string;
  /** 0–1000; a larger request is answered with 1000. */
  readonly maxKeys: number;
  /** V1 only; `""` when absent. */
  readonly marker: string;
  /** V2 only; wins over `startAfter`. `""` was sent empty: echo it, but start at the beginning. */
  readonly continuationToken: string | null;
  /** V2 only. */
  readonly startAfter: string | null;
  /** Whether entries show their owner: always in V1. */
  readonly fetchOwner: boolean;
  readonly encodingType: "url" | null;
}

export type ListRequestReading =
  | { readonly kind: "request"; readonly request: ListRequest }
  | { readonly kind: "error"; readonly error: S3Error };

/** The most keys and prefixes in one page (S3). */
const maxListKeys = 1000;
const maxInteger = 2_147_483_647;

/** Reads the query of ListObjects or ListObjectsV2. Unknown parameters are ignored, as S3 does. */
export function readListRequest(query: QueryList, version: 1 | 2): ListRequestReading {
  const maxKeys = readMaxKeys(queryValue(query, "max-keys"));
  if (maxKeys === null) {
    return invalid(
      "max-keys",
      query,
      "Argument max-keys must be an integer between 0 and 2147483647",
    );
  }
  const encodingType = queryValue(query, "encoding-type");
  if (encodingType !== null && encodingType !== "" && encodingType !== "url") {
    return invalid("encoding-type", query, "Invalid Encoding Method specified in Request");
  }
  const delimiter = queryValue(query, "delimiter") ?? "";
  // Ceph's extension. We always list in order, which is allowed; the combination RGW refuses.
  if (delimiter !== "" && queryValue(query, "allow-unordered") === "true") {
    return invalid("allow-unordered", query, "A list with a delimiter cannot be unordered");
  }
  const two = version === 2;
  return {
    kind: "request",
    request: {
      version,
      prefix: queryValue(query, "prefix") ?? "",
      delimiter,
      maxKeys,
      marker: two ? "" : (queryValue(query, "marker") ?? ""),
      continuationToken: two ? queryValue(query, "continuation-token") : null,
      startAfter: two ? queryValue(query, "start-after") : null,
      fetchOwner: !two || queryValue(query, "fetch-owner") === "true",
      encodingType: encodingType === "url" ? "url" : null,
    },
  };
}

/** `null`: not a number S3 takes. Absent or empty means the most. */
function readMaxKeys(text: string | null): number | null {
  if (text === null || text === "") return maxListKeys;
  if (!/^\d{1,10}$/.test(text)) return null;
  const value = Number(text);
  return value > maxInteger ? null : Math.min(value, maxListKeys);
}

function invalid(name: string, query: QueryList, message: string): ListRequestReading {
  const details = { ArgumentName: name, ArgumentValue: queryValue(query, name) ?? "" };
  return { kind: "error", error: new S3Error("InvalidArgument", { message, details }) };
}

/** The query that fetches a page which `ListMerge` needs. */
export function upstreamListQuery(
  request: Pick<ListRequest, "prefix" | "delimiter" | "fetchOwner">,
  need: PageNeed,
): QueryList {
  const query: QueryParameter[] = [
    ["list-type", "2"],
    ["encoding-type", "url"],
    ["max-keys", String(need.maxKeys)],
  ];
  if (request.prefix !== "") query.push(["prefix", request.prefix]);
  const delimiter = upstreamDelimiter(request.prefix, request.delimiter);
  if (delimiter !== "") query.push(["delimiter", delimiter]);
  if (request.fetchOwner) query.push(["fetch-owner", "true"]);
  if (need.continuationToken !== null) query.push(["continuation-token", need.continuationToken]);
  else if (need.after !== null) query.push(["start-after", need.after]);
  return query;
}
