// Who sends a form upload: the signature over its policy, looked up and verified as any other, or nobody
// when it brings none. A signature in the head beside it would be a second identity and is refused.

import type { AuthFailure } from "../placement/ports.ts";
import type { Credential } from "../policy/credential.ts";
import type { Principal } from "../policy/ports.ts";
import { headAuthorization } from "../s3/authorization.ts";
import { S3Error } from "../s3/errors.ts";
import type { FormField } from "../s3/form-data.ts";
import { formSignatureError, readFormAuthorization } from "../s3/post-signature.ts";
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

export type FormAuthentication =
  | {
      readonly kind: "caller";
      readonly caller: FormCaller;
      /** The signed policy, still unread; null for an anonymous form. */
      readonly policy: string | null;
    }
  | { readonly kind: "failed"; readonly error: S3Error; readonly reason: AuthFailure };

export interface FormQuestion {
  readonly head: RequestHead;
  readonly fields: ReadonlyMap<string, FormField>;
  readonly nowMs: number;
}

/** @throws S3Error ServiceUnavailable or SlowDown when it cannot be known now whose key it is. */
export async function authenticateForm(
  { head, fields, nowMs }: FormQuestion,
  settings: AuthenticationSettings,
): Promise<FormAuthentication> {
  const inHead = headAuthorization(head);
  if (inHead === "signed") {
    const message = "Only one authentication mechanism is allowed";
    return failed(new S3Error("InvalidArgument", { message }));
  }
  const authorization = readFormAuthorization(fields, settings.sigv2);
  if (authorization.kind === "error") return failed(authorization.error);
  if (authorization.kind === "anonymous") {
    if (inHead === "foreign") {
      const message = "The authorization scheme is not supported";
      return failed(new S3Error("AccessDenied", { message }));
    }
    const caller = { principal: anonymousPrincipal, credential: null };
    return { kind: "caller", caller, policy: null };
  }
  const credential = await settings.credentials.find(authorization.accessKeyId);
  const { keys, regions, limits } = settings;
  const credentials = credential === null ? null : signingCredentials(credential);
  const given = { authorization, credentials, nowMs, keys, regions, limits };
  const error = formSignatureError(given);
  if (error !== null) return failed(error);
  if (credential === null) return failed(new S3Error("InvalidAccessKeyId"));
  const principal = { ...credential.principal, scheme: authorization.kind };
  return { kind: "caller", caller: { principal, credential }, policy: authorization.policy };
}

function failed(error: S3Error): FormAuthentication {
  return { kind: "failed", error, reason: reasonOf(error) };
}
