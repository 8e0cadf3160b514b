// Fields that belong to one connection and never go on to the next hop, in either direction
// (RFC 9110 §7.6.1; the proxy's own: RFC 9110 §11.7). What `Connection` names besides is its readers' matter.

const names: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authentication-info",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** Whether a field, lower-case, belongs to one connection only. */
export function isHopByHop(name: string): boolean {
  return names.has(name);
}
