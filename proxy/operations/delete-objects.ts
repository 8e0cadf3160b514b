// DeleteObjects over the clusters of a bucket (placement.md §12): each key is decided on by policy,
// deleted where it may be, the visible copy last, and answered for by itself, in the request's order.
// A cluster that fails spoils its own keys only. Asked of each cluster in one request a round; in a
// settled bucket there is one round.

import { candidatesOf } from "../placement/candidates.ts";
import { UpstreamError, type UpstreamResponse } from "../placement/ports.ts";
import {
  type DeleteEntry,
  type DeleteOutcome,
  type DeleteResultRow,
  deleteRequestBody,
  deleteResultDocument,
  fitsDocument,
  readDeleteResult,
} from "../s3/delete-document.ts";
import { readErrorDocument } from "../s3/error-document.ts";
import { isS3ErrorCode, S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderList } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { assertSigned } from "./error-answer.ts";
import { isUnknownStatus, mutate } from "./mutation.ts";
import { provenFacts } from "./proven-facts.ts";
import { documentAnswer, readDocument, upstreamRequest } from "./send.ts";
import { entryRefusal, refuseConditions } from "./write-conditions.ts";

/** An entry, whatever number of times it is named, and what became of it. */
interface Task {
  readonly entry: DeleteEntry;
  /** In the order asked: behind first, front last. */
  readonly clusters: readonly ClusterId[];
  outcome: DeleteOutcome | null;
}

/** What one cluster said; `failure`: of its whole part, for a reason that is not a single key's. */
interface Part {
  readonly outcomes: readonly DeleteOutcome[];
  readonly failure: Error | null;
  /** It may have done what it was asked, or may still do it. */
  readonly unknown: boolean;
}

interface Ended {
  /** 500 stands for an unknown outcome. */
  readonly status: number;
  /** What the whole request failed of. */
  readonly failure: Error | null;
}

export async function deleteObjects(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const { deletion, record } = request;
  if (deletion === null || record === null) throw new S3Error("MalformedXML");
  refuseConditions(request, "on DeleteObjects");
  if (!deletion.digested) assertNoneDemanded(request, ports);
  const { entries, quiet } = deletion;
  const tasks = await planned(entries, request, ports);
  const open = [...tasks.values()].filter(({ outcome }) => outcome === null);
  const asked = new Set(open.flatMap(({ clusters }) => clusters));
  if (open.length > 0) {
    const { failure } = await mutate(request, ports, async (mutation) => {
      await mutation.commit();
      const alone = asked.size === 1 && open.length === tasks.size;
      return await runRounds(open, { request, ports, alone });
    });
    if (failure !== null) throw failure;
  }
  const rows = entries.map((entry): DeleteResultRow => {
    const { key, versionId } = entry;
    const outcome = tasks.get(idOf(entry))?.outcome ?? unanswered;
    return { key, versionId, outcome };
  });
  const [only] = asked;
  const cluster = asked.size === 1 && only !== undefined ? only : null;
  return documentAnswer(deleteResultDocument(rows, quiet), cluster);
}

/** AWS takes no document without a digest; an RGW does, and its clients may count on that. */
function assertNoneDemanded({ candidates }: OperationRequest, ports: OperationPorts): void {
  const demanded = candidates.every((cluster) => {
    const { backend, verifiesChecksums } = ports.facts(cluster);
    return backend === "s3" && verifiesChecksums;
  });
  if (!demanded) return;
  throw new S3Error("InvalidRequest", {
    message: "Deleting several objects needs Content-MD5 or a checksum in x-amz-checksum-*",
  });
}

const unanswered: DeleteOutcome = {
  kind: "failed",
  code: "InternalError",
  message: "The cluster did not say what became of this key, try again",
};

/** The work by key, version and conditions; what is refused beforehand has its outcome already. */
async function planned(
  entries: readonly DeleteEntry[],
  request: OperationRequest,
  ports: OperationPorts,
): Promise<ReadonlyMap<string, Task>> {
  const distinct = new Map(entries.map((entry) => [idOf(entry), entry]));
  const refusals = await request.mayDelete([...distinct.values()]);
  const conditional = [...distinct.values()].filter(({ conditions }) => conditions.length > 0);
  for (const cluster of new Set(conditional.flatMap((entry) => clustersOf(entry, request)))) {
    await show(cluster, request, ports);
  }
  const tasks = new Map<string, Task>();
  for (const [index, [id, entry]] of [...distinct].entries()) {
    const clusters = [...clustersOf(entry, request)].reverse();
    const refusal = refusals[index] ?? refusalOf(entry, clusters, ports);
    tasks.set(id, { entry, clusters, outcome: refusal === null ? null : failedBy(refusal) });
  }
  return tasks;
}

