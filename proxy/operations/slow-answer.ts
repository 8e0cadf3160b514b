// Answers that may take longer than a client waits for a first byte: as S3 does for CopyObject, the status
// goes out as 200 after a while, then blanks keep the connection alive, then comes the document or an
// Error in its place (S3 API Reference CopyObject, "Response"). What ends in time keeps its own status.

import { type ByteSink, type ByteStream, type Timers, UpstreamError } from "../placement/ports.ts";
import { errorDocument, readErrorDocument } from "../s3/error-document.ts";
import { S3Error } from "../s3/errors.ts";
import { xmlDeclaration } from "../s3/xml.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import { readDocument } from "./send.ts";

/** SDKs wait 60 s for a byte (botocore), intermediaries often 30 s. */
const patienceMs = 10_000;
const betweenBlanksMs = 10_000;

type Ports = Pick<OperationPorts, "timers" | "log"> & {
  readonly meter: Pick<OperationPorts["meter"], "errorAnswered">;
};
type Request = Pick<OperationRequest, "requestId" | "bucket" | "key">;

/** The answer of `run`, or after a while one that waits for it. */
export async function answerInTime(
  request: Request,
  ports: Ports,
  run: () => Promise<OperationAnswer>,
): Promise<OperationAnswer> {
  const running = run();
  const early = await inTime(running, ports.timers, patienceMs);
  if (early !== null) return early;
  return {
    status: 200,
    headers: [["content-type", "application/xml"]],
    body: new SlowDocument(running, request, ports),
    cluster: null,
  };
}

/** What a promise gives within a time, else `null`. Rejects as it does. */
async function inTime<T>(running: Promise<T>, timers: Timers, withinMs: number): Promise<T | null> {
  let cancel = (): void => {};
  const late = new Promise<null>((resolve) => {
    cancel = timers.after(withinMs, () => resolve(null));
  });
  try {
    return await Promise.race([running, late]);
  } finally {
    cancel();
  }
}

class SlowDocument implements ByteStream {
  readonly #running: Promise<OperationAnswer>;
  readonly #request: Request;
  readonly #ports: Ports;

  constructor(running: Promise<OperationAnswer>, request: Request, ports: Ports) {
    this.#running = running;
    this.#request = request;
    this.#ports = ports;
    // A client that left takes nothing more; its signal has ended the work.
    running.catch(() => undefined);
  }

  takeWhole(): null {
    return null;
  }

  async pipe(sink: ByteSink): Promise<void> {
    for await (const chunk of this) if (!sink.write(chunk)) await sink.drained();
  }

  cancel(): void {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    yield Buffer.from(xmlDeclaration);
    for (;;) {
      const text = await this.#next();
      yield Buffer.from(text ?? " ");
      if (text !== null) return;
    }
  }

  /** The document without its declaration; `null`: not yet. */
  async #next(): Promise<string | null> {
    try {
      const answer = await inTime(this.#running, this.#ports.timers, betweenBlanksMs);
      if (answer === null) return null;
      const bytes = await bodyOf(answer);
      if (answer.status >= 300) throw refusal(answer.status, bytes);
      return bodyText(Buffer.from(bytes).toString("utf8"));
    } catch (caught) {
      const error = errorOf(caught);
      const { requestId, bucket, key } = this.#request;
      const origin = error.cause instanceof UpstreamError ? "upstream" : "proxy";
      this.#ports.meter.errorAnswered(origin, error.code);
      this.#ports.log.write("warn", "answer.failed_late", { requestId, code: error.code });
      const resource = `/${bucket ?? ""}/${key ?? ""}`;
      return bodyText(errorDocument(error, { resource, requestId, hostId: "headgate" }));
    }
  }
}

async function bodyOf({ body }: OperationAnswer): Promise<Uint8Array> {
  if (body === null) return new Uint8Array();
  return body instanceof Uint8Array ? body : await readDocument({ body });
}

function bodyText(document: string): string {
  return document.startsWith(xmlDeclaration) ? document.slice(xmlDeclaration.length) : document;
}

function refusal(status: number, bytes: Uint8Array): S3Error {
  const document = readErrorDocument(bytes);
  const { code, message } = document ?? { code: "InternalError", message: "" };
  const text = message === "" ? "A cluster refused the request" : message;
  return new S3Error("InternalError", { refused: { code, status }, message: text });
}

function errorOf(caught: unknown): S3Error {
  if (caught instanceof S3Error) return caught;
  const code = caught instanceof UpstreamError ? "ServiceUnavailable" : "InternalError";
  return new S3Error(code, { cause: caught });
}
