// Who sends a request: parsed, looked up, verified. An unknown key costs the same work as a wrong
// signature. Anonymous is an identity too; whether it may do anything is policy's to say.

import type { AuthFailure, UpstreamIdentity } from "../placement/ports.ts";
import { anonymousIdentity } from "../placement/ports.ts";
import type { Credential, CredentialSource } from "../policy/credential.ts";
import type { Principal } from "../policy/ports.ts";
import { parseAddress } from "../s3/address.ts";
import type { Authorization } from "../s3/authorization.ts";
import {
  type AuthorizationCache,
  readAuthorization,
  readV2Authorization,
} from "../s3/authorization.ts";
import type { V2Authorization } from "../s3/authorization-v2.ts";
import type { ChunkSigning } from "../s3/chunk-signatures.ts";
import { S3Error } from "../s3/errors.ts";
import type { QueryList } from "../s3/headers.ts";
import { noTenant } from "../s3/names.ts";
import type { RequestHead } from "../s3/request-head.ts";
import type { SigningCredentials, SigningKeys } from "../s3/sigv4.ts";
import { illegality, type TimeLimits, verifySignature } from "../s3/verify.ts";
import { illegalityV2, verifySignatureV2 } from "../s3/verify-v2.ts";
import type { ExplanationBudget } from "./explanation-budget.ts";

export interface AuthenticationSettings {
  readonly credentials: CredentialSource;
  readonly keys: SigningKeys;
  readonly cache: AuthorizationCache;
  readonly limits: TimeLimits;
  readonly explanations: ExplanationBudget;
  /** Regions accepted in the credential scope, ours first; empty accepts any. */
  readonly regions: readonly string[];
  /** Names under which buckets are sub-domains; version 2 signs the bucket that stands in Host. */
  readonly baseDomains: readonly string[];
  /** Whether Signature Version 2 is taken. */
  readonly sigv2: boolean;
  /** Whether header authorization must come with x-amz-content-sha256, as on AWS. */
  readonly requireContentSha256: boolean;
}

type SignedAuthorization = Exclude<Authorization, { kind: "anonymous" }> | V2Authorization;

export type Authentication =
  | {
      readonly kind: "caller";
      readonly principal: Principal;
      readonly authorization: Authorization | V2Authorization;
      /** What the signature was verified with; null for an anonymous caller. */
      readonly credential: Credential | null;
      /** The query in the reading that verified. */
      readonly query: QueryList;
    }
  | { readonly kind: "failed"; readonly error: S3Error; readonly reason: AuthFailure };

export const anonymousPrincipal: Principal = {
  accessKey: null,
  account: null,
  displayName: null,
  tenant: noTenant,
  groups: [],
  grants: [],
  scheme: "anonymous",
};

/**
 * Parses, looks up and verifies; a promise only when the key has to be asked for elsewhere.
 * @throws S3Error ServiceUnavailable or SlowDown when it cannot be known now whose key it is.
 */
export function authenticate(
  head: RequestHead,
  nowMs: number,
  settings: AuthenticationSettings,
): Authentication | Promise<Authentication> {
  const v2 = settings.sigv2 ? readV2Authorization(head) : null;
  const authorization = v2 ?? readAuthorization(head, settings.cache);
  if (authorization.kind === "error") {
    return { kind: "failed", error: authorization.error, reason: "malformed" };
  }
  if (authorization.kind === "anonymous") {
    const query = head.query;
    return {
      kind: "caller",
      principal: anonymousPrincipal,
      authorization,
      credential: null,
      query,
    };
  }
  const request = { head, authorization, nowMs };
  // Before the key is asked for, which may be a request to a cluster.
  const illegal = illegalityOf(request, settings);
  if (illegal !== null) return { kind: "failed", error: illegal, reason: reasonOf(illegal) };
  const found = settings.credentials.find(authorization.accessKeyId);
  if (!(found instanceof Promise)) return verifyAgainst(found, request, settings);
  return found.then((credential) => verifyAgainst(credential, request, settings));
}