/** A cluster that does not answer spoils the entries that it has. */
async function show(
  cluster: ClusterId,
  request: OperationRequest,
  ports: OperationPorts,
): Promise<void> {
  try {
    await provenFacts(cluster, request, ports);
  } catch (caught) {
    if (!(caught instanceof UpstreamError || caught instanceof S3Error)) throw caught;
  }
}

function clustersOf({ key }: DeleteEntry, { record }: OperationRequest): readonly ClusterId[] {
  return record === null ? [] : candidatesOf(record.value, key);
}

function refusalOf(
  entry: DeleteEntry,
  clusters: readonly ClusterId[],
  ports: OperationPorts,
): S3Error | null {
  if (Buffer.byteLength(entry.key) > maxKeyBytes) return new S3Error("KeyTooLongError");
  if (clusters.length === 0) return new S3Error("ServiceUnavailable");
  if (entry.conditions.length === 0) return null;
  if (!clusters.every((id) => ports.isShown(id))) return new S3Error("ServiceUnavailable");
  return entryRefusal(
    entry,
    clusters.map((id) => ports.facts(id)),
  );
}

/** S3 API Reference "Creating object key names". */
const maxKeyBytes = 1024;

/** One key under two conditions is two entries. */
function idOf(entry: DeleteEntry): string {
  return `${rowIdOf(entry)}\0${JSON.stringify(entry.conditions)}`;
}

/** What a cluster's answer names. */
function rowIdOf({ key, versionId }: Pick<DeleteEntry, "key" | "versionId">): string {
  return `${versionId ?? ""}\0${key}`;
}

interface Run {
  readonly request: OperationRequest;
  readonly ports: OperationPorts;
  /** One cluster has all that was asked for: a failure of its whole part is the request's. */
  readonly alone: boolean;
}

/** Round by round, every cluster at once in each. */
async function runRounds(tasks: readonly Task[], run: Run): Promise<Ended> {
  const rounds = Math.max(...tasks.map(({ clusters }) => clusters.length));
  let unknown = false;
  let failure: Error | null = null;
  for (let round = 0; round < rounds; round += 1) {
    const parts = byCluster(tasks, round);
    const results = await Promise.all(
      [...parts].map(async ([cluster, part]) => ({ part, said: await ask(cluster, part, run) })),
    );
    for (const { part, said } of results) {
      unknown ||= said.unknown;
      if (run.alone) failure ??= said.failure;
      for (const [index, task] of part.entries()) note(task, said.outcomes[index], round);
    }
  }
  return { status: unknown ? 500 : 200, failure };
}

/** Who is asked for what; a task that failed behind goes no further, so that no copy is uncovered. */
function byCluster(tasks: readonly Task[], round: number): ReadonlyMap<ClusterId, Task[]> {
  const parts = new Map<ClusterId, Task[]>();
  for (const task of tasks) {
    const cluster = task.clusters[round];
    if (cluster === undefined || task.outcome !== null) continue;
    const part = parts.get(cluster);
    if (part === undefined) parts.set(cluster, [task]);
    else part.push(task);
  }
  return parts;
}

const absentCodes: ReadonlySet<string> = new Set(["NoSuchBucket", "NoSuchKey", "NoSuchVersion"]);

function note(task: Task, outcome: DeleteOutcome = unanswered, round = 0): void {
  const isFront = round === task.clusters.length - 1;
  if (isFront) task.outcome = outcome;
  else if (outcome.kind === "failed" && !absentCodes.has(outcome.code)) task.outcome = outcome;
}

async function ask(cluster: ClusterId, tasks: readonly Task[], run: Run): Promise<Part> {
  const inDocument = tasks.filter(({ entry }) => fitsDocument(entry.key));
  const outcomes = new Map<Task, DeleteOutcome>();
  let failure: Error | null = null;
  let unknown = false;
  const parts = [
    ...toldApart(inDocument).map((part) => ({ part, send: askForAll })),
    ...tasks
      .filter((task) => !inDocument.includes(task))
      .map((task) => ({ part: [task], send: askForOne })),
  ];
  for (const { part, send } of parts) {
    const said = await caught(part, () => send(cluster, part, run));
    for (const [index, task] of part.entries())
      outcomes.set(task, said.outcomes[index] ?? unanswered);
    if (parts.length === 1) failure = said.failure;
    unknown ||= said.unknown;
  }
  return { outcomes: tasks.map((task) => outcomes.get(task) ?? unanswered), failure, unknown };
}

/** In the order asked, with no row of a document named twice: its answer could not be told apart. */
function toldApart(tasks: readonly Task[]): readonly (readonly Task[])[] {
  const documents: Task[][] = [];
  const times = new Map<string, number>();
  for (const task of tasks) {
    const id = rowIdOf(task.entry);
    const before = times.get(id) ?? 0;
    times.set(id, before + 1);
    const document = documents[before];
    if (document === undefined) documents.push([task]);
    else document.push(task);
  }
  return documents;
}

