// One attempt at one exchange with one endpoint, as undici's handler. Decides the phase in which an
// attempt failed, when the answer's head is handed up, and that nothing of a request goes on once its
// answer is final. Uses undici's raw handler (`onHeaders` with the field buffers as parsed): the
// wrapped one builds an object per head that S3 answers never need.

import { setMaxListeners } from "node:events";
import type { Readable } from "node:stream";
import type { Dispatcher } from "undici";
import {
  type CancelSignal,
  UpstreamError,
  type UpstreamPhase,
  type UpstreamRequest,
  type UpstreamResponse,
} from "../placement/ports.ts";
import type { ClusterId } from "../s3/names.ts";
import { RequestBodyStream, sentBytes } from "./request-body.ts";
import type { OutgoingHead } from "./resign.ts";
import { type BodySource, ResponseBody } from "./response-body.ts";
import { responseFields } from "./response-fields.ts";
import type { FailedAttempt } from "./retry.ts";

/** How a connection was used so far; one object per undici client. */
export interface ConnectionUse {
  /** Exchanges begun on the present socket. */
  served: number;
  /** Closes the socket now. */
  cut(reason: Error): void;
}

export interface ForwardOptions {
  readonly cluster: ClusterId;
  readonly request: UpstreamRequest;
  readonly head: OutgoingHead;
  readonly signal: CancelSignal;
  /** TLS server name where it cannot be taken from the Host field. */
  readonly servername: string | null;
  /** Called exactly once, when the connection is no longer in use by this attempt. */
  readonly onEnd: (outcome: { readonly status: number | null }) => void;
}

/** undici reads `servername` although its types do not say so. */
interface DispatchOptions extends Dispatcher.DispatchOptions {
  servername?: string;
}

/** An attempt that failed before a complete head, with what the retry rule needs. */
export class AttemptFailure extends Error {
  override readonly name = "AttemptFailure";
  readonly attempt: FailedAttempt;

  constructor(attempt: FailedAttempt) {
    super("The attempt failed");
    this.attempt = attempt;
  }
}

const unsendableCodes: ReadonlySet<string> = new Set([
  "UND_ERR_INVALID_ARG",
  "UND_ERR_NOT_SUPPORTED",
]);
const closedCodes: ReadonlySet<string> = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

export class Forward implements Dispatcher.DispatchHandler, BodySource {
  readonly #options: ForwardOptions;
  #resolve: (response: UpstreamResponse) => void;
  #reject: (failure: AttemptFailure) => void;
  #source: RequestBodyStream | null = null;
  #begun = false;
  #resume: (() => void) | null = null;
  #connection: ConnectionUse | null = null;
  #reused = false;
  #sent = false;
  #bytesSent = 0;
  #answerBegun = false;
  #status: number | null = null;
  #body: ResponseBody | null = null;
  #ended = false;

  private constructor(
    options: ForwardOptions,
    resolve: (response: UpstreamResponse) => void,
    reject: (failure: AttemptFailure) => void,
  ) {
    this.#options = options;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /** Sends the request and resolves with the head of the answer. @throws AttemptFailure */
  static send(dispatcher: Dispatcher, options: ForwardOptions): Promise<UpstreamResponse> {
    return new Promise((resolve, reject) => {
      const forward = new Forward(options, resolve, reject);
      if (options.signal.aborted) {
        forward.#fail(options.signal.reason);
        return;
      }
      // One caller's signal may end many exchanges at once; ten listeners are no leak here.
      if (options.signal instanceof AbortSignal) setMaxListeners(0, options.signal);
      options.signal.addEventListener("abort", forward);
      dispatcher.dispatch(forward.#dispatchOptions(), forward);
    });
  }

  #dispatchOptions(): DispatchOptions {
    const { request, head, servername } = this.#options;
    const fields = [...head.fields];
    if (head.host !== null) fields.push("host", head.host);
    let body: Uint8Array | Readable | null = null;
    if (request.body !== null) {
      if (request.body.kind === "bytes") {
        body = request.body.bytes;
      } else if (request.body.lengthBytes > 0) {
        body = this.#source = new RequestBodyStream(request.body, ({ error }) =>
          this.abandon(error),
        );
        fields.push("content-length", String(sentBytes(request.body)));
      }
    }
    const options: DispatchOptions = {
      path: head.target,
      method: request.method,
      headers: fields,
      body,
      // undici closes after each HEAD unless told; S3 servers send no body there.
      reset: false,
    };
    if (servername !== null) options.servername = servername;
    return options;
  }

