// Tags, retention and legal hold of a form that became an upload in parts. A Ceph RGW takes none of them
// when an upload begins (16.2.15, 18.2.7), so they are written right after Complete. What can be refused
// is refused before the first byte, since Complete may destroy what stood at the key. Where one still
// cannot be written, the object is removed again if nothing was lost to it: without them it may be open to
// more than its sender meant. Else it stays, and they are tried again later.

import { UpstreamError } from "../placement/ports.ts";
import { contentMd5 } from "../s3/content-md5.ts";
import { readErrorDocument } from "../s3/error-document.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderList, type QueryList } from "../s3/headers.ts";
import { quoteEtag } from "../s3/multipart-document.ts";
import type { ClusterId } from "../s3/names.ts";
import { lockOf, settingFieldsError, tagsOf } from "../s3/setting-fields.ts";
import { objectLockError } from "../s3/versioning-document.ts";
import { element, group, s3Document } from "../s3/xml.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { type FormObject, isSameObject, lookAt, settingsErrand } from "./form-errand.ts";
import { settingRefusal } from "./known-setting.ts";
import { mayBeRgw, provenFacts } from "./proven-facts.ts";
import { bucketOf, discard, ownRequest, passOn, readDocument, upstreamRequest } from "./send.ts";

interface FormSetting {
  readonly operation: "PutObjectTagging" | "PutObjectRetention" | "PutObjectLegalHold";
  readonly subresource: string;
  readonly document: string;
}

interface At {
  readonly cluster: ClusterId;
  readonly ports: OperationPorts;
}

/** Waited before each attempt. */
const delaysMs = [0, 100, 1_000] as const;

/**
 * The settings that are to be written after Complete, of a form that nothing is known against.
 * @throws S3Error BadRequest, InvalidTag, InvalidArgument; InvalidRequest where the bucket has no lock
 */
export async function settingsToGive(
  request: OperationRequest,
  { cluster, ports }: At,
): Promise<readonly FormSetting[]> {
  const settings = settingsOf(request.headers);
  if (settings.length === 0) return settings;
  await provenFacts(cluster, request, ports);
  if (!mayBeRgw(cluster, ports)) return [];
  const error = settingFieldsError(request.headers, ports.clock.nowMs());
  if (error !== null) throw error;
  if (lockOf(request.headers) !== null && !(await mayLock(request, { cluster, ports }))) {
    throw new S3Error("InvalidRequest", { message: "The bucket has no object lock" });
  }
  return settings;
}

/** Whether the bucket may have a lock: one who may not ask may still be one who may lock an object. */
async function mayLock(request: OperationRequest, { cluster, ports }: At): Promise<boolean> {
  const question = ownRequest(request, bucketOf(request), {
    operation: "GetObjectLockConfiguration",
    query: [["object-lock", null]],
  });
  const response = await ports.upstream.send(cluster, question, request.signal);
  const document = await readDocument(response);
  if (response.status >= 500) {
    const message = `Cluster "${cluster}" does not tell whether a bucket has a lock`;
    throw new UpstreamError("response_head", cluster, { message });
  }
  if (response.status === 200) return objectLockError(document) === null;
  return readErrorDocument(document)?.code !== "ObjectLockConfigurationNotFoundError";
}

/** Whether nothing stands at the key that Complete would put an end to. */
export async function isFree(request: OperationRequest, { cluster, ports }: At): Promise<boolean> {
  const looked = upstreamRequest(request, { operation: "HeadObject", query: [], headers: [] });
  const response = await ports.upstream.send(cluster, looked, request.signal);
  await discard(response);
  return response.status === 404;
}

interface Given extends At {
  readonly settings: readonly FormSetting[];
  /** Nothing stood at the key right before. */
  readonly wasFree: boolean;
}

/**
 * @param stored the answer to the form, 200
 * @returns it, or the answer that refuses a setting where the object is gone again
 * @throws S3Error ServiceUnavailable where the cluster fails, or the object stays without a setting;
 *   NotImplemented where the cluster knows none
 */
export async function giveSettings(
  request: OperationRequest,
  stored: OperationAnswer,
  { cluster, ports, settings, wasFree }: Given,
): Promise<OperationAnswer> {
  const versionId = fieldValue(stored.headers, "x-amz-version-id");
  const query: QueryList = versionId === null ? [] : [["versionId", versionId]];
  const etag = quoteEtag(fieldValue(stored.headers, "etag") ?? "");
  // The object is there, whether its client is or not.
  const { signal } = new AbortController();
  const made = { cluster, ports, request: { ...request, form: null, query, signal }, etag };
  const left = [...settings];
  let refusal: OperationAnswer | null = null;
  let cause: unknown = null;
  try {
    for (const setting of settings) {
      refusal = await give(made, setting);
      if (refusal !== null) break;
      left.shift();
    }
  } catch (caught) {
    cause = caught;
  }
  if (left.length === 0) return stored;
  const isOwnVersion = versionId !== null && versionId !== "null";
  const isGone = await takeBack(made, { left, mayRemove: isOwnVersion || wasFree });
  if (isGone && refusal !== null) return refusal;
  if (isGone && !(cause instanceof UpstreamError)) throw cause;
  const message = isGone
    ? "The object could not be given its tags or its lock, and was removed"
    : "The object is stored, but without its tags or its lock, which will be tried again";
  throw new S3Error("ServiceUnavailable", { message, retryAfterSeconds: 1, cause });
}

