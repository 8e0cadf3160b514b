// A PUT signed by hand, for requests that an SDK would not send: cut, slow, or with a wrong hash.

import { createHash, createHmac } from "node:crypto";
import { clientPair } from "./headgate.ts";

export interface SignedPut {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Path and headers of a PUT (SigV4, signed payload). `payloadSha256` replaces the true hash.
 * Bucket and key must need no percent-encoding.
 */
export function signedPut(
  to: { readonly url: string },
  object: {
    readonly bucket: string;
    readonly key: string;
    readonly bytes: Uint8Array;
    readonly payloadSha256?: string;
  },
): SignedPut {
  const { host } = new URL(to.url);
  const path = `/${object.bucket}/${object.key}`;
  const hash = object.payloadSha256 ?? createHash("sha256").update(object.bytes).digest("hex");
  const amzDate = new Date().toISOString().replaceAll(/[-:]|\.\d{3}/g, "");
  const scope = `${amzDate.slice(0, 8)}/us-east-1/s3/aws4_request`;
  const signed = "host;x-amz-content-sha256;x-amz-date";
  const fields = `host:${host}\nx-amz-content-sha256:${hash}\nx-amz-date:${amzDate}\n`;
  const canonical = ["PUT", path, "", fields, signed, hash].join("\n");
  const digest = createHash("sha256").update(canonical).digest("hex");
  let key: string | Buffer = `AWS4${clientPair.secretAccessKey}`;
  for (const part of scope.split("/")) key = createHmac("sha256", key).update(part).digest();
  const text = ["AWS4-HMAC-SHA256", amzDate, scope, digest].join("\n");
  const signature = createHmac("sha256", key).update(text).digest("hex");
  const credential = `Credential=${clientPair.accessKeyId}/${scope}`;
  return {
    path,
    headers: {
      host,
      "content-length": String(object.bytes.length),
      "x-amz-content-sha256": hash,
      "x-amz-date": amzDate,
      authorization: `AWS4-HMAC-SHA256 ${credential}, SignedHeaders=${signed}, Signature=${signature}`,
    },
  };
}
