// Asks a Ceph RGW's admin API whose key an access key id is: GET /admin/user?access-key=…, signed with
// keys that have the capability `users=read`. Decides what an answer means. For an id that it does not
// know RGW 16.2 says 403 AccessDenied, as it does to a caller without the capability, and 18.2.7 says
// 400 InvalidArgument, as it may to much else: either counts only when the same keys are seen to find
// themselves. Other releases answer 404.

import type { CancelSignal, Clock, UpstreamResponse } from "../placement/ports.ts";
import { UpstreamError } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import type { AccessKeyId, ClusterId } from "../s3/names.ts";
import { type RgwUser, readRgwUser } from "../s3/rgw-user.ts";

/** Keys that sign at an RGW. */
interface KeyPair {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | null;
}

/** What can be asked of an RGW's admin API; upstream.ts. */
interface AdminQuestion {
  /** `user`: the path behind `/admin/`. */
  readonly resource: string;
  readonly query: readonly (readonly [string, string])[];
  readonly keys: KeyPair;
}

export type AskAdmin = (
  cluster: ClusterId,
  question: AdminQuestion,
  signal: CancelSignal,
) => Promise<UpstreamResponse>;

export type RgwUserAnswer =
  | { readonly kind: "user"; readonly user: RgwUser }
  | { readonly kind: "unknown" }
  /** `reason` is for the log: it names no key. */
  | { readonly kind: "unavailable"; readonly reason: string };

/** A user has at most some thousand keys and capabilities. */
const answerLimitBytes = 1024 * 1024;
/** Codes with which RGW versions say that there is no such key. */
const unknownCodes: ReadonlySet<string> = new Set([
  "NoSuchUser",
  "NoSuchKey",
  "NoSuchAccessKey",
  "InvalidAccessKeyId",
]);

interface AdminOpsOptions {
  readonly cluster: ClusterId;
  /** Those to ask with now; null: there are none. */
  readonly keys: () => KeyPair | null;
  readonly ask: AskAdmin;
  readonly clock: Pick<Clock, "monotonicMs">;
}

/** That the keys may ask, shown this long ago, holds: unknown ids come in crowds. */
const provenForMs = 1_000;

/** Tells whose key an id is. The result rejects with nothing but bugs. */
export function rgwUserFinder(
  options: AdminOpsOptions,
): (accessKeyId: AccessKeyId, signal: CancelSignal) => Promise<RgwUserAnswer> {
  const proof = { untilMs: Number.NEGATIVE_INFINITY };
  return (accessKeyId, signal) => findRgwUser(accessKeyId, { ...options, proof }, signal);
}

async function findRgwUser(
  accessKeyId: AccessKeyId,
  options: AdminOpsOptions & { readonly proof: { untilMs: number } },
  signal: CancelSignal,
): Promise<RgwUserAnswer> {
  const { clock, proof } = options;
  const keys = options.keys();
  if (keys === null) return { kind: "unavailable", reason: "the cluster has no keys here" };
  const asked = { ...options, keys };
  try {
    const answer = await askUser(accessKeyId, asked, signal);
    if (answer.kind !== "denied" && answer.kind !== "refused") return answer;
    if (clock.monotonicMs() < proof.untilMs) return { kind: "unknown" };
    const itself = await askUser(keys.accessKeyId, asked, signal);
    if (itself.kind === "user") {
      proof.untilMs = clock.monotonicMs() + provenForMs;
      return { kind: "unknown" };
    }
    const reason = itself.kind === "denied" ? "the keys lack the capability users=read" : null;
    return { kind: "unavailable", reason: reason ?? describe(itself) };
  } catch (caught) {
    if (caught instanceof UpstreamError) return { kind: "unavailable", reason: caught.message };
    if (caught instanceof S3Error) return { kind: "unavailable", reason: caught.message };
    throw caught;
  }
}

/** `denied`, `refused`: there is no such key, or these keys may not ask; or the question is wrong. */
type Told = RgwUserAnswer | { readonly kind: "denied" } | { readonly kind: "refused" };

async function askUser(
  accessKeyId: string,
  { cluster, keys, ask }: Omit<AdminOpsOptions, "keys"> & { readonly keys: KeyPair },
  signal: CancelSignal,
): Promise<Told> {
  const query = [
    ["access-key", accessKeyId],
    ["format", "json"],
  ] as const;
  const response = await ask(cluster, { resource: "user", query, keys }, signal);
  const document = await readJson(response);
  if (response.status === 200) {
    const user = readRgwUser(document);
    if (user === null) return { kind: "unavailable", reason: "the answer is no user document" };
    // Anything else than the key asked for would be another question's answer.
    const isThere = user.keys.some((key) => key.accessKeyId === accessKeyId);
    return isThere ? { kind: "user", user } : { kind: "unknown" };
  }
  const code = codeOf(document);
  if (response.status === 404 && unknownCodes.has(code)) return { kind: "unknown" };
  if (response.status === 403 && code === "AccessDenied") return { kind: "denied" };
  if (response.status === 400 && code === "InvalidArgument") return { kind: "refused" };
  return { kind: "unavailable", reason: `the answer is ${response.status} ${code}` };
}

/** Null: not JSON, or too long. */
async function readJson(response: UpstreamResponse): Promise<unknown> {
  const text = await readAnswer(response, answerLimitBytes);
  if (text === null) return null;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null; // an answer in another form has neither user nor code
  }
}

/** The text of an answer; null: it is longer than the limit, and not read on. */
export async function readAnswer(
  response: UpstreamResponse,
  limitBytes: number,
): Promise<string | null> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body) {
    size += chunk.length;
    if (size > limitBytes) {
      response.body.cancel();
      return null;
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function codeOf(document: unknown): string {
  if (typeof document !== "object" || document === null || !("Code" in document)) return "";
  const { Code: code } = document;
  return typeof code === "string" && /^[A-Za-z]{1,64}$/.test(code) ? code : "";
}

function describe(told: Told): string {
  return told.kind === "unavailable" ? told.reason : "the keys do not find themselves";
}
