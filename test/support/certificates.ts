// X.509 certificates for tests of TLS, made on the spot: a certificate in the repository would expire,
// and openssl cannot make one that has. DER after RFC 5280 §4.1, keys and signatures of node:crypto.

import { generateKeyPairSync, type KeyObject, sign, X509Certificate } from "node:crypto";

export interface Identity {
  readonly certPem: string;
  readonly keyPem: string;
}

export interface CertificateOptions {
  readonly dnsNames?: readonly string[];
  /** IPv4 texts. */
  readonly addresses?: readonly string[];
  readonly notBefore?: Date;
  readonly notAfter?: Date;
}

const dayMs = 86_400_000;
const ecdsaWithSha256 = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02));

/** A certificate authority that trusts nobody and is trusted by whom it is given to. */
export class TestAuthority {
  readonly certPem: string;
  readonly #key: KeyObject;
  readonly #name: Buffer;
  #serial = 1;

  constructor(commonName = "Test CA") {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
    this.#key = pair.privateKey;
    this.#name = distinguishedName(commonName);
    // CA: true; the key signs certificates.
    const extensions = [
      extension([0x55, 0x1d, 0x13], sequence(Buffer.from([0x01, 0x01, 0xff])), true),
      extension([0x55, 0x1d, 0x0f], Buffer.from([0x03, 0x02, 0x02, 0x04]), true),
    ];
    this.certPem = this.#certificate(this.#name, pair.publicKey, { extensions });
  }

  /** A server certificate for `127.0.0.1` and `localhost` unless said otherwise, valid for a year. */
  issue(options: CertificateOptions = {}): Identity {
    const { dnsNames = ["localhost"], addresses = ["127.0.0.1"] } = options;
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const names = [
      ...dnsNames.map((name) => tagged(0x82, Buffer.from(name, "latin1"))),
      ...addresses.map((address) => tagged(0x87, Buffer.from(address.split(".").map(Number)))),
    ];
    const extensions = [extension([0x55, 0x1d, 0x11], sequence(...names), false)];
    const subject = distinguishedName("Test server");
    return {
      certPem: this.#certificate(subject, pair.publicKey, { ...options, extensions }),
      keyPem: String(pair.privateKey.export({ type: "pkcs8", format: "pem" })),
    };
  }

  #certificate(
    subject: Buffer,
    publicKey: KeyObject,
    options: CertificateOptions & { readonly extensions: readonly Buffer[] },
  ): string {
    const now = Date.now();
    const { notBefore = new Date(now - dayMs), notAfter = new Date(now + 365 * dayMs) } = options;
    const serial = this.#serial;
    this.#serial += 1;
    const content = sequence(
      tagged(0xa0, tagged(0x02, Buffer.from([2]))),
      tagged(0x02, Buffer.from([serial])),
      ecdsaWithSha256,
      this.#name,
      sequence(time(notBefore), time(notAfter)),
      subject,
      publicKey.export({ type: "spki", format: "der" }),
      tagged(0xa3, sequence(...options.extensions)),
    );
    const signature = Buffer.concat([Buffer.from([0]), sign("sha256", content, this.#key)]);
    const der = sequence(content, ecdsaWithSha256, tagged(0x03, signature));
    return new X509Certificate(der).toString();
  }
}

function tagged(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const bytes =
    length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...bytes]), content]);
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts));
}

function oid(...bytes: readonly number[]): Buffer {
  return tagged(0x06, Buffer.from(bytes));
}

function extension(id: readonly number[], value: Buffer, critical: boolean): Buffer {
  const flag = critical ? Buffer.from([0x01, 0x01, 0xff]) : Buffer.alloc(0);
  return sequence(oid(...id), flag, tagged(0x04, value));
}

function distinguishedName(commonName: string): Buffer {
  const value = tagged(0x0c, Buffer.from(commonName, "utf8"));
  return sequence(tagged(0x31, sequence(oid(0x55, 0x04, 0x03), value)));
}

/** GeneralizedTime, which also holds years that UTCTime cannot. */
function time(at: Date): Buffer {
  const text = `${at.toISOString().replaceAll(/[-:T]/g, "").slice(0, 14)}Z`;
  return tagged(0x18, Buffer.from(text, "latin1"));
}
