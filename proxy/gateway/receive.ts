// Who sends a request and what they send, before anything is decided: the caller verified, the form of
// the body read, the body ready to be read once. A form upload says both in its body, so that is read
// up to the file here; of all others no byte is.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { ClientBody, FormFile } from "../operations/context.ts";
import type { Meter, Timers } from "../placement/ports.ts";
import type { Principal } from "../policy/ports.ts";
import type { Address } from "../s3/address.ts";
import type { BeginChecksum, UnknownChecksums } from "../s3/checksum.ts";
import { S3Error } from "../s3/errors.ts";
import { requestHeadersUpstream, upstreamQuery } from "../s3/forward-headers.ts";
import type { HeaderList, QueryList } from "../s3/headers.ts";
import { restoreHoisted } from "../s3/hoisted-fields.ts";
import { objectLocation } from "../s3/multipart-document.ts";
import { operationFacts, type S3Operation } from "../s3/operation.ts";
import type { Payload } from "../s3/payload.ts";
import { isStreaming, readPayload } from "../s3/payload.ts";
import { encodePath } from "../s3/percent.ts";
import type { RequestHead } from "../s3/request-head.ts";
import type { Authentication, AuthenticationSettings } from "./authenticate.ts";
import { authenticate, chunkSigning } from "./authenticate.ts";
import { clientBody } from "./client-body.ts";
import { isSecretParameter } from "./decision-input.ts";
import { receiveForm } from "./form-upload.ts";
import { preflightCaller } from "./preflight.ts";
import type { Room } from "./room.ts";
import type { Trace } from "./trace.ts";

/** A document that comes byte by byte holds memory that others wait for: it ends after so many idle times. */
const documentIdles = 2;

export interface ReceivingParts {
  readonly authentication: AuthenticationSettings;
  readonly bodyIdleMs: number;
  /** For the fields of a form, which tell who sends it. */
  readonly headerTimeoutMs: number;
  readonly beginChecksum: BeginChecksum;
  readonly uploads: {
    /** Fewest bytes of an aws-chunked chunk that another one follows; 0: any. */
    readonly minChunkBytes: number;
    readonly unknownChecksums: UnknownChecksums;
    readonly presignedQueryChecksums: "ignore" | "verify";
  };
  readonly timers: Timers;
  readonly meter: Meter;
}

export interface ReceiveFrom {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly expectsContinue: boolean;
  readonly head: RequestHead;
  /** The client speaks TLS. */
  readonly secure: boolean;
  readonly address: Address;
  readonly operation: S3Operation;
  readonly trace: Trace;
  readonly parts: ReceivingParts;
  /** Slots of forms whose sender is not known yet. */
  readonly unknownForms: Room;
}

type Caller = Extract<Authentication, { kind: "caller" }>;

export interface Received {
  readonly principal: Principal;
  readonly credential: Caller["credential"];
  /** With the key of a form. */
  readonly address: Address;
  /** What travels upstream, and policy sees. */
  readonly query: QueryList;
  /** What policy sees. */
  readonly headers: HeaderList;
  readonly upstreamHeaders: HeaderList;
  /** Of the object's or document's bytes; of a form's file at most 64 KiB too many. */
  readonly contentLengthBytes: number;
  readonly payloadMode: Payload["mode"];
  readonly body: ClientBody | null;
  readonly form: FormFile | null;
  /** The URL as the client addressed it, with the key of a form. */
  readonly location: string;
}

/** Verifies who sends a request and opens its body. @throws S3Error */
export async function receive(from: ReceiveFrom): Promise<Received> {
  if (from.operation === "PostObject") return await receiveUploadForm(from);
  const { head, address, operation } = from;
  const caller = await verifyCaller(from);
  const { headers, query } = fieldsOf(head, caller);
  const payload = readBodyForm(from, caller);
  return {
    principal: caller.principal,
    credential: caller.credential,
    address,
    query: upstreamQuery(query, operation),
    headers,
    upstreamHeaders: requestHeadersUpstream({ headers }, isStreaming(payload)),
    contentLengthBytes: payload.lengthBytes,
    payloadMode: payload.mode,
    body: openBody(payload, caller, from),
    form: null,
    location: objectLocation(from.secure ? "https" : "http", head),
  };
}

