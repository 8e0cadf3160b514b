// What a form upload brings to prove who signed its policy, and whether it is right: Signature Version 4
// over the policy's text, version 2 where that is taken, or nothing at all (S3 "Authenticating requests
// in browser-based uploads using POST"). Constant time, and the same work for an unknown key.

import { Buffer } from "node:buffer";
import { timingSafeEqual } from "node:crypto";
import { parseAmzDate } from "./amz-date.ts";
import { credentialScope } from "./authorization.ts";
import { v2Signature } from "./authorization-v2.ts";
import { S3Error } from "./errors.ts";
import type { FormField } from "./form-data.ts";
import { type AccessKeyId, parseAccessKeyId } from "./names.ts";
import { signatureV2 } from "./sigv2.ts";
import { algorithm, type SigningCredentials, type SigningKeys, signatureOf } from "./sigv4.ts";
import { nobody, type TimeLimits, tokenError } from "./verify.ts";

type Fields = ReadonlyMap<string, FormField>;

interface SignedForm {
  readonly accessKeyId: AccessKeyId;
  /** As sent: what is signed. */
  readonly policy: string;
  /** Hex of version 4, base64 of version 2. */
  readonly signature: string;
  readonly sessionToken: string | null;
}

type FormV4 = {
  readonly kind: "form";
  /** `20261129`. */
  readonly date: string;
  readonly region: string;
  readonly signedAtMs: number;
} & SignedForm;
type FormV2 = { readonly kind: "form-v2" } & SignedForm;
export type FormAuthorization = FormV4 | FormV2;

export type FormAuthorizationResult =
  | FormAuthorization
  | { readonly kind: "anonymous" }
  | { readonly kind: "error"; readonly error: S3Error };

/** Reads the fields that authenticate a form. @param sigv2 whether version 2 is taken */
export function readFormAuthorization(fields: Fields, sigv2: boolean): FormAuthorizationResult {
  const has = (name: string): boolean => fields.has(name);
  const v4 = has("x-amz-signature") || has("x-amz-credential") || has("x-amz-algorithm");
  const v2 = has("signature") || has("awsaccesskeyid");
  if (v4 && v2) return refusal("InvalidArgument", "Only one authentication mechanism is allowed");
  if (v4) return readV4(fields);
  if (v2 && !sigv2) return refusal("InvalidRequest", `Use signature version 4 (${algorithm})`);
  if (v2) return readV2(fields);
  return has("policy") ? missing("x-amz-signature") : { kind: "anonymous" };
}

function readV4(fields: Fields): FormAuthorizationResult {
  const absent = [
    "policy",
    "x-amz-signature",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-algorithm",
  ].find((name) => !fields.has(name));
  if (absent !== undefined) return missing(absent);
  const text = (name: string): string => fields.get(name)?.value ?? "";
  const named = text("x-amz-algorithm");
  if (named.startsWith("AWS4-ECDSA-P256-SHA256")) {
    return refusal("NotImplemented", "Signature version 4A is not implemented");
  }
  if (named !== algorithm) {
    return refusal("InvalidArgument", `Field "x-amz-algorithm" must be "${algorithm}"`);
  }
  const scope = credentialScope(text("x-amz-credential"));
  const signedAtMs = parseAmzDate(text("x-amz-date"));
  if (scope === null || scope.service !== "s3") {
    const message = 'Field "x-amz-credential" must be <key id>/<yyyymmdd>/<region>/s3/aws4_request';
    return refusal("InvalidArgument", message);
  }
  if (signedAtMs === null || !text("x-amz-date").startsWith(scope.date)) {
    return refusal("InvalidArgument", 'Field "x-amz-date" is not valid');
  }
  const signature = text("x-amz-signature");
  if (!/^[0-9a-f]{64}$/.test(signature)) return refusal("SignatureDoesNotMatch");
  const { accessKeyId, date, region } = scope;
  const signed = { accessKeyId, policy: text("policy"), signature, sessionToken: token(fields) };
  return { kind: "form", date, region, signedAtMs, ...signed };
}

