// What kind of server an answer is from, where its fields tell. A Ceph RGW names itself in every answer:
// its request ids hold its instance and zone, and fields of its own start with `x-rgw-`. Any other
// request id is another server's. Seen of RGW 16.2.15 and 18.2.7; the form is that of releases since 9.

import type { HeaderList } from "../s3/headers.ts";

export type ServerKind = "rgw" | "other";

/** `tx00000b257c898f9090b59-006b0ce48e-1052-a`: a number, seconds, the instance, the zone. */
const rgwRequestId = /^tx[0-9a-f]{21}-[0-9a-f]{10}-[0-9a-z]+-./;

/** `null`: it does not tell, as where a proxy in between takes such fields out. */
export function serverKind(headers: HeaderList): ServerKind | null {
  let kind: ServerKind | null = null;
  for (const [name, value] of headers) {
    if (name.startsWith("x-rgw-")) return "rgw";
    if (name !== "x-amz-request-id") continue;
    if (rgwRequestId.test(value)) return "rgw";
    kind = "other";
  }
  return kind;
}
