// Bucket records: listed, shown, frozen or unfrozen. Their placement is bucket-placement.ts.

import type { BucketPlacement, BucketRecord, Weights } from "../placement/records.ts";
import type { Versioned } from "../placement/snapshot.ts";
import {
  type BucketName,
  noTenant,
  parseBucketName,
  parseTenantName,
  type TenantName,
} from "../s3/names.ts";
import { type ChangePorts, change, type Plan } from "./change.ts";
import {
  type AdminReply,
  type AdminRequest,
  json,
  malformed,
  problem,
  unknownKeys,
} from "./reply.ts";

const maxPage = 1000;

interface Target {
  readonly tenant: TenantName;
  readonly bucket: BucketName;
}

/** The bucket of a path, as `name`, `tenant:name` or `name?tenant=`. */
export function targetOf(request: AdminRequest): Target | null {
  const text = request.params.get("bucket") ?? "";
  const colon = text.indexOf(":");
  const tenant = parseTenantName(
    colon === -1 ? (request.query.get("tenant") ?? "") : text.slice(0, colon),
  );
  const bucket = parseBucketName(text.slice(colon + 1));
  return tenant === null || bucket === null ? null : { tenant, bucket };
}

export function findBucket(
  request: AdminRequest,
  ports: ChangePorts,
): Versioned<BucketRecord> | null {
  const target = targetOf(request);
  if (target === null) return null;
  return ports.snapshots.current().buckets.find(target.tenant, target.bucket) ?? null;
}

export function noSuchBucket(request: AdminRequest): AdminReply {
  const name = request.params.get("bucket") ?? "";
  return problem(404, "NoSuchBucket", `Bucket "${name}" has no record`);
}

/** `logs` or `acme:logs`. */
function fullName(record: BucketRecord): string {
  return record.tenant === noTenant ? record.name : `${record.tenant}:${record.name}`;
}

/** GET /admin/v1/buckets?tenant=&prefix=&after=&limit= */
export function listBuckets(request: AdminRequest, ports: ChangePorts): AdminReply {
  const limit = Number(request.query.get("limit") ?? maxPage);
  if (!Number.isInteger(limit) || limit < 1 || limit > maxPage) {
    return malformed(`Query parameter limit needs 1 to ${maxPage}`);
  }
  const tenant = request.query.get("tenant");
  const prefix = request.query.get("prefix") ?? "";
  const after = request.query.get("after") ?? "";
  const view = ports.snapshots.current();
  const page: { readonly name: string; readonly record: BucketRecord }[] = [];
  let matched = 0;
  for (const { value: record } of view.buckets.all()) {
    if (tenant !== null && record.tenant !== tenant) continue;
    const name = fullName(record);
    if (!name.startsWith(prefix) || name <= after) continue;
    matched += 1;
    insert(page, { name, record }, limit);
  }
  const last = page.at(-1);
  return json(200, {
    buckets: page.map(({ record }) => summary(record)),
    next_after: matched > page.length && last !== undefined ? last.name : null,
  });
}

/** Keeps the `limit` smallest names, in order: a million records need no full sort. */
function insert<T extends { readonly name: string }>(page: T[], item: T, limit: number): void {
  if (page.length === limit && item.name >= (page.at(-1)?.name ?? "")) return;
  let low = 0;
  let high = page.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((page[middle]?.name ?? "") < item.name) low = middle + 1;
    else high = middle;
  }
  page.splice(low, 0, item);
  if (page.length > limit) page.pop();
}

function summary(record: BucketRecord): Readonly<Record<string, unknown>> {
  return {
    name: record.name,
    tenant: record.tenant === noTenant ? null : record.tenant,
    origin: record.origin,
    owner: record.owner,
    mode: record.route.mode,
    has_placement: record.placement !== null,
    phase: record.phase,
    frozen: record.frozen,
    conflict: record.conflict,
    created_at: record.createdAt,
  };
}

/** GET /admin/v1/buckets/{b} */
export function showBucket(request: AdminRequest, ports: ChangePorts): AdminReply {
  const entry = findBucket(request, ports);
  if (entry === null) return noSuchBucket(request);
  const { value: record, modRevision } = entry;
  return json(
    200,
    {
      ...summary(record),
      placement: record.placement === null ? null : placementBody(record.placement),
      route: {
        weights: weightsBody(record.route.weights),
        mode: record.route.mode,
        spread: record.route.spread,
        source: record.route.source,
      },
      order: record.order,
      extra: record.extra,
      revision: String(modRevision),
    },
    modRevision,
  );
}

function weightsBody(weights: Weights): Readonly<Record<string, number>> {
  return Object.fromEntries([...weights].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

export function placementBody(placement: BucketPlacement): Readonly<Record<string, unknown>> {
  return {
    placement: weightsBody(placement.weights),
    mode: placement.mode,
    spread: placement.spread,
    weighting: placement.weighting,
  };
}

/** POST /admin/v1/buckets/{b}/freeze */
export function freezeBucket(request: AdminRequest, ports: ChangePorts): Promise<AdminReply> {
  return setFrozen(request, ports, true);
}

/** POST /admin/v1/buckets/{b}/unfreeze */
export function unfreezeBucket(request: AdminRequest, ports: ChangePorts): Promise<AdminReply> {
  return setFrozen(request, ports, false);
}

function setFrozen(
  request: AdminRequest,
  ports: ChangePorts,
  frozen: boolean,
): Promise<AdminReply> {
  const wrong = unknownKeys(request.body, []);
  if (wrong !== null) return Promise.resolve(wrong);
  return change(request, ports, (): Plan => {
    const entry = findBucket(request, ports);
    if (entry === null) return { kind: "reply", reply: noSuchBucket(request) };
    const { value: record, modRevision } = entry;
    const { tenant, name } = record;
    if (record.phase !== "settled") {
      return { kind: "reply", reply: problem(409, "Conflict", "The bucket is being changed") };
    }
    const after = { ...record, frozen };
    return {
      kind: "changes",
      revision: modRevision,
      changes:
        record.frozen === frozen
          ? []
          : [{ kind: "bucket", tenant, name, expected: modRevision, record: after }],
      audit: {
        action: frozen ? "admin:FreezeBucket" : "admin:UnfreezeBucket",
        resource: `bucket:${fullName(record)}`,
        detail: frozen ? "frozen" : "not frozen",
      },
      effect: { bucket: fullName(record), before: record.frozen, after: frozen },
    };
  });
}
