// Whether a request may be worked on: what it names, who sends it, and what its body must be. Strict on
// purpose: a demo cluster is the upstream of tests, so it accepts nothing that AWS would refuse, and
// of an anonymous request only what the bucket's ACL opens to everybody. Decided from the head, before a
// byte of the body is read.

import { parseAddress } from "../s3/address.ts";
import { type Authorization, readAuthorization } from "../s3/authorization.ts";
import { classifyOperation } from "../s3/classify.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type QueryList } from "../s3/headers.ts";
import type { BucketName } from "../s3/names.ts";
import type { S3Operation } from "../s3/operation.ts";
import { isStreaming, type Payload, readPayload } from "../s3/payload.ts";
import { type RequestHead, type RequestHeadInput, readRequestHead } from "../s3/request-head.ts";
import type { SigningCredentials, SigningKeys } from "../s3/sigv4.ts";
import { verifySignature } from "../s3/verify.ts";
import type { DemoRequest } from "./request.ts";
import { isTrailerForm } from "./taken-body.ts";

export interface AdmissionPorts {
  readonly credentials: SigningCredentials;
  readonly keys: SigningKeys;
  readonly nowMs: () => number;
  /** Whether anybody may do this, without a signature. */
  readonly isOpen: (operation: S3Operation, bucket: BucketName | null) => boolean;
}

/** A request whose signature is right; its body is still to be read and checked. */
export interface Admitted {
  readonly request: Omit<DemoRequest, "body">;
  readonly payload: Payload;
  /** Content-MD5 as 16 bytes, if sent. */
  readonly md5: Buffer | null;
}

/** @throws S3Error for the first thing that is wrong with the head. */
export function admit(input: RequestHeadInput, ports: AdmissionPorts): Admitted {
  const read = readRequestHead(input);
  if (read.kind === "error") throw read.error;
  const { head } = read;
  const address = parseAddress(head, []);
  if (address.kind === "error") throw address.error;
  const classified = classifyOperation(head, address);
  if (classified.kind === "error") throw classified.error;
  const authorization = readAuthorization(head);
  if (authorization.kind === "error") throw authorization.error;
  const { operation } = classified;
  if (authorization.kind === "anonymous" && !ports.isOpen(operation, address.bucket)) {
    throw new S3Error("AccessDenied");
  }
  const query =
    authorization.kind === "anonymous" ? head.query : verifiedQuery(head, authorization, ports);
  const payload = readPayload(head, authorization, { operation });
  if (payload.kind === "error") throw payload.error;
  if (isStreaming(payload) && !isTrailerForm(head.headers)) {
    throw new S3Error("NotImplemented", { message: "A demo cluster takes no signed chunks" });
  }
  return {
    request: {
      method: head.method,
      operation,
      bucket: address.bucket,
      key: address.key,
      query,
      headers: head.headers,
    },
    payload,
    md5: md5Of(head),
  };
}

/** The query in the reading that was signed. @throws S3Error */
function verifiedQuery(
  head: RequestHead,
  authorization: Exclude<Authorization, { readonly kind: "anonymous" }>,
  ports: AdmissionPorts,
): QueryList {
  const known = authorization.accessKeyId === ports.credentials.accessKeyId;
  const verified = verifySignature({
    head,
    authorization,
    credentials: known ? ports.credentials : null,
    nowMs: ports.nowMs(),
    regions: [],
    keys: ports.keys,
  });
  if (verified.kind === "error") throw verified.error;
  return verified.query;
}

function md5Of(head: RequestHead): Buffer | null {
  const text = fieldValue(head.headers, "content-md5");
  if (text === null) return null;
  const bytes = Buffer.from(text, "base64");
  if (bytes.length !== 16 || bytes.toString("base64") !== text) throw new S3Error("InvalidDigest");
  return bytes;
}
