// Storage class pins: which cluster a class's objects go to (placement.md §2 rule 2).

import type { PlacementSnapshot } from "../placement/snapshot.ts";
import { type ClusterId, parseClusterId } from "../s3/names.ts";
import { type ChangePorts, change, type Plan } from "./change.ts";
import {
  type AdminReply,
  type AdminRequest,
  json,
  malformed,
  problem,
  unknownCluster,
  unknownKeys,
} from "./reply.ts";

function classOf(request: AdminRequest): string {
  return request.params.get("class") ?? "";
}

function noSuchClass(request: AdminRequest): AdminReply {
  return problem(404, "NoSuchStorageClass", `Storage class "${classOf(request)}" is not pinned`);
}

/** GET /admin/v1/storage-classes */
export function listClasses(_request: AdminRequest, ports: ChangePorts): AdminReply {
  const classes = [...ports.snapshots.current().classes]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { value }]) => ({ class: name, cluster: value }));
  return json(200, { classes });
}

/** GET /admin/v1/storage-classes/{CLASS} */
export function showClass(request: AdminRequest, ports: ChangePorts): AdminReply {
  const entry = ports.snapshots.current().classes.get(classOf(request));
  if (entry === undefined) return noSuchClass(request);
  return json(200, { class: classOf(request), cluster: entry.value }, entry.modRevision);
}

/** PUT /admin/v1/storage-classes/{CLASS} `{cluster}` */
export function putClass(request: AdminRequest, ports: ChangePorts): Promise<AdminReply> {
  const wrong = unknownKeys(request.body, ["cluster"]);
  if (wrong !== null) return Promise.resolve(wrong);
  const name = classOf(request);
  if (!/^[A-Z0-9_-]{1,64}$/.test(name)) {
    return Promise.resolve(malformed("Storage class needs 1 to 64 of A-Z, 0-9, _ and -"));
  }
  const { cluster } = request.body;
  if (typeof cluster !== "string") {
    return Promise.resolve(malformed('Body key "cluster" needs a cluster id'));
  }
  return change(request, ports, (view): Plan => {
    const id = parseClusterId(cluster);
    const record = id === null ? undefined : view.clusters.get(id)?.value;
    if (id === null || record === undefined || record.state === "removed") {
      return { kind: "reply", reply: unknownCluster(cluster) };
    }
    return classPlan(view, name, { action: "admin:PutStorageClass", after: id });
  });
}

/** DELETE /admin/v1/storage-classes/{CLASS} */
export function deleteClass(request: AdminRequest, ports: ChangePorts): Promise<AdminReply> {
  const wrong = unknownKeys(request.body, []);
  if (wrong !== null) return Promise.resolve(wrong);
  return change(request, ports, (view): Plan => {
    if (!view.classes.has(classOf(request))) return { kind: "reply", reply: noSuchClass(request) };
    const of = { action: "admin:DeleteStorageClass", after: null };
    return classPlan(view, classOf(request), of);
  });
}

function classPlan(
  view: PlacementSnapshot,
  name: string,
  of: { readonly action: string; readonly after: ClusterId | null },
): Plan {
  const entry = view.classes.get(name);
  const before = entry?.value ?? null;
  const expected = entry?.modRevision ?? 0n;
  return {
    kind: "changes",
    revision: expected,
    changes:
      before === of.after
        ? []
        : [{ kind: "class", storageClass: name, expected, cluster: of.after }],
    audit: {
      action: of.action,
      resource: `class:${name}`,
      detail: `${before ?? "none"} to ${of.after ?? "none"}`,
    },
    effect: { class: name, before, after: of.after },
  };
}
