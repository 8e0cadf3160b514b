// The write of a setting to the clusters of a bucket, one after the other, and what becomes of one that
// not all of them take. What a cluster refuses is refused as a whole: the others get back what the first
// one says still, since it is written last. What a cluster does not answer is 503, and is finished by the
// same request again, or later without its client (setting-errand.ts).

import { serviceIdentity, UpstreamError } from "../placement/ports.ts";
import { readErrorDocument } from "../s3/error-document.ts";
import { S3Error } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import { queryValue } from "../s3/query.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import {
  differenceOf,
  type SettingTold,
  subresourceOf,
  tellSetting,
  writtenSetting,
} from "./drift-reading.ts";
import { tellDrift } from "./drift-report.ts";
import type { BucketPlace } from "./emptiness.ts";
import { isUnknownStatus } from "./mutation.ts";
import { agreeCounted } from "./setting-agreement.ts";
import { copySetting, driftOf } from "./setting-copy.ts";
import { settingErrand, type WrittenSetting } from "./setting-errand.ts";

const settleWithinMs = 10_000;

interface Writing {
  readonly request: OperationRequest;
  readonly ports: OperationPorts;
  /** The one that readers are answered from last. */
  readonly clusters: readonly ClusterId[];
  /** Answers that are errors come with a body that was read. */
  readonly send: (cluster: ClusterId) => Promise<OperationAnswer>;
  /** What the clusters should say then; `null`: that is theirs to word, as what `x-amz-acl` means. */
  readonly word: string | null;
}

/** @throws S3Error ServiceUnavailable where some clusters have it and one does not answer */
export async function writeEverywhere(writing: Writing): Promise<OperationAnswer> {
  const [behind, ...rest] = writing.clusters;
  if (behind === undefined) throw new Error("A setting is written to no cluster");
  const before = isOfStrangers(writing) ? await wordsOf(writing) : null;
  let answer = await begin(behind, writing);
  if (answer.status >= 300 || rest.length === 0) return answer;
  for (const [index, cluster] of rest.entries()) {
    dropAnswer(answer);
    answer = await finish(cluster, index + 1, writing);
    if (answer.status >= 300) {
      await (before === null ? settle(writing, {}) : giveBack(before, writing));
      return answer;
    }
  }
  await lookAgain(writing);
  return answer;
}

/** The write to the first cluster that is asked. Refused there it is nowhere. */
async function begin(cluster: ClusterId, writing: Writing): Promise<OperationAnswer> {
  const isOne = writing.clusters.length === 1;
  try {
    const answer = await writing.send(cluster);
    if (isUnknownStatus(answer.status) && !isOne) {
      leaveUnfinished(cluster, `answers ${answer.status}`, writing);
    }
    return answer;
  } catch (caught) {
    const isUnknown = caught instanceof UpstreamError && caught.phase !== "connect";
    if (isUnknown && !isOne) leaveUnfinished(cluster, "does not answer", writing);
    throw caught;
  }
}

/** The write to one more cluster; an answer that is none of success refuses it for good. */
async function finish(
  cluster: ClusterId,
  done: number,
  writing: Writing,
): Promise<OperationAnswer> {
  let why = "does not answer";
  let cause: unknown = null;
  try {
    const answer = await writing.send(cluster);
    if (answer.status < 300 || isRefusal(answer)) return answer;
    dropAnswer(answer);
    why = `answers ${answer.status}`;
  } catch (caught) {
    if (!(caught instanceof UpstreamError || caught instanceof S3Error)) throw caught;
    cause = caught;
  }
  leaveUnfinished(cluster, why, writing);
  const otherwise = isOfStrangers(writing)
    ? "Otherwise they stay as they are"
    : "Otherwise all of them are given what the first one says, which readers are told, once they answer";
  throw new S3Error("ServiceUnavailable", {
    message:
      `The setting is on ${done} of the ${writing.clusters.length} clusters of the bucket, the next ` +
      `one ${why}. Send the same request again to finish it. ${otherwise}`,
    retryAfterSeconds: 1,
    cause,
  });
}

/** A cluster that lost the bucket refuses nothing: others have it. */
function isRefusal({ status, body }: OperationAnswer): boolean {
  if (status !== 501 && (status < 400 || status >= 500)) return false;
  const document = body instanceof Uint8Array ? readErrorDocument(body) : null;
  return document?.code !== "NoSuchBucket";
}