interface SignedRequest {
  readonly head: RequestHead;
  readonly authorization: SignedAuthorization;
  readonly nowMs: number;
}

function illegalityOf(
  { head, authorization, nowMs }: SignedRequest,
  { regions, limits, requireContentSha256 }: AuthenticationSettings,
): S3Error | null {
  const given = { head, nowMs, limits };
  return authorization.kind === "header" || authorization.kind === "presigned"
    ? illegality({ ...given, authorization, regions, requireContentSha256 })
    : illegalityV2({ ...given, authorization });
}

function verifyAgainst(
  credential: Credential | null,
  request: SignedRequest,
  settings: AuthenticationSettings,
): Authentication {
  const { authorization } = request;
  const verified = verify(credential, request, settings);
  if (verified.kind === "error") {
    return { kind: "failed", error: verified.error, reason: reasonOf(verified.error) };
  }
  if (credential === null) {
    // Verification never succeeds without credentials; without this line the types cannot know.
    const error = new S3Error("InvalidAccessKeyId");
    return { kind: "failed", error, reason: "InvalidAccessKeyId" };
  }
  return {
    kind: "caller",
    principal: { ...credential.principal, scheme: authorization.kind },
    authorization,
    credential,
    query: verified.query,
  };
}

/** The signature against a credential, by its version. */
function verify(
  credential: Credential | null,
  { head, authorization, nowMs }: SignedRequest,
  settings: AuthenticationSettings,
):
  | { readonly kind: "verified"; readonly query: QueryList }
  | { readonly kind: "error"; readonly error: S3Error } {
  const { keys, regions, limits, explanations, baseDomains } = settings;
  const credentials = credential === null ? null : signingCredentials(credential);
  const mayExplain = (): boolean => explanations.take(nowMs);
  const given = { head, credentials, nowMs, limits, mayExplain };
  switch (authorization.kind) {
    case "header":
    case "presigned": {
      return verifySignature({ ...given, authorization, keys, regions });
    }
    case "header-v2":
    case "presigned-v2": {
      const address = parseAddress(head, baseDomains);
      const isInHost = address.kind === "address" && address.style === "virtual-hosted";
      return verifySignatureV2({
        ...given,
        authorization,
        hostBucket: isInHost ? address.bucket : null,
      });
    }
  }
}

/** A credential as signatures are verified with it. */
export function signingCredentials(credential: Credential): SigningCredentials {
  const { accessKeyId, secretAccessKey, sessionToken = null } = credential;
  return { accessKeyId, secretAccessKey, sessionToken };
}

/** On whose behalf the clusters are asked, and from where that caller's request came. */
export function identityOf(
  { credential }: { readonly credential: Credential | null },
  forwardedFor: string,
): UpstreamIdentity {
  if (credential === null) return { ...anonymousIdentity, forwardedFor };
  const { accessKeyId, principal } = credential;
  return { kind: "caller", accessKeyId, tenant: principal.tenant, forwardedFor };
}

/** What the chunk signatures of a verified caller's body are chained to; null for an anonymous one. */
export function chunkSigning(
  caller: Extract<Authentication, { kind: "caller" }>,
  settings: AuthenticationSettings,
): ChunkSigning | null {
  const { authorization, credential } = caller;
  const isV4 = authorization.kind === "header" || authorization.kind === "presigned";
  if (!isV4 || credential === null) return null;
  const { date, region, amzDate, signature } = authorization;
  return {
    key: settings.keys.key(signingCredentials(credential), date, region, "s3"),
    amzDate,
    scope: `${date}/${region}/s3/aws4_request`,
    seed: signature,
  };
}

/** How a refusal is counted. */
export function reasonOf(error: S3Error): AuthFailure {
  switch (error.code) {
    case "SignatureDoesNotMatch":
    case "InvalidAccessKeyId":
    case "RequestTimeTooSkewed":
      return error.code;
    case "AccessDenied":
      return "HeadersNotSigned" in error.details ? "malformed" : "expired";
    default:
      return "malformed";
  }
}
