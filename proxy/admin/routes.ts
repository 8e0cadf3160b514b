// Every path of the admin listener, in one table: Strata's where it has the same thing.

import { type AdoptPorts, adopt } from "./adopt.ts";
import { type DriftPorts, healDrift, showDrift } from "./bucket-drift.ts";
import * as placements from "./bucket-placement.ts";
import * as buckets from "./buckets.ts";
import * as classes from "./classes.ts";
import { type PingPorts, pingCluster } from "./cluster-ping.ts";
import * as clusters from "./clusters.ts";
import * as credentials from "./credentials.ts";
import { type AdminReply, type AdminRequest, problem } from "./reply.ts";
import * as status from "./status.ts";
import * as weights from "./weights.ts";

export type AdminPorts = placements.PlacementPorts &
  status.StatusPorts &
  credentials.CredentialPorts &
  PingPorts &
  DriftPorts &
  AdoptPorts;

interface Route {
  readonly method: "GET" | "PUT" | "POST" | "DELETE";
  /** `{name}` is one segment. */
  readonly path: string;
  readonly handle: (request: AdminRequest, ports: AdminPorts) => AdminReply | Promise<AdminReply>;
}

const v1 = "/admin/v1";

const adminRoutes: readonly Route[] = [
  { method: "GET", path: "/healthz", handle: status.alive },
  { method: "GET", path: "/livez", handle: status.alive },
  { method: "GET", path: "/readyz", handle: status.ready },
  { method: "GET", path: "/metrics", handle: status.showMetrics },
  { method: "GET", path: "/version", handle: status.showVersion },
  { method: "GET", path: `${v1}/cluster/status`, handle: status.clusterStatus },
  { method: "GET", path: `${v1}/clusters`, handle: clusters.listClusters },
  { method: "GET", path: `${v1}/clusters/{id}`, handle: clusters.showCluster },
  { method: "POST", path: `${v1}/clusters/{id}/activate`, handle: clusters.activate },
  { method: "PUT", path: `${v1}/clusters/{id}/weight`, handle: clusters.putWeight },
  { method: "POST", path: `${v1}/clusters/{id}/drain`, handle: clusters.drain },
  { method: "POST", path: `${v1}/clusters/{id}/undrain`, handle: clusters.undrain },
  { method: "POST", path: `${v1}/clusters/{id}/ping`, handle: pingCluster },
  { method: "GET", path: `${v1}/placement`, handle: weights.showPlacement },
  { method: "PUT", path: `${v1}/weights`, handle: weights.putWeights },
  { method: "GET", path: `${v1}/storage-classes`, handle: classes.listClasses },
  { method: "GET", path: `${v1}/storage-classes/{class}`, handle: classes.showClass },
  { method: "PUT", path: `${v1}/storage-classes/{class}`, handle: classes.putClass },
  { method: "DELETE", path: `${v1}/storage-classes/{class}`, handle: classes.deleteClass },
  { method: "POST", path: `${v1}/adopt`, handle: adopt },
  { method: "GET", path: `${v1}/buckets`, handle: buckets.listBuckets },
  { method: "GET", path: `${v1}/buckets/{bucket}`, handle: buckets.showBucket },
  {
    method: "GET",
    path: `${v1}/buckets/{bucket}/placement`,
    handle: placements.showBucketPlacement,
  },
  {
    method: "PUT",
    path: `${v1}/buckets/{bucket}/placement`,
    handle: placements.putBucketPlacement,
  },
  {
    method: "DELETE",
    path: `${v1}/buckets/{bucket}/placement`,
    handle: placements.deleteBucketPlacement,
  },
  { method: "GET", path: `${v1}/buckets/{bucket}/drift`, handle: showDrift },
  { method: "POST", path: `${v1}/buckets/{bucket}/drift`, handle: healDrift },
  { method: "POST", path: `${v1}/buckets/{bucket}/freeze`, handle: buckets.freezeBucket },
  { method: "POST", path: `${v1}/buckets/{bucket}/unfreeze`, handle: buckets.unfreezeBucket },
  { method: "GET", path: `${v1}/credentials`, handle: credentials.listCredentials },
  { method: "GET", path: `${v1}/credentials/{key}`, handle: credentials.showCredential },
  { method: "PUT", path: `${v1}/credentials/{key}`, handle: credentials.putCredential },
  { method: "DELETE", path: `${v1}/credentials/{key}`, handle: credentials.deleteCredential },
  {
    method: "POST",
    path: `${v1}/credentials/{key}/rotate`,
    handle: credentials.rotateCredential,
  },
  {
    method: "POST",
    path: `${v1}/credentials/{key}/disable`,
    handle: credentials.setStatus("suspended"),
  },
  {
    method: "POST",
    path: `${v1}/credentials/{key}/enable`,
    handle: credentials.setStatus("active"),
  },
  { method: "GET", path: `${v1}/state`, handle: status.showState },
  { method: "GET", path: `${v1}/members`, handle: status.listMembers },
  { method: "DELETE", path: `${v1}/members/{id}`, handle: status.forgetMember },
  { method: "GET", path: `${v1}/audit`, handle: status.listAudit },
];

export type Match =
  | {
      readonly kind: "route";
      readonly route: Route;
      readonly params: ReadonlyMap<string, string>;
    }
  | { readonly kind: "reply"; readonly reply: AdminReply };

/** Finds the route of a raw path; HEAD is answered as GET. */
export function matchRoute(method: string, path: string): Match {
  const wanted = method === "HEAD" ? "GET" : method;
  const allowed: string[] = [];
  for (const route of adminRoutes) {
    const params = paramsOf(route.path, path);
    if (params === null) continue;
    if (route.method === wanted) return { kind: "route", route, params };
    allowed.push(route.method);
  }
  if (allowed.length > 0) {
    const reply = problem(405, "MethodNotAllowed", `Method ${method} is not allowed here`);
    const allow = allowed.join(", ");
    return { kind: "reply", reply: { ...reply, headers: { ...reply.headers, allow } } };
  }
  const reply = path.startsWith(`${v1}/`)
    ? problem(501, "NotImplemented", "This release does not have this endpoint")
    : problem(404, "NoSuchPath", "There is nothing at this path");
  return { kind: "reply", reply };
}

function paramsOf(pattern: string, path: string): ReadonlyMap<string, string> | null {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const params = new Map<string, string>();
  for (const [index, part] of wanted.entries()) {
    const segment = given[index] ?? "";
    if (!part.startsWith("{")) {
      if (part !== segment) return null;
      continue;
    }
    const decoded = decodeSegment(segment);
    if (decoded === null || decoded === "") return null;
    params.set(part.slice(1, -1), decoded);
  }
  return params;
}

function decodeSegment(segment: string): string | null {
  try {
    return decodeURIComponent(segment);
  } catch {
    return null; // malformed escapes name nothing
  }
}
