// PostObject: the file of a form upload becomes an object of the key's owner. Upstreams need a length
// and a form has none for its file, so a short file is read whole first and put; a longer one becomes
// a multipart upload of two parts: all of which is surely file as the first, streamed, and the rest,
// at most 64 KiB, as the second. Either way nothing exists before the form was right to its end and the
// commit point agreed. What ends otherwise is aborted, but for a Complete without a clear answer: an RGW
// that is told to abort what it is completing can lose parts of the object.

import { S3Error } from "../s3/errors.ts";
import { maxAroundBytes } from "../s3/form-data.ts";
import { fieldValue, type HeaderList, type QueryList } from "../s3/headers.ts";
import {
  completeRequestDocument,
  multipartEtag,
  quoteEtag,
  readCompleteResult,
  readInitiateResult,
} from "../s3/multipart-document.ts";
import type { ClusterId } from "../s3/names.ts";
import { postResponseDocument, redirectLocation, type StoredFile } from "../s3/post-form.ts";
import type {
  ClientBody,
  FormFile,
  OperationAnswer,
  OperationPorts,
  OperationRequest,
} from "./context.ts";
import { giveSettings, isFree, settingsToGive } from "./form-settings.ts";
import { mutate } from "./mutation.ts";
import { upload } from "./object.ts";
import { PieceBuffer, readWhole } from "./piece-buffer.ts";
import {
  discard,
  firstCandidate,
  passOn,
  readDocument,
  unreadable,
  upstreamRequest,
} from "./send.ts";
import { uploadErrand } from "./upload-errand.ts";

/** S3 User Guide "Amazon S3 multipart upload limits": smallest part but the last. */
const minPartBytes = 5 * 1024 * 1024;

/** How much of a file is in memory at a time. */
export function heldFormBytes(form: FormFile): number {
  return isShort(form) ? form.maxBytes : maxAroundBytes;
}

function isShort({ minBytes }: FormFile): boolean {
  return minBytes < minPartBytes;
}

/** PostObject. */
export async function postObject(
  request: OperationRequest,
  ports: OperationPorts,
): Promise<OperationAnswer> {
  const { form, bucket, key } = request;
  if (form === null || bucket === null || key === null) throw new S3Error("InvalidRequest");
  const cluster = request.target ?? firstCandidate(request);
  const store = isShort(form) ? putWhole : putInParts;
  let fileBytes = 0;
  const counted = async function* (): AsyncGenerator<Uint8Array> {
    for await (const chunk of form.chunks()) {
      fileBytes += chunk.length;
      yield chunk;
    }
  };
  const answer = await store(request, { ...form, chunks: counted }, { cluster, ports });
  if (answer.status >= 300) return answer;
  const source = request.record?.value.route.source ?? "settled";
  ports.meter.writeRouted(cluster, source, fileBytes);
  ports.resettler.noteNonEmpty(request.tenant, bucket);
  const etag = quoteEtag(fieldValue(answer.headers, "etag") ?? "");
  return successAnswer(answer, form, { bucket, key, etag, location: request.location });
}

interface At {
  readonly cluster: ClusterId;
  readonly ports: OperationPorts;
}

async function putWhole(
  request: OperationRequest,
  form: FormFile,
  { cluster, ports }: At,
): Promise<OperationAnswer> {
  const bytes = await readWhole(form.chunks());
  const body: ClientBody = {
    lengthBytes: bytes.length,
    sha256: null,
    async *chunks() {
      yield bytes;
    },
  };
  const put = { ...request, operation: "PutObject", body } as const;
  return await upload(put, ports, { cluster, query: [] });
}

// ---- in parts ----

async function putInParts(
  request: OperationRequest,
  form: FormFile,
  at: At,
): Promise<OperationAnswer> {
  const { cluster, ports } = at;
  const settings = await settingsToGive(request, at);
  return await mutate(request, ports, async (mutation) => {
    const created = await ports.upstream.send(
      cluster,
      upstreamRequest(request, {
        operation: "CreateMultipartUpload",
        query: [["uploads", null]],
        headers: request.headers.filter(([name]) => !isOfOneBody(name)),
      }),
      request.signal,
    );
    if (created.status !== 200) return passOn(created, cluster);
    const reading = readInitiateResult(await readDocument(created));
    if (reading.kind === "error") throw unreadable();
    const { uploadId } = reading;
    let isOpen = true;
    try {
      const sent = await sendParts(request, form, { ...at, uploadId });
      if (!Array.isArray(sent)) return sent;
      const wasFree = settings.length > 0 && (await isFree(request, at));
      await mutation.commit();
      isOpen = false;
      const answer = await complete(request, sent, { ...at, uploadId });
      isOpen = answer.status >= 400 && answer.status < 500;
      if (answer.status !== 200 || settings.length === 0) return answer;
      return await giveSettings(request, answer, { ...at, settings, wasFree });
    } catch (caught) {
      isOpen ||= caught instanceof S3Error && caught.status < 500;
      throw caught;
    } finally {
      if (isOpen) await abort(request, { ...at, uploadId });
    }
  });
}

interface AtUpload extends At {
  readonly uploadId: string;
}

/** The ETags of the parts, or the answer to one that was refused. */
async function sendParts(
  request: OperationRequest,
  form: FormFile,
  at: AtUpload,
): Promise<string[] | OperationAnswer> {
  const file = new Split(form.chunks());
  try {
    const first = await sendPart(request, { ...at, partNumber: 1 }, () => ({
      kind: "stream",
      lengthBytes: form.minBytes,
      chunks: file.first(form.minBytes),
    }));
    if (typeof first !== "string") return first;
    const bytes = await file.rest();
    if (bytes.length === 0) return [first];
    const last = await sendPart(request, { ...at, partNumber: 2 }, () => ({
      kind: "bytes",
      bytes,
    }));
    return typeof last === "string" ? [first, last] : last;
  } catch (caught) {
    throw file.fault ?? caught;
  } finally {
    // Not waited for: a client that stalls would keep the answer to it.
    void file.close().catch(() => {});
  }
}