/** The part as it ended, whichever way. */
async function caught(tasks: readonly Task[], send: () => Promise<Part>): Promise<Part> {
  try {
    return await send();
  } catch (failure) {
    if (!(failure instanceof UpstreamError)) throw failure;
    const unknown = failure.phase !== "connect";
    const outcome: DeleteOutcome = unknown
      ? unanswered
      : {
          kind: "failed",
          code: "ServiceUnavailable",
          message: "The cluster of this key does not answer, try again",
        };
    return { outcomes: tasks.map(() => outcome), failure, unknown };
  }
}

async function askForAll(
  cluster: ClusterId,
  tasks: readonly Task[],
  { request, ports }: Run,
): Promise<Part> {
  const body = deleteRequestBody(tasks.map(({ entry }) => entry));
  const response = await ports.upstream.send(
    cluster,
    upstreamRequest(request, {
      query: [["delete", null]],
      headers: [
        ...headersUpstream(request.headers),
        ["content-type", "application/xml"],
        ["content-md5", body.md5],
      ],
      body: { kind: "bytes", bytes: body.bytes },
      payloadSha256: body.sha256,
    }),
    request.signal,
  );
  if (response.status !== 200) return await refusedPart(response, tasks, { cluster, ports });
  const rows = readDeleteResult(await readDocument(response));
  if (rows === null) {
    const failure = new S3Error("ServiceUnavailable", {
      message: "A cluster answers a document that cannot be read",
    });
    return { outcomes: tasks.map(() => unanswered), failure, unknown: true };
  }
  const byId = new Map(rows.map((row) => [`${row.versionId ?? ""}\0${row.key}`, row.outcome]));
  const outcomes = tasks.map(({ entry }) => withMessage(byId.get(rowIdOf(entry)) ?? unanswered));
  return { outcomes, failure: null, unknown: outcomes.includes(unanswered) };
}

/** A key that no document can hold is named in the path. */
async function askForOne(
  cluster: ClusterId,
  tasks: readonly Task[],
  { request, ports }: Run,
): Promise<Part> {
  const [task] = tasks;
  if (task === undefined) return { outcomes: [], failure: null, unknown: false };
  const { key, versionId } = task.entry;
  const response = await ports.upstream.send(
    cluster,
    {
      ...upstreamRequest(request, {
        operation: "DeleteObject",
        query: versionId === null ? [] : [["versionId", versionId]],
        headers: headersUpstream(request.headers),
      }),
      key,
    },
    request.signal,
  );
  if (response.status >= 300 && response.status !== 404) {
    return await refusedPart(response, tasks, { cluster, ports });
  }
  await readDocument(response);
  const deleteMarker = fieldValue(response.headers, "x-amz-delete-marker");
  const version = fieldValue(response.headers, "x-amz-version-id");
  const deleteMarkerVersionId = deleteMarker === null ? null : version;
  const outcome: DeleteOutcome = { kind: "deleted", deleteMarker, deleteMarkerVersionId };
  return { outcomes: [outcome], failure: null, unknown: false };
}

/** An error for all keys of a part: a missing bucket, no right to write there. */
async function refusedPart(
  response: UpstreamResponse,
  tasks: readonly Task[],
  { cluster, ports }: { readonly cluster: ClusterId; readonly ports: OperationPorts },
): Promise<Part> {
  const { status } = response;
  const document = readErrorDocument(await readDocument(response));
  assertSigned(document?.code ?? null, cluster, ports);
  const code = document?.code ?? (status === 404 ? "NoSuchBucket" : "InternalError");
  const outcome = withMessage({ kind: "failed", code, message: document?.message ?? "" });
  const failure =
    status < 400
      ? new S3Error("ServiceUnavailable", { message: "A cluster answers with a redirect" })
      : new S3Error("InternalError", { refused: { code, status }, message: messageOf(outcome) });
  return { outcomes: tasks.map(() => outcome), failure, unknown: isUnknownStatus(status) };
}

/** An RGW leaves messages empty. */
function withMessage(outcome: DeleteOutcome): DeleteOutcome {
  if (outcome.kind === "deleted" || outcome.message !== "") return outcome;
  const { code } = outcome;
  const message = isS3ErrorCode(code) ? new S3Error(code).message : "The request was refused";
  return { ...outcome, message };
}

function messageOf(outcome: DeleteOutcome): string {
  return outcome.kind === "failed" ? outcome.message : "";
}

function failedBy({ code, message }: S3Error): DeleteOutcome {
  return { kind: "failed", code, message };
}

/** What was said of the client's own body is wrong of ours. */
function headersUpstream(headers: HeaderList): HeaderList {
  return headers.filter(
    ([name]) =>
      !name.startsWith("content-") &&
      !name.startsWith("x-amz-checksum-") &&
      name !== "x-amz-sdk-checksum-algorithm",
  );
}
