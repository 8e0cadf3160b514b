// A CORS preflight is sent by the browser itself, without credentials, and is never authenticated: the
// bucket's own rules answer it. A presigned URL that is asked for still carries its signature; that is
// not looked at, but its key tells whose bucket of that name is meant.

import { type Authorization } from "../s3/authorization.ts";
import { noTenant, parseAccessKeyId, type TenantName } from "../s3/names.ts";
import { queryValue } from "../s3/query.ts";
import type { RequestHead } from "../s3/request-head.ts";
import {
  type Authentication,
  type AuthenticationSettings,
  anonymousPrincipal,
} from "./authenticate.ts";

const anonymous: Authorization = { kind: "anonymous" };

/** The anonymous caller of a preflight, in the tenant of the key that a presigned URL names. */
export async function preflightCaller(
  head: Pick<RequestHead, "query">,
  settings: Pick<AuthenticationSettings, "credentials">,
): Promise<Extract<Authentication, { kind: "caller" }>> {
  const tenant = await tenantOfKey(head, settings);
  return {
    kind: "caller",
    principal: { ...anonymousPrincipal, tenant },
    authorization: anonymous,
    credential: null,
    query: head.query,
  };
}

async function tenantOfKey(
  { query }: Pick<RequestHead, "query">,
  { credentials }: Pick<AuthenticationSettings, "credentials">,
): Promise<TenantName> {
  // A key may hold slashes; the scope behind it has four parts.
  const scope = queryValue(query, "X-Amz-Credential")?.split("/").slice(0, -4).join("/");
  const id = parseAccessKeyId(scope ?? queryValue(query, "AWSAccessKeyId") ?? "");
  if (id === null) return noTenant;
  return (await credentials.find(id))?.principal.tenant ?? noTenant;
}
