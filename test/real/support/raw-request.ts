// One S3 request as a test spells it: signed over exactly its fields or not at all, sent on a connection
// of its own, answered as it came. What an SDK would not send, or would hide in its answer.

import { request as httpRequest, type IncomingMessage } from "node:http";
import { formatAmzDate, SigningKeys, signRequest } from "../../../proxy/s3/sigv4.ts";
import { chunkFrame, frameBytes } from "../../support/s3-chunked.ts";
import { clientPair } from "./headgate.ts";
import type { Pair } from "./s3.ts";

export interface RawRequest {
  readonly method: string;
  /** Canonical, `/b/a%20b`. */
  readonly path: string;
  /** Canonical, sorted, each with its `=`. */
  readonly query?: string;
  /** Characters; they are signed and sent as UTF-8. */
  readonly headers?: readonly (readonly [string, string])[];
  /** Sent, but not signed. */
  readonly unsigned?: readonly (readonly [string, string])[];
  readonly body?: Buffer;
  /** Of x-amz-content-sha256; UNSIGNED-PAYLOAD when absent. */
  readonly payload?: string;
  readonly anonymous?: boolean;
  /** Whose signature; the client's of Headgate when absent. */
  readonly pair?: Pair;
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
  /** Of an error document; empty: there is none. */
  readonly code: string;
}

export interface Framing {
  readonly payload: string;
  readonly isSigned: boolean;
  readonly chunkBytes: number;
  /** In HTTP chunks, without a Content-Length. */
  readonly inHttpChunks: boolean;
  /** `["x-amz-checksum-crc32", "AAAAAA=="]` */
  readonly trailer?: readonly [string, string];
  readonly changeTrailer?: (trailer: string) => string;
}

const signing = new SigningKeys(4);
type Fields = readonly (readonly [string, string])[];

/** Node's strings of header values are of bytes. */
function bytesOf(fields: Fields): Fields {
  return fields.map(([name, value]) => [name, Buffer.from(value, "utf8").toString("latin1")]);
}

function headOf(url: string, request: RawRequest): Fields {
  const { method, path, query = "", headers = [], unsigned = [] } = request;
  const { host } = new URL(url);
  const given = bytesOf(headers);
  const plain = [["host", host], ...given, ...bytesOf(unsigned)] as const;
  if (request.anonymous === true) return plain;
  const signed = signRequest(
    {
      method,
      path,
      query,
      host,
      headers: given,
      payloadHash: request.payload ?? "UNSIGNED-PAYLOAD",
      region: "us-east-1",
      credentials: { ...(request.pair ?? clientPair), sessionToken: null },
      amzDate: formatAmzDate(Date.now()),
    },
    signing,
  );
  return [...plain, ...signed];
}

/** Sends a request with its body as it is. */
export async function askRaw(url: string, request: RawRequest): Promise<RawAnswer> {
  const { body } = request;
  const hasBody = body !== undefined || request.method === "PUT" || request.method === "POST";
  const length = hasBody ? [["content-length", String(body?.length ?? 0)]] : [];
  const fields = [...headOf(url, request), ...length];
  return await exchange(url, request, { fields, body });
}

/** Sends a body in aws-chunked framing; `headers` say of it what they like. */
export async function askFramed(
  url: string,
  request: RawRequest & { readonly body: Buffer },
  framing: Framing,
): Promise<RawAnswer> {
  const { payload, isSigned, chunkBytes, trailer, changeTrailer = (text) => text } = framing;
  const fields = headOf(url, { ...request, payload });
  const find = (wanted: string): string => fields.find(([name]) => name === wanted)?.[1] ?? "";
  const amzDate = find("x-amz-date");
  const seed = {
    secretAccessKey: clientPair.secretAccessKey,
    amzDate,
    scope: `${amzDate.slice(0, 8)}/us-east-1/s3/aws4_request`,
    seed: /Signature=([0-9a-f]{64})/.exec(find("authorization"))?.[1] ?? "",
  };
  const frame = chunkFrame(request.body, {
    chunkBytes,
    ...(trailer === undefined ? {} : { trailer }),
    ...(isSigned ? { seed } : {}),
  });
  const body = frameBytes({ ...frame, trailer: changeTrailer(frame.trailer) });
  const length = framing.inHttpChunks
    ? ["transfer-encoding", "chunked"]
    : ["content-length", String(body.length)];
  return await exchange(url, request, { fields: [...fields, length], body });
}

async function exchange(
  url: string,
  { method, path, query = "" }: RawRequest,
  sending: { readonly fields: readonly (readonly string[])[]; readonly body: Buffer | undefined },
): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  const sent = httpRequest({
    hostname,
    port,
    method,
    path: query === "" ? path : `${path}?${query}`,
    headers: sending.fields.flat(),
    setHost: false,
    agent: false,
  });
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once("response", resolve);
    // Also when an early refusal closes while the body is still written: it has been answered by then.
    sent.on("error", reject);
  });
  sent.end(sending.body);
  const answer = await answered;
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const code = /<Error>.*<Code>([^<]*)/s.exec(body.toString("utf8"))?.[1] ?? "";
  return { status: answer.statusCode ?? 0, headers: answer.headers, body, code };
}