/** A bucket that was found on several clusters: nobody has said that they are one. */
function isOfStrangers({ request }: Writing): boolean {
  return request.record?.value.conflict === true;
}

interface Word {
  readonly place: BucketPlace;
  readonly told: SettingTold;
}

/** What each cluster says before the write. */
async function wordsOf(writing: Writing): Promise<readonly Word[]> {
  const written = writtenOf(writing);
  if (written === null) return [];
  const { request, ports } = writing;
  return await Promise.all(
    placesOf(written).map(async (place) => {
      return { place, told: await tellSetting(written.setting, place, ports, request.signal) };
    }),
  );
}

/** Of strangers each gets back what it said itself: none what another one says. */
async function giveBack(before: readonly Word[], writing: Writing): Promise<void> {
  const { ports } = writing;
  const written = writtenOf(writing);
  if (written === null) return;
  const { setting, record } = written;
  const limit = limited(ports);
  for (const { place, told: wanted } of before) {
    const told = await tellSetting(setting, place, ports, limit.signal);
    const kind = differenceOf(wanted, told);
    if (kind === null) continue;
    const difference = { setting, place, kind, told, wanted };
    const copying = await copySetting(difference, ports, limit.signal);
    const outcome = copying.kind === "copied" ? "healed" : "failed";
    const why = copying.kind === "copied" ? null : copying.why;
    tellDrift([driftOf(difference, outcome, why)], record, ports);
  }
  limit.cancel();
}

/** What the client is told is known: it does not wait for a cluster that hangs now. */
function limited({ timers }: Pick<OperationPorts, "timers">) {
  const limit = new AbortController();
  const cancel = timers.after(settleWithinMs, () => limit.abort());
  return { signal: limit.signal, cancel };
}

function placesOf({ record, clusters, identity }: WrittenSetting): readonly BucketPlace[] {
  const { tenant, name } = record;
  return clusters.map((cluster) => ({ tenant, name, cluster, identity }));
}

/** Another writer may have ended first on some clusters and last on others (setting-agreement.ts). */
async function lookAgain(writing: Writing): Promise<void> {
  await settle(writing, { ours: writing.word });
}

/** All clusters get what the first one says, now or later. */
async function settle(writing: Writing, options: { readonly ours?: string | null }): Promise<void> {
  const { ports } = writing;
  const written = writtenOf(writing);
  if (written === null) return;
  const limit = limited(ports);
  const agreement = await agreeCounted(written.setting, placesOf(written), ports, {
    ...options,
    signal: limit.signal,
  });
  limit.cancel();
  tellDrift(agreement.drift, written.record, ports);
  // Something was written: a cluster that says nothing of it tells settings late.
  const isUnseen = options.ours === undefined && agreement.drift.length === 0;
  if (agreement.isOpen || isUnseen) finishLater(written, writing);
}

function leaveUnfinished(cluster: ClusterId, detail: string, writing: Writing): void {
  const { request, ports } = writing;
  const written = writtenOf(writing);
  if (written === null) return;
  const setting = subresourceOf(request.operation);
  const drift = { setting, cluster, kind: "differs", outcome: "found", detail } as const;
  tellDrift([drift], written.record, ports);
  finishLater(written, writing);
}

function finishLater(written: WrittenSetting, writing: Writing): void {
  const { ports } = writing;
  if (!isOfStrangers(writing)) ports.unfinished.add(settingErrand(written, ports));
}

/** `null`: nothing that the clusters could be asked for. */
function writtenOf({ request, clusters }: Writing): WrittenSetting | null {
  const setting = writtenSetting(request.operation, queryValue(request.query, "id"));
  const record = request.record?.value ?? null;
  if (setting === null || record === null) return null;
  // Where a cluster knows its users ours may not read what is theirs.
  const identity = request.identity.kind === "caller" ? request.identity : serviceIdentity;
  return { setting, record, clusters: clusters.toReversed(), identity };
}

/** Lets go of an answer that only its status matters of. */
export function dropAnswer({ body }: OperationAnswer): void {
  if (body !== null && !(body instanceof Uint8Array)) body.cancel();
}
