// Short ways to build the request heads that the S3 unit tests read, and to sign them by hand.

import { S3Error } from "../../proxy/s3/errors.ts";
import type { HeaderField, HeaderList } from "../../proxy/s3/headers.ts";
import { type RequestHead, readRequestHead } from "../../proxy/s3/request-head.ts";
import {
  canonicalRequest,
  formatAmzDate,
  type SigningCredentials,
  SigningKeys,
  signatureOf,
  stringToSign,
} from "../../proxy/s3/sigv4.ts";

export const nowMs = Date.UTC(2026, 10, 29, 12, 0, 0);
export const credentials: SigningCredentials = {
  accessKeyId: "AKIDEXAMPLE",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
  sessionToken: null,
};

export interface HeadInput {
  readonly method?: string;
  readonly target?: string;
  readonly host?: string;
  readonly headers?: HeaderList;
}

/** The head of a request with one Host field in front. */
export function headOf(input: HeadInput = {}): RequestHead {
  const result = tryHead(input);
  if (result instanceof S3Error) throw result;
  return result;
}

export function tryHead(input: HeadInput): RequestHead | S3Error {
  const fields = [["host", input.host ?? "s3.example.com"], ...(input.headers ?? [])];
  const result = readRequestHead({
    method: input.method ?? "GET",
    target: input.target ?? "/",
    rawHeaders: fields.flat(),
  });
  return result.kind === "head" ? result.head : result.error;
}

export interface HandSigned {
  readonly method?: string;
  /** As it will be in the canonical request. */
  readonly path: string;
  readonly query?: string;
  /** In the order signed. */
  readonly fields: readonly HeaderField[];
  readonly payloadHash?: string;
  readonly epochMs?: number;
  readonly region?: string;
}

/** An Authorization value over exactly the given canonical parts, right or wrong. */
export function handSigned(parts: HandSigned): string {
  const amzDate = formatAmzDate(parts.epochMs ?? nowMs);
  const region = parts.region ?? "us-east-1";
  const scope = `${amzDate.slice(0, 8)}/${region}/s3/aws4_request`;
  const signedHeaders = parts.fields.map(([name]) => name).join(";");
  const canonical = canonicalRequest({
    method: parts.method ?? "GET",
    path: parts.path,
    query: parts.query ?? "",
    fields: parts.fields,
    signedHeaders,
    payloadHash: parts.payloadHash ?? "UNSIGNED-PAYLOAD",
  });
  const key = new SigningKeys(1).key(credentials, amzDate.slice(0, 8), region, "s3");
  const signature = signatureOf(key, stringToSign(amzDate, scope, canonical));
  return `AWS4-HMAC-SHA256 Credential=${credentials.accessKeyId}/${scope}, SignedHeaders=${signedHeaders}, Signature=${signature}`;
}
