// AWS Signature Version 4 on node:crypto: canonical request, string to sign, signing keys, and the
// signer of upstream requests. It knows nothing of what a request means. Header values are latin1
// strings, one char a byte, and are hashed as bytes (SigV4 "Create a signed AWS API request").

import { Buffer } from "node:buffer";
import { createHmac, createSecretKey, hash, type KeyObject } from "node:crypto";

import type { HeaderField, HeaderList } from "./headers.ts";

export const algorithm = "AWS4-HMAC-SHA256";
export const unsignedPayload = "UNSIGNED-PAYLOAD";
/** SHA-256 of no bytes. */
export const emptyPayloadHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

export interface SigningCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken: string | null;
}

/** A signing key on trial: exactly one of the two is called when it has been tried. */
export interface SigningTrial {
  readonly key: KeyObject;
  keep(): void;
  refuse(): void;
}

interface KeyEntry {
  readonly secret: string;
  readonly key: KeyObject;
}

/**
 * Derived signing keys, least recently used dropped first. Callers keep one for clients and one for
 * upstreams, so that clients inventing regions cannot push out the upstreams' keys.
 */
export class SigningKeys {
  readonly #maxEntries: number;
  readonly #entries = new Map<string, KeyEntry>();

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  /** The key for one day, region and service. @param date `20261129` */
  key(credentials: SigningCredentials, date: string, region: string, service: string): KeyObject {
    const trial = this.trial(credentials, date, region, service);
    trial.keep();
    return trial.key;
  }

  /**
   * The key to try a signature with that may be anybody's. Only a right one is kept: whoever has no
   * right key can neither push others' out nor learn from the work which keys were used before. A
   * refusal costs one derivation, whether the key was remembered, is new, or nobody's.
   */
  trial(
    credentials: SigningCredentials,
    date: string,
    region: string,
    service: string,
  ): SigningTrial {
    const id = `${date}/${region}/${service}/${credentials.accessKeyId}`;
    const secret = credentials.secretAccessKey;
    const found = this.#entries.get(id);
    // A rotated secret keeps its id, so the entry is good for the secret it was made from only.
    const remembered = found?.secret === secret ? found : null;
    const entry = remembered ?? { secret, key: deriveKey(secret, [date, region, service]) };
    return {
      key: entry.key,
      keep: () => this.#keep(id, entry),
      refuse: () => {
        if (remembered !== null) deriveKey(secret, [date, region, service]);
      },
    };
  }

  #keep(id: string, entry: KeyEntry): void {
    this.#touch(id, entry);
    if (this.#entries.size <= this.#maxEntries) return;
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest);
      break;
    }
  }

  #touch(id: string, entry: KeyEntry): void {
    this.#entries.delete(id);
    this.#entries.set(id, entry);
  }
}

function deriveKey(secret: string, scope: readonly string[]): KeyObject {
  let key: Buffer = Buffer.from(`AWS4${secret}`);
  for (const part of [...scope, "aws4_request"]) {
    key = createHmac("sha256", key).update(part).digest();
  }
  return createSecretKey(key);
}

export interface CanonicalParts {
  readonly method: string;
  /** Canonical URI: `/b/a%20b`. */
  readonly path: string;
  /** Canonical query: `acl=`. */
  readonly query: string;
  /** `[name, canonical value]` in the order of the signed headers. */
  readonly fields: HeaderList;
  /** `host;x-amz-date`. */
  readonly signedHeaders: string;
  readonly payloadHash: string;
}

/** The canonical request, as latin1 text. */
export function canonicalRequest(parts: CanonicalParts): string {
  let fields = "";
  for (const [name, value] of parts.fields) fields += `${name}:${value}\n`;
  return `${parts.method}\n${parts.path}\n${parts.query}\n${fields}\n${parts.signedHeaders}\n${parts.payloadHash}`;
}

/** The string to sign. @param scope `20261129/us-east-1/s3/aws4_request` */
export function stringToSign(amzDate: string, scope: string, canonical: string): string {
  return `${algorithm}\n${amzDate}\n${scope}\n${hashText(canonical)}`;
}

function hashText(latin1: string): string {
  // A string is hashed as UTF-8, which is the same bytes while all of it is ASCII, and faster.
  return hash("sha256", /[^\0-\x7f]/.test(latin1) ? Buffer.from(latin1, "latin1") : latin1);
}

/** Lower-case hex signature of a string to sign. */
export function signatureOf(key: KeyObject, text: string): string {
  return createHmac("sha256", key).update(text, "latin1").digest("hex");
}

/**
 * A header value as SigV4 hashes it: ends trimmed, runs of blanks collapsed, case kept. Only blank and
 * tab count: byte A0 is part of a UTF-8 character here, not a no-break space.
 */
export function canonicalValue(value: string): string {
  if (!/[ \t]{2}|\t|^ | $/.test(value)) return value;
  return value.replace(/[ \t]+/g, " ").replace(/^ | $/g, "");
}

/** Milliseconds since the epoch as `20261129T235959Z`. */
export function formatAmzDate(epochMs: number): string {
  const iso = new Date(epochMs).toISOString();
  return `${iso.slice(0, 4)}${iso.slice(5, 7)}${iso.slice(8, 13)}${iso.slice(14, 16)}${iso.slice(17, 19)}Z`;
}

export interface SignRequest {
  readonly method: string;
  /** Canonical, and sent as it is. */
  readonly path: string;
  /** Canonical, and sent as it is. */
  readonly query: string;
  /** What the Host field will say, with a port unless it is the scheme's default. */
  readonly host: string;
  /** Other fields of the request, lower-case names. */
  readonly headers: HeaderList;
  /** 64 lower-case hex digits or `UNSIGNED-PAYLOAD`. */
  readonly payloadHash: string;
  readonly region: string;
  readonly credentials: SigningCredentials;
  /** `20261129T235959Z` */
  readonly amzDate: string;
}

/**
 * Signs a request to an upstream and returns the fields to add to it. Signed are host, every `x-amz-*`,
 * content-type and content-md5; the rest may be rewritten on the way. A name must not be repeated in
 * `headers` for fields that are signed: join them first.
 */
export function signRequest(request: SignRequest, keys: SigningKeys): HeaderList {
  const { credentials, amzDate, payloadHash } = request;
  const added: HeaderField[] = [
    ["x-amz-date", amzDate],
    ["x-amz-content-sha256", payloadHash],
  ];
  if (credentials.sessionToken !== null) {
    added.push(["x-amz-security-token", credentials.sessionToken]);
  }
  const fields: HeaderField[] = [["host", request.host], ...added];
  for (const [name, value] of request.headers) {
    if (name.startsWith("x-amz-") || name === "content-type" || name === "content-md5") {
      fields.push([name, canonicalValue(value)]);
    }
  }
  fields.sort((left, right) => (left[0] < right[0] ? -1 : 1));
  let signedHeaders = "";
  for (const [name] of fields) signedHeaders += signedHeaders === "" ? name : `;${name}`;
  const date = amzDate.slice(0, 8);
  const scope = `${date}/${request.region}/s3/aws4_request`;
  const canonical = canonicalRequest({
    method: request.method,
    path: request.path,
    query: request.query,
    fields,
    signedHeaders,
    payloadHash,
  });
  const key = keys.key(credentials, date, request.region, "s3");
  const signature = signatureOf(key, stringToSign(amzDate, scope, canonical));
  added.push([
    "authorization",
    `${algorithm} Credential=${credentials.accessKeyId}/${scope}, SignedHeaders=${signedHeaders}, Signature=${signature}`,
  ]);
  return added;
}
