// Writing an answer to the client: status and fields byte-true, body with backpressure, connection
// closed when the request body was not read to its end. Once a response byte is out, a failure
// destroys the socket, so that the client sees truncation and never XML behind data (house.md §4).

import type { IncomingMessage, ServerResponse } from "node:http";
import type { OperationAnswer } from "../operations/context.ts";
import type { ByteSink, Timers } from "../placement/ports.ts";
import { errorDocument } from "../s3/error-document.ts";
import type { S3Error } from "../s3/errors.ts";
import type { HeaderList } from "../s3/headers.ts";
import { fieldValue } from "../s3/headers.ts";
import { lingerOverBody } from "./lingering.ts";

export interface ReplyOptions {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly timers: Timers;
  /** Longest wait for a client that does not take its answer. */
  readonly writeIdleMs: number;
}

/** Beyond it copying the body into text costs more than a second buffer in the write. */
const oneWriteBytes = 16 * 1024;

/** What a client must take within `writeIdleMs`. */
const pieceBytes = 64 * 1024;

/** Sends an operation's answer. Resolves with the body bytes sent; rejects when it broke midway. */
export async function sendAnswer(
  answer: OperationAnswer,
  headers: HeaderList,
  options: ReplyOptions,
): Promise<number> {
  const { request, response } = options;
  const { body } = answer;
  const fields = fieldsOf(answer, headers, options);
  closeIfUnread(options, fields);
  response.writeHead(answer.status, fields);
  if (request.method === "HEAD" || body === null) {
    if (body !== null && !(body instanceof Uint8Array)) body.cancel();
    end(options, null);
    return 0;
  }
  if (body instanceof Uint8Array && body.length > oneWriteBytes) {
    await writeDocument(body, options);
    end(options, null);
    return body.length;
  }
  if (body instanceof Uint8Array) {
    end(options, body);
    return body.length;
  }
  const whole = body.takeWhole();
  if (whole !== null) {
    end(options, whole);
    return whole.length;
  }
  const sink = responseSink(options);
  await body.pipe(sink);
  // Where the length is not known beforehand the end has to be written.
  if (fieldValue(headers, "content-length") === null) response.end();
  else end(options, null);
  return sink.bytes();
}

function fieldsOf(
  { status, body }: OperationAnswer,
  headers: HeaderList,
  { request, requestId }: ReplyOptions,
): string[] {
  const fields: string[] = ["x-amz-request-id", requestId];
  const hasBody = hasBodyStatus(status);
  for (const [name, value] of headers) {
    // Clients wait for the body that a length beside 204 or 304 tells of (RFC 9110 §8.6).
    if (hasBody || name !== "content-length") fields.push(name, value);
  }
  if (body instanceof Uint8Array) fields.push("content-length", String(body.length));
  else if (
    body === null &&
    // What GET would send is not known here.
    request.method !== "HEAD" &&
    hasBody &&
    fieldValue(headers, "content-length") === null
  ) {
    fields.push("content-length", "0");
  }
  return fields;
}

/** Sends an error of ours as S3 XML; as bare status where the method has no body. */
export function sendError(error: S3Error, resource: string, options: ReplyOptions): number {
  const { request, response } = options;
  const bodiless = request.method === "HEAD" || error.status === 304;
  const document = bodiless
    ? ""
    : errorDocument(error, { resource, requestId: options.requestId, hostId: "headgate" });
  const bytes = Buffer.from(document, "utf8");
  const fields: string[] = ["x-amz-request-id", options.requestId];
  if (!bodiless) {
    fields.push("content-type", "application/xml", "content-length", String(bytes.length));
  }
  if (error.retryAfterSeconds !== null) fields.push("retry-after", String(error.retryAfterSeconds));
  closeIfUnread(options, fields);
  response.writeHead(error.status, fields);
  end(options, bodiless ? null : bytes);
  return bytes.length;
}

/** Ends an answer of known length; the client that still sends its body gets time to read it. */
function end({ request, response, timers }: ReplyOptions, bytes: Uint8Array | null): void {
  // Without a socket, answers to earlier requests on this connection come first.
  const lingers = isUnread(request) && response.socket !== null;
  if (bytes !== null) {
    // A short body leaves in one write with the head: as text of one byte a character, as the head is.
    const short = bytes.length <= oneWriteBytes;
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    const part = short ? buffer.toString("latin1") : buffer;
    if (lingers) response.write(part, "latin1");
    else response.end(part, "latin1");
  } else if (lingers) response.flushHeaders();
  else response.end();
  if (lingers) lingerOverBody(request, timers);
}

function hasBodyStatus(status: number): boolean {
  return status !== 204 && status !== 304 && status >= 200;
}

/** An unread rest of the body would be taken for the next request, so the connection ends here. */
function closeIfUnread({ request }: ReplyOptions, fields: string[]): void {
  if (isUnread(request)) fields.push("connection", "close");
}

function isUnread(request: IncomingMessage): boolean {
  return !request.complete && announcesBody(request);
}

function announcesBody(request: IncomingMessage): boolean {
  const length = request.headers["content-length"];
  return (
    request.headers["transfer-encoding"] !== undefined || (length !== undefined && length !== "0")
  );
}

/** In pieces, as the client takes them: until then the document is held, and its request under way. */
async function writeDocument(bytes: Uint8Array, options: ReplyOptions): Promise<void> {
  const sink = responseSink(options);
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    const taken = sink.write(bytes.subarray(at, at + pieceBytes));
    if (!taken) await sink.drained();
  }
}

function responseSink(options: ReplyOptions): ByteSink & { bytes(): number } {
  const { response, timers, writeIdleMs } = options;
  let bytes = 0;
  return {
    bytes: () => bytes,
    write(chunk) {
      bytes += chunk.length;
      return response.write(chunk);
    },
    async drained() {
      if (response.destroyed) throw new Error("The client went away");
      const cancel = timers.after(writeIdleMs, () => response.destroy());
      try {
        await drainedOrGone(response);
      } finally {
        cancel();
      }
    },
  };
}

async function drainedOrGone(response: ServerResponse): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const done = (): void => {
      response.off("drain", done);
      response.off("close", gone);
      resolve();
    };
    const gone = (): void => {
      response.off("drain", done);
      response.off("close", gone);
      reject(new Error("The client went away"));
    };
    response.on("drain", done);
    response.on("close", gone);
  });
}