  /** Called by the client that takes the request. */
  assign(connection: ConnectionUse): void {
    this.#connection = connection;
  }

  // ---- the signal ----

  handleEvent(): void {
    this.abandon(this.#options.signal.reason);
  }

  // ---- BodySource ----

  resume(): void {
    this.#resume?.();
  }

  abandon(reason: unknown): void {
    if (this.#ended) return;
    const connection = this.#begun ? this.#connection : null;
    this.#fail(reason);
    connection?.cut(reason instanceof Error ? reason : new Error("The exchange was given up"));
  }

  // ---- undici ----

  onConnect(): void {
    // Thrown, undici drops the request and keeps the connection.
    if (this.#ended) throw new Error("The request was given up before it was sent");
    this.#begun = true;
    if (this.#connection !== null) {
      this.#reused = this.#connection.served > 0;
      this.#connection.served += 1;
    }
  }

  onBodySent(chunk: unknown): void {
    if (chunk instanceof Uint8Array) this.#bytesSent += chunk.length;
  }

  onRequestSent(): void {
    this.#sent = true;
  }

  onResponseStarted(): void {
    this.#answerBegun = true;
  }

  onHeaders(status: number, rawHeaders: Buffer[], resume: () => void): boolean {
    if (status < 200 || this.#ended) return true;
    if (this.#isEarly()) {
      if (status < 300) {
        // Nothing can have been stored rightly: the tail of the body was never sent.
        this.abandon(new Error("Upstream reported success before it had the whole body"));
        return true;
      }
      this.#source?.stop();
    }
    this.#status = status;
    this.#resume = resume;
    const body = new ResponseBody(this);
    this.#body = body;
    // A 304 may announce the length of what it does not send; undici takes that for a cut body.
    if (status === 204 || status === 304 || this.#options.request.method === "HEAD") body.end();
    this.#resolve({ status, headers: responseFields(rawHeaders), body });
    return true;
  }

  onData(chunk: Buffer): boolean {
    return this.#body?.receive(chunk) ?? true;
  }

  onComplete(): void {
    this.#body?.end();
    this.#end();
  }

  onError(error: Error): void {
    this.#fail(error);
  }

  // ---- ends ----

  #isEarly(): boolean {
    const body = this.#options.request.body;
    return (
      !this.#sent && body !== null && body.kind === "stream" && this.#bytesSent < sentBytes(body)
    );
  }

  #fail(reason: unknown): void {
    if (this.#ended) return;
    const failure = this.#failure(reason);
    this.#end();
    if (this.#body !== null) this.#body.fail(failure.error);
    else this.#reject(new AttemptFailure(failure));
    this.#source?.destroy();
  }

  #failure(reason: unknown): FailedAttempt {
    const code = codeOf(reason);
    const unsendable = this.#options.signal.aborted || (code !== null && unsendableCodes.has(code));
    const error = new UpstreamError(this.#phase(code, unsendable), this.#options.cluster, {
      bytesSent: this.#bytesSent,
      cause: reason,
    });
    return { error, sourceBegun: this.#source?.begun ?? false, unsendable };
  }

  /**
   * In this order: a head arrived → `response_body`; nothing was handed to a connection → `connect`
   * (or `request_head` when the request cannot be written at all); a byte of the answer arrived →
   * `response_head`; the request body is under way → `request_body`; a kept connection was closed
   * without an answer to a request without body → `request_head`; else the answer was awaited.
   */
  #phase(code: string | null, unsendable: boolean): UpstreamPhase {
    if (this.#body !== null) return "response_body";
    if (!this.#begun) {
      return unsendable && code !== null && unsendableCodes.has(code) ? "request_head" : "connect";
    }
    if (this.#answerBegun) return "response_head";
    if (!this.#sent) return this.#bytesSent === 0 ? "request_head" : "request_body";
    if (this.#reused && this.#bytesSent === 0 && code !== null && closedCodes.has(code)) {
      return "request_head";
    }
    return "response_head";
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#options.signal.removeEventListener("abort", this);
    this.#options.onEnd({ status: this.#status });
  }
}

function codeOf(reason: unknown): string | null {
  if (typeof reason !== "object" || reason === null || !("code" in reason)) return null;
  return typeof reason.code === "string" ? reason.code : null;
}