function readV2(fields: Fields): FormAuthorizationResult {
  const absent = ["policy", "signature", "awsaccesskeyid"].find((name) => !fields.has(name));
  if (absent !== undefined) return missing(absent);
  const text = (name: string): string => fields.get(name)?.value ?? "";
  const accessKeyId = parseAccessKeyId(text("awsaccesskeyid"));
  if (accessKeyId === null) return refusal("InvalidAccessKeyId");
  const signature = text("signature");
  if (!v2Signature.test(signature)) return refusal("SignatureDoesNotMatch");
  const policy = text("policy");
  return { kind: "form-v2", accessKeyId, policy, signature, sessionToken: token(fields) };
}

function token(fields: Fields): string | null {
  return fields.get("x-amz-security-token")?.value ?? null;
}

export interface VerifyForm {
  readonly authorization: FormAuthorization;
  /** Those of the named key id, `null` when the id is not known. */
  readonly credentials: SigningCredentials | null;
  readonly keys: SigningKeys;
}

/** Why the signature of a legal form is not right; `null` when it is. Its policy is not read here. */
export function formSignatureError(form: VerifyForm): S3Error | null {
  const { authorization, credentials } = form;
  const same = isSigned(authorization, credentials ?? nobody, form.keys) && credentials !== null;
  if (credentials === null) return new S3Error("InvalidAccessKeyId");
  // The string to sign is not shown: it is the policy, which may hold a token.
  if (!same) {
    const details = { SignatureProvided: authorization.signature };
    return new S3Error("SignatureDoesNotMatch", { details });
  }
  return tokenError(authorization.sessionToken, credentials.sessionToken);
}

/** Nobody's credentials sign nothing, and cost as much as somebody's wrong signature. */
function isSigned(
  authorization: FormAuthorization,
  credentials: SigningCredentials,
  keys: SigningKeys,
): boolean {
  const given = Buffer.from(authorization.signature);
  // Both are of the one length that their version has.
  const matches = (signature: string): boolean => timingSafeEqual(Buffer.from(signature), given);
  if (authorization.kind === "form-v2") {
    return matches(signatureV2(credentials.secretAccessKey, authorization.policy));
  }
  const { date, region, policy } = authorization;
  const trial = keys.trial(credentials, date, region, "s3");
  const same = matches(signatureOf(trial.key, policy)) && credentials !== nobody;
  if (same) trial.keep();
  else trial.refuse();
  return same;
}

export interface FormLaws {
  readonly nowMs: number;
  /** Regions a scope may name, the first being ours; empty: any. */
  readonly regions: readonly string[];
  readonly limits: TimeLimits;
}

/** What no credential would make right: scope and time of a version 4 form. */
export function formIllegality(authorization: FormAuthorization, laws: FormLaws): S3Error | null {
  if (authorization.kind === "form-v2") return null;
  const { nowMs, limits, regions } = laws;
  const [ours] = regions;
  if (ours !== undefined && !regions.includes(authorization.region)) {
    const message = `The region "${authorization.region}" is wrong, needs "${ours}"`;
    return new S3Error("InvalidArgument", { message, details: { Region: ours } });
  }
  const ageMs = nowMs - authorization.signedAtMs;
  if (-ageMs > limits.maxSkewMs) {
    return new S3Error("AccessDenied", { message: "The form is not valid yet" });
  }
  // A signing key is good for seven days on S3; an operator may allow less.
  return ageMs <= limits.maxPresignSeconds * 1000
    ? null
    : new S3Error("AccessDenied", { message: "The form has expired" });
}

function missing(name: string): FormAuthorizationResult {
  const message = `Bucket POST must contain a field named "${name}". If it is given, check the order of the fields`;
  return refusal("InvalidArgument", message);
}

function refusal(
  code:
    | "InvalidArgument"
    | "InvalidRequest"
    | "NotImplemented"
    | "SignatureDoesNotMatch"
    | "InvalidAccessKeyId",
  message?: string,
): { readonly kind: "error"; readonly error: S3Error } {
  return { kind: "error", error: new S3Error(code, message === undefined ? {} : { message }) };
}
