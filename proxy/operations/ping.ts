// Whether a cluster can be reached with the keys it has here, how far its clock is off, and, with a
// probe, which profile describes it and what the configured one says otherwise.

import { type CancelSignal, UpstreamError } from "../placement/ports.ts";
import { factDifferences, matchProfiles, type SeenFacts } from "../placement/profile-match.ts";
import type { ProfileFacts } from "../placement/profiles.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue } from "../s3/headers.ts";
import { type BucketName, type ClusterId, parseBucketName } from "../s3/names.ts";
import { element, s3Document } from "../s3/xml.ts";
import type { OperationPorts } from "./context.ts";
import { probeFacts, removeProbe } from "./probe.ts";
import { askCluster, type ProbeAnswer, type ProbeTarget } from "./probe-requests.ts";

export interface PingOptions {
  readonly probe: boolean;
  /** Where to probe; `null`: in a bucket made for it. */
  readonly bucket: BucketName | null;
  /** 16 hex digits that no other run has. */
  readonly run: string;
  readonly signal: CancelSignal;
}

export type PingReport =
  | { readonly kind: "unreachable"; readonly reason: string }
  | {
      readonly kind: "answered";
      /** Of a ListBuckets; 200: its keys are good there. */
      readonly status: number;
      readonly code: string | null;
      readonly latencyMs: number;
      /** Its clock less ours, to the second; `null`: it sends no date. */
      readonly clockSkewMs: number | null;
      readonly server: string | null;
      readonly probe: ProbeReport | null;
    };

export type ProbeReport =
  | { readonly kind: "failed"; readonly reason: string }
  | {
      readonly kind: "probed";
      readonly seen: SeenFacts;
      readonly configured: ProfileFacts;
      readonly best: readonly string[];
      /** Facts that even the best profile has otherwise: what `overrides` would say. */
      readonly bestDifferences: readonly string[];
      /** Facts that the configuration has otherwise. */
      readonly differences: readonly string[];
    };

type PingPorts = Pick<OperationPorts, "upstream" | "facts" | "region" | "clock">;

export async function pingCluster(
  cluster: ClusterId,
  ports: PingPorts,
  options: PingOptions,
): Promise<PingReport> {
  const target = { upstream: ports.upstream, cluster, signal: options.signal };
  const startedMs = ports.clock.monotonicMs();
  try {
    const answer = await askCluster("ListBuckets", target);
    const latencyMs = ports.clock.monotonicMs() - startedMs;
    return {
      kind: "answered",
      status: answer.status,
      code: codeOf(answer),
      latencyMs: Math.round(latencyMs * 10) / 10,
      clockSkewMs: skewOf(answer, ports.clock.nowMs() - latencyMs / 2),
      server: fieldValue(answer.headers, "server"),
      probe: options.probe ? await probe(target, ports, options) : null,
    };
  } catch (caught) {
    return { kind: "unreachable", reason: reasonOf(caught) };
  }
}

async function probe(
  target: ProbeTarget,
  ports: PingPorts,
  { bucket: given, run }: PingOptions,
): Promise<ProbeReport> {
  const bucket = given ?? parseBucketName(`headgate-probe-${run}`);
  if (bucket === null) throw new Error("A probe's bucket has no name");
  const prefix = given === null ? "" : `headgate-probe-${run}/`;
  try {
    const made = given === null ? await makeBucket(bucket, target, ports) : null;
    if (made !== null) return { kind: "failed", reason: made };
    try {
      return judged(await probeFacts(target, bucket, prefix), ports.facts(target.cluster));
    } finally {
      await removeProbe(target, bucket, prefix);
      if (given === null) await askCluster("DeleteBucket", target, { bucket });
    }
  } catch (caught) {
    return { kind: "failed", reason: reasonOf(caught) };
  }
}

/** `null`: it was made. */
async function makeBucket(
  bucket: BucketName,
  target: ProbeTarget,
  ports: PingPorts,
): Promise<string | null> {
  const region = ports.region(target.cluster);
  const isNamed = ports.facts(target.cluster).backend === "s3" && region !== "us-east-1";
  const document = s3Document("CreateBucketConfiguration", [element("LocationConstraint", region)]);
  const body = { kind: "bytes", bytes: Buffer.from(document) } as const;
  const answer = await askCluster("CreateBucket", target, isNamed ? { bucket, body } : { bucket });
  if (answer.status === 200) return null;
  return `No bucket can be made for the probe (${answer.status} ${codeOf(answer) ?? ""}), name one`;
}

function judged(seen: SeenFacts, configured: ProfileFacts): ProbeReport {
  if (Object.keys(seen).length === 0) {
    return { kind: "failed", reason: "No object can be put where the probe was to be made" };
  }
  const { best, differences: bestDifferences } = matchProfiles(seen);
  const differences = factDifferences(seen, configured);
  return { kind: "probed", seen, configured, best, bestDifferences, differences };
}

function codeOf({ status, text }: ProbeAnswer): string | null {
  return status < 300 ? null : (/<Code>(\w{1,64})<\/Code>/.exec(text)?.[1] ?? null);
}

function skewOf({ headers }: ProbeAnswer, nowMs: number): number | null {
  const date = Date.parse(fieldValue(headers, "date") ?? "");
  // The field has whole seconds, so half a second is no difference.
  return Number.isNaN(date) ? null : Math.round((date + 500 - nowMs) / 1000) * 1000;
}

/** What a failed exchange may show: its phase and the kind of its cause, never an address. */
function reasonOf(caught: unknown): string {
  if (caught instanceof S3Error) return caught.message;
  if (!(caught instanceof UpstreamError)) throw caught;
  const { cause } = caught;
  const code =
    typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : null;
  return code === null ? caught.message : `${caught.message} (${code})`;
}
