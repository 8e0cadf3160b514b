// Who sends a form upload: the signature over its policy, looked up and verified as any other, or nobody
// when it brings none. A signature in the head beside it would be a second identity and is refused. In
// two steps, since a key may have to be asked for elsewhere: nobody's is for a form that is not right.

import type { AuthFailure } from "../placement/ports.ts";
import type { Credential } from "../policy/credential.ts";
import type { Principal } from "../policy/ports.ts";
import { headAuthorization } from "../s3/authorization.ts";
import { S3Error } from "../s3/errors.ts";
import type { FormField } from "../s3/form-data.ts";
import {
  type FormAuthorization,
  formIllegality,
  formSignatureError,
  readFormAuthorization,
} from "../s3/post-signature.ts";
import type { RequestHead } from "../s3/request-head.ts";
import {
  type AuthenticationSettings,
  anonymousPrincipal,
  reasonOf,
  signingCredentials,
} from "./authenticate.ts";

export interface FormCaller {
  readonly principal: Principal;
  /** Null for an anonymous caller. */
  readonly credential: Credential | null;
}

/** What a form says of who sends it, before anybody is asked whether that is so. */
export type FormClaim =
  | { readonly kind: "anonymous" }
  | { readonly kind: "signed"; readonly authorization: FormAuthorization }
  | FormFailure;

export type FormAuthentication =
  | { readonly kind: "caller"; readonly caller: FormCaller }
  | FormFailure;

export interface FormFailure {
  readonly kind: "failed";
  readonly error: S3Error;
  readonly reason: AuthFailure;
}

export interface FormQuestion {
  readonly head: RequestHead;
  readonly fields: ReadonlyMap<string, FormField>;
  readonly nowMs: number;
}

/** Reads the claim and refuses what no key would make right. Cheap; nobody's key is looked up. */
export function readFormClaim(
  { head, fields, nowMs }: FormQuestion,
  { sigv2, regions, limits }: AuthenticationSettings,
): FormClaim {
  const inHead = headAuthorization(head);
  if (inHead === "signed") {
    const message = "Only one authentication mechanism is allowed";
    return failed(new S3Error("InvalidArgument", { message }));
  }
  const authorization = readFormAuthorization(fields, sigv2);
  if (authorization.kind === "error") return failed(authorization.error);
  if (authorization.kind === "anonymous") {
    if (inHead === "none") return { kind: "anonymous" };
    const message = "The authorization scheme is not supported";
    return failed(new S3Error("AccessDenied", { message }));
  }
  const illegal = formIllegality(authorization, { nowMs, regions, limits });
  return illegal === null ? { kind: "signed", authorization } : failed(illegal);
}

/**
 * Looks the key of a claim up and verifies its signature.
 * @throws S3Error ServiceUnavailable or SlowDown when it cannot be known now whose key it is.
 */
export async function authenticateForm(
  claim: Exclude<FormClaim, FormFailure>,
  settings: Pick<AuthenticationSettings, "credentials" | "keys">,
): Promise<FormAuthentication> {
  if (claim.kind === "anonymous") {
    return { kind: "caller", caller: { principal: anonymousPrincipal, credential: null } };
  }
  const { authorization } = claim;
  const credential = await settings.credentials.find(authorization.accessKeyId);
  const credentials = credential === null ? null : signingCredentials(credential);
  const error = formSignatureError({ authorization, credentials, keys: settings.keys });
  if (error !== null) return failed(error);
  if (credential === null) return failed(new S3Error("InvalidAccessKeyId"));
  const principal = { ...credential.principal, scheme: authorization.kind };
  return { kind: "caller", caller: { principal, credential } };
}

function failed(error: S3Error): FormFailure {
  return { kind: "failed", error, reason: reasonOf(error) };
}
