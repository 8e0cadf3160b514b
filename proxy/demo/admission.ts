// Whether a request may be worked on: what it names, who sends it, and what its body must be. Strict on
// purpose: a demo cluster is the upstream of tests, so it accepts nothing that AWS would refuse, and
// no anonymous request. Decided from the head, before a byte of the body is read.

import { parseAddress } from "../s3/address.ts";
import { readAuthorization } from "../s3/authorization.ts";
import { classifyOperation } from "../s3/classify.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue } from "../s3/headers.ts";
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
  if (authorization.kind === "anonymous") throw new S3Error("AccessDenied");
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
  const { operation } = classified;
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
      query: verified.query,
      headers: head.headers,
    },
    payload,
    md5: md5Of(head),
  };
}

function md5Of(head: RequestHead): Buffer | null {
  const text = fieldValue(head.headers, "content-md5");
  if (text === null) return null;
  const bytes = Buffer.from(text, "base64");
  if (bytes.length !== 16 || bytes.toString("base64") !== text) throw new S3Error("InvalidDigest");
  return bytes;
}
