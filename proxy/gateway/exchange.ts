// The whole life of one request, in order: read the head, name bucket, key and operation, verify who
// asks, decide what is allowed and where it lives, run the operation over its clusters, answer.
// One catch maps whatever went wrong to S3 XML; once response bytes are out a failure cuts the
// connection instead (house.md §4). Nothing here knows a placement rule: those are Rego.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { OperationAnswer, OperationRequest } from "../operations/context.ts";
import type { ErrorContext } from "../operations/error-answer.ts";
import { rewriteError } from "../operations/error-answer.ts";
import { heldFormBytes } from "../operations/post-object.ts";
import { runOperation } from "../operations/table.ts";
import type { CancelSignal, Clock, Log, Meter, Timers } from "../placement/ports.ts";
import type { Address } from "../s3/address.ts";
import { parseAddress } from "../s3/address.ts";
import { classifyOperation } from "../s3/classify.ts";
import { withoutCopyFields } from "../s3/copy-source.ts";
import { S3Error } from "../s3/errors.ts";
import { responseHeadersToClient } from "../s3/forward-headers.ts";
import type { HeaderList } from "../s3/headers.ts";
import type { S3Operation } from "../s3/operation.ts";
import type { RequestHead } from "../s3/request-head.ts";
import { fieldValue, readRequestHead } from "../s3/request-head.ts";
import { identityOf } from "./authenticate.ts";
import { Cancellation } from "./cancellation.ts";
import type { InputFacts } from "./decision-input.ts";
import { callerOf, tenantOf } from "./decision-input.ts";
import { isEarly, mayDelete, placeSource, readEarly } from "./early-document.ts";
import { describe, faultOf } from "./fault.ts";
import type { TrustedProxies } from "./forwarded.ts";
import { arrivalOf } from "./forwarded.ts";
import type { Passthrough } from "./passthrough.ts";
import { assertFramed, isPassedThrough, passedHost } from "./passthrough.ts";
import type { PlacingParts } from "./placing.ts";
import { commitPoint, mayShow, placeRequest } from "./placing.ts";
import type { ReceivingParts } from "./receive.ts";
import { isReadWhole, receive } from "./receive.ts";
import type { ReplyOptions } from "./reply.ts";
import { sendAnswer, sendError } from "./reply.ts";
import { heldBody, Room } from "./room.ts";
import type { AccessLog, Trace } from "./trace.ts";
import { accessRecord, sampleOf } from "./trace.ts";

/** A code in the access log; a cluster's is a text from outside. */
const maxCodeLength = 64;

/** Memory for the files of form uploads under way. */
const maxFormBytes = 256 * 1024 * 1024;
/** Memory for documents under way: DeleteObjects, CompleteMultipartUpload, settings. */
const maxDocumentBytes = 64 * 1024 * 1024;
/** Of `maxInFlight`, how much may be forms of which nobody knows yet who sends them. */
const unknownFormsShare = 1 / 8;

export interface GatewayParts extends PlacingParts, ReceivingParts {
  readonly baseDomains: readonly string[];
  /** Null: nothing but S3 is served. */
  readonly passthrough: Passthrough | null;
  readonly trustedProxies: TrustedProxies;
  /** What clients sign in fields that a hop in front rewrites. */
  readonly rewrittenFields: HeaderList;
  /** The listener speaks TLS. */
  readonly secure: boolean;
  /** Requests under way at once; one more answers 503 SlowDown. */
  readonly maxInFlight: number;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly requestId: () => string;
  readonly meter: Meter;
  readonly log: Log;
  readonly accessLog: AccessLog;
}

export class Gateway {
  readonly #parts: GatewayParts;
  readonly #formBytes = new Room(maxFormBytes);
  readonly #documentBytes = new Room(maxDocumentBytes);
  readonly #unknownForms: Room;
  #inFlight = 0;

  constructor(parts: GatewayParts) {
    this.#parts = parts;
    this.#unknownForms = new Room(Math.max(1, Math.floor(parts.maxInFlight * unknownFormsShare)));
  }

  /** Notes what never became a request, a head that does not parse; gives the id to answer it with. */
  refused(error: S3Error, remoteAddress: string): string {
    const parts = this.#parts;
    const trace = beginTrace({ method: "", remoteAddress }, parts);
    parts.meter.requestStarted();
    parts.meter.errorAnswered("client", error.code);
    trace.status = error.status;
    trace.errorCode = error.code;
    endTrace(trace, parts);
    return trace.requestId;
  }