async function sendPart(
  request: OperationRequest,
  { cluster, ports, uploadId, partNumber }: AtUpload & { readonly partNumber: number },
  body: () => NonNullable<Parameters<typeof upstreamRequest>[1]>["body"],
): Promise<string | OperationAnswer> {
  const query: QueryList = [
    ["partNumber", String(partNumber)],
    ["uploadId", uploadId],
  ];
  const headers = request.headers.filter(([name]) => customerKey.test(name));
  const options = { operation: "UploadPart", query, headers, body: body() ?? null } as const;
  const response = await ports.upstream.send(
    cluster,
    upstreamRequest(request, options),
    request.signal,
  );
  if (response.status !== 200) return passOn(response, cluster);
  await discard(response);
  return fieldValue(response.headers, "etag") ?? "";
}

async function complete(
  request: OperationRequest,
  etags: readonly string[],
  { cluster, ports, uploadId }: AtUpload,
): Promise<OperationAnswer> {
  const parts = etags.map((etag, at) => ({ partNumber: at + 1, etag, checksums: [] }));
  const response = await ports.upstream.send(
    cluster,
    upstreamRequest(request, {
      operation: "CompleteMultipartUpload",
      query: [["uploadId", uploadId]],
      headers: [["content-type", "application/xml"]],
      body: { kind: "bytes", bytes: Buffer.from(completeRequestDocument(parts)) },
    }),
    request.signal,
  );
  if (response.status !== 200) return passOn(response, cluster);
  const reading = readCompleteResult(await readDocument(response));
  if (reading.kind === "error") throw unreadable();
  if (reading.kind === "failed") {
    const { code, message } = reading.document;
    throw new S3Error("InternalError", { refused: { code, status: 500 }, message });
  }
  const etag = reading.etag ?? multipartEtag(etags) ?? "";
  const fields = response.headers.filter(([name]) => name !== "etag");
  return { status: 200, headers: [...fields, ["etag", etag]], body: null, cluster };
}

/** Whether the client is still there or not; where its cluster went away, once that is back. */
async function abort(request: OperationRequest, at: AtUpload): Promise<void> {
  const { cluster, ports, uploadId } = at;
  const query: QueryList = [["uploadId", uploadId]];
  const aborting = upstreamRequest(request, {
    operation: "AbortMultipartUpload",
    query,
    headers: [],
  });
  try {
    const response = await ports.upstream.send(cluster, aborting, new AbortController().signal);
    await discard(response);
    if (response.status < 300 || response.status === 404) return;
    throw new Error(`The abort is answered with status ${response.status}`);
  } catch (caught) {
    ports.log.write("warn", "form.upload_left", { cluster, cause: String(caught) });
    ports.unfinished.add(uploadErrand(cluster, aborting, ports));
  }
}

const customerKey = /^x-amz-server-side-encryption-customer-/;

/** Says something of the bytes of one request; those of the whole file were checked here. */
function isOfOneBody(name: string): boolean {
  return (
    name === "content-md5" ||
    name === "x-amz-sdk-checksum-algorithm" ||
    name.startsWith("x-amz-checksum-")
  );
}

/** One stream of bytes as a first run of a given length and what comes behind it. */
class Split {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #left: Uint8Array | null = null;
  /** Why the stream ended early. */
  fault: Error | null = null;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  async *first(lengthBytes: number): AsyncGenerator<Uint8Array> {
    let missing = lengthBytes;
    while (missing > 0) {
      const chunk = await this.#next();
      if (chunk === null) return;
      this.#left = chunk.length > missing ? chunk.subarray(missing) : null;
      const piece = chunk.subarray(0, missing);
      missing -= piece.length;
      yield piece;
    }
  }

  async rest(): Promise<Uint8Array> {
    const held = new PieceBuffer();
    if (this.#left !== null) held.push(this.#left);
    for (let chunk = await this.#next(); chunk !== null; chunk = await this.#next()) {
      held.push(chunk);
    }
    return held.whole();
  }

  async close(): Promise<void> {
    await this.#chunks.return?.();
  }

  async #next(): Promise<Uint8Array | null> {
    try {
      const step = await this.#chunks.next();
      return step.done === true ? null : step.value;
    } catch (caught) {
      this.fault = caught instanceof Error ? caught : new Error(String(caught));
      throw caught;
    }
  }
}

// ---- the answer ----

function successAnswer(
  stored: OperationAnswer,
  { success }: FormFile,
  file: StoredFile,
): OperationAnswer {
  const { cluster } = stored;
  if (typeof stored.body === "object" && stored.body !== null && "cancel" in stored.body) {
    stored.body.cancel();
  }
  const kept = stored.headers.filter(([name]) => name.startsWith("x-amz-"));
  const headers: HeaderList = [...kept, ["etag", file.etag]];
  if (success.kind === "redirect") {
    const location = redirectLocation(success.url, file);
    return { status: 303, headers, body: null, cluster, location };
  }
  const { location } = file;
  if (success.status !== 201) {
    return { status: success.status, headers, body: null, cluster, location };
  }
  const body = Buffer.from(postResponseDocument(file), "utf8");
  const typed: HeaderList = [...headers, ["content-type", "application/xml"]];
  return { status: 201, headers: typed, body, cluster, location };
}
