// Finding a bucket that has no record: the drop-in before existing clusters (placement.md §2 rule 8).
// Every non-removed cluster is asked; anything but a clear yes or no from any of them is 503 and
// nothing is recorded. Absence is remembered briefly in a bounded table; one flight per name.

import type { BucketProbe, DiscoveryResult } from "../placement/discovery.ts";
import { decideDiscovery, discoveredRecord } from "../placement/discovery.ts";
import { UpstreamError } from "../placement/ports.ts";
import type { BucketRecord } from "../placement/records.ts";
import type { Versioned } from "../placement/snapshot.ts";
import { readErrorDocument } from "../s3/error-document.ts";
import { S3Error } from "../s3/errors.ts";
import type { BucketName, ClusterId, TenantName } from "../s3/names.ts";
import type { OperationPorts } from "./context.ts";
import { discard, ownRequest, readDocument } from "./send.ts";

/** How long an absent bucket is remembered, and how many are. */
const absentForMs = 5_000;
const absentMax = 10_000;
/** A watch delivers within milliseconds; beyond this the client may as well come again. */
const winnerSeenWithinMs = 2_000;
const winnerPollMs = 10;

export class Discovery {
  readonly #flights = new Map<string, Promise<Versioned<BucketRecord> | null>>();
  readonly #absentUntil = new Map<string, number>();

  /**
   * The record of a bucket as found now, or null: no cluster has it.
   * @throws S3Error ServiceUnavailable when a cluster gives no clear answer.
   */
  async find(
    tenant: TenantName,
    bucket: BucketName,
    ports: OperationPorts,
  ): Promise<Versioned<BucketRecord> | null> {
    const id = `${tenant}/${bucket}`;
    const until = this.#absentUntil.get(id);
    if (until !== undefined) {
      if (ports.clock.monotonicMs() < until) return null;
      this.#absentUntil.delete(id);
    }
    const running = this.#flights.get(id);
    if (running !== undefined) return await running;
    const flight = this.#discover(tenant, bucket, ports).finally(() => this.#flights.delete(id));
    this.#flights.set(id, flight);
    return await flight;
  }

  /** The bucket is being created: what was remembered of its absence is void. */
  forgetAbsence(tenant: TenantName, bucket: BucketName): void {
    this.#absentUntil.delete(`${tenant}/${bucket}`);
  }

  async #discover(
    tenant: TenantName,
    bucket: BucketName,
    ports: OperationPorts,
  ): Promise<Versioned<BucketRecord> | null> {
    const found = await lookUp(tenant, bucket, ports);
    switch (found.kind) {
      case "unknown":
        ports.meter.bucketDiscovered("unclear");
        ports.log.write("warn", "discovery.unclear", {
          bucket,
          clusters: found.clusters.join(","),
        });
        throw new S3Error("ServiceUnavailable", {
          message: "The bucket cannot be looked up: a cluster does not answer",
          retryAfterSeconds: 1,
        });
      case "absent":
        this.#rememberAbsence(`${tenant}/${bucket}`, ports.clock.monotonicMs() + absentForMs);
        return null;
      case "found":
        return await adopt(tenant, bucket, found.clusters, ports);
    }
  }

  #rememberAbsence(id: string, untilMs: number): void {
    if (this.#absentUntil.size >= absentMax) {
      const [oldest] = this.#absentUntil.keys();
      if (oldest !== undefined) this.#absentUntil.delete(oldest);
    }
    this.#absentUntil.set(id, untilMs);
  }
}

/** Where a bucket is, by asking every non-removed cluster; nothing is recorded. */
export async function lookUp(
  tenant: TenantName,
  bucket: BucketName,
  ports: OperationPorts,
): Promise<DiscoveryResult> {
  return decideDiscovery(await probeAll(tenant, bucket, ports));
}

async function probeAll(
  tenant: TenantName,
  bucket: BucketName,
  ports: OperationPorts,
): Promise<readonly BucketProbe[]> {
  // Shared by every request that asks for the name, so no client's signal may end it; the upstream's
  // own time limits do.
  const { signal } = new AbortController();
  const clusters = [...ports.snapshots.current().clusters.values()]
    .filter(({ value }) => value.state !== "removed")
    .map(({ value }) => value.id);
  return await Promise.all(
    clusters.map(async (cluster): Promise<BucketProbe> => {
      try {
        const request = ownRequest({ tenant }, bucket, { operation: "HeadBucket" });
        const response = await ports.upstream.send(cluster, request, signal);
        await discard(response);
        if (response.status !== 403) return { cluster, status: response.status };
        return { cluster, status: await whyForbidden({ cluster, tenant, bucket }, ports, signal) };
      } catch (caught) {
        if (caught instanceof UpstreamError) return { cluster, status: null };
        throw caught;
      }
    }),
  );
}

/**
 * A bucket of another user is forbidden to a service user that is no more than a user: it is there, and its
 * owner asks for it with keys of their own. So is every bucket when the service user's keys are wrong. HEAD
 * says no more than 403, GET says which. Null: not clear.
 */
async function whyForbidden(
  place: { readonly cluster: ClusterId; readonly tenant: TenantName; readonly bucket: BucketName },
  ports: OperationPorts,
  signal: AbortSignal,
): Promise<number | null> {
  const request = ownRequest(place, place.bucket, {
    operation: "GetBucketLocation",
    query: [["location", null]],
  });
  const response = await ports.upstream.send(place.cluster, request, signal);
  const document = await readDocument(response);
  if (response.status !== 403) return response.status;
  return readErrorDocument(document)?.code === "AccessDenied" ? 403 : null;
}

async function adopt(
  tenant: TenantName,
  name: BucketName,
  clusters: readonly [ClusterId, ...ClusterId[]],
  ports: OperationPorts,
): Promise<Versioned<BucketRecord>> {
  const createdAtMs = ports.clock.nowMs();
  const record = discoveredRecord({ tenant, name, createdAtMs }, clusters);
  const result = await ports.registry.commit(
    [{ kind: "bucket", tenant, name, expected: 0n, record }],
    null,
  );
  if (result.kind === "committed") {
    const outcome = record.conflict ? "conflict" : "found";
    ports.meter.bucketDiscovered(outcome);
    ports.log.write(record.conflict ? "warn" : "info", `discovery.${outcome}`, {
      tenant,
      bucket: name,
      clusters: clusters.join(","),
    });
    return { value: record, modRevision: result.revision };
  }
  return await recordOfWinner(tenant, name, ports);
}

/** Another member was first: its record counts as soon as it is seen here. */
async function recordOfWinner(
  tenant: TenantName,
  name: BucketName,
  ports: OperationPorts,
): Promise<Versioned<BucketRecord>> {
  const { signal } = new AbortController();
  const deadlineMs = ports.clock.monotonicMs() + winnerSeenWithinMs;
  for (;;) {
    const found = ports.snapshots.current().buckets.find(tenant, name);
    if (found !== undefined) return found;
    if (ports.clock.monotonicMs() >= deadlineMs) {
      throw new S3Error("SlowDown", {
        message: "The bucket was found by another proxy at this moment",
        retryAfterSeconds: 1,
      });
    }
    await ports.clock.sleep(winnerPollMs, signal);
  }
}
