// The independent signer that our own is measured against: AWS's @smithy/signature-v4 with a
// node:crypto hash. It signs over decoded query values and its own canonical URI.

import { Buffer } from "node:buffer";
import { createHash, createHmac, type Hash, type Hmac } from "node:crypto";

import { SignatureV4 } from "@smithy/signature-v4";

import type { HeaderList } from "../../proxy/s3/headers.ts";
import type { SigningCredentials } from "../../proxy/s3/sigv4.ts";

type HashInput = string | ArrayBuffer | ArrayBufferView;

class NodeSha256 {
  readonly #state: Hash | Hmac;

  constructor(secret?: HashInput) {
    this.#state =
      secret === undefined ? createHash("sha256") : createHmac("sha256", bytesOf(secret));
  }

  update(chunk: HashInput): void {
    this.#state.update(bytesOf(chunk));
  }

  digest(): Promise<Uint8Array> {
    return Promise.resolve(new Uint8Array(this.#state.digest()));
  }

  reset(): void {
    throw new Error("Cannot reset: a hash is used once");
  }
}

function bytesOf(input: HashInput): Uint8Array {
  if (typeof input === "string") return Buffer.from(input, "utf8");
  return input instanceof ArrayBuffer
    ? new Uint8Array(input)
    : new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
}

export interface SmithyRequest {
  readonly method: string;
  /** Encoded as it will be sent. */
  readonly path: string;
  readonly query: Readonly<Record<string, string | null>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly epochMs: number;
  readonly region: string;
  readonly credentials: SigningCredentials;
}

function signer(request: SmithyRequest): SignatureV4 {
  const { accessKeyId, secretAccessKey, sessionToken } = request.credentials;
  return new SignatureV4({
    service: "s3",
    region: request.region,
    uriEscapePath: false,
    sha256: NodeSha256,
    credentials: {
      accessKeyId,
      secretAccessKey,
      ...(sessionToken === null ? {} : { sessionToken }),
    },
  });
}

function httpRequest(request: SmithyRequest) {
  return {
    method: request.method,
    protocol: "http:",
    hostname: request.headers["host"] ?? "",
    path: request.path,
    query: { ...request.query },
    headers: { ...request.headers },
  };
}

/** All fields of the request, signed in the header. */
export async function smithySign(request: SmithyRequest): Promise<HeaderList> {
  const signed = await signer(request).sign(httpRequest(request), {
    signingDate: new Date(request.epochMs),
  });
  return Object.entries(signed.headers).map(
    ([name, value]) => [name.toLowerCase(), value] as const,
  );
}

/** The signed query, decoded. */
export async function smithyPresign(
  request: SmithyRequest,
  expiresIn: number,
): Promise<readonly (readonly [string, string])[]> {
  const pinned = request.headers["x-amz-content-sha256"];
  // As the JavaScript SDK does, which lets the name move into the query.
  const extra = pinned === undefined ? { "X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD" } : {};
  const headers = { ...request.headers, ...extra };
  const signed = await signer(request).presign(httpRequest({ ...request, headers }), {
    signingDate: new Date(request.epochMs),
    expiresIn,
    unhoistableHeaders: new Set(Object.keys(request.headers)),
  });
  return Object.entries(signed.query ?? {}).map(
    ([name, value]) => [name, typeof value === "string" ? value : ""] as const,
  );
}
