// The certificate and key of a listener, checked before anything is opened: a chain that parses, a key
// that belongs to its first certificate, a validity that holds now. What clients would see as a failed
// handshake an operator sees as a fault with file, line and column. Never repeats a byte of the key.

import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import type { Checks } from "./checks.ts";
import type { Settings } from "./schema.ts";
import type { SettingPath } from "./source-file.ts";

export interface ServerTlsConfig {
  /** PEM text, the server's own certificate first, then its issuers. */
  readonly certPem: string;
  /** PEM text without a passphrase. */
  readonly keyPem: string;
  readonly minVersion: "TLSv1.2" | "TLSv1.3";
}

/** An operator who does not look at the log for this long is not helped by more. */
const warnBeforeMs = 14 * 24 * 3_600_000;
const pemCertificate = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Null: plain HTTP, or a fault was reported. */
export function serverTls(
  tls: Settings["listen"]["tls"],
  at: SettingPath,
  { checks, nowMs }: { readonly checks: Checks; readonly nowMs: number },
): ServerTlsConfig | null {
  const { cert_file: certFile, key_file: keyFile } = tls;
  const hasCert = certFile !== undefined && certFile !== "";
  const hasKey = keyFile !== undefined && keyFile !== "";
  if (!hasCert && !hasKey) return null;
  if (!hasCert || !hasKey) {
    checks.fault(at, "Needs both cert_file and key_file, or neither");
    return null;
  }
  const certPem = checks.read(certFile, [...at, "cert_file"]);
  const keyPem = checks.read(keyFile, [...at, "key_file"]);
  if (certPem === null || keyPem === null) return null;
  const chain = readChain(certPem);
  const key = readKey(keyPem);
  if (chain === null) {
    checks.fault([...at, "cert_file"], `File "${certFile}" holds no readable PEM certificates`);
  }
  if (key === null) {
    checks.fault(
      [...at, "key_file"],
      `File "${keyFile}" holds no readable PEM private key without a passphrase`,
    );
  }
  if (chain === null || key === null) return null;
  const [own] = chain;
  if (own?.checkPrivateKey(key) === false) {
    checks.fault(
      [...at, "key_file"],
      `Key "${keyFile}" does not belong to the first certificate of "${certFile}"`,
    );
  }
  checkChain(chain, [...at, "cert_file"], { checks, nowMs });
  return { certPem, keyPem, minVersion: tls.min_version };
}

/** The certificates of a PEM text in their order, or null when there is none or one cannot be read. */
export function readChain(pem: string): readonly X509Certificate[] | null {
  const blocks = pem.match(pemCertificate) ?? [];
  try {
    const chain = blocks.map((block) => new X509Certificate(block));
    return chain.length === 0 ? null : chain;
  } catch {
    return null;
  }
}

function readKey(pem: string): KeyObject | null {
  try {
    return createPrivateKey(pem);
  } catch {
    return null;
  }
}

function checkChain(
  chain: readonly X509Certificate[],
  path: SettingPath,
  { checks, nowMs }: { readonly checks: Checks; readonly nowMs: number },
): void {
  for (const [index, certificate] of chain.entries()) {
    const name = `Certificate ${index + 1} of ${chain.length}`;
    const from = new Date(certificate.validFrom);
    const to = new Date(certificate.validTo);
    if (to.getTime() < nowMs) checks.fault(path, `${name} expired at ${to.toISOString()}`);
    else if (from.getTime() > nowMs) {
      checks.fault(path, `${name} is not valid before ${from.toISOString()}`);
    } else if (to.getTime() < nowMs + warnBeforeMs) {
      checks.warn(path, `${name} expires at ${to.toISOString()}`);
    }
    const issuer = chain[index + 1];
    if (issuer !== undefined && !certificate.checkIssued(issuer)) {
      checks.warn(path, `${name} was not issued by the one behind it, so clients may refuse it`);
    }
  }
}
