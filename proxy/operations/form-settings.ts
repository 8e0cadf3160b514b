// Tags, retention and legal hold of a form that became an upload in parts. A Ceph RGW takes none of them
// when an upload begins (16.2.15, 18.2.7), so they are written right after Complete. Where one cannot be,
// the object is removed again, since without them it may be open to more than its sender meant.

import { UpstreamError } from "../placement/ports.ts";
import { contentMd5 } from "../s3/content-md5.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderList, type QueryList } from "../s3/headers.ts";
import { quoteEtag } from "../s3/multipart-document.ts";
import type { ClusterId } from "../s3/names.ts";
import { element, group, optionalElement, s3Document } from "../s3/xml.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { settingRefusal } from "./known-setting.ts";
import { mayBeRgw } from "./proven-facts.ts";
import { discard, passOn, readDocument, upstreamRequest } from "./send.ts";

interface Setting {
  readonly operation: "PutObjectTagging" | "PutObjectRetention" | "PutObjectLegalHold";
  readonly subresource: string;
  readonly document: string;
}

interface At {
  readonly cluster: ClusterId;
  readonly ports: OperationPorts;
}

/** An object that is there, and the request as it goes on about that version. */
interface Made extends At {
  readonly request: OperationRequest;
  readonly stored: OperationAnswer;
}

/** Waited before each attempt. */
const delaysMs = [0, 100, 1_000] as const;

/**
 * @param stored the answer to the form, 200
 * @returns it, or the answer that refuses a setting
 * @throws S3Error ServiceUnavailable where the cluster fails, NotImplemented where it knows none
 */
export async function giveSettings(
  request: OperationRequest,
  stored: OperationAnswer,
  { cluster, ports }: At,
): Promise<OperationAnswer> {
  if (!mayBeRgw(cluster, ports)) return stored;
  const versionId = fieldValue(stored.headers, "x-amz-version-id");
  const query: QueryList = versionId === null ? [] : [["versionId", versionId]];
  // The object is there, whether its client is or not.
  const { signal } = new AbortController();
  const made = { cluster, ports, request: { ...request, query, signal }, stored };
  let refusal: OperationAnswer | null = null;
  try {
    for (const setting of settingsOf(request.headers)) refusal ??= await give(made, setting);
  } catch (caught) {
    const isGone = await takeBack(made);
    if (!(caught instanceof UpstreamError)) throw caught;
    const message = isGone
      ? "The object could not be given its tags or its lock, and was removed"
      : "The object is stored, but without its tags or its lock";
    throw new S3Error("ServiceUnavailable", { message, retryAfterSeconds: 1, cause: caught });
  }
  if (refusal === null) return stored;
  await takeBack(made);
  return refusal;
}

/** What can still be taken back goes first. */
function settingsOf(headers: HeaderList): readonly Setting[] {
  const settings: Setting[] = [];
  const add = (subresource: string, operation: Setting["operation"], document: string): void => {
    settings.push({ operation, subresource, document });
  };
  const tags = [...new URLSearchParams(fieldValue(headers, "x-amz-tagging") ?? "")].map(
    ([name, value]) => group("Tag", [element("Key", name), element("Value", value)]),
  );
  if (tags.length > 0) {
    add("tagging", "PutObjectTagging", s3Document("Tagging", [group("TagSet", tags)]));
  }
  const mode = fieldValue(headers, "x-amz-object-lock-mode");
  const until = fieldValue(headers, "x-amz-object-lock-retain-until-date");
  if (mode !== null || until !== null) {
    const parts = [optionalElement("Mode", mode), optionalElement("RetainUntilDate", until)];
    add("retention", "PutObjectRetention", s3Document("Retention", parts));
  }
  const hold = fieldValue(headers, "x-amz-object-lock-legal-hold");
  if (hold !== null) {
    add("legal-hold", "PutObjectLegalHold", s3Document("LegalHold", [element("Status", hold)]));
  }
  return settings;
}

/** `null`: the object has it. @throws UpstreamError where the cluster fails again and again */
async function give(
  { cluster, ports, request }: Made,
  { operation, subresource, document }: Setting,
): Promise<OperationAnswer | null> {
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
  let cause: unknown = null;
  for (const delayMs of delaysMs) {
    if (delayMs > 0) await pause(delayMs, ports);
    try {
      const unknown = await settingRefusal({ ...request, operation }, cluster, ports);
      if (unknown !== null) return unknown;
      const response = await ports.upstream.send(cluster, sent, request.signal);
      const body = await readDocument(response);
      if (response.status < 300) return null;
      if (response.status < 500) return { ...passOn(response, cluster), body };
    } catch (caught) {
      if (!(caught instanceof UpstreamError)) throw caught;
      cause = caught;
    }
  }
  const message = `Cluster "${cluster}" does not take ${operation} of a form`;
  throw new UpstreamError("response_head", cluster, { message, cause });
}

/** Whether the object is not there any more. One that somebody else has put in its place stays. */
async function takeBack({ cluster, ports, request, stored }: Made): Promise<boolean> {
  const { query, signal } = request;
  const send = async (operation: "HeadObject" | "DeleteObject", headers: HeaderList) => {
    const sent = upstreamRequest(request, { operation, query, headers });
    const response = await ports.upstream.send(cluster, sent, signal);
    await discard(response);
    return response;
  };
  try {
    const shown = await send("HeadObject", []);
    const etag = fieldValue(shown.headers, "etag") ?? "";
    const isOurs = quoteEtag(etag) === quoteEtag(fieldValue(stored.headers, "etag") ?? "");
    if (shown.status === 404 || (shown.status === 200 && !isOurs)) return true;
    const removed = await send("DeleteObject", [["x-amz-bypass-governance-retention", "true"]]);
    if (removed.status < 300) return true;
    throw new Error(`The deletion is answered with status ${removed.status}`);
  } catch (caught) {
    const cause = caught instanceof Error ? caught.message : String(caught);
    const { requestId, bucket } = request;
    ports.log.write("warn", "form.without_settings", { requestId, cluster, bucket, cause });
    return false;
  }
}

async function pause(
  durationMs: number,
  { timers }: Pick<OperationPorts, "timers">,
): Promise<void> {
  await new Promise<void>((resolve) => {
    timers.after(durationMs, resolve);
  });
}