/** What can still be taken back goes first. */
function settingsOf(headers: HeaderList): readonly FormSetting[] {
  const settings: FormSetting[] = [];
  const add = (
    subresource: string,
    operation: FormSetting["operation"],
    document: string,
  ): void => {
    settings.push({ operation, subresource, document });
  };
  const tags = tagsOf(headers).map(([name, value]) =>
    group("Tag", [element("Key", name), element("Value", value)]),
  );
  if (tags.length > 0) {
    add("tagging", "PutObjectTagging", s3Document("Tagging", [group("TagSet", tags)]));
  }
  const { mode = null, until = null, hold = null } = lockOf(headers) ?? {};
  if (mode !== null || until !== null) {
    const parts = [element("Mode", mode ?? ""), element("RetainUntilDate", until ?? "")];
    add("retention", "PutObjectRetention", s3Document("Retention", parts));
  }
  if (hold !== null) {
    add("legal-hold", "PutObjectLegalHold", s3Document("LegalHold", [element("Status", hold)]));
  }
  return settings;
}

/** `null`: the object has it. @throws UpstreamError where the cluster fails again and again */
async function give(made: FormObject, setting: FormSetting): Promise<OperationAnswer | null> {
  const { cluster, ports } = made;
  let cause: unknown = null;
  for (const delayMs of delaysMs) {
    if (delayMs > 0) await pause(delayMs, ports);
    try {
      return await giveOnce(made, setting);
    } catch (caught) {
      if (!(caught instanceof UpstreamError)) throw caught;
      cause = caught;
    }
  }
  const message = `Cluster "${cluster}" does not take ${setting.operation} of a form`;
  throw new UpstreamError("response_head", cluster, { message, cause });
}

/** `null`: the object has it. @throws UpstreamError where the cluster fails */
async function giveOnce(
  { cluster, ports, request }: FormObject,
  { operation, subresource, document }: FormSetting,
): Promise<OperationAnswer | null> {
  const unknown = await settingRefusal({ ...request, operation }, cluster, ports);
  if (unknown !== null) return unknown;
  const bytes = Buffer.from(document, "utf8");
  const sent = upstreamRequest(request, {
    operation,
    query: [[subresource, null], ...request.query],
    headers: [
      ["content-md5", contentMd5(bytes)],
      ["content-type", "application/xml"],
    ],
    body: { kind: "bytes", bytes },
  });
  const response = await ports.upstream.send(cluster, sent, request.signal);
  const body = await readDocument(response);
  if (response.status < 300) return null;
  if (response.status < 500) return { ...passOn(response, cluster), body };
  const message = `Cluster "${cluster}" answers ${operation} with status ${response.status}`;
  throw new UpstreamError("response_head", cluster, { message });
}

/**
 * Whether the object is not there any more. One that somebody else has put in its place stays; so does
 * one that cannot be removed or must not be, for which the rest is left to be done.
 */
async function takeBack(
  made: FormObject,
  { left, mayRemove }: { readonly left: readonly FormSetting[]; readonly mayRemove: boolean },
): Promise<boolean> {
  const { cluster, ports, request } = made;
  const { requestId, bucket, query, signal } = request;
  let modified: string | null = null;
  let cause = "It has taken the place of another one";
  try {
    const shown = await lookAt(made);
    if (shown.status === 404) return true;
    if (shown.status !== 200) throw new Error(`A look is answered with status ${shown.status}`);
    if (!isSameObject(made, shown)) return true;
    modified = fieldValue(shown.headers, "last-modified");
    if (mayRemove) {
      const headers: HeaderList = [["x-amz-bypass-governance-retention", "true"]];
      const removing = upstreamRequest(request, { operation: "DeleteObject", query, headers });
      const removed = await ports.upstream.send(cluster, removing, signal);
      await discard(removed);
      if (removed.status < 300) return true;
      cause = `The deletion is answered with status ${removed.status}`;
    }
  } catch (caught) {
    cause = caught instanceof Error ? caught.message : String(caught);
  }
  ports.log.write("warn", "form.without_settings", { requestId, cluster, bucket, cause });
  ports.unfinished.add(settingsErrand({ ...made, modified }, left, giveOnce));
  return false;
}

async function pause(
  durationMs: number,
  { timers }: Pick<OperationPorts, "timers">,
): Promise<void> {
  await new Promise<void>((resolve) => {
    timers.after(durationMs, resolve);
  });
}