async function verifyCaller(from: ReceiveFrom): Promise<Caller> {
  const { head, operation, parts, trace } = from;
  if (operation === "OptionsObject") return await preflightCaller(head, parts.authentication);
  const result = await authenticate(head, trace.startedAtMs, parts.authentication);
  if (result.kind === "failed") {
    parts.meter.authFailed(result.reason);
    throw result.error;
  }
  trace.requester = result.principal.accessKey;
  const isToken = (name: string): boolean => name.toLowerCase() === "x-amz-security-token";
  if (result.query.some(([name]) => isSecretParameter(name) && !isToken(name))) {
    throw new S3Error("InvalidRequest", { message: "A customer key must not stand in the query" });
  }
  return result;
}

/** What is asked for: of a presigned request its query may hold fields, and its signature covers them. */
function fieldsOf(
  { headers }: RequestHead,
  { authorization, query }: Caller,
): { readonly headers: HeaderList; readonly query: QueryList } {
  const { kind } = authorization;
  if (kind !== "presigned" && kind !== "presigned-v2") return { headers, query };
  const restored = restoreHoisted(headers, query);
  if (restored.kind === "error") throw restored.error;
  return restored;
}

function readBodyForm({ head, operation, parts }: ReceiveFrom, caller: Caller): Payload {
  const result = readPayload(head, caller.authorization, { operation, ...parts.uploads });
  if (result.kind === "error") throw result.error;
  return result;
}

function openBody(payload: Payload, caller: Caller, from: ReceiveFrom): ClientBody | null {
  const { method } = from.head;
  if (payload.lengthBytes === 0 && method !== "PUT" && method !== "POST") return null;
  const signing = isStreaming(payload) ? chunkSigning(caller, from.parts.authentication) : null;
  return bodyOf(payload, signing, from);
}

function bodyOf(
  payload: Payload,
  signing: ReturnType<typeof chunkSigning>,
  { request, response, expectsContinue, operation, trace, parts }: ReceiveFrom,
): ClientBody {
  return clientBody({
    request,
    response,
    expectsContinue,
    payload,
    signing,
    beginChecksum: parts.beginChecksum,
    minChunkBytes: parts.uploads.minChunkBytes,
    idleMs: parts.bodyIdleMs,
    longestMs: isReadWhole(operation) ? documentIdles * parts.bodyIdleMs : null,
    timers: parts.timers,
    received: (bytes) => {
      trace.requestBytes += bytes;
    },
  });
}

/** A document; all other bodies are the content of an object, and stream. */
export function isReadWhole(operation: S3Operation): boolean {
  return operationFacts[operation].document || operation === "CompleteMultipartUpload";
}

async function receiveUploadForm(from: ReceiveFrom): Promise<Received> {
  const { head, address, response, trace, parts } = from;
  const { caller, key, headers, file } = await receiveForm({
    head,
    address,
    nowMs: trace.startedAtMs,
    authentication: parts.authentication,
    beginChecksum: parts.beginChecksum,
    unknownChecksums: parts.uploads.unknownChecksums,
    open: (payload) => bodyOf(payload, null, from),
    timers: parts.timers,
    headWithinMs: parts.headerTimeoutMs,
    unknown: from.unknownForms,
    refused: () => {
      if (!response.headersSent) response.setHeader("connection", "close");
    },
    authFailed: (reason) => parts.meter.authFailed(reason),
  });
  const keyed = { ...address, key };
  trace.address = keyed;
  trace.requester = caller.principal.accessKey;
  const rawPath = `${head.rawPath.replace(/\/$/, "")}/${encodePath(key)}`;
  return {
    ...caller,
    address: keyed,
    query: [],
    headers,
    upstreamHeaders: headers,
    contentLengthBytes: file.maxBytes,
    payloadMode: "unsigned",
    body: null,
    form: file,
    location: objectLocation(from.secure ? "https" : "http", { host: head.host, rawPath }),
  };
}