  /** Serves one request. Never rejects. */
  async exchange(
    request: IncomingMessage,
    response: ServerResponse,
    expectsContinue: boolean,
  ): Promise<void> {
    const parts = this.#parts;
    const { method = "", socket } = request;
    const trace = beginTrace({ method, remoteAddress: socket.remoteAddress ?? "" }, parts);
    const reply = {
      request,
      response,
      requestId: trace.requestId,
      timers: parts.timers,
      writeIdleMs: parts.bodyIdleMs,
    };
    const signal = cancelledWithClient(response);
    let release = (): void => {};
    this.#inFlight += 1;
    parts.meter.requestStarted();
    try {
      if (this.#inFlight > parts.maxInFlight)
        throw new S3Error("SlowDown", { retryAfterSeconds: 1 });
      const peer = { address: trace.remoteAddress, secure: parts.secure };
      const arrival = arrivalOf(readHead(request, response), peer, parts);
      const { head, clientAddress, secure } = arrival;
      trace.remoteAddress = clientAddress;
      trace.userAgent = fieldValue(head.headers, "user-agent");
      if (isPassed(head, parts)) {
        const passed = { trace, reply, parts, expectsContinue, ...arrival };
        trace.responseBytes = await passThrough(head, passed);
        return;
      }
      const addressed = readAddress(head, parts, trace);
      const operation = nameOperation(head, addressed, trace);
      const asks = { address: addressed, operation, head, secure };
      const from = { ...asks, request, response, expectsContinue };
      const received = await receive({ ...from, trace, parts, unknownForms: this.#unknownForms });
      const { principal, address } = received;
      let { body } = received;
      if (body !== null && isReadWhole(operation)) {
        ({ body, release } = heldBody(body, this.#documentBytes));
      }
      const asked: InputFacts = {
        requestId: trace.requestId,
        nowMs: trace.startedAtMs,
        method: head.method,
        operation,
        address,
        query: received.query,
        headers: received.headers,
        contentLengthBytes: received.contentLengthBytes,
        payloadMode: received.payloadMode,
        locationConstraint: null,
        copySource: null,
        deleteKeysCount: null,
        principal,
        clientAddress,
        tls: secure,
      };
      const { facts, deletion } = isEarly(operation)
        ? await readEarly(asked, body, parts)
        : { facts: asked, deletion: null };
      const identity = identityOf(received, arrival.forwardedFor);
      const placed = await placeRequest(facts, parts, identity);
      trace.why = placed.decision.why;
      const source = facts.copySource && (await placeSource(facts.copySource, facts, parts));
      const headers = received.upstreamHeaders;
      const operationRequest: OperationRequest = {
        operation,
        record: placed.record,
        candidates: placed.candidates,
        target: placed.target,
        route: placed.route,
        placement: placed.placement,
        tenant: tenantOf(address, principal),
        bucket: address.bucket,
        key: address.key,
        query: facts.query,
        headers: source === null ? withoutCopyFields(headers) : headers,
        body,
        source,
        form: received.form,
        deletion,
        locationConstraint: facts.locationConstraint,
        caller: callerOf(principal),
        identity,
        location: received.location,
        requestId: trace.requestId,
        commit: async () => commitPoint(placed, facts, parts),
        mayShow: (bucket) => mayShow(bucket, facts, parts),
        mayDelete: async (entries) => await mayDelete(entries, facts, parts),
        signal,
      };
      const given = await this.#run(operationRequest);
      release = releasing(given, release);
      noteAnswer(given, trace);
      const answer = given.status < 400 ? given : await errorAnswer(given, trace, parts);
      trace.responseBytes = await sendAnswer(answer, headersOf(answer), reply);
    } catch (caught) {
      answerFault(caught, { trace, reply, parts });
    } finally {
      release();
      this.#inFlight -= 1;
      endTrace(trace, parts);
    }
  }

  /** Short files of forms are held in memory: no more of them at a time than there is room for. */
  async #run(request: OperationRequest): Promise<OperationAnswer> {
    const { ports } = this.#parts;
    if (request.form === null) return await runOperation(request, ports);
    const heldBytes = heldFormBytes(request.form);
    this.#formBytes.take(heldBytes);
    try {
      return await runOperation(request, ports);
    } finally {
      this.#formBytes.give(heldBytes);
    }
  }
}

// ---- steps: each gives its result or throws the S3Error that answers the client ----

/** After a head that could be read in two ways the connection is not read on. */
function readHead(request: IncomingMessage, response: ServerResponse): RequestHead {
  const result = readRequestHead({
    method: request.method ?? "",
    target: request.url ?? "",
    version: request.httpVersion,
    rawHeaders: request.rawHeaders,
  });
  if (result.kind === "head") return result.head;
  response.setHeader("connection", "close");
  throw result.error;
}

function isPassed(head: RequestHead, { passthrough, baseDomains }: GatewayParts): boolean {
  return passthrough !== null && isPassedThrough(head, passthrough.paths, baseDomains);
}

/** Hands the request on as it is; the cluster checks who asks. Gives the body bytes of the answer. */
async function passThrough(
  head: RequestHead,
  exchange: {
    readonly trace: Trace;
    readonly reply: ReplyOptions;
    readonly parts: GatewayParts;
    readonly expectsContinue: boolean;
    readonly forwardedFor: string;
  },
): Promise<number> {
  const { trace, reply, parts, expectsContinue, forwardedFor } = exchange;
  if (parts.passthrough === null) throw new Error("There is no cluster to pass a request to");
  trace.operation = "Passthrough";
  assertFramed(head);
  trace.cluster = parts.passthrough.cluster;
  if (expectsContinue) reply.response.writeContinue();
  const answer = await parts.passthrough.send({
    request: reply.request,
    response: reply.response,
    host: passedHost(head.host, parts.baseDomains),
    forwardedFor,
    received: (bytes) => {
      trace.requestBytes += bytes;
    },
  });
  noteAnswer(answer, trace);
  return await sendAnswer(answer, answer.headers, reply);
}

function readAddress(head: RequestHead, parts: GatewayParts, trace: Trace): Address {
  const result = parseAddress(head, parts.baseDomains);
  if (result.kind === "error") throw result.error;
  trace.address = result;
  return result;
}

function nameOperation(head: RequestHead, address: Address, trace: Trace): S3Operation {
  const result = classifyOperation(head, address);
  if (result.operation !== null) trace.operation = result.operation;
  if (result.kind === "error") throw result.error;
  return result.operation;
}

/** Our own answers say what they mean; an upstream's are stripped of what only concerns it. */
function headersOf(answer: OperationAnswer): HeaderList {
  const headers =
    answer.cluster === null ? answer.headers : responseHeadersToClient(answer.headers);
  return answer.location === undefined ? headers : [...headers, ["location", answer.location]];
}

// ---- around it ----

function beginTrace(from: Pick<Trace, "method" | "remoteAddress">, parts: GatewayParts): Trace {
  return {
    requestId: parts.requestId(),
    startedAtMs: parts.clock.nowMs(),
    startedMonotonicMs: parts.clock.monotonicMs(),
    ...from,
    userAgent: null,
    operation: "Other",
    address: null,
    requester: null,
    cluster: null,
    upstreamRequestId: null,
    why: null,
    status: 0,
    errorCode: null,
    requestBytes: 0,
    responseBytes: 0,
  };
}

/** A client that leaves takes its upstream exchange with it, at whatever step that is. */
function cancelledWithClient(response: ServerResponse): CancelSignal {
  const cancellation = new Cancellation();
  const left = (): void => {
    if (!response.writableFinished) cancellation.abort(new Error("The client went away"));
  };
  response.once("close", left);
  if (response.destroyed) left();
  return cancellation;
}

function noteAnswer(answer: OperationAnswer, trace: Trace): void {
  trace.status = answer.status;
  trace.cluster = answer.cluster;
  trace.upstreamRequestId = fieldValue(answer.headers, "x-amz-request-id");
}

/** What a request holds, with what its answer does. */
function releasing({ release }: OperationAnswer, before: () => void): () => void {
  if (release === undefined) return before;
  return () => {
    before();
    release();
  };
}

/** A cluster's error as the client gets it, counted as one of ours is. */
async function errorAnswer(
  given: OperationAnswer,
  trace: Trace,
  parts: GatewayParts,
): Promise<OperationAnswer> {
  const { answer, code } = await rewriteError(given, errorContext(trace, parts));
  trace.errorCode = code?.slice(0, maxCodeLength) ?? null;
  parts.meter.errorAnswered("upstream", code ?? "Other");
  return answer;
}

/** Client closed request, as nginx logs it: nobody is left to answer. */
const clientGoneStatus = 499;

function answerFault(
  caught: unknown,
  at: { readonly trace: Trace; readonly reply: ReplyOptions; readonly parts: GatewayParts },
): void {
  const { trace, reply, parts } = at;
  const { response } = reply;
  if (response.destroyed && !response.writableFinished) {
    trace.status = clientGoneStatus;
    return;
  }
  const { error, origin, logged } = faultOf(caught);
  trace.errorCode = error.code;
  parts.meter.errorAnswered(origin, error.code);
  if (logged) {
    parts.log.write(error.status === 500 ? "error" : "warn", "exchange.failed", {
      requestId: trace.requestId,
      code: error.code,
      cause: describe(caught),
    });
  }
  if (response.headersSent) {
    response.destroy();
    return;
  }
  trace.status = error.status;
  trace.responseBytes = sendError(error, resourceOf(trace), reply);
}

function errorContext(trace: Trace, { ports }: GatewayParts): ErrorContext {
  const { identity } = ports;
  return { resource: resourceOf(trace), requestId: trace.requestId, identity };
}

function resourceOf(trace: Trace): string {
  const { address } = trace;
  if (address === null || address.bucket === null) return "/";
  return address.key === null ? `/${address.bucket}` : `/${address.bucket}/${address.key}`;
}

function endTrace(trace: Trace, parts: GatewayParts): void {
  const durationMs = parts.clock.monotonicMs() - trace.startedMonotonicMs;
  parts.meter.requestEnded(sampleOf(trace, durationMs));
  parts.accessLog.write(accessRecord(trace, durationMs));
}
