// Who may speak to the admin listener. With a token: bearers of it. Without (loopback only): local
// programs, but no web page, neither by DNS rebinding (Host) nor across sites (Origin, media type).
// Rules: control.md "Admin access by default".

import { createHash, timingSafeEqual } from "node:crypto";
import { type AdminReply, problem } from "./reply.ts";

export interface Credentials {
  readonly method: string;
  readonly path: string;
  readonly host: string | undefined;
  readonly origin: string | undefined;
  readonly fetchSite: string | undefined;
  readonly contentType: string | undefined;
  readonly authorization: string | undefined;
}

/** Probes and scrapers carry no token. */
const openPaths = new Set(["/healthz", "/livez", "/readyz", "/metrics"]);

/** Null when the request may go on; `token` null: the listener is open to this machine. */
export function refusal(request: Credentials, token: string | null): AdminReply | null {
  if (openPaths.has(request.path)) return null;
  return token === null ? openRefusal(request) : tokenRefusal(request, token);
}

function tokenRefusal(request: Credentials, token: string): AdminReply | null {
  const given = /^bearer +(\S+) *$/i.exec(request.authorization ?? "")?.[1];
  if (given !== undefined && sameSecret(given, token)) return null;
  const reply = problem(401, "Unauthorized", "The request needs the admin bearer token");
  return { ...reply, headers: { ...reply.headers, "www-authenticate": "Bearer" } };
}

/** Compares digests, so neither time nor length tells how much is right. */
function sameSecret(given: string, wanted: string): boolean {
  const digest = (secret: string) => createHash("sha256").update(secret).digest();
  return timingSafeEqual(digest(given), digest(wanted));
}

function openRefusal(request: Credentials): AdminReply | null {
  const { host, origin, fetchSite } = request;
  if (host === undefined || !isLoopbackAuthority(host)) {
    return problem(403, "AccessDenied", "The Host header needs to name this machine's loopback");
  }
  // A page on another local port has the same site but another origin.
  const foreign = origin !== undefined && origin !== `http://${host}`;
  if (foreign || fetchSite === "cross-site" || fetchSite === "same-site") {
    return problem(403, "AccessDenied", "Requests from another origin are not accepted");
  }
  const mutates = request.method !== "GET" && request.method !== "HEAD";
  // A form cannot send this type without a preflight, which is never answered.
  if (mutates && !/^application\/json *(?:;|$)/i.test(request.contentType ?? "")) {
    return problem(415, "MalformedRequest", "A change needs Content-Type: application/json");
  }
  return null;
}

/** `localhost:9001`, `127.0.0.1`, `[::1]:80`. */
export function isLoopbackAuthority(host: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i.test(host);
}
